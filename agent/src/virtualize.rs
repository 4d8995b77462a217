//! Calls that would show or break what the agent changed: the signal state that the kernel
//! has is ours, the program's own is kept here and shown to it.
//!
//! Owns: `rt_sigaction`, `rt_sigprocmask`, `sigaltstack`, `rt_sigreturn`, `rt_sigpending`,
//! the calls with a temporary signal mask, the %gs base, seccomp filters, and the watch over
//! executable mappings. Never does: task creation and exec (`task.rs`). The order of checks
//! in each emulation is the kernel's (kernel/signal.c), so that errors are the same.

use core::sync::atomic::Ordering;

use crossgate_hook::Call;
use crossgate_syscalls::Behaviour;
use crossgate_wire::RequestKind;
use crossgate_wire::arena::{Mode, UNTRACED_TRACEE};

use crate::arch::x86_64::entry;
use crate::arch::x86_64::frame::{Regs, SignalFrame, SignalStack};
use crate::arch::x86_64::segment::{ARCH_GET_GS, ARCH_SET_GS};
use crate::process::PROCESS;
use crate::signals::{self, Action, UNBLOCKABLE, bit, number::*};
use crate::sys::{self, errno::*, nr};
use crate::thread::{SS_DISABLE, Thread};
use crate::{bare, dispatch, filter, image, request, sites, task, trace, uaccess};

/// What becomes of a call.
pub enum Outcome {
    /// The kernel gets it, as the thread block has it.
    Call,
    /// It is answered.
    Result(i64),
    /// Signals that came meanwhile are to be delivered; then it begins again.
    Again,
}

const QUIET: Behaviour = Behaviour::SIGNAL_MASK
    .with(Behaviour::SIGNAL_STACK)
    .with(Behaviour::SIGNAL_RETURN)
    .with(Behaviour::CREATES_TASK)
    .with(Behaviour::EXECUTES)
    .with(Behaviour::ENDS_TASK)
    .with(Behaviour::ENDS_PROCESS)
    .with(Behaviour::FILTERS);

const PR_SET_SECCOMP: u64 = 22;
const PR_SET_SYSCALL_USER_DISPATCH: u64 = 59;
const PR_SET_MDWE: u64 = 65;
const PR_SET_TSC: u64 = 26;
const PR_TSC_SIGSEGV: u64 = 2;
/// ARCH_SHSTK_ENABLE (arch/x86/include/uapi/asm/prctl.h).
const ARCH_SHSTK_ENABLE: u64 = 0x5001;

/// Whether no signal may be delivered while the agent treats this call.
pub fn needs_quiet(behaviour: Behaviour, call: &Call) -> bool {
    behaviour.has_any(QUIET)
        // A filter may answer the call by SIGSYS, which must then be open.
        || behaviour.has(Behaviour::SIGNAL_ACTION) && PROCESS.is_filtered()
        || behaviour.has(Behaviour::SEGMENT_BASE) && call.args[0] == ARCH_SET_GS
        || behaviour.has(Behaviour::PROCESS_CONTROL) && call.args[0] == PR_SET_SECCOMP
}

/// Treats a call of [`needs_quiet`]. `mask` is the program's real signal mask (without
/// SIGSYS, which [`Thread::sigsys_blocked`] tells) and is loaded when the call is over.
pub fn special(
    t: &'static Thread,
    behaviour: Behaviour,
    regs: &mut Regs,
    mask: &mut u64,
) -> Outcome {
    let args = t.args.get();
    let result = if behaviour.has(Behaviour::SIGNAL_ACTION) {
        shadowed(t, || signal_action(t, args))
    } else if behaviour.has(Behaviour::SIGNAL_MASK) {
        shadowed(t, || signal_mask(t, args, mask))
    } else if behaviour.has(Behaviour::SIGNAL_STACK) {
        shadowed(t, || signal_stack(t, args, regs.rsp))
    } else if behaviour.has(Behaviour::SIGNAL_RETURN) {
        return_from_handler(t, regs.rsp)
    } else if behaviour.has(Behaviour::CREATES_TASK) {
        task::create(t, regs, *mask)
    } else if behaviour.has(Behaviour::EXECUTES) {
        match task::execute(t, *mask) {
            Some(result) => result,
            None => return Outcome::Again,
        }
    } else if behaviour.has(Behaviour::ENDS_PROCESS) {
        task::exit_group(t)
    } else if behaviour.has(Behaviour::ENDS_TASK) {
        task::exit(t)
    } else if behaviour.has(Behaviour::SEGMENT_BASE) {
        bare::take_over(t, args)
    } else {
        filter::install(t, args)
    };
    Outcome::Result(result)
}

