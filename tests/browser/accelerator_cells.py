"""Cells of notebooks with a program for the accelerator."""

STEPS = """
from minitvm import accel
lines = ["area A inp {steps} 2", "area W wgt 1", "area C out 2 4", "uop 0 0", "uop 4 1"]
lines += ["ex uop[0] = uops[0] x=2", "ex reset u[0:2] inner=4 dst=0,1", "ld wgt[0] = W[0] x=1"]
lines += ["ex nop push ld"] * 2
for k in range({steps}):
    lines += [f"ld inp[{{t}}] = A[{{2 * k + t}}] x=1 pop ex push ex" for t in range(2)]
    body = "outer=10 inner=4 dst=0,1 pop ld push ld"
    lines += [f"ex gemm u[{{t}}:{{t + 1}}] {{body}}" for t in range(2)]
lines += ["ld nop pop ex", "ex shr u[0:2] inner=4 dst=0,1 imm=8 push st"]
lines += ["st C[0] = acc[0] y=2 x=4 stride=4 pop ex", "st nop push ex", "ld nop pop ex"]
lines += ["ld nop push ex", "ex nop pop ld pop st", "ex finish"]
program = accel.parse("\\n".join(lines))
"""
TALK, LONG = STEPS.format(steps=4), STEPS.format(steps=200)
