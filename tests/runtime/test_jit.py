"""LLVM IR in, native code out; and what is said when LLVM refuses."""

import ctypes
import gc
import pickle
import subprocess
import sys
import threading

import numpy as np
import psutil
import pytest

from minitvm.base import BuildError
from minitvm.runtime import NativeCode, compile_ir, load_object
from minitvm.runtime.isolated import IsolatedSource
from minitvm.runtime.jit import LLVMSource, declared

TWICE = """
define i64 @twice(i64 %x) {
  %y = add i64 %x, %x
  ret i64 %y
}
"""


SUM_OF_LINES = """
define float @sum(ptr %a) {
start:
  br label %loop
loop:
  %i = phi i64 [ 0, %start ], [ %next, %loop ]
  %sum = phi float [ 0.0, %start ], [ %new, %loop ]
  %p = getelementptr float, ptr %a, i64 %i
  %x = load float, ptr %p
  %new = fadd float %sum, %x
  %next = add i64 %i, 16
  %more = icmp ult i64 %next, 4096
  br i1 %more, label %loop, label %leave
leave:
  ret float %new
}"""


def call(machine: NativeCode, name: str, x: int) -> int:
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(machine.address(name))(x)


@pytest.mark.parametrize("opt", [0, 1, 2, 3])
def test_ir_becomes_a_callable_function(opt: int) -> None:
    assert call(compile_ir(TWICE, opt=opt), "twice", 21) == 42


def test_the_object_file_runs_without_compiling_again() -> None:
    image = compile_ir(TWICE).object
    gc.collect()
    assert call(load_object(image), "twice", 21) == 42


def object_of(text: str, unroll: bool = True) -> bytes:
    return LLVMSource(text, "", "", unroll=unroll).made("object")


def test_an_object_is_compiled_for_a_target_and_loaded_later() -> None:
    rolled = object_of(SUM_OF_LINES, unroll=False)
    assert len(rolled) < len(object_of(SUM_OF_LINES))
    a = (ctypes.c_float * 4096)(*range(4096))
    run = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_void_p)
    machine = load_object(rolled)
    assert run(machine.address("sum"))(ctypes.addressof(a)) == sum(range(0, 4096, 16))


def test_an_object_may_call_a_function_that_only_another_process_has() -> None:
    text = "declare void @missing()\ndefine void @f() {\n call void @missing()\n ret void\n}"
    image = object_of(text)
    with pytest.raises(BuildError, match="call of 'missing'"):
        load_object(image, calls=declared(text))


def test_a_compilation_leaves_no_memory_behind() -> None:
    """A context, or a pass manager, for ever would be 10 MB here."""

    def grown(times: int) -> int:
        before = psutil.Process().memory_info().rss
        for _ in range(times):
            object_of(SUM_OF_LINES)
        return psutil.Process().memory_info().rss - before

    grown(20)  # what is made once
    assert grown(60) < 4_000_000


def test_the_optimised_ir_and_the_assembly_can_be_read() -> None:
    machine = compile_ir("define i64 @six() {\n %x = mul i64 2, 3\n ret i64 %x\n}")
    assert "ret i64 6" in machine.ll
    assert "six:" in machine.asm


def test_no_vector_is_made_that_the_ir_does_not_ask_for() -> None:
    """LLVM's own vectorizers are off: a schedule says where vectors are."""
    machine = compile_ir("""
define void @add(ptr noalias %a, ptr noalias %b) {
start:
  br label %loop
loop:
  %i = phi i64 [ 0, %start ], [ %next, %loop ]
  %pa = getelementptr float, ptr %a, i64 %i
  %pb = getelementptr float, ptr %b, i64 %i
  %x = load float, ptr %pa
  %y = load float, ptr %pb
  %z = fadd float %x, %y
  store float %z, ptr %pa
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, 1024
  br i1 %more, label %loop, label %leave
leave:
  ret void
}""")
    assert " x float>" not in machine.ll


@pytest.mark.parametrize("kind", [LLVMSource, IsolatedSource])
@pytest.mark.parametrize(("unroll", "several"), [(True, True), (False, False)])
def test_llvm_unrolls_only_where_it_may(
    kind: type[LLVMSource], unroll: bool, several: bool
) -> None:
    machine = kind(SUM_OF_LINES, "", "", unroll=unroll).loaded()
    for text in (machine.ll.replace(" = fadd ", "addss"), machine.asm):
        assert (text.count("addss") > 1) is several


def peeled_twice() -> str:
    """A loop that LLVM peels for min(i, 4), and once more for min(i, 9) and i > 5."""
    work = ["%x0 = sdiv i64 %near, 3"]  # enough to leave no room for min(i, 9) the first time
    for n in range(1, 26):
        operation = "xor i64 %square" if n % 2 else "mul i64 %near"
        work.append(f"%x{n} = {operation}, %x{n - 1}")
    body = "\n  ".join(work)
    return f"""
declare i64 @llvm.smin.i64(i64, i64)
define void @f(ptr noalias %a, ptr noalias %b) {{
start:
  br label %loop
loop:
  %i = phi i64 [ 0, %start ], [ %next, %store ]
  %late = icmp sgt i64 %i, 5
  br i1 %late, label %read, label %middle
read:
  %far = call i64 @llvm.smin.i64(i64 %i, i64 9)
  %from = getelementptr i64, ptr %a, i64 %far
  %element = load i64, ptr %from
  br label %middle
middle:
  %y = phi i64 [ %element, %read ], [ 1, %loop ]
  %square = mul nsw i64 %i, %i
  %early = icmp slt i64 %square, 16
  br i1 %early, label %work, label %store
work:
  %near = call i64 @llvm.smin.i64(i64 %i, i64 4)
  {body}
  br label %store
store:
  %z = phi i64 [ %x25, %work ], [ 2, %middle ]
  %sum = add i64 %y, %z
  %to = getelementptr i64, ptr %b, i64 %i
  store i64 %sum, ptr %to
  %next = add nuw nsw i64 %i, 1
  %more = icmp slt i64 %next, 1000
  br i1 %more, label %loop, label %leave
leave:
  ret void
}}"""


