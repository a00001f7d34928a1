"""Code for notebook cells: a small kernel for the simulated GPU."""

ON_GPU = """
A = te.placeholder((2, 32), name="A")
B = te.compute((2, 32), lambda i, j: A[i, 31 - j], name="B")
s = te.create_schedule(B.op)
shared = s.cache_read(A, "shared", [B])
s[B].bind(B.op.axis[0], te.thread_axis("blockIdx.x"))
s[B].bind(B.op.axis[1], te.thread_axis("threadIdx.x"))
s[shared].compute_at(s[B], B.op.axis[0])
s[shared].bind(s[shared].op.axis[1], te.thread_axis("threadIdx.x"))
f = tvm.build(s, [A, B], "cuda -sim")
"""
