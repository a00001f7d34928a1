"""The formula converts both factors, the rule does not: its products wrap at 8 bits."""

EXPECT = {"ex08.1": ("wrong-compute", 2)}


def gemm8x8():
    w, x = (te.placeholder((8, 8), "int8", name=name) for name in "wx")
    k = te.reduce_axis((0, 8), name="k")

    def product(i, j):
        return te.sum(w[i, k].astype("int32") * x[j, k].astype("int32"), axis=k)

    z = te.compute((8, 8), product, name="z")

    def loops(buffers, clear, add):
        ib = tir.ir_builder.create()
        ww, xx, zz = (ib.buffer_ptr(buffer) for buffer in buffers)
        with ib.for_range(0, 8, name="i") as i, ib.for_range(0, 8, name="j") as j:
            if clear:
                zz[i, j] = 0
            if add:
                with ib.for_range(0, 8, name="k") as k:
                    zz[i, j] = zz[i, j] + ww[i, k] * xx[j, k]
        return ib.get()

    def rule(inputs, outputs):
        todo = ((True, True), (True, False), (False, True))
        return tuple(loops((*inputs, *outputs), clear, add) for clear, add in todo)

    return te.decl_tensor_intrin(z.op, rule, name="gemm8x8")
