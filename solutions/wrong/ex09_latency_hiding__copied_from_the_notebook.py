"""Cells of notebook 09: its stream, with tokens at each load, its tile; and the text as it came."""

EXPECT = {"ex09.1": ("deadlock", 0), "ex09.2": ("too-little-use", 2), "ex09.3": ("deadlock", 0)}


def lower(steps, threads):
    lines = ["ex  nop   push ld"] * threads
    for k in range(steps):
        for t in range(threads):
            lines += [f"ld  inp[{t}] = A[{k * threads + t}] x=1   pop ex   push ex"]
            lines += [f"ld  wgt[{t}] = W[{k * threads + t}] x=1   pop ex   push ex"]
        for t in range(threads):
            lines += [f"ex  gemm u[{t}:{t + 1}]   pop ld   push ld"]
    lines += ["ld  nop   pop ex"] * threads
    lines += ["ex  nop   push st", f"st  C[0] = acc[0] x={threads}   pop ex   push ex"]
    return [*lines, "ex  nop   pop st"]


def choose(rows, columns, depth):
    return rows, columns // 2, 2, "columns"


def repair(text):
    return text
