# pyright: basic
# (the source of problems runs in students' processes as it is, so it has no type hints)

"""Exercise 07: what a warp's access costs, who races, and two schedules for a simulated GPU."""

from dataclasses import replace

import numpy as np

from minitvm import te, viz
from minitvm.driver import build
from minitvm.edu import (
    Challenge,
    Exercise,
    Item,
    Puzzle,
    at_most,
    equal,
    on_schedule,
    problem,
    required,
    right_schedule,
    schedule_correct,
)

SIM = "cuda -sim"
LANES = 32

# --- what a warp's access costs ------------------------------------------------------------------


def lanes(rng, space):
    """Draw the elements that the lanes of a warp access; None for a lane that takes no part."""
    if rng.integers(2):  # cases at the edge
        first = [[], [0], [0, 32, 8, 0]][int(rng.integers(3))]
        return space, first + [None] * (LANES - len(first))
    stride = int(rng.choice([0, 1, 2, 3, 8, 16, 31, 32, 32, 33, 34, 64, 96]))
    start = int(rng.choice([31, rng.integers(99)]))  # 31: the last bank, and the end of a sector
    width = int(rng.choice([1, 2, 4, 8, 16, 32]))  # lanes with the same element
    elements = [
        start + lane // width * stride + lane % int(rng.integers(1, 3)) for lane in range(LANES)
    ]
    if rng.integers(3) == 0:
        elements = [int(n) for n in rng.permutation(elements)]
    idle = rng.random(LANES) < rng.choice([0.0, 0.0, 0.3, 0.9])
    return space, [None if off else n for n, off in zip(elements, idle, strict=True)]


def in_global(rng):
    return lanes(rng, "global")


def in_shared(rng):
    return lanes(rng, "shared")


