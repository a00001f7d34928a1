"""Solutions of the puzzles of notebook 07, and wrong answers: answer__what_is_wrong."""

from minitvm import te


def four_each(s, Y):
    block, rest = s[Y].split(Y.op.axis[0], factor=128)
    each, thread = s[Y].split(rest, factor=32)
    s[Y].reorder(block, thread, each)
    s[Y].bind(block, te.thread_axis("blockIdx.x"))
    s[Y].bind(thread, te.thread_axis("threadIdx.x"))


def four_each__neighbours(s, Y):
    block, rest = s[Y].split(Y.op.axis[0], factor=128)
    thread, each = s[Y].split(rest, factor=4)
    s[Y].reorder(block, thread, each)
    s[Y].bind(block, te.thread_axis("blockIdx.x"))
    s[Y].bind(thread, te.thread_axis("threadIdx.x"))


def distance(width):
    return width | 1


def distance__one_more(width):
    return width + 1


def distance__of_32(width):
    return 32 * -(-width // 32) + 1


def most_registers(warps):
    return 65536 // warps // 256 * 8


def most_registers__portions_forgotten(warps):
    return 65536 // (32 * warps)


def most_registers__of_a_warp(warps):
    return 65536 // warps // 256 * 256
