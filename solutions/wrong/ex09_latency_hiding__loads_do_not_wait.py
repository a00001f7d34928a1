"""No load waits until the matrix unit has read the piece that it overwrites."""

EXPECT = {"09.challenge": ("race", 0)}


def stream(rows, columns, depth):
    lines = []
    for n in range(rows * columns):
        lines.append(gemm(0, 0, 0, "reset") + ("   pop st" if n else ""))
        for k in range(depth):
            last = "   push st" if k == depth - 1 else ""
            lines.append(f"ld  inp[0] = A[{n // columns * depth + k}] x=1")
            lines.append(f"ld  wgt[0] = W[{n % columns * depth + k}] x=1   push ex")
            lines.append(f"{gemm(0, 0, 0)}   pop ld{last}")
        lines.append(f"st  C[{n}] = acc[0] x=1   pop ex   push ex")
    return [*lines, "ex  nop   pop st"]
