"""Nonsense in place of any argument of a public call of accel is refused clearly or understood."""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from minitvm import accel
from minitvm.accel import (
    Alu,
    Area,
    Config,
    Finish,
    Flags,
    Gemm,
    Load,
    Memory,
    Op,
    Program,
    Race,
    Store,
    Unit,
    Uop,
    UopLoops,
    parse,
    vta_pynq,
)
from minitvm.base import ArgumentError

NONSENSE: tuple[Any, ...] = (
    *(None, 5, -1, 1.5, True, 10**30, 2j, "x", "", [], [None], [0.0, 1.0], (), {}, {"A": 1}),
    *(np.zeros(3), np.zeros((2, 2)), object(), Config, Finish, iter([])),
)
TEXT = """
area A inp 1
area C out 1
uop 0 0
ex  uop[0] = uops[0] x=1
ex  reset u[0:1]
st  C[0] = acc[0] x=1
ex  finish
"""
PROGRAM = parse(TEXT)
INPUTS = {"A": np.zeros((1, 1, 16), np.int8)}
TABLE = accel.measure(PROGRAM, vta_pynq).trace.table()
CALLS: dict[str, list[Any]] = {
    "counters": [PROGRAM, vta_pynq, [0, 1]],
    "decode": [0, 0],
    "decode_uop": [0],
    "durations": [PROGRAM, vta_pynq],
    "encode": [Finish()],
    "encode_uop": [Uop(0, 0)],
    "execute": [PROGRAM, vta_pynq, INPUTS, [0, 1, 2, 3]],
    "explain": [PROGRAM, accel.verify(PROGRAM)],
    "in_order": [PROGRAM, np.random.default_rng(0)],
    "is_nop": [Finish()],
    "label": [PROGRAM, 0],
    "listing": [PROGRAM, vta_pynq],
    "measure": [PROGRAM, vta_pynq],
    "mnemonic": [Finish()],
    "nop": [Unit.LOAD, Flags()],
    "overlap": [TABLE],
    "parse": [TEXT, vta_pynq],
    "place": [vta_pynq, {"A": (Memory.INP, (1,))}, PROGRAM.areas[1:]],
    "resolve": [PROGRAM, vta_pynq],
    "rows": [Store(x=1)],
    "serial": [PROGRAM],
    "simulate": [PROGRAM, vta_pynq, INPUTS],
    "strip_tokens": [PROGRAM],
    "text": [PROGRAM, vta_pynq],
    "total": [Store(x=1)],
    "unit_of": [Finish()],
    "verify": [PROGRAM, vta_pynq],
    "witness": [PROGRAM, accel.verify(PROGRAM).races[0]],
}
LOOPS = UopLoops(begin=0, end=1)
RECORDS: dict[str, dict[str, Any]] = {  # of a program, and what their fields hold
    "Load": {
        "memory": Memory.INP,
        "sram": 0,
        "dram": 0,
        "y": 1,
        "x": 1,
        "stride": 0,
        "y_pad": (0, 0),
        "x_pad": (0, 0),
        "flags": Flags(),
    },
    "Store": {"memory": Memory.OUT, "sram": 0, "dram": 0, "y": 1, "x": 1, "flags": Flags()},
    "Gemm": {"loops": LOOPS, "reset": True, "flags": Flags()},
    "Alu": {"op": Op.ADD, "loops": LOOPS, "imm": 1, "flags": Flags()},
    "Finish": {"flags": Flags()},
    "UopLoops": {
        "begin": 0,
        "end": 1,
        "outer": 1,
        "inner": 1,
        "dst_factors": (0, 0),
        "src_factors": (0, 0),
        "wgt_factors": (0, 0),
    },
    "Flags": dict.fromkeys(Flags.__slots__, False),
    "Uop": {"dst": 0, "src": 0, "wgt": 0},
    "Area": {"name": "A", "memory": Memory.INP, "base": 0, "shape": (1,)},
}
FIELDS = [(name, field) for name, fields in RECORDS.items() for field in fields]


def raw(call: Callable[[Any], Any], what: str) -> list[str]:
    """The errors that are not ours."""
    found: list[str] = []
    for x in NONSENSE:
        try:
            call(x)
        except ArgumentError:
            pass
        except Exception as e:
            found.append(f"{what}={x!r}: {type(e).__name__}: {e}")
    return found


def program(name: str, record: Any) -> Program:
    """A program with the record in it."""
    match name:
        case "Uop":
            return Program((Finish(),), (record,))
        case "Area":
            return Program((Finish(),), (), (record,))
        case "Finish":
            return Program((record,))
        case "UopLoops":
            return Program((Gemm(loops=record), Alu(op=Op.ADD, loops=record), Finish()))
        case "Flags":
            return Program((Gemm(loops=LOOPS, flags=record), Finish()))
        case _:
            return Program((record, Finish()))


def run(made: Program) -> None:
    """All that can be done with a program."""
    accel.verify(made)
    accel.simulate(made)
    accel.serial(made)
    accel.listing(made)
    assert parse(accel.text(made)) == made
    for instruction in made.instructions:
        assert accel.decode(*accel.encode(instruction)) == instruction


