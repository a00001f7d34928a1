"""The library's own functions: one unit at a time, the best tiling of a layer."""

EXPECT = {
    "ex09.1": ("too-many-cycles", 2),
    "ex09.2": ("wrong-type", 0),
    "ex09.3": ("other-instructions", 0),
}


def lower(steps, threads):
    lines = []
    for k in range(steps):
        for t in range(threads):
            lines.append(f"ld  inp[{t}] = A[{k * threads + t}] x=1")
            lines.append(f"ld  wgt[{t}] = W[{k * threads + t}] x=1")
            lines.append(f"ex  gemm u[{t}:{t + 1}]")
    lines.append(f"st  C[0] = acc[0] x={threads}")
    serial = accel.text(accel.serial(program(lines, steps, threads))).split("\n")
    (first,) = (n for n, line in enumerate(serial) if "reset" in line)
    return ["ex  nop   push ld", *serial[first + 1 : -1]]


def choose(rows, columns, depth):
    layer = vta.Dense(channels=(16 * depth, 16 * columns), batch=rows)
    return vta.best_tiling(layer, threads=2, most=1).tiling


def repair(text):
    return accel.text(accel.serial(accel.parse(text)))
