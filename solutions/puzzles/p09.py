"""Solutions of the puzzles of notebooks 09 and 09b, and wrong answers: answer__what_is_wrong."""


def used_twice():
    return "pop ex   push ex", "pop ld", "push ld"


def used_twice__both_take_a_token():
    return "pop ex   push ex", "pop ld   push ld", "pop ld   push ld"


def used_twice__the_place_is_free_too_early():
    return "pop ex   push ex", "pop ld   push ld", ""


def gain(load, gemm, steps):
    return 2 * steps * (load + gemm) / (2 * steps * max(load, gemm) + min(load, gemm))


def gain__without_the_end(load, gemm, steps):
    return (load + gemm) / max(load, gemm)


def gain__half_of_the_work(load, gemm, steps):
    return steps * (load + gemm) / (2 * steps * max(load, gemm) + min(load, gemm))


def needless(steps, threads):
    return [
        f"k:g2l:{n}" for n in range(threads * (steps + 1)) if not threads <= n < steps * threads
    ]


def needless__only_the_first(steps, threads):
    return [f"k:g2l:{n}" for n in range(threads)]


def needless__all_of_a_queue(steps, threads):
    return [f"k:g2l:{n}" for n in range(threads * (steps + 1))]


def fetched(rows, columns, depth, threads):
    return 16 * depth * (rows * threads + 16 * columns)


def fetched__both_by_each_thread(rows, columns, depth, threads):
    return 16 * depth * threads * (rows + 16 * columns)


def fetched__each_once(rows, columns, depth, threads):
    return 16 * depth * (rows + 16 * columns)


def speed_needed(share, factor):
    return share * factor / (1 - factor * (1 - share))


def speed_needed__all_of_it(share, factor):
    return factor


def speed_needed__by_its_share(share, factor):
    return factor / share
