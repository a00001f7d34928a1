"""compute adds to whatever is in z; and everything is fetched at once, however large it is."""

EXPECT = {
    "ex08.1": ("wrong-compute", 3),
    "ex08.2": ("refused", 2),
    "ex08.3": ("too-many-bytes", 0.4),
}


def gemm8x8():
    w, x = (te.placeholder((8, 8), "int8", name=name) for name in "wx")
    k = te.reduce_axis((0, 8), name="k")

    def term(ww, xx, i, j, k):
        return ww[i, k].astype("int32") * xx[j, k].astype("int32")

    z = te.compute((8, 8), lambda i, j: te.sum(term(w, x, i, j, k), axis=k), name="z")

    def loops(buffers, add):
        ib = tir.ir_builder.create()
        ww, xx, zz = (ib.buffer_ptr(buffer) for buffer in buffers)
        with ib.for_range(0, 8, name="i") as i, ib.for_range(0, 8, name="j") as j:
            if add:
                with ib.for_range(0, 8, name="k") as k:
                    zz[i, j] = zz[i, j] + term(ww, xx, i, j, k)
            else:
                zz[i, j] = 0
        return ib.get()

    def rule(inputs, outputs):
        buffers = (*inputs, *outputs)
        return loops(buffers, True), loops(buffers, False), loops(buffers, True)

    return te.decl_tensor_intrin(z.op, rule, name="gemm8x8")


right = product


def product(A, B, A_buf, B_buf, C_buf, C, gemm):
    env = vta.get_env()
    s = te.create_schedule(C.op)
    for stage, scope in ((A_buf, env.inp_scope), (B_buf, env.wgt_scope), (C_buf, env.acc_scope)):
        s[stage].set_scope(scope)
    for stage in (A_buf, B_buf, C):
        s[stage].pragma(s[stage].op.axis[0], env.dma_copy)
    y, x, yi, xi = s[C_buf].op.axis
    ko, ki = s[C_buf].op.reduce_axis
    s[C_buf].reorder(ko, y, x, yi, xi, ki)
    s[C_buf].tensorize(yi, gemm)
    return s


def few_bytes(*tensors):
    return right(*tensors)
