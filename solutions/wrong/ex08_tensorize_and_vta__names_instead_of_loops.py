"""The calls of notebook 08, whose functions stay in the notebook."""

EXPECT = {"ex08.1": ("calls", 0)}


def tile(pointer):
    return pointer[:64].reshape(8, 8)


def clear(z):
    tile(z)[:] = 0


def add(w, x, z):
    tile(z)[:] += tile(w).astype("int32") @ tile(x).astype("int32").T


def multiply(w, x, z):
    clear(z)
    add(w, x, z)


for function in (clear, add, multiply):
    tvm.register_func(f"ex08_{function.__name__}", function)


def gemm8x8():
    w, x = (te.placeholder((8, 8), "int8", name=name) for name in "wx")
    k = te.reduce_axis((0, 8), name="k")

    def product(i, j):
        return te.sum(w[i, k].astype("int32") * x[j, k].astype("int32"), axis=k)

    z = te.compute((8, 8), product, name="z")

    def rule(inputs, outputs):
        ww, xx = (buffer.access_ptr("r") for buffer in inputs)
        zz = outputs[0].access_ptr("rw")
        return (
            te.hardware_intrinsic("ex08_multiply", ww, xx, zz),
            te.hardware_intrinsic("ex08_clear", zz),
            te.hardware_intrinsic("ex08_add", ww, xx, zz),
        )

    return te.decl_tensor_intrin(z.op, rule, name="gemm8x8")
