"""Solutions of the puzzles of notebook 17, and wrong answers: answer__what_is_wrong."""


def launch_from(kernels, operations, peak):
    return operations / (peak * kernels)


def launch_from__one_kernel(kernels, operations, peak):
    return operations / peak


def launch_from__upside_down(kernels, operations, peak):
    return peak / operations / kernels


def products(pixels, inputs, outputs, size):
    return pixels * inputs * outputs * size**2 // 256


def products__single_channels(pixels, inputs, outputs, size):
    return pixels * inputs * outputs * size**2


def products__one_row_of_the_kernel(pixels, inputs, outputs, size):
    return pixels * inputs * outputs * size // 256