def test_a_loop_that_could_be_peeled_twice_does_not_end_the_process() -> None:
    """Compiled in a process of its own: LLVM's assertion ends the one in which it fails."""
    code = "import sys; from minitvm.runtime import compile_ir; compile_ir(sys.stdin.read())"
    ran = subprocess.run(
        [sys.executable, "-c", code],
        input=peeled_twice(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr


def test_stores_out_of_order_to_a_local_array_do_not_end_the_process() -> None:
    """SROA puts the shuffle that joins both halves before the product (LLVM 22.1)."""
    machine = compile_ir("""
        define void @joined(ptr %in, ptr %out) {
          %parts = alloca [8 x i32], align 64
          %second = getelementptr i32, ptr %parts, i64 4
          %x = load <4 x i32>, ptr %in, align 4
          store <4 x i32> %x, ptr %second, align 4
          %product = mul <4 x i32> %x, %x
          store <4 x i32> %product, ptr %parts, align 4
          %both = load <8 x i32>, ptr %parts, align 4
          store <8 x i32> %both, ptr %out, align 4
          ret void
        }
    """)
    numbers, out = np.array([2, 3, 4, 5], "int32"), np.zeros(8, "int32")
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
    function(machine.address("joined"))(numbers.ctypes.data, out.ctypes.data)
    assert out.tolist() == [4, 9, 16, 25, 2, 3, 4, 5]


def test_several_machines_may_define_the_same_name() -> None:
    thrice = TWICE.replace("add i64 %x, %x", "mul i64 %x, 3")
    two, three = compile_ir(TWICE), compile_ir(thrice)
    assert (call(two, "twice", 5), call(three, "twice", 5)) == (10, 15)


def test_ir_may_call_functions_of_this_process_by_address() -> None:
    seen: list[int] = []
    note = ctypes.CFUNCTYPE(None, ctypes.c_int64)(seen.append)
    address = ctypes.cast(note, ctypes.c_void_p).value or 0
    text = """
declare void @test_note(i64)
define i64 @f(i64 %x) {
  call void @test_note(i64 %x)
  ret i64 %x
}"""
    machine = compile_ir(text, symbols={"test_note": address})
    call(machine, "f", 7)
    call(load_object(machine.object, symbols={"test_note": address}), "f", 8)
    assert seen == [7, 8]


def test_functions_of_the_c_library_need_no_address() -> None:
    text = """
declare double @exp(double)
define double @f(double %x) {
  %y = call double @exp(double %x)
  ret double %y
}"""
    f = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)
    machine = compile_ir(text)
    assert f(machine.address("f"))(0.0) == 1.0


def test_a_syntax_error_shows_the_line() -> None:
    with pytest.raises(BuildError) as refused:
        compile_ir(TWICE.replace("i64 %x, %x", "i64 %x, %nothing"))
    assert "use of undefined value '%nothing'" in str(refused.value)
    assert "->    3    %y = add i64 %x, %nothing" in str(refused.value)


def test_ill_formed_ir_names_the_instruction() -> None:
    text = """
define i64 @f(i1 %c) {
  br i1 %c, label %a, label %b
a:
  %x = add i64 1, 2
  br label %b
b:
  ret i64 %x
}"""
    with pytest.raises(BuildError, match="does not dominate all uses") as refused:
        compile_ir(text)
    assert "%x = add i64 1, 2" in str(refused.value)


def test_a_call_of_an_unknown_function_is_refused_before_linking() -> None:
    text = """
declare void @no_such_function()
define void @f() {
  call void @no_such_function()
  ret void
}"""
    with pytest.raises(BuildError, match="call of 'no_such_function'"):
        compile_ir(text)


def test_an_unknown_name_has_no_address() -> None:
    with pytest.raises(BuildError, match="function 'thrice': the compiled code does not define it"):
        compile_ir(TWICE).address("thrice")


@pytest.mark.parametrize("image", [b"", b"hello", compile_ir(TWICE).object[:100]])
def test_bytes_that_are_no_object_file_are_refused(image: bytes) -> None:
    with pytest.raises(BuildError, match=f"the {len(image)} bytes are not an object file"):
        load_object(image)


def test_loaded_code_has_no_source_to_show() -> None:
    with pytest.raises(BuildError, match="loaded from an object file"):
        _ = load_object(compile_ir(TWICE).object).ll


def test_errors_survive_pickling() -> None:
    with pytest.raises(BuildError) as refused:
        compile_ir("define")
    assert str(pickle.loads(pickle.dumps(refused.value))) == str(refused.value)


def test_threads_may_compile_at_the_same_time() -> None:
    results: list[int] = []

    def build(k: int) -> None:
        machine = compile_ir(TWICE.replace("add i64 %x, %x", f"mul i64 %x, {k}"))
        results.append(call(machine, "twice", 1))

    threads = [threading.Thread(target=build, args=(k,)) for k in range(2, 8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [2, 3, 4, 5, 6, 7]