def cost(space, elements):
    """Count sectors of 8 elements in global memory, passes over 32 banks in shared memory."""
    wanted = {n for n in elements if n is not None}
    if space == "global":
        return len({n // 8 for n in wanted})
    in_bank = [len([n for n in wanted if n % 32 == bank]) for bank in range(32)]
    return max(in_bank)


# --- races ---------------------------------------------------------------------------------------


def runs(rng):
    """Draw what the threads of a block do, in order, with some barriers; about half have a race."""
    threads, steps = int(rng.integers(2, 6)), []
    for _ in range(int(rng.integers(2, 5))):
        order, shift = [int(t) for t in rng.permutation(threads)], int(rng.integers(threads))
        for t in order:
            steps += [(t, "write", t)] + [(t, "read", t)] * int(rng.integers(2))
        steps.append(("barrier",))
        same = rng.integers(3) == 0  # all threads read one element
        steps += [(t, "read", shift if same else (t + shift) % threads) for t in order]
        steps.append(("barrier",))
    if rng.integers(3) == 0:  # two writes of one element, by two threads
        at = [n for n, step in enumerate(steps) if step[1:2] == ("write",)]
        n = int(rng.choice(at))
        t, verb, element = steps[n]
        steps.insert(n + 1, ((t + 1) % threads, verb, element))
    for _ in range(int(rng.choice([0, 0, 0, 1, 2]))):  # accesses that may race
        verb = str(rng.choice(["read", "write"]))
        extra = int(rng.integers(threads)), verb, int(rng.integers(threads))
        steps.insert(int(rng.integers(len(steps) + 1)), extra)
    if rng.integers(2):
        barriers = [n for n, step in enumerate(steps) if step == ("barrier",)]
        del steps[int(rng.choice(barriers))]
    return (steps,)


def race(steps):
    """Return the first step that races with an earlier one, and the first such earlier step."""
    for n, late in enumerate(steps):
        for m, early in enumerate(steps[:n]):
            if len(early) == 1 or len(late) == 1 or ("barrier",) in steps[m:n]:
                continue
            (t, verb, element), (u, other, place) = late, early
            if t != u and element == place and "write" in (verb, other):
                return m, n
    return None


# --- schedules -----------------------------------------------------------------------------------


def turned(n, m):
    X = te.placeholder((n, m), name="X")
    return X, te.compute((m, n), lambda i, j: X[j, i], name="Y")


def rows_times_rows(n, m, depth):
    A, B = te.placeholder((n, depth), name="A"), te.placeholder((m, depth), name="B")
    k = te.reduce_axis((0, depth), name="k")
    C = te.compute((n, m), lambda y, x: te.sum(A[y, k] * B[x, k], axis=k), name="C")
    return A, B, C, te.compute((n, m), lambda y, x: te.max(C[y, x] * 0.125, 0.0), name="D")


def matrices(rng):
    return (problem(turned, 32 * int(rng.integers(1, 4)), 32 * int(rng.integers(1, 4))),)


def factors(rng):
    n, m = (32 * int(rng.integers(1, 4)) for _ in range(2))
    return (problem(rows_times_rows, n, m, 32 * int(rng.integers(2, 4))),)


def report_of(s, tensors, watch=None):
    arrays = [np.zeros(t.shape, t.dtype) for t in tensors]
    f = build(s, tensors, target=SIM)
    return f.check(*arrays, watch=watch)  # pyright: ignore[reportCallIssue]  on the GPU only


def counted(s, tensors, space):
    kernels = report_of(s, tensors).kernels
    return [access for k in kernels for access in k.accesses if access.space == space]


def sectors(s, tensors):
    """Count the sectors of global memory that a run moves."""
    return sum(access.sectors for access in counted(s, tensors, "global"))


def wavefronts(s, tensors):
    """Count the passes over the banks of shared memory of a run."""
    return sum(access.wavefronts for access in counted(s, tensors, "shared"))


def shared_bytes(s, tensors):
    """Count the bytes of shared memory of a block."""
    seen = {}

    def watch(executed):
        b = executed.node.buffer
        if b.scope == "shared":
            reach = int(executed.index.max()) + executed.width
            seen[b] = max(seen.get(b, 0), reach * b.dtype.bytes)

    report_of(s, tensors, watch)
    return sum(seen.values())


def waiting(s, tensors):
    """Count the stores to shared memory, by all threads, right after a load from global memory."""
    found, fetched = 0, False

    def watch(executed):
        nonlocal found, fetched
        store, scope = hasattr(executed.node, "value"), executed.node.buffer.scope
        if scope == "global" and not store:
            fetched = True
        elif scope == "shared" and not store:
            fetched = False
        elif scope == "shared" and fetched:
            found += len(executed.threads) * executed.width

    report_of(s, tensors, watch)
    return found


def bind(stage, *loops):
    tags = "blockIdx.y", "blockIdx.x", "threadIdx.y", "threadIdx.x"
    for loop, tag in zip(loops, tags[-len(loops) :], strict=True):
        stage.bind(loop, te.thread_axis(tag))


def half_tiles(X, Y):
    """Return the reference schedule: tiles of 16 rows of 32 numbers, whose rows are 34 apart."""
    s = te.create_schedule(Y.op)
    tile = s.cache_read(X, "shared", [Y])
    by, bx, i, j = s[Y].tile(*s[Y].leaf_iter_vars, 32, 16)
    rest, tx = s[Y].split(s[Y].fuse(i, j), 32)
    _, ty = s[Y].split(rest, 8)
    bind(s[Y], by, bx, ty, tx)
    s[tile].compute_at(s[Y], bx)
    row, column = s[tile].leaf_iter_vars
    _, ty = s[tile].split(row, 8)
    bind(s[tile], ty, column)
    s[tile].storage_align(row, 32, 2)
    return s


def early(A, B, C, D):
    """Return the reference schedule: tiles of 32 x 32, 8 steps deep, in rows that are 9 apart."""
    s = te.create_schedule(D.op)
    s[C].set_scope("local")
    shared = [s.cache_read(t, "shared", [C]) for t in (A, B)]
    own = [s.cache_read(t, "local", [C]) for t in shared]
    (by, y), (bx, x) = (s[D].split(axis, 32) for axis in s[D].leaf_iter_vars)
    (ty, y), (tx, x) = s[D].split(y, 4), s[D].split(x, 4)
    s[D].reorder(by, bx, ty, tx, y, x)
    bind(s[D], by, bx, ty, tx)
    s[C].compute_at(s[D], tx)
    y, x, k = s[C].leaf_iter_vars
    ko, ki = s[C].split(k, 8)
    s[C].reorder(ko, ki, y, x)
    for t in own:
        s[t].compute_at(s[C], ki)
    for t in shared:
        s[t].compute_at(s[C], ko)
        row, k = s[t].leaf_iter_vars
        s[t].storage_align(row, 8, 1)
        _, ty = s[t].split(row, 8)
        bind(s[t], ty, k)
        s[t].double_buffer()
    return s


def on_gpu(arguments, weight, why):
    """Make the part that runs a schedule on the simulated GPU, which refuses races."""
    return required(
        schedule_correct(
            arguments, title="right, and without a race", target=SIM, weight=weight, why=why
        )
    )


BIND = "each stage that is stored needs loops bound to threads; all of a block's stages to the same"
SLOW = "32 lanes beside each other should access 32 neighbours: which loop is threadIdx.x?"

# --- puzzles -------------------------------------------------------------------------------------


def plus_one(n):
    X = te.placeholder((n,), name="X")
    return X, te.compute((n,), lambda i: X[i] + 1.0, name="Y")


def some_numbers(rng):
    return (problem(plus_one, 128 * int(rng.integers(2, 6))),)


def far_apart(s, Y):
    block, rest = s[Y].split(Y.op.axis[0], factor=128)
    each, thread = s[Y].split(rest, factor=32)
    s[Y].reorder(block, thread, each)
    s[Y].bind(block, te.thread_axis("blockIdx.x"))
    s[Y].bind(thread, te.thread_axis("threadIdx.x"))


def draw_sectors(s, tensors):
    report = report_of(s, tensors).kernels[0]
    names = ("load of X", "store of Y")
    counts = {n: a.sectors_per_request for n, a in zip(names, report.accesses, strict=True)}
    return viz.ScoreBars(counts, "sectors of a request")


def in_a_column(width):
    """Count the wavefronts of a column of 32 numbers, in rows that are `width` apart."""
    return cost("shared", [lane * width for lane in range(LANES)])


def some_width(rng):
    return (int(rng.integers(8, 130)),)


def distance(width):
    return width | 1


def draw_columns(answer, arguments):
    widths = {f"rows of {n}": in_a_column(n) for n in (int(answer), arguments[0])}
    return viz.ScoreBars(widths, "wavefronts of a column")


def some_warps(rng):
    return (4 * int(rng.integers(3, 17)),)


def most_registers(warps):
    """Return the registers that a thread may have: a warp gets portions of 256, 8 for a lane."""
    return 65536 // warps // 256 * 8


def draw_registers(answer, arguments):
    used = -(-int(answer) // 8) * 256 * arguments[0]
    return viz.ScoreBars({"in use": used, "there are": 65536}, "registers")


# --- the challenge -------------------------------------------------------------------------------


def window_sums(rows, columns):
    X = te.placeholder((rows + 2, columns + 2), name="X")
    a, b = te.reduce_axis((0, 3), name="a"), te.reduce_axis((0, 3), name="b")
    Y = te.compute((rows, columns), lambda i, j: te.sum(X[i + a, j + b], axis=[a, b]), name="Y")
    return X, Y


def passes(answer, rng):
    """Count the sectors and wavefronts of a schedule; drawn sizes are multiples of 32."""
    rows, columns = (32 * int(n) for n in rng.integers(2, 5, 2))
    s, tensors = right_schedule(answer, (problem(window_sums, rows, columns),), rng, SIM)
    return sectors(s, tensors) + wavefronts(s, tensors)


def a_thread_each(X, Y):
    s = te.create_schedule(Y.op)
    by, bx, ty, tx = s[Y].tile(*s[Y].op.axis, 8, 32)
    bind(s[Y], by, bx, ty, tx)
    return s


def four_in_a_column(X, Y):
    """Return the reference: each thread loads a window of 6 rows for 4 results in a column."""
    s = te.create_schedule(Y.op)
    own = s.cache_read(X, "local", [Y])
    local = s.cache_write(Y, "local")
    by, bx, y, tx = s[Y].tile(*s[Y].op.axis, 32, 32)
    ty, y = s[Y].split(y, 4)
    s[Y].reorder(by, bx, ty, tx, y)
    bind(s[Y], by, bx, ty, tx)
    s[local].compute_at(s[Y], tx)
    s[own].compute_at(s[Y], tx)
    return s


EXERCISE = Exercise(
    "ex07",
    "gpu_threads_and_shared_memory",
    (
        Item(
            "ex07.1",
            "what a warp's access costs",
            4,
            "cost",
            tuple(
                replace(
                    equal(cost, arguments, cases=32, weight=weight, title=title, why=why),
                    kind="property",
                )
                for arguments, weight, title, why in (
                    (
                        in_global,
                        0.4,
                        "the sectors in global memory",
                        "a sector has 8 numbers of 4 bytes, and moves once for all lanes that want"
                        " a number in it; lanes that are None want nothing",
                    ),
                    (
                        in_shared,
                        0.6,
                        "the wavefronts in shared memory",
                        "lanes that want the same element are served together; different elements"
                        " of one bank come one after the other",
                    ),
                )
            ),
            (
                "Begin with the set of the elements that are wanted, without None.",
                "global: how many different n // 8? shared: for each of the 32 banks, how many"
                " different n have n % 32 == bank? The bank with the most decides.",
                "wanted = {n for n in elements if n is not None}; len({n // 8 for n in wanted}),"
                " or max(sum(n % 32 == b for n in wanted) for b in range(32)).",
            ),
            "notebook 07, sections 2 and 6",
        ),
        Item(
            "ex07.2",
            "who races?",
            4,
            "race",
            (
                equal(
                    race,
                    runs,
                    cases=24,
                    title="the first race, for random accesses and barriers",
                    why="two accesses race if the threads differ, the element is the same, one of"
                    " them writes, and no barrier lies between them",
                ),
            ),
            (
                "For each step, look at the earlier steps, back to the last barrier.",
                "Two reads do not race, nor do two accesses of one thread. If several earlier"
                " steps race with the same step, return the first of them.",
                "for n, late: for m, early in the steps before it: skip barriers, and skip m if"
                " ('barrier',) is in steps[m:n]; return (m, n) if the threads differ, the elements"
                " are equal, and one of the two is a write. At the end return None.",
            ),
            "notebook 07, section 5",
        ),
        Item(
            "ex07.3",
            "a transposition in half the memory",
            4,
            "transpose",
            (
                on_gpu(matrices, 0.1, BIND),
                required(
                    at_most(
                        shared_bytes,
                        half_tiles,
                        matrices,
                        factor=2500 / 2168,  # which the reference has
                        worst=1.5,
                        unit="bytes of shared memory",
                        message="too-much-memory",
                        title="2500 bytes of shared memory at most",
                        weight=0.1,
                        target=SIM,
                        why="a tile of 32 x 32 numbers has 4096 bytes",
                    )
                ),
                required(
                    at_most(
                        sectors,
                        half_tiles,
                        matrices,
                        worst=2.0,
                        unit="sectors",
                        message="too-many-sectors",
                        title="the load and the store are coalesced",
                        weight=0.3,
                        target=SIM,
                        why=SLOW,
                    )
                ),
                at_most(
                    wavefronts,
                    half_tiles,
                    matrices,
                    worst=1.75,
                    unit="wavefronts",
                    message="too-many-wavefronts",
                    title="no bank conflict",
                    weight=0.5,
                    target=SIM,
                    why="in which banks are the elements that 32 lanes read, and those that they"
                    " store? Rows of another length (storage_align) move them; some tiles have no"
                    " right length",
                ),
            ),
            (
                "Fetch a tile of 16 rows of 32 numbers: a warp fetches a row. When it stores, the"
                " tile has 32 rows of 16 numbers, and a warp stores two rows.",
                "The tile of Y is 32 x 16: s[Y].tile(i, j, 32, 16). Fuse the two inner loops, and"
                " split off 32 for threadIdx.x and 8 for threadIdx.y. A warp then reads elements"
                " j * row + i for 16 j and 2 i: which length of a row puts them in 32 banks?",
                "rest, tx = s[Y].split(s[Y].fuse(i, j), 32); _, ty = s[Y].split(rest, 8). Of the"
                " tile: _, ty = s[tile].split(row, 8), bind ty and the column; and"
                " s[tile].storage_align(row, 32, 2): with rows of 34, 2 * j + i are all different.",
            ),
            "notebook 07, sections 2 and 6",
        ),
        Item(
            "ex07.4",
            "scores, fetched early",
            4,
            "product",
            (
                on_gpu(factors, 0.1, BIND),
                required(
                    at_most(
                        sectors,
                        early,
                        factors,
                        factor=1.05,
                        worst=3.0,
                        unit="sectors",
                        message="too-many-sectors",
                        title="few sectors of global memory",
                        weight=0.15,
                        target=SIM,
                        why="a block of 32 x 32 results fetches each number of A once for 32"
                        " columns; and " + SLOW,
                    )
                ),
                required(
                    at_most(
                        waiting,
                        early,
                        factors,
                        factor=2.0,
                        unit="numbers stored right after their fetch",
                        message="not-early",
                        title="all pieces but the first are fetched early",
                        weight=0.15,
                        target=SIM,
                        why="double_buffer on both tiles, whose stages are computed in the loop"
                        " over pieces of k, 16 steps at most",
                    )
                ),
                at_most(
                    wavefronts,
                    early,
                    factors,
                    factor=1.05,
                    worst=1.5,
                    unit="wavefronts",
                    message="too-many-wavefronts",
                    title="few wavefronts of shared memory",
                    weight=0.6,
                    target=SIM,
                    why="each thread keeps 4 x 4 sums in registers; and which banks hold the"
                    " elements that a warp reads at one k, and those that it stores?",
                ),
            ),
            (
                "Begin with `cooperative` of the notebook, with tile=32, depth=8, each=4. Here C is"
                " no copy, but a stage that D reads: put it into registers itself. k is the last"
                " index: which loop of a tile's stage goes to threadIdx.x?",
                "A tile has 32 rows of 8 numbers. A warp reads rows 4 apart at the same k:"
                " element 4 * t * row. With rows of 8 these are all in one bank. And it stores 4"
                " rows of 8 numbers.",
                "s[t].storage_align(row, 8, 1) makes rows of 9: 36 * t % 32 is 4 * t, and the"
                " store has two wavefronts. double_buffer() for both tiles; cache_read of both"
                " tiles into 'local' at the loop over k inside a piece.",
            ),
            "notebook 07, sections 4, 6, 7 and 9",
        ),
    ),
    puzzles=(
        Puzzle(
            "07.four",
            "four numbers for each thread",
            "four_each",
            (
                schedule_correct(some_numbers, target=SIM),
                at_most(
                    sectors,
                    on_schedule(far_apart),
                    some_numbers,
                    unit="sectors",
                    message="too-many-sectors",
                    target=SIM,
                    why="which elements do the lanes of a warp access at the same moment?",
                ),
            ),
            lambda rng: (problem(plus_one, 256),),
            far_apart,
            (
                "The four numbers of a thread need not be neighbours; the numbers of 32 threads"
                " should be.",
                "s[Y].split(rest, factor=32) returns the outer loop first. Which of the two is"
                " `thread`?",
            ),
            "notebook 07, section 2",
            picture=draw_sectors,
            cost=sectors,
            unit="sectors",
        ),
        Puzzle(
            "07.distance",
            "rows without a conflict",
            "distance",
            (equal(distance, some_width, cases=20, why="two rows an even distance apart"),),
            lambda rng: (64,),
            distance,
            (
                "lane * distance % 32 takes 32 different values if the distance has no factor in"
                " common with 32.",
                "Odd numbers have none. An even width needs one number more.",
            ),
            "notebook 07, section 6",
            of="value",
            picture=draw_columns,
            cost=lambda width, arguments: in_a_column(int(width)),
            unit="wavefronts",
        ),
        Puzzle(
            "07.registers",
            "registers for so many warps",
            "most_registers",
            (
                equal(
                    most_registers,
                    some_warps,
                    cases=20,
                    why="a warp gets whole portions of 256 registers: 8 for each of its lanes",
                ),
            ),
            lambda rng: (24,),
            most_registers,
            ("How many portions of 256 are there for each warp? Each gives a lane 8 registers.",),
            "notebook 07, section 8",
            of="value",
            picture=draw_registers,
            cost=lambda registers, arguments: 65536 - -(-registers // 8) * 256 * arguments[0],
            unit="registers left over",
        ),
    ),
    challenge=Challenge(
        "07.challenge",
        "sums over windows",
        "window_sums",
        "sectors and wavefronts",
        passes,
        a_thread_each,
        four_in_a_column,
        best_known=2402,  # whole rows in shared memory, 64 results in a column for each thread
        hints=(
            "Each number of X is in nine windows. Who could fetch it once for several of them: a"
            " thread with several results, or a block with a tile in shared memory?",
            "A tile of 32 x 32 results needs 34 x 34 numbers: rows of 34 are no multiple of a warp,"
            " and begin in the middle of a sector. Fuse the axes of the tile, and count.",
        ),
        section="notebook 07, sections 4 and 7",
    ),
)
