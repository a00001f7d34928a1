"""Every filter is taken for the blur of the notebook, whose window takes four rows."""

EXPECT = {"ex05.1": ("too-much-memory", 0)}


def sliding(budget, img, *stages):
    *producers, out = stages
    s = te.create_schedule(out.op)
    y, x = s[out].op.axis
    rows = 4
    limit = budget // (4 * rows)
    width = max(w for w in range(16, limit + 1, 16) if out.shape[1] % w == 0)
    strip, column = s[out].split(x, factor=width)
    s[out].reorder(strip, y, column)
    for p in producers:
        s[p].store_at(s[out], strip)
        s[p].compute_at(s[out], y)
    return s