@pytest.mark.parametrize("name", CALLS)
def test_nonsense_is_refused_in_words_or_understood(name: str) -> None:
    f, arguments = getattr(accel, name), CALLS[name]
    f(*arguments)
    errors: list[str] = []
    for n, parameter in enumerate(inspect.signature(f).parameters):
        if n < len(arguments):
            errors += raw(lambda x, n=n: f(*arguments[:n], x, *arguments[n + 1 :]), parameter)
        else:
            errors += raw(lambda x, p=parameter: f(*arguments, **{p: x}), parameter)
    assert errors == []


def test_every_call_of_the_door_is_tried() -> None:
    assert {n for n, f in vars(accel).items() if inspect.isfunction(f)} == set(CALLS)


@pytest.mark.parametrize(("name", "field"), FIELDS)
def test_no_program_holds_nonsense(name: str, field: str) -> None:
    kind, fields = getattr(accel, name), RECORDS[name]
    program(name, kind(**fields))
    assert raw(lambda x: run(program(name, kind(**{**fields, field: x}))), field) == []


@pytest.mark.parametrize(("name", "field"), [f for f in FIELDS if f[0] not in ("Area", "Finish")])
def test_no_nonsense_is_encoded(name: str, field: str) -> None:
    kind, fields = getattr(accel, name), RECORDS[name]

    def encoded(x: Any) -> None:
        record = kind(**{**fields, field: x})
        if name == "Uop":
            assert accel.decode_uop(accel.encode_uop(record)) == record
            return
        if name == "UopLoops":
            record = Gemm(loops=record)
        elif name == "Flags":
            record = Finish(flags=record)
        assert accel.decode(*accel.encode(record)) == record

    encoded(fields[field])
    assert raw(encoded, field) == []


@pytest.mark.parametrize("part", ["instructions", "uops", "areas"])
def test_the_parts_of_a_program_are_lists(part: str) -> None:
    parts: dict[str, Any] = {"instructions": (Finish(),), "uops": (), "areas": ()}
    assert raw(lambda x: Program(**{**parts, part: x}), part) == []


@pytest.mark.parametrize("parameter", inspect.signature(Config).parameters)
def test_no_machine_has_nonsense_for_a_parameter(parameter: str) -> None:
    errors = raw(lambda x: Config(**{"name": "odd", parameter: x}), parameter)
    assert errors == []
    if parameter != "name":
        with pytest.raises(ArgumentError, match=f"{parameter}=None"):
            Config(**{"name": "odd", parameter: None})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: accel.simulate(None), "program=None: not a Program"),
        (lambda: accel.verify(PROGRAM, "vta"), "config='vta': not a Config"),
        (lambda: accel.simulate(PROGRAM, vta_pynq, [1]), "inputs=[1]: not a Mapping"),
        (
            lambda: accel.simulate(PROGRAM, vta_pynq, INPUTS, order=5),
            "order=5: neither a Sequence nor an ndarray",
        ),
        (lambda: accel.execute(PROGRAM, vta_pynq, INPUTS, [0.0]), "order[0]=0.0: it cannot run"),
        (lambda: accel.explain(PROGRAM, None), "verdict=None: not a Verdict"),
        (lambda: accel.witness(PROGRAM, Race(9, 0, "ACC", 0, "RAW")), "instruction 9: the program"),
        (lambda: accel.witness(PROGRAM, Race(0, 1, "ACC", 0, "RAW")), "the tokens order them"),
        (lambda: accel.nop(None, Flags()), "unit=None: not a Unit"),
        (lambda: accel.nop(Unit.LOAD, None), "flags=None: not a Flags"),
        (lambda: accel.encode(5), "int: 5: not an instruction"),
        (lambda: accel.encode(Load(memory=Memory.INP, y_pad=(1,))), "y_pad=(1,): not a pair"),
        (lambda: accel.encode(Gemm(loops=LOOPS, reset="no")), "reset='no': not a bool"),
        (lambda: Program(None), "instructions=None: not an Iterable"),
        (lambda: Program((Load(memory=2), Finish())), "memory=2 cannot be loaded"),
        (lambda: program("Area", Area("A", Memory.INP, 0, 3)), "shape=3: not a tuple"),
        (lambda: program("Area", Area("A", Memory.INP, 0, (1,) * 17)), "17 extents, more than"),
        (lambda: Config(name=None), "name of an accelerator=None: not a string"),
    ],
)
def test_a_refusal_names_the_argument(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ArgumentError) as error:
        call()
    assert message in str(error.value)


def test_a_program_that_stops_has_no_order_to_witness() -> None:
    stuck = parse("area C out 1\nst C[0] = acc[0] x=1 pop ex\nex finish")
    with pytest.raises(ArgumentError, match=r"instruction 0 \(store\): it never runs"):
        accel.witness(stuck, Race(1, 0, "DRAM", 0, "WAR"))
