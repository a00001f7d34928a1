"""Forgets that the first loads wait for a free place; and takes one thread for everything."""

EXPECT = {"ex09.1": ("deadlock", 0), "ex09.2": ("too-little-use", 1)}


def lower(steps, threads):
    lines = []
    for k in range(steps):
        for t in range(threads):
            lines.append(f"ld  inp[{t}] = A[{k * threads + t}] x=1   pop ex")
            lines.append(f"ld  wgt[{t}] = W[{k * threads + t}] x=1   push ex")
        for t in range(threads):
            lines.append(f"ex  gemm u[{t}:{t + 1}]   pop ld   push ld")
    lines += ["ex  nop   push st", f"st  C[0] = acc[0] x={threads}   pop ex   push ex"]
    return [*lines, "ex  nop   pop st"]


def choose(rows, columns, depth):
    return min(rows, 128), 16, 1, "rows"