/// Under a filter of the program's, the emulated call is also made for real, with arguments
/// that change nothing, so that the filter decides about it: it cannot look behind pointers.
fn shadowed(t: &Thread, emulate: impl FnOnce() -> i64) -> i64 {
    if PROCESS.is_filtered() {
        let [first, _, _, size, ..] = t.args.get();
        let harmless = match t.nr.get() {
            nr::SIGALTSTACK => [0; 6],
            _ => [first, 0, 0, size, 0, 0],
        };
        let verdict = sys::on_behalf(t.nr.get(), harmless);
        if verdict < 0 {
            return verdict;
        }
    }
    emulate()
}

/// Treats a call that needs no quiet: changes its arguments, or answers it.
pub fn adjust(t: &'static Thread, behaviour: Behaviour, call: &mut Call) -> Outcome {
    if behaviour.has_any(Behaviour::MASK_ARGUMENT.with(Behaviour::MASK_STRUCT)) {
        if let Some(index) = behaviour.argument() {
            clean_mask(t, behaviour, call, index);
            t.args.set(call.args);
        }
        return Outcome::Call;
    }
    if behaviour.has(Behaviour::SIGNAL_ACTION) {
        let [signal, new, ..] = call.args;
        if new == 0 && signals::kernel_knows(t, signal) {
            return Outcome::Call;
        }
        // A signal that comes meanwhile waits for the boundary, as in any call.
        return Outcome::Result(signal_action(t, call.args));
    }
    if behaviour.has(Behaviour::MAPS) {
        return watch_mapping(t, call);
    }
    if behaviour.has(Behaviour::NAMESPACES) {
        // Its children may see other process ids than the supervisor does.
        PROCESS.control().foreign.store(1, Ordering::Relaxed);
        return Outcome::Call;
    }
    if behaviour.has(Behaviour::TRACES) {
        return become_tracee(t, call);
    }
    if behaviour.has(Behaviour::SIGNAL_PENDING) {
        return signal_pending(t, call);
    }
    if behaviour.has(Behaviour::WAITS_SIGNAL) {
        return take_pending(t, call);
    }
    if behaviour.has(Behaviour::SEGMENT_BASE) {
        return match call.args[0] {
            // The program's own %gs base is what it last set; it never did.
            ARCH_GET_GS if !t.bare.get() => {
                Outcome::Result(uaccess::put(t, call.args[1], &0u64).err().unwrap_or(0))
            }
            // A shadow stack would not survive our switching of stacks.
            ARCH_SHSTK_ENABLE => Outcome::Result(EINVAL),
            _ => Outcome::Call,
        };
    }
    if behaviour.has(Behaviour::PROCESS_CONTROL) {
        match call.args[0] {
            // There is one dispatcher per task, and it is taken; as on a kernel without it.
            PR_SET_SYSCALL_USER_DISPATCH => return Outcome::Result(EINVAL),
            PR_SET_MDWE => PROCESS.end_patches(),
            PR_SET_TSC if call.args[1] == PR_TSC_SIGSEGV => trace::forbid_time(),
            _ => {}
        }
    }
    Outcome::Call
}

/// `ptrace`. Whoever asks to be traced is from now on stopped at each signal, also at those
/// by which calls are caught, and its tracer would see them: from here it is left alone, and
/// so is what it executes.
fn become_tracee(t: &Thread, call: &Call) -> Outcome {
    const PTRACE_TRACEME: u64 = 0;
    if call.args[0] != PTRACE_TRACEME {
        return Outcome::Call;
    }
    let result = sys::on_behalf(call.nr, call.args);
    if result == 0 {
        // Nor is its tracer to see the faults of the agent's reads.
        uaccess::end_direct(t);
        signals::disarm();
        if !t.silent.replace(true) {
            request::tell(t, RequestKind::Untraced, [UNTRACED_TRACEE, 0, 0, 0]);
        }
    }
    Outcome::Result(result)
}

