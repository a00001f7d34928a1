"""Native code with which threads share parallel loops without calling Python.

A worker that has finished a loop waits in native code for some milliseconds. During that time a
caller hands it the next loop by storing the address of a job in the worker's mailbox. This takes
less than a microsecond; waking a thread through Python takes 15 to 200. A mailbox is 64 bytes, of
which the first eight are its state:

AWAY       the worker is not spinning
WAITING    it spins for a job
RESERVED   a caller is about to post one
TAKEN      it runs one
otherwise  the address of a posted job

Only one caller at a time, the owner of the team, uses mailboxes; others use Python's queue. No
caller waits for a worker that has not taken the job: the caller takes the job back.
"""

import platform

MAX_HELPERS = 64
WORDS = 8 * (MAX_HELPERS + 2)  # threads, owner and mailboxes, each with a cache line of its own
AWAY, WAITING, TAKEN, RESERVED = 0, 1, 2, 3
# A worker checks its mailbox this many times before it leaves: about 3 ms. In a network, the caller
# works alone for up to a millisecond at a time; waking a worker that has left takes
# up to 0.2 ms.
MAX_SPINS = 65536
X86, ARM = "void @llvm.x86.sse2.pause()", "void @llvm.aarch64.hint(i32)"
HINT = {"x86_64": X86, "AMD64": X86, "aarch64": ARM, "arm64": ARM}.get(platform.machine(), "")

SPIN_WAIT_IR = f"""
declare i32 @minitvm_yield()
{HINT and f"declare {HINT}"}

; Spin for a moment; every 32nd time, let another thread run that waits for this CPU.
define internal void @pause(i64 %n) {{
  {HINT and f"call {HINT}".replace("i32", "i32 1")}
  %low = and i64 %n, 31
  %now = icmp eq i64 %low, 31
  br i1 %now, label %yield, label %leave
yield:
  %status = call i32 @minitvm_yield()
  br label %leave
leave:
  ret void
}}

; Run the jobs stored in `mailbox`; return when none has been stored for a while.
define void @spin_wait(ptr %mailbox) {{
start:
  store atomic i64 {WAITING}, ptr %mailbox seq_cst, align 8
  br label %look
look:
  %n = phi i64 [ 0, %start ], [ 0, %posted ], [ 0, %take ], [ %next, %idle ], [ 0, %expired ]
  %state = load atomic i64, ptr %mailbox seq_cst, align 8
  switch i64 %state, label %posted [ i64 {AWAY}, label %leave
                                     i64 {WAITING}, label %idle
                                     i64 {RESERVED}, label %idle ]
posted:
  %taking = cmpxchg ptr %mailbox, i64 %state, i64 {TAKEN} seq_cst seq_cst
  %taken = extractvalue {{ i64, i1 }} %taking, 1
  br i1 %taken, label %take, label %look
take:
  %job = inttoptr i64 %state to ptr
  %last = call i32 @drain(ptr %job)
  store atomic i64 {WAITING}, ptr %mailbox seq_cst, align 8
  %departed = getelementptr i64, ptr %job, i64 6
  %before = atomicrmw add ptr %departed, i64 1 seq_cst
  br label %look
idle:
  call void @pause(i64 %n)
  %next = add i64 %n, 1
  %again = icmp slt i64 %next, {MAX_SPINS}
  br i1 %again, label %look, label %expired
expired:
  %leaving = cmpxchg ptr %mailbox, i64 {WAITING}, i64 {AWAY} seq_cst seq_cst
  %free = extractvalue {{ i64, i1 }} %leaving, 1
  br i1 %free, label %leave, label %look
leave:
  ret void
}}

; Replace the state `from` by `to` in `count` mailboxes; return in how many it was `from`.
define internal i64 @exchange(ptr %team, i64 %count, i64 %from, i64 %to) {{
start:
  br label %loop
loop:
  %i = phi i64 [ 0, %start ], [ %next, %loop ]
  %sum = phi i64 [ 0, %start ], [ %more, %loop ]
  %cell = add i64 %i, 2
  %mailbox = getelementptr [8 x i64], ptr %team, i64 %cell
  %pair = cmpxchg ptr %mailbox, i64 %from, i64 %to seq_cst seq_cst
  %was = extractvalue {{ i64, i1 }} %pair, 1
  %one = zext i1 %was to i64
  %more = add i64 %sum, %one
  %next = add i64 %i, 1
  %again = icmp slt i64 %next, %count
  br i1 %again, label %loop, label %leave
leave:
  ret i64 %more
}}

; Run a job together with `helpers` workers and return 1; or return 0 if not all of them wait.
; A worker that is reserved in vain goes back to Python, where it can be invited.
define i32 @share(ptr %team, ptr %job, i64 %helpers) {{
start:
  %few = icmp sle i64 %helpers, {MAX_HELPERS}
  br i1 %few, label %reserve, label %refuse
reserve:
  %ready = call i64 @exchange(ptr %team, i64 %helpers, i64 {WAITING}, i64 {RESERVED})
  %all = icmp eq i64 %ready, %helpers
  br i1 %all, label %post, label %dismiss
dismiss:
  %gone = call i64 @exchange(ptr %team, i64 %helpers, i64 {RESERVED}, i64 {AWAY})
  br label %refuse
refuse:
  ret i32 0
post:
  %address = ptrtoint ptr %job to i64
  %posted = call i64 @exchange(ptr %team, i64 %helpers, i64 {RESERVED}, i64 %address)
  %last = call i32 @drain(ptr %job)
  %back = call i64 @exchange(ptr %team, i64 %helpers, i64 %address, i64 {WAITING})
  %taken = sub i64 %helpers, %back
  %departed.at = getelementptr i64, ptr %job, i64 6
  br label %wait
wait:
  %n = phi i64 [ 0, %post ], [ %next, %spin ]
  %departed = load atomic i64, ptr %departed.at seq_cst, align 8
  %done = icmp eq i64 %departed, %taken
  br i1 %done, label %leave, label %spin
spin:
  call void @pause(i64 %n)
  %next = add i64 %n, 1
  br label %wait
leave:
  ret i32 1
}}
"""

