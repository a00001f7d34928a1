"""x[k, j]: rows times columns; and schedules that only create_schedule has seen."""

EXPECT = {"ex08.1": ("wrong-value", 0), "ex08.2": ("refused", 0), "ex08.3": ("refused", 0)}


def gemm8x8():
    w, x = (te.placeholder((8, 8), "int8", name=name) for name in "wx")
    k = te.reduce_axis((0, 8), name="k")

    def term(ww, xx, i, j, k):
        return ww[i, k].astype("int32") * xx[k, j].astype("int32")

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

    return te.decl_tensor_intrin(z.op, rule, name="gemm8x8")


def product(gemm, A, B, bias, A_buf, B_buf, bias_buf, P, *stages):
    return te.create_schedule(stages[-1].op)


def few_bytes(inp, wgt, A, B, A_buf, B_buf, C_buf, C, gemm):
    return te.create_schedule(C.op)
