"""The loop is right, and the end does not wait for the store; a push goes to the first line."""

EXPECT = {"ex09.1": ("race", 5.5), "ex09.3": ("race", 0)}


def lower(steps, threads):
    lines = ["ex  nop   push ld"] * threads
    for k in range(steps):
        for t in range(threads):
            lines.append(f"ld  inp[{t}] = A[{k * threads + t}] x=1   pop ex")
            lines.append(f"ld  wgt[{t}] = W[{k * threads + t}] x=1   push ex")
        for t in range(threads):
            lines.append(f"ex  gemm u[{t}:{t + 1}]   pop ld   push ld")
    lines += ["ld  nop   pop ex"] * threads
    return [*lines, "ex  nop   push st", f"st  C[0] = acc[0] x={threads}   pop ex"]


def repair(text):
    """A push for each queue that lacks one, in the first line that has none."""
    lines = text.split("\n")
    for unit, other in (("ld", "ex"), ("ex", "ld"), ("ex", "st"), ("st", "ex")):
        pushes = sum(x.startswith(unit) and f"push {other}" in x for x in lines)
        pops = sum(x.startswith(other) and f"pop {unit}" in x for x in lines)
        if pushes < pops:
            free = [
                n for n, x in enumerate(lines) if x.startswith(unit) and f"push {other}" not in x
            ]
            lines[free[0]] += f"   push {other}"
    return "\n".join(lines)