LAUNCH_IR = """
declare void @minitvm_share(ptr, ptr, i64, ptr)
declare void @minitvm_interrupt()
declare i64 @minitvm_thread()
declare i32 @minitvm_team_share(ptr, ptr, i64)

; What compiled code calls. If this thread owns the team already, the loop is nested in another
; parallel loop, and runs serially. Without the team, or if its workers are away, Python wakes them.
define void @parallel_launch(ptr %body, ptr %closure, i64 %extent) {
start:
  ; a job as in pool.DRAIN_IR, and a seventh word: how many helpers have left it
  %job = alloca [7 x i64], align 64
  %team = inttoptr i64 TEAM to ptr
  %owner = getelementptr i64, ptr %team, i64 8
  %limit = load atomic i64, ptr %team monotonic, align 8
  %fewer = icmp slt i64 %extent, %limit
  %threads = select i1 %fewer, i64 %extent, i64 %limit
  %several = icmp sgt i64 %threads, 1
  br i1 %several, label %ask, label %serial
ask:
  %self = call i64 @minitvm_thread()
  %pair = cmpxchg ptr %owner, i64 0, i64 %self seq_cst seq_cst
  %who = extractvalue { i64, i1 } %pair, 0
  %mine = extractvalue { i64, i1 } %pair, 1
  %nested = icmp eq i64 %who, %self
  br i1 %nested, label %serial, label %first
serial:
  call void @run_all(ptr %body, ptr %closure, i64 %extent)
  ret void
first:
  br i1 %mine, label %fill, label %slow
fill:
  %parts = mul i64 %threads, CHUNKS
  %ratio = sdiv i64 %extent, %parts
  %grain = call i64 @llvm.smax.i64(i64 %ratio, i64 1)
  store ptr %body, ptr %job
  %closure.at = getelementptr i64, ptr %job, i64 1
  store ptr %closure, ptr %closure.at
  %extent.at = getelementptr i64, ptr %job, i64 2
  store i64 %extent, ptr %extent.at
  %grain.at = getelementptr i64, ptr %job, i64 3
  store i64 %grain, ptr %grain.at
  %next = getelementptr i64, ptr %job, i64 4
  store i64 0, ptr %next
  %done = getelementptr i64, ptr %job, i64 5
  store i64 0, ptr %done
  %departed = getelementptr i64, ptr %job, i64 6
  store i64 0, ptr %departed
  %helpers = sub i64 %threads, 1
  %status = call i32 @minitvm_team_share(ptr %team, ptr %job, i64 %helpers)
  %shared = icmp eq i32 %status, 1
  br i1 %shared, label %leave, label %wake
wake:
  call void @launch_by_python(ptr %body, ptr %closure, i64 %extent)
  br label %leave
leave:
  store atomic i64 0, ptr %owner seq_cst, align 8
  ret void
slow:
  call void @launch_by_python(ptr %body, ptr %closure, i64 %extent)
  ret void
}

declare i64 @llvm.smax.i64(i64, i64)

define internal void @run_all(ptr %body, ptr %closure, i64 %extent) {
  %some = icmp sgt i64 %extent, 0
  br i1 %some, label %run, label %leave
run:
  call void %body(ptr %closure, i64 0, i64 %extent)
  br label %leave
leave:
  ret void
}

; `minitvm_share` is Python: Ctrl-C may interrupt it, and exceptions cannot pass through native
; code. So it stores how it ended (0: it did not run the loop), and Ctrl-C is raised again later,
; when the calling code is back in Python.
define internal void @launch_by_python(ptr %body, ptr %closure, i64 %extent) {
  %state = alloca i32
  store i32 0, ptr %state
  call void @minitvm_share(ptr %body, ptr %closure, i64 %extent, ptr %state)
  %ended = load i32, ptr %state
  switch i32 %ended, label %failed [ i32 1, label %leave  i32 2, label %interrupted ]
failed:
  call void %body(ptr %closure, i64 0, i64 %extent)
  br label %interrupted
interrupted:
  call void @minitvm_interrupt()
  br label %leave
leave:
  ret void
}
"""
