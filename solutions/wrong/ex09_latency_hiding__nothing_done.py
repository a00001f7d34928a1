"""No tokens at all; no threads; and a push on every line that may have one."""

EXPECT = {"ex09.1": ("race", 0), "ex09.2": ("too-little-use", 1), "ex09.3": ("other-tokens", 0)}


def lower(steps, threads):
    lines = []
    for k in range(steps):
        for t in range(threads):
            lines.append(f"ld  inp[{t}] = A[{k * threads + t}] x=1")
            lines.append(f"ld  wgt[{t}] = W[{k * threads + t}] x=1")
            lines.append(f"ex  gemm u[{t}:{t + 1}]")
    return [*lines, f"st  C[0] = acc[0] x={threads}"]


def choose(rows, columns, depth):
    return (2, 16, 1, "rows") if rows == 2 else (64, 16, 1, "rows")


def repair(text):
    lines = text.split("\n")
    return "\n".join(
        line + "   push ex" if line.startswith("ld") and "push" not in line else line
        for line in lines
    )
