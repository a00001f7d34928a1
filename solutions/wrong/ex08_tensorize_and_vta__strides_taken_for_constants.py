"""Rows of eight numbers side by side; and weights that stay only for one tile of rows."""

EXPECT = {"ex08.1": ("refused", 4), "ex08.3": ("too-many-bytes", 0.8)}


def gemm8x8():
    w, x = (te.placeholder((8, 8), "int8", name=name) for name in "wx")
    k = te.reduce_axis((0, 8), name="k")

    def term(ww, xx, i, j, k):
        return ww[i, k].astype("int32") * xx[j, k].astype("int32")

    z = te.compute((8, 8), lambda i, j: te.sum(term(w, x, i, j, k), axis=k), name="z")

    def loops(buffers, clear, add):
        ib = tir.ir_builder.create()
        ww, xx, zz = (ib.buffer_ptr(buffer) for buffer in buffers)
        with ib.for_range(0, 8, name="i") as i, ib.for_range(0, 8, name="j") as j:
            if clear:
                zz[i, j] = 0
            if add:
                with ib.for_range(0, 8, name="k") as k:
                    zz[i, j] = zz[i, j] + term(ww, xx, i, j, k)
        return ib.get()

    def rule(inputs, outputs):
        todo = ((True, True), (True, False), (False, True))
        return tuple(loops((*inputs, *outputs), clear, add) for clear, add in todo)

    binds = {t: tir.decl_buffer((8, 8), str(t.dtype), t.name, strides=[8, 1]) for t in (w, x, z)}
    return te.decl_tensor_intrin(z.op, rule, binds=binds, name="gemm8x8")


def few_bytes(inp, wgt, A, B, A_buf, B_buf, C_buf, C, gemm):
    env = vta.get_env()
    s = te.create_schedule(C.op)
    y, x, _, _ = s[C].op.axis
    yo, y = s[C].split(y, factor=64)
    xo, x = s[C].split(x, factor=4)
    s[C].reorder(yo, xo, y, x)
    s[C].pragma(y, vta.get_env().dma_copy)
    s[C].pragma(y, env.coproc_sync)
    s[C_buf].set_scope(env.acc_scope)
    s[C_buf].compute_at(s[C], xo)
    y, x, yi, xi = s[C_buf].op.axis
    ko, ki = s[C_buf].op.reduce_axis
    s[C_buf].reorder(ko, y, x, yi, xi, ki)
    s[C_buf].tensorize(yi, gemm)
    s[B_buf].compute_at(s[C], xo)
    s[A_buf].compute_at(s[C_buf], ko)
    for stage, scope in ((A_buf, env.inp_scope), (B_buf, env.wgt_scope)):
        s[stage].set_scope(scope)
        s[stage].pragma(s[stage].op.axis[0], env.dma_copy)
    return s
