"""Compile LLVM IR text to native code; no other file of this package uses llvmlite.

Values from llvmlite are untyped, hence the type `Any` in this file.
"""

import ctypes
import os
import re
import sys
import threading
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, Final, Literal, TypeAlias

from llvmlite import binding as llvm_binding

from minitvm.base import BuildError, amx_permitted, processor

from .interrupt import interruptibly

llvm: Final[Any] = llvm_binding
Form: TypeAlias = Literal["object", "ll", "asm"]
_lock = threading.RLock()
# This is not LLVM's global context, so that numba may compile at the same time. It only keeps the
# empty modules of engines: each module to compile has its own context and is freed with it.
_context = llvm.create_context()
# LLVM may peel a loop twice, the second time after the passes for vectors. There computePeelCount
# can pass a count of first iterations to the code that peels the last one (LLVM 22.1: a comparison
# and a minimum in a loop peeled before). This aborts the process or, without assertions, peels too
# many. The option switches off the second peeling, also for numba, and keeps the first.
llvm.set_option("minitvm", "-unroll-allow-peeling=false")


class NativeCode:
    """Native code in memory. Its addresses are valid as long as this object is alive."""

    def __init__(self, engine: Any, image: bytes, source: "LLVMSource | None") -> None:
        self._engine = engine
        self._source = source
        self.object = image
        """The relocatable object file, which load_object() can load on machines of this kind."""

    def address(self, name: str) -> int:
        """Return the address of the function `name`."""
        with _lock:
            address = int(self._engine.get_function_address(name))
        if not address:
            raise BuildError(f"function {name!r}", "the compiled code does not define it")
        return address

    def function(self, name: str, *kinds: Any, result: Any = ctypes.c_int32) -> Any:
        """Return the function `name` as one that Python can call; it keeps this object alive."""
        call: Any = ctypes.CFUNCTYPE(result, *kinds)(self.address(name))
        call.code = self
        return call

    @property
    def calls(self) -> tuple[str, ...]:
        """Return the functions of this process that the code calls by name."""
        return declared(self._known().text)

    @cached_property
    def ll(self) -> str:
        """Return the LLVM IR after optimisation."""
        return self._known().made("ll").decode()

    @cached_property
    def asm(self) -> str:
        """Return the assembly text of this machine code."""
        return self._known().made("asm").decode()

    def _known(self) -> "LLVMSource":
        if self._source is None:
            why = "the code was loaded from an object file, which has no LLVM IR"
            raise BuildError("source of loaded code", why, "f.source(...) of the exported function")
        return self._source