/// `rt_sigaction`.
fn signal_action(t: &Thread, [signal, new, old, size, ..]: [u64; 6]) -> i64 {
    // What the kernel keeps of sa_flags (UAPI_SA_FLAGS, include/linux/signal_types.h).
    const FLAGS: u64 = 0xdc00_0807;
    if size != 8 {
        return EINVAL;
    }
    let mut wanted = None;
    if new != 0 {
        match uaccess::get::<[u64; 4]>(t, new) {
            Ok([handler, flags, restorer, mask]) => {
                wanted = Some(Action {
                    handler,
                    flags: flags & FLAGS,
                    restorer,
                    mask: mask & !UNBLOCKABLE,
                });
            }
            Err(e) => return e,
        }
    }
    let signal = signal as i32;
    if !(1..=signals::SIGNALS as i32).contains(&signal)
        || wanted.is_some() && (signal == SIGKILL || signal == SIGSTOP)
    {
        return EINVAL;
    }
    let before = (old != 0).then(|| signals::action_of(t, signal));
    if let Some(action) = wanted {
        let slot = signal as usize - 1;
        // A handler must be in the table before the kernel can call the wrapper; a default
        // must be in the kernel before the wrapper stops finding a handler.
        if action.is_handler() {
            t.actions.get().table.lock()[slot] = Some(action);
        }
        if signal != SIGSYS {
            let kernel = signals::kernel_action(signal, &action);
            let result = signals::set_kernel_action(t, signal, Some(&kernel), None);
            if result < 0 {
                return result;
            }
        }
        t.actions.get().table.lock()[slot] = Some(action);
        if signal == SIGSYS && action.handler == 1 {
            t.sigsys_pending.set(None);
        }
    }
    if let Some(before) = before {
        let words = [before.handler, before.flags, before.restorer, before.mask];
        if let Err(e) = uaccess::put(t, old, &words) {
            return e;
        }
    }
    0
}

/// `rt_sigprocmask`.
fn signal_mask(t: &Thread, [how, new, old, size, ..]: [u64; 6], mask: &mut u64) -> i64 {
    if size != 8 {
        return EINVAL;
    }
    let sigsys = if t.sigsys_blocked.get() { bit(SIGSYS) } else { 0 };
    let before = *mask & !bit(SIGSYS) | sigsys;
    if new != 0 {
        let set = match uaccess::get::<u64>(t, new) {
            Ok(set) => set & !UNBLOCKABLE,
            Err(e) => return e,
        };
        let after = match how as i32 {
            0 => before | set,
            1 => before & !set,
            2 => set,
            _ => return EINVAL,
        };
        *mask = after & !bit(SIGSYS);
        set_sigsys_blocked(t, after & bit(SIGSYS) != 0);
    }
    if old != 0
        && let Err(e) = uaccess::put(t, old, &before)
    {
        return e;
    }
    0
}

/// Blocks or unblocks SIGSYS for the program; one that is pending is raised. Signals are
/// blocked here, so it is delivered at the next boundary.
fn set_sigsys_blocked(t: &Thread, blocked: bool) {
    t.sigsys_blocked.set(blocked);
    if !blocked && let Some(info) = t.sigsys_pending.take() {
        signals::send_to_self(t, &info);
    }
}

/// `do_sigaltstack` of kernel/signal.c; `sp` is the program's stack pointer.
fn change_stack(t: &Thread, new: SignalStack, sp: u64) -> i64 {
    const SS_ONSTACK: u32 = 1;
    const SS_FLAG_BITS: u32 = 1 << 31;
    const MINSIGSTKSZ: u64 = 2048;
    if signals::on_program_stack(&t.stack.get(), sp) {
        return EPERM;
    }
    let mode = new.flags & !SS_FLAG_BITS;
    if mode != SS_DISABLE && mode != SS_ONSTACK && mode != 0 {
        return EINVAL;
    }
    if mode == SS_DISABLE {
        t.stack.set(SignalStack { flags: new.flags, ..SignalStack::default() });
    } else if new.size < MINSIGSTKSZ {
        return ENOMEM;
    } else {
        t.stack.set(SignalStack { pad: 0, ..new });
    }
    0
}

/// `sigaltstack`.
fn signal_stack(t: &Thread, [new, old, ..]: [u64; 6], sp: u64) -> i64 {
    const SS_ONSTACK: u32 = 1;
    const SS_FLAG_BITS: u32 = 1 << 31;
    let mut before = t.stack.get();
    let state = if before.size == 0 {
        SS_DISABLE
    } else if signals::on_program_stack(&before, sp) {
        SS_ONSTACK
    } else {
        0
    };
    before.flags = state | before.flags & SS_FLAG_BITS;
    if new != 0 {
        let wanted = match uaccess::get::<SignalStack>(t, new) {
            Ok(wanted) => wanted,
            Err(e) => return e,
        };
        let result = change_stack(t, wanted, sp);
        if result < 0 {
            return result;
        }
    }
    if old != 0
        && let Err(e) = uaccess::put(t, old, &before)
    {
        return e;
    }
    0
}

