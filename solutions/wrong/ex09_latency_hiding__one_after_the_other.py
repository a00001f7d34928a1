"""The right sums with all tokens, and no two units at a time; and tiles that do not fit."""

EXPECT = {"ex09.1": ("too-many-cycles", 2), "ex09.2": ("refused", 1)}


def lower(steps, threads):
    lines = ["ex  nop   push ld"]
    for k in range(steps):
        for t in range(threads):
            lines.append(f"ld  inp[{t}] = A[{k * threads + t}] x=1   pop ex")
            lines.append(f"ld  wgt[{t}] = W[{k * threads + t}] x=1   push ex")
            lines.append(f"ex  gemm u[{t}:{t + 1}]   pop ld   push ld")
    lines += ["ld  nop   pop ex", "ex  nop   push st"]
    lines += [f"st  C[0] = acc[0] x={threads}   pop ex   push ex"]
    return [*lines, "ex  nop   pop st"]


def choose(rows, columns, depth):
    return rows, columns, 1, "rows"
