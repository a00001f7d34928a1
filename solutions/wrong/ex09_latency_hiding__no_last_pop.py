"""Leaves the last tokens in the queue; and repairs nothing."""

EXPECT = {"ex09.1": ("leak", 5.5), "ex09.3": ("deadlock", 0)}


def lower(steps, threads):
    lines = ["ex  nop   push ld"] * threads
    for k in range(steps):
        for t in range(threads):
            lines.append(f"ld  inp[{t}] = A[{k * threads + t}] x=1   pop ex")
            lines.append(f"ld  wgt[{t}] = W[{k * threads + t}] x=1   push ex")
        for t in range(threads):
            lines.append(f"ex  gemm u[{t}:{t + 1}]   pop ld   push ld")
    lines += ["ex  nop   push st", f"st  C[0] = acc[0] x={threads}   pop ex   push ex"]
    return [*lines, "ex  nop   pop st"]


def repair(text):
    return text
