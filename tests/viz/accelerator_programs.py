"""Small programs for the accelerator."""

from minitvm.accel import Program, mnemonic, parse

HEAD = """
area A inp {steps} {threads}
area W wgt 1
area C out {threads} 4
{uops}
ex  uop[0] = uops[0] x={threads}
ex  reset u[0:{threads}] inner=4 dst=0,1
ld  wgt[0] = W[0] x=1
"""
TAIL = """
ex  shr u[0:{threads}] inner=4 dst=0,1 imm=8   push st
st  C[0] = acc[0] y={threads} x=4 stride=4   pop ex
st  nop              push ex
ld  nop   pop ex
ld  nop              push ex
ex  nop   pop ld   pop st
ex  finish
"""


def talk(steps: int = 3, threads: int = 2) -> Program:
    """The talk's example: virtual threads that load tiles, multiply them by W and add them up.

    Each GEMM adds ten times to four accumulators, so that it takes about as long as its load.
    """
    uops = "\n".join(f"uop {4 * t} {t} 0" for t in range(threads))
    lines = ["ex  nop   push ld"] * threads
    for k in range(steps):
        lines += [
            f"ld  inp[{t}] = A[{k * threads + t}] x=1   pop ex   push ex" for t in range(threads)
        ]
        lines += [
            f"ex  gemm u[{t}:{t + 1}] outer=10 inner=4 dst=0,1   pop ld   push ld"
            for t in range(threads)
        ]
    lines += ["ld  nop   pop ex"] * (threads - 1)
    text = "\n".join([HEAD, *lines, TAIL])
    return parse(text.format(steps=steps, threads=threads, uops=uops))


def numbers(program: Program, name: str) -> list[int]:
    """The numbers of the instructions of that mnemonic, such as "gemm"."""
    return [n for n, i in enumerate(program.instructions) if mnemonic(i) == name]