const FRAME_STACK: u64 = (core::mem::offset_of!(SignalFrame, uc.stack)) as u64;
const FRAME_MASK: u64 = (core::mem::offset_of!(SignalFrame, uc.mask)) as u64;
const FRAME_RIP: u64 = (core::mem::offset_of!(SignalFrame, uc.context.rip)) as u64;
const FRAME_RAX: u64 = (core::mem::offset_of!(SignalFrame, uc.context.rax)) as u64;

/// `rt_sigreturn` at stack pointer `rsp`: takes the program's signal stack and SIGSYS bit
/// out of its frame, puts ours in, and lets the kernel do the rest. Every signal is blocked
/// until it does.
pub fn signal_return(t: &Thread, rsp: u64) -> ! {
    let frame = rsp - 8;
    if let (Ok(stack), Ok(mask)) = (
        uaccess::get::<SignalStack>(t, frame + FRAME_STACK),
        uaccess::get::<u64>(t, frame + FRAME_MASK),
    ) {
        change_stack(t, stack, rsp);
        set_sigsys_blocked(t, mask & bit(SIGSYS) != 0);
        // A frame that could be read but not written cannot be: it is on a stack. If it
        // is, the kernel loads a stack of the program's and the next signal runs there.
        let _ = uaccess::put(t, frame + FRAME_STACK, &t.signal_stack());
        let _ = uaccess::put(t, frame + FRAME_MASK, &(mask & !bit(SIGSYS)));
        if let Ok(ip) = uaccess::get::<u64>(t, frame + FRAME_RIP) {
            let resume = sites::resume_address(ip);
            if resume != ip {
                let _ = uaccess::put(t, frame + FRAME_RIP, &resume);
            }
        }
    }
    // Another task may write to the frame until the kernel has loaded its mask.
    uaccess::end_handler(t);
    // An unreadable frame makes the kernel raise SIGSEGV, as it would have natively.
    entry::return_from_frame(rsp)
}

/// [`signal_return`] from inside a hooked call.
fn return_from_handler(t: &Thread, rsp: u64) -> ! {
    let rax = uaccess::get::<u64>(t, rsp - 8 + FRAME_RAX).unwrap_or(0);
    dispatch::finished(t, rax as i64);
    sys::set_mask(t, signals::ALL);
    t.quiet.set(false);
    if let Some(info) = t.take_held() {
        signals::send_to_self(t, &info);
    }
    signal_return(t, rsp)
}

/// `rt_sigpending`, when a SIGSYS is pending that the kernel does not know of.
fn signal_pending(t: &Thread, call: &Call) -> Outcome {
    if t.sigsys_pending.get().is_none() || call.args[1] != 8 {
        return Outcome::Call;
    }
    let result = sys::on_behalf(call.nr, call.args);
    if result == 0
        && let Ok(set) = uaccess::get::<u64>(t, call.args[0])
    {
        return Outcome::Result(
            uaccess::put(t, call.args[0], &(set | bit(SIGSYS))).err().unwrap_or(0),
        );
    }
    Outcome::Result(result)
}

/// `rt_sigtimedwait` for a SIGSYS that is pending here. One that comes later is the
/// kernel's to report: it dequeues a signal that is waited for even when it is not blocked.
fn take_pending(t: &Thread, call: &Call) -> Outcome {
    if call.nr != nr::RT_SIGTIMEDWAIT {
        return Outcome::Call;
    }
    let Some(info) = t.sigsys_pending.get() else { return Outcome::Call };
    match uaccess::get::<u64>(t, call.args[0]) {
        Ok(set) if set & bit(SIGSYS) != 0 && call.args[3] == 8 => {
            t.sigsys_pending.set(None);
            if call.args[1] != 0
                && let Err(e) = uaccess::put(t, call.args[1], &info)
            {
                return Outcome::Result(e);
            }
            Outcome::Result(i64::from(SIGSYS))
        }
        _ => Outcome::Call,
    }
}

/// `io_uring_enter` flag (include/uapi/linux/io_uring.h).
const IORING_ENTER_EXT_ARG: u64 = 1 << 3;

