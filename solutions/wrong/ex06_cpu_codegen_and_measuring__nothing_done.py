"""Always yes; and untouched schedules."""

EXPECT = {
    "ex06.1": ("wrong-value", 0),
    "ex06.2": ("fact:packed", 0),
    "ex06.3": ("fact:partial", 0),
}


def faster(before, after):
    return True


def product(kind, registers, lanes, A, B, bias, C, D):
    return te.create_schedule(D.op)


def sums(M, v, y):
    return te.create_schedule(y.op)