class LLVMSource:
    """LLVM IR and compiler options; made() compiles them to one form of code.

    triple   LLVM's name of another kind of machine, such as "aarch64-unknown-linux-gnu"; its code
             can only be read
    """

    def __init__(
        self,
        text: str,
        cpu: str,
        features: str,
        opt: int = 3,
        *,
        unroll: bool = True,
        triple: str = "",
    ) -> None:
        self.text, self.cpu, self.features = text, cpu, features
        self.opt, self.unroll, self.triple = opt, unroll, triple

    def made(self, form: Form) -> bytes:
        """Return the object file, IR or assembly, by `form`; raise BuildError for invalid IR."""
        return interruptibly(lambda: self._made(form))

    def loaded(self, symbols: Mapping[str, int] | None = None) -> NativeCode:
        """Compile and load the code; it may call the functions at the addresses `symbols`."""
        image = self.made("object")
        return load_object(image, symbols=symbols, calls=declared(self.text), source=self)

    def _made(self, form: Form) -> bytes:
        """Compile, and free all memory but the result.

        SROA can build IR in which a value is used before it is defined (LLVM 22.1: stores to parts
        of a local array, not in the order of their addresses, and a load of all of it). Code from
        it would abort the process or be wrong, so such a module is compiled without optimisation.
        """
        code = self._compiled(form, self.opt)
        return self._compiled(form, 0) if code is None else code

    def _compiled(self, form: Form, opt: int) -> Any:
        """Optimise and compile at level `opt`; return None if the optimised IR is not valid.

        One thread does all of this, so Ctrl-C in another cannot free a module that LLVM works on.
        Frees the module before its context; Python's garbage collector would not ensure this order.
        """
        with _lock, llvm.create_context() as context, _parsed(self.text, context) as module:
            target = _target_machine(self.cpu, self.features, self.opt, self.triple)
            module.triple = target.triple
            module.data_layout = str(target.target_data)
            self._optimise(module, target, opt)
            return _emitted(module, target, form) if _is_valid(module) else None

    def _optimise(self, module: Any, target: Any, opt: int) -> None:
        options = llvm.create_pipeline_tuning_options(speed_level=opt)
        # only schedules vectorize: LLVM's own vectorizers have aborted the process, hung, and
        # miscompiled reductions with ties (LLVM 22.1)
        options.loop_vectorization = options.slp_vectorization = False
        options.loop_unrolling = self.unroll
        passes = llvm.create_pass_builder(target, options)
        manager = passes.getModulePassManager()
        manager.run(module, passes)
        # close() does not free a pass manager, of 0.15 MB: ObjectRef hides the method of the second
        # base class (llvmlite 0.50). The pass builder cannot be used again: its callbacks are gone.
        llvm.ffi.lib.LLVMPY_DisposeNewModulePassManger(manager)
        manager.detach()


def _is_valid(module: Any) -> bool:
    try:
        module.verify()
    except RuntimeError:
        return False
    return True


def _emitted(module: Any, target: Any, form: Form) -> bytes:
    """Return an optimised module in the form `form`, as bytes."""
    match form:
        case "ll":
            return str(module).encode()
        case "asm":
            return str(target.emit_assembly(module)).encode()
        case "object":
            image = bytes(target.emit_object(module))
            _check_float16(image)
            return image


def declared(text: str) -> tuple[str, ...]:
    """Return the functions that IR text declares but does not define, except LLVM's intrinsics."""
    names = re.findall(r"^declare [^@\n]*@([\w.$]+)", text, re.MULTILINE)
    return tuple(name for name in names if not name.startswith("llvm."))


def compile_ir(
    text: str,
    *,
    cpu: str = "",
    features: str = "",
    opt: int = 3,
    unroll: bool = True,
    symbols: Mapping[str, int] | None = None,
) -> NativeCode:
    """Compile the LLVM IR `text` to native code and load it, ready to be called.

    cpu             LLVM's name of the CPU ("znver4"); by default this machine, with its features
    features        changes to the CPU's features ("+fma,-avx512f")
    opt             0 (no optimisation) to 3
    unroll          whether LLVM may unroll loops
    symbols         addresses of functions that `text` declares and this process provides

    Safe to call from several threads. Ctrl-C is raised at once; LLVM finishes in the background,
    and the next compilation waits for it. Raises BuildError if the IR is not well formed (with
    LLVM's message and the lines that it names), if it calls an unknown function, or if LLVM does
    not know the CPU.
    """
    return LLVMSource(text, cpu, features, opt, unroll=unroll).loaded(symbols)


def load_object(
    image: bytes,
    *,
    symbols: Mapping[str, int] | None = None,
    calls: Iterable[str] = (),
    source: LLVMSource | None = None,
) -> NativeCode:
    """Load an object file made by LLVMSource or compile_ir, without compiling anything.

    `calls` are the functions that the code calls by name (declared(text)); `source` is its IR.
    Raises BuildError if a function in `calls` does not exist, or if `image` is not an object
    file. The code must be for this CPU and operating system.
    """
    with _lock:
        _provide(symbols)
        for name in calls:
            _require(name)
        return NativeCode(_engine(image), image, source)


def _hold() -> None:
    """Take LLVM's locks before a fork: a child cannot release the locks of another thread."""
    _lock.acquire()
    llvm.ffi.lib._lock.__enter__()  # llvmlite also takes this lock without ours, to free objects