/// Takes SIGSYS out of the signal set that argument `index` points to: a call that waits
/// with SIGSYS blocked would die of the first call its handler makes.
fn clean_mask(t: &Thread, behaviour: Behaviour, call: &mut Call, index: usize) {
    t.temporary.set(None);
    let pointer = call.args[index];
    if pointer == 0 {
        return;
    }
    let copy = t.mask_copy.as_ptr() as u64;
    if call.nr == nr::IO_URING_ENTER && call.args[3] & IORING_ENTER_EXT_ARG != 0 {
        // Not a set but a struct io_uring_getevents_arg: the set's address, its size, a time.
        let Ok([set, size, time, _]) = uaccess::get::<[u64; 4]>(t, pointer) else { return };
        let Ok(mask) = uaccess::get::<u64>(t, set) else { return };
        t.temporary.set(Some(mask));
        t.mask_copy.set([copy + 24, size, time, mask & !bit(SIGSYS)]);
    } else if behaviour.has(Behaviour::MASK_STRUCT) {
        let Ok([set, size]) = uaccess::get::<[u64; 2]>(t, pointer) else { return };
        if set == 0 || size != 8 {
            return;
        }
        let Ok(mask) = uaccess::get::<u64>(t, set) else { return };
        t.temporary.set(Some(mask));
        t.mask_copy.set([copy + 16, 8, mask & !bit(SIGSYS), 0]);
    } else {
        let Ok(mask) = uaccess::get::<u64>(t, pointer) else { return };
        t.temporary.set(Some(mask));
        t.mask_copy.set([mask & !bit(SIGSYS), 0, 0, 0]);
    }
    let Some(mask) = t.temporary.get() else { return };
    if mask & bit(SIGSYS) != 0 {
        call.args[index] = copy;
    } else if let Some(info) = t.sigsys_pending.take() {
        // The call opens SIGSYS and one is pending: the kernel must have it pending, too,
        // which needs it blocked until the call's own mask is in force.
        t.sigsys_forced.set(true);
        let set = bit(SIGSYS);
        sys::call4(nr::RT_SIGPROCMASK, 0, (&raw const set) as u64, 0, 8);
        signals::send_to_self(t, &info);
    }
}

/// A call with a mask of its own is over: SIGSYS must not stay blocked.
pub fn end_temporary_mask(t: &Thread) {
    if t.sigsys_forced.take() {
        let set = bit(SIGSYS);
        sys::call4(nr::RT_SIGPROCMASK, 1, (&raw const set) as u64, 0, 8);
    }
}

/// The mask that the interrupted call had set for itself.
pub fn temporary_mask(t: &Thread) -> Option<u64> {
    let behaviour = crossgate_syscalls::plan::behaviour(t.nr.get());
    if behaviour.has_any(Behaviour::MASK_ARGUMENT.with(Behaviour::MASK_STRUCT)) {
        t.temporary.get()
    } else {
        None
    }
}

/// Keeps patched code, trampolines and the agent out of the way of changes to mappings.
fn watch_mapping(t: &Thread, call: &Call) -> Outcome {
    const MAP_FIXED: u64 = 0x10;
    let [start, len, third, ..] = call.args;
    let fixed = match call.nr {
        nr::MMAP => call.args[3] & MAP_FIXED != 0,
        nr::MUNMAP | nr::MPROTECT | nr::PKEY_MPROTECT | nr::MREMAP => true,
        _ => false,
    };
    if fixed && image::overlaps(start, len) {
        return Outcome::Result(if call.nr == nr::MMAP { ENOMEM } else { EINVAL });
    }
    match call.nr {
        // Code that is about to be written again, moved or removed is itself again first.
        nr::MPROTECT | nr::PKEY_MPROTECT if third & sys::WRITE != 0 => {
            sites::revert(start, len);
        }
        nr::MREMAP => {
            sites::revert(start, len);
        }
        nr::MUNMAP => sites::forget(start, len),
        nr::MMAP if fixed => sites::forget(start, len),
        _ => {}
    }
    t.watch.set(match call.nr {
        nr::MMAP | nr::MPROTECT | nr::PKEY_MPROTECT => third & sys::EXEC != 0,
        _ => false,
    });
    Outcome::Call
}

/// After a call that [`adjust`] let go.
pub fn after(t: &Thread, result: i64) {
    end_temporary_mask(t);
    mapped(t, result);
}

/// After a call that [`watch_mapping`] saw: what became executable.
fn mapped(t: &Thread, result: i64) {
    if !t.watch.take() || (-4095..0).contains(&result) {
        return;
    }
    let [start, len, _, flags, ..] = t.args.get();
    let start = if t.nr.get() == nr::MMAP { result as u64 } else { start };
    let of_file = t.nr.get() == nr::MMAP && flags & sys::MAP_ANONYMOUS == 0;
    if of_file && flags & sys::MAP_SHARED != 0 {
        sites::never(start, len);
    } else if PROCESS.mode() == Mode::Fast {
        sites::scan(t, start, len);
    }
}
