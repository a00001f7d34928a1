"""Each gemm waits for its load, and no load for a gemm; and all tokens are taken away."""

EXPECT = {"ex09.1": ("race", 0), "ex09.3": ("other-tokens", 0)}


def lower(steps, threads):
    lines = []
    for k in range(steps):
        for t in range(threads):
            lines.append(f"ld  inp[{t}] = A[{k * threads + t}] x=1")
            lines.append(f"ld  wgt[{t}] = W[{k * threads + t}] x=1   push ex")
        for t in range(threads):
            lines.append(f"ex  gemm u[{t}:{t + 1}]   pop ld")
    lines += ["ex  nop   push st", f"st  C[0] = acc[0] x={threads}   pop ex   push ex"]
    return [*lines, "ex  nop   pop st"]


def repair(text):
    return accel.text(accel.strip_tokens(accel.parse(text)))