def _let_go() -> None:
    llvm.ffi.lib._lock.__exit__()
    _lock.release()


if hasattr(os, "register_at_fork"):  # Windows cannot fork
    os.register_at_fork(before=_hold, after_in_parent=_let_go, after_in_child=_let_go)


def _check_float16(image: bytes) -> None:
    """Raise BuildError if code for this CPU needs library functions to convert float16."""
    if any(name in image for name in (b"__truncsfhf2", b"__extendhfsf2")):
        raise BuildError(
            "float16 for this CPU",
            "the CPU has no instruction that converts between float16 and float32",
            'float32, or target="python"; or -mattr=+f16c if the CPU has the instruction after all',
        )


def _engine(image: bytes) -> Any:
    """Link the object file `image` into this process and return its LLVM execution engine."""
    if b"amx.config" in image and not amx_permitted():
        why = "the code uses tile registers, which this CPU lacks or this system does not permit"
        what = "code for a matrix unit (AMX)"
        raise BuildError(what, why, "another schedule, or target='python'")
    linkable = llvm.ObjectFileRef.from_data(image)
    if not linkable:
        raise BuildError("load_object", f"the {len(image)} bytes are not an object file")
    empty = llvm.parse_assembly("", _context)
    engine = llvm.create_mcjit_compiler(empty, _target_machine("", "", 3))
    engine.add_object_file(linkable)
    engine.finalize_object()
    return engine


def _target_machine(cpu: str, features: str, opt: int, triple: str = "") -> Any:
    """Return a new LLVM target machine; an engine takes ownership of its target machine."""
    if triple:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
        llvm_target = llvm.Target.from_triple(triple)
        return llvm_target.create_target_machine(cpu=cpu, features=features, opt=opt, jit=True)
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    processor.check_cpu(cpu, features)
    cpu, features = processor.options(cpu, features)
    native = llvm.Target.from_triple(llvm.get_process_triple())
    return native.create_target_machine(cpu=cpu, features=features, opt=opt, jit=True)


def _parsed(text: str, context: Any) -> Any:
    """Return the verified LLVM module of the IR `text`; raise BuildError if LLVM rejects it."""
    try:
        module = llvm.parse_assembly(text, context)
    except RuntimeError as error:
        raise BuildError("LLVM rejects this IR", explain(str(error), text)) from error
    try:
        module.verify()
    except RuntimeError as error:
        module.close()
        raise BuildError("LLVM rejects this IR", explain(str(error), text)) from error
    return module


def explain(message: str, text: str) -> str:
    """Return LLVM's message with the lines of `text` around the line that it names, if any."""
    message = message.strip()
    match = re.search(r"<string>:(\d+):", message)
    if not match:
        return message
    at = int(match[1])
    context = list(enumerate(text.splitlines(), 1))[max(0, at - 3) : at + 2]
    shown = (f"{'->' if n == at else '  '} {n:4d}  {line}" for n, line in context)
    return "\n".join([message, *shown])


def _provide(symbols: Mapping[str, int] | None) -> None:
    for name, address in (symbols or {}).items():
        llvm.add_symbol(name, address)


def _require(name: str) -> None:
    """Make a function known to LLVM's linker, which aborts the process if a function is missing.

    Raises BuildError for a function that neither `symbols` nor the C library provides.
    """
    if llvm.address_of_symbol(name) is None and not _from_c_library(name):
        fix = "pass its address in `symbols`, or define it in the IR"
        raise BuildError(f"call of {name!r}", "this process has no function of that name", fix)


def _from_c_library(name: str) -> bool:
    """Make a C library function known to LLVM; return False if the C library does not have it."""
    library = ctypes.cdll.msvcrt if sys.platform == "win32" else ctypes.CDLL(None)
    try:
        address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
    except AttributeError:
        return False
    llvm.add_symbol(name, address)
    return True
