//! Signals, so that the program cannot tell that every one of its handlers has a wrapper
//! around it.
//!
//! Owns: the table of the program's handlers, the wrapper that runs first, and *settling*:
//! turning whatever a signal interrupted (a trampoline, the gate, a hook) into a state in
//! which the program could have been without us. Never does: the calls that change signal
//! state (`virtualize.rs`).
//!
//! The wrapper runs on the block's signal stack with every signal blocked. It always ends
//! in the kernel's `rt_sigreturn`: for a handler of the program's, the frame is copied to
//! where the kernel would have put it and the original is rewritten so that returning from
//! it *enters the handler*, with the handler's mask, atomically. Handlers that jump away,
//! unwind or switch stacks leave nothing of ours behind.

use core::sync::atomic::{AtomicU32, Ordering};

use crossgate_wire::arena::Mode;

use crate::arch::x86_64::encode::site_of_stub;
use crate::arch::x86_64::entry;
use crate::arch::x86_64::frame::{
    Context, SignalFrame, SignalInfo, SignalStack, extended_state_size,
};
use crate::process::PROCESS;
use crate::sync::Lock;
use crate::sys::{self, errno, nr};
use crate::thread::{Phase, SS_DISABLE, Thread};
use crate::{
    bare, dispatch, filter, host, image, library, sites, task, trace, uaccess, virtualize,
};

/// Signals are 1 to 64.
pub const SIGNALS: usize = 64;
#[allow(missing_docs)]
pub mod number {
    //! The signals the agent treats by name (include/uapi/asm-generic/signal.h).
    pub const SIGILL: i32 = 4;
    pub const SIGBUS: i32 = 7;
    pub const SIGFPE: i32 = 8;
    pub const SIGKILL: i32 = 9;
    pub const SIGSEGV: i32 = 11;
    pub const SIGCHLD: i32 = 17;
    pub const SIGCONT: i32 = 18;
    pub const SIGSTOP: i32 = 19;
    pub const SIGTTOU: i32 = 22;
    pub const SIGURG: i32 = 23;
    pub const SIGWINCH: i32 = 28;
    pub const SIGSYS: i32 = 31;
}
use number::*;

/// Bit of a signal in a mask.
pub const fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// Every signal.
pub const ALL: u64 = !0;
/// By which a processor reports what cannot be done.
const FAULTS: u64 = bit(SIGSEGV) | bit(SIGBUS) | bit(SIGFPE) | bit(SIGILL);
/// What a special call blocks: every signal, but SIGSYS where a filter may raise it for a call
/// we make on the program's behalf or where hook libraries make calls of their own, and faults
/// where they may be a hook library's.
pub fn closed() -> u64 {
    let by_filter = if PROCESS.is_filtered() { bit(SIGSYS) } else { 0 };
    let by_library = if PROCESS.has_libraries() { FAULTS } else { 0 };
    let by_host = if host::has_started() { bit(SIGSYS) } else { 0 };
    !(by_filter | by_library | by_host)
}

/// What no mask can contain.
pub const UNBLOCKABLE: u64 = bit(SIGKILL) | bit(SIGSTOP);

const SYS_SECCOMP: i32 = 1;
const SYS_USER_DISPATCH: i32 = 2;
const ARCH_I386: u32 = 0x4000_0003;

const SA_SIGINFO: u64 = 4;
const SA_RESTORER: u64 = 0x0400_0000;
const SA_RESTART: u64 = 0x1000_0000;
const SA_ONSTACK: u64 = 0x0800_0000;
const SA_NODEFER: u64 = 0x4000_0000;
const SA_RESETHAND: u64 = 0x8000_0000;
const SS_AUTODISARM: u32 = 1 << 31;
const SIG_DFL: u64 = 0;
const SIG_IGN: u64 = 1;

/// `struct sigaction` as the kernel has it.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub struct Action {
    pub handler: u64,
    pub flags: u64,
    pub restorer: u64,
    pub mask: u64,
}

impl Action {
    /// The default action, no flags.
    pub const DEFAULT: Self = Self { handler: SIG_DFL, flags: 0, restorer: 0, mask: 0 };

    /// Whether the kernel would call a function.
    pub fn is_handler(&self) -> bool {
        self.handler > SIG_IGN
    }
}

/// The program's handlers, shared by the tasks that share them in the kernel.
pub struct Actions {
    users: AtomicU32,
    /// By signal number minus one; `None` until the program sets or asks for it (it may
    /// have inherited an ignored signal, which the kernel knows).
    pub table: Lock<[Option<Action>; SIGNALS]>,
}

const TABLES: usize = 64;
/// How many of the first tables have been used: what nobody touches costs no memory.
static TOUCHED: AtomicU32 = AtomicU32::new(1);
static POOL: [Actions; TABLES] =
    [const { Actions { users: AtomicU32::new(0), table: Lock::new([None; SIGNALS]) } }; TABLES];

/// The table of the first task of a program.
pub fn first_actions() -> &'static Actions {
    &POOL[0]
}

/// In the child of a fork: its memory has one task, which uses this table. Another task may
/// have held a lock.
pub fn only_user(own: &Actions, had_threads: bool) {
    for actions in &POOL[..TOUCHED.load(Ordering::Relaxed) as usize] {
        if had_threads {
            actions.table.force_unlock();
        }
        let users = u32::from(core::ptr::eq(actions, own));
        // A page that is not written to stays the parent's, too.
        if actions.users.load(Ordering::Relaxed) != users {
            actions.users.store(users, Ordering::Relaxed);
        }
    }
}

impl Actions {
    /// One more task uses this table.
    pub fn share(&'static self) -> &'static Self {
        self.users.fetch_add(1, Ordering::Relaxed);
        self
    }

    /// Whether only one task uses this table.
    pub fn has_one_user(&self) -> bool {
        self.users.load(Ordering::Relaxed) == 1
    }

    /// A task that used this table is gone.
    pub fn drop_user(&self) {
        self.users.fetch_sub(1, Ordering::Release);
    }

    /// CLONE_CLEAR_SIGHAND: handlers become default, ignored stay.
    pub fn clear_handlers(&self) {
        for action in self.table.lock().iter_mut().flatten() {
            if action.is_handler() {
                *action = Action::DEFAULT;
            }
        }
    }

    /// A copy for a task with handlers of its own; `None` when there are too many tables.
    pub fn copy(&self) -> Option<&'static Self> {
        for (index, table) in POOL.iter().enumerate() {
            if table.users.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                TOUCHED.fetch_max(index as u32 + 1, Ordering::Relaxed);
                let copy = *self.table.lock();
                *table.table.lock() = copy;
                return Some(table);
            }
        }
        None
    }
}

/// Whether the default action of `signal` ends the process.
fn ends_by_default(signal: i32) -> bool {
    !matches!(signal, SIGCHLD | SIGCONT..=SIGURG | SIGWINCH)
}

/// Whether the kernel must call us for `signal` even when the program has the default
/// action: when a trace is to show the signal that ends a process, and when it may be the fault
/// of a hook library.
fn wrap_default(signal: i32) -> bool {
    if PROCESS.has_libraries() {
        return matches!(signal, SIGSEGV | SIGBUS | SIGFPE | SIGILL);
    }
    PROCESS.traces() && signal < 32 && signal != SIGKILL && ends_by_default(signal)
}

/// What the kernel has to know for the program's `action`.
pub fn kernel_action(signal: i32, action: &Action) -> Action {
    let wrapper = Action {
        handler: entry::on_signal(),
        flags: (action.flags & !(SA_NODEFER | SA_RESETHAND))
            | SA_SIGINFO
            | SA_RESTORER
            | SA_ONSTACK,
        restorer: entry::restorer(),
        mask: ALL,
    };
    if action.is_handler() {
        wrapper
    } else if action.handler == SIG_DFL && wrap_default(signal) {
        Action { flags: SA_SIGINFO | SA_RESTORER | SA_ONSTACK, ..wrapper }
    } else {
        *action
    }
}

/// The kernel's own `rt_sigaction`.
pub fn set_kernel_action(
    t: &Thread,
    signal: i32,
    new: Option<&Action>,
    old: Option<&mut Action>,
) -> i64 {
    if matches!(signal, SIGSEGV | SIGBUS) && new.is_some_and(|action| !action.is_handler()) {
        // Faults will not come to us any more.
        uaccess::end_direct(t);
    }
    sys::call4(
        nr::RT_SIGACTION,
        signal as u64,
        new.map_or(0, |a| core::ptr::from_ref(a) as u64),
        old.map_or(0, |a| core::ptr::from_mut(a) as u64),
        8,
    )
}

/// Makes SIGSYS ours, which is what Syscall User Dispatch raises.
pub fn take_sigsys(t: &Thread) {
    let ours = Action {
        handler: entry::on_sigsys(),
        // Where the program has it blocked or ignored, no call may notice that it came.
        flags: SA_SIGINFO | SA_RESTORER | SA_ONSTACK | SA_RESTART,
        restorer: entry::restorer(),
        mask: ALL,
    };
    set_kernel_action(t, SIGSYS, Some(&ours), None);
}

/// At the start of a program (or of a task whose handlers were cleared): wraps the default
/// actions a trace wants to see.
pub fn take_defaults(t: &Thread) {
    if !PROCESS.traces() && !PROCESS.has_libraries() {
        return;
    }
    for signal in 1..32 {
        let old = take_default(t, signal);
        if old.is_some_and(|old| old.handler == SIG_IGN) {
            set_kernel_action(t, signal, old.as_ref(), None);
        }
    }
}

/// Wraps the default action of `signal`, if a trace wants to see it; gives what there was.
pub fn take_default(t: &Thread, signal: i32) -> Option<Action> {
    if !wrap_default(signal) || signal == SIGSYS {
        return None;
    }
    let mut old = Action::DEFAULT;
    let ours = kernel_action(signal, &Action::DEFAULT);
    set_kernel_action(t, signal, Some(&ours), Some(&mut old));
    Some(old)
}

/// The kernel's `sigaltstack` for this task: our signal stack.
pub fn take_signal_stack(t: &Thread) {
    let stack = t.signal_stack();
    sys::call2(nr::SIGALTSTACK, (&raw const stack) as u64, 0);
}

/// Whether the kernel's action for `signal` is the program's own: it has set none, and the
/// agent needs none.
pub fn kernel_knows(t: &Thread, signal: u64) -> bool {
    let Ok(index @ 0..SIGNALS) = usize::try_from(signal.wrapping_sub(1)) else { return false };
    let signal = signal as i32;
    signal != SIGSYS && !wrap_default(signal) && t.actions.get().table.lock()[index].is_none()
}

/// The program's action for `signal`, asking the kernel the first time.
pub fn action_of(t: &Thread, signal: i32) -> Action {
    let index = signal as usize - 1;
    if let Some(action) = t.actions.get().table.lock()[index] {
        return action;
    }
    if signal == SIGSYS {
        return if PROCESS.sigsys_ignored() {
            Action { handler: SIG_IGN, ..Action::DEFAULT }
        } else {
            Action::DEFAULT
        };
    }
    let mut known = Action::DEFAULT;
    set_kernel_action(t, signal, None, Some(&mut known));
    if known.handler > SIG_IGN { Action::DEFAULT } else { known }
}

/// SIGSYS arrived: a call that Syscall User Dispatch caught, or a signal like any other.
///
/// # Safety
/// Called by the entry code with the kernel's frame on the signal stack of a block.
pub unsafe extern "C" fn on_sigsys(frame: *mut SignalFrame) {
    // SAFETY: the entry code passes the frame the kernel has just made.
    let (frame, t) = unsafe { (&mut *frame, Thread::of_signal_stack(frame as u64)) };
    uaccess::begin_handler(t, &mut frame.uc.context);
    if frame.info.code == SYS_USER_DISPATCH {
        caught(t, frame);
    } else if frame.info.code == RECRUIT && frame.info.errno == RECRUIT {
        recruited(frame);
    } else {
        deliver(t, frame);
    }
    uaccess::end_handler(t);
}

/// Any other signal that we wrap.
///
/// # Safety
/// As [`on_sigsys`].
pub unsafe extern "C" fn on_signal(frame: *mut SignalFrame) {
    // SAFETY: as above.
    let (frame, t) = unsafe { (&mut *frame, Thread::of_signal_stack(frame as u64)) };
    let reading = uaccess::begin_handler(t, &mut frame.uc.context);
    // The fault of a read of the agent's is no signal of the program's.
    let handled = is_fault(&frame.info)
        && (reading || library::faulted(t, frame.info.signo, &mut frame.uc.context));
    if !handled {
        deliver(t, frame);
    }
    uaccess::end_handler(t);
}

/// A call that was made outside the gate: send it into the gate, and perhaps patch its
/// site so that the next one goes there by itself.
fn caught(t: &'static Thread, frame: &mut SignalFrame) {
    PROCESS.counters().traps.fetch_add(1, Ordering::Relaxed);
    let c = &mut frame.uc.context;
    let after = c.rip;
    if after == entry::bare_trap() + 2 {
        return bare::complete(t, &mut frame.uc.context);
    }
    // `si_arch` is the last word of the SIGSYS part of siginfo (asm-generic/siginfo.h).
    if (frame.info.words[1] >> 32) as u32 == ARCH_I386 {
        sites::note_compat(t, after);
        // It may be one that ignores a fault, or blocks it.
        uaccess::end_direct(t);
        t.return_to.set(after);
        c.rip = entry::compat();
        return;
    }
    let number = u64::from(c.rax as u32);
    if t.library.get() != 0 {
        // In fast mode the host is patched after it has started, and the program before it.
        if PROCESS.mode() == Mode::Exhaustive {
            sites::caught(t, after, number);
        }
        return host_call(t, c);
    }
    if number == nr::RT_SIGRETURN && !dispatch::hook_wants(nr::RT_SIGRETURN) {
        sites::note_signal_return(t, after);
        virtualize::signal_return(t, c.rsp);
    }
    if t.bare.get() {
        return bare::begin(t, frame);
    }
    sites::caught(t, after, number);
    c.rcx = after;
    c.rip = if dispatch::rust_wants(number) { entry::enter() } else { entry::pass() };
}

/// A hook library, or its libc, made a call.
fn host_call(t: &Thread, c: &mut Context) {
    let args = [c.rdi, c.rsi, c.rdx, c.r10, c.r8, c.r9];
    match host::call(t, u64::from(c.rax as u32), args) {
        Ok(result) => {
            c.rax = result as u64;
            c.rcx = c.rip;
            c.r11 = c.flags;
        }
        Err(signal) => {
            library::faulted(t, signal, c);
        }
    }
}

/// What to do with a signal that interrupted agent code.
pub enum Settled {
    /// The context is the program's now.
    Program,
    /// A hook runs: the signal must wait.
    Hold,
}

/// Whether [`settle`] would not have the task wait, and would find all locks free that the task may
/// hold itself.
pub fn can_settle(t: &Thread, ip: u64) -> bool {
    let ways = [
        entry::pass()..entry::enter_saved(),
        entry::hook()..entry::hook_saved(),
        entry::gate_hooked()..entry::exit_saved(),
        entry::compat()..entry::bare_trap() + 1,
    ];
    t.library.get() == 0
        && (!(image::base()..image::end()).contains(&ip)
            || ways.iter().any(|way| way.contains(&ip))
            || t.phase.get() != Phase::Agent as u32)
}

/// Turns the interrupted state into one of the program's. `mask` becomes the signal mask
/// the interrupted call had set for its own duration, if any.
pub fn settle(t: &'static Thread, c: &mut Context, mask: &mut u64) -> Settled {
    let ip = c.rip;
    if t.library.get() != 0 {
        // A hook library's code, or what it called.
        return Settled::Hold;
    }
    if ip < image::base() || ip >= image::end() {
        // The program's own code, a trampoline, or a stub.
        sites::settle(c);
        return Settled::Program;
    }
    if ip >= entry::pass() && ip < entry::enter_any() {
        // The way of calls nobody wants to see.
        if ip <= entry::gate_pass() {
            let after = if ip == entry::pass() { c.rcx } else { t.return_to.get() };
            c.rip = sites::restart_address(after, c.rax);
        } else {
            c.rip = t.return_to.get();
            c.rcx = c.rip;
        }
        return Settled::Program;
    }
    if ip >= entry::enter_any() && ip <= entry::gate_any() {
        let after = if ip == entry::enter_any() { c.rcx } else { t.return_to.get() };
        c.rip = sites::restart_address(after, c.rax);
        return Settled::Program;
    }
    if ip > entry::gate_any() && ip < entry::enter() {
        c.rip = t.return_to.get();
        c.rcx = c.rip;
        return Settled::Program;
    }
    if ip >= entry::enter() && ip < entry::enter_saved() {
        if ip >= entry::enter_switched() {
            c.rsp = t.program_rsp.get();
        }
        c.rip = sites::restart_address(c.rcx, c.rax);
        return Settled::Program;
    }
    if ip >= entry::hook() && ip < entry::hook_saved() {
        // Still with the registers of the call, but for the stack pointer.
        let stub = if ip >= entry::hook_switched() {
            c.rsp = t.program_rsp.get();
            t.return_to.get()
        } else {
            c.rcx
        };
        // SAFETY: a stub leads here, with its call instruction in rcx.
        c.rip = sites::restart_address(unsafe { site_of_stub(stub) }, c.rax);
        return Settled::Program;
    }
    if ip >= entry::gate_hooked() && ip < entry::exit_saved() {
        let mut regs = t.saved().get();
        if ip == entry::gate_hooked() {
            let started = c.rcx != t.return_to.get();
            if started {
                dispatch::interrupted(t, c.rax == nr::RESTART_SYSCALL);
            } else {
                dispatch::cancelled(t);
            }
            // The kernel asks for a restart with the number it wants to see.
            if c.rax == nr::RESTART_SYSCALL {
                regs.rax = nr::RESTART_SYSCALL;
            }
            regs.rip = sites::restart_address(regs.rip, regs.rax);
        } else {
            if c.rax as i64 == errno::EINTR
                && let Some(temporary) = virtualize::temporary_mask(t)
            {
                *mask = temporary;
            }
            regs.rax = dispatch::finished(t, c.rax as i64) as u64;
        }
        regs.to_context(c);
        return Settled::Program;
    }
    if ip >= entry::compat() && ip < entry::bare() {
        c.rip = if ip == entry::compat() { t.return_to.get() - 2 } else { t.return_to.get() };
        return Settled::Program;
    }
    if ip >= entry::bare() && ip <= entry::bare_trap() {
        bare::settle(t, c);
        return Settled::Program;
    }
    match t.phase.get() {
        p if p == Phase::Call as u32 => {
            dispatch::cancelled(t);
            let mut regs = t.saved().get();
            regs.rip = sites::restart_address(regs.rip, regs.rax);
            regs.to_context(c);
            Settled::Program
        }
        p if p == Phase::Pass as u32 => {
            // C code has kept what the saved registers lack; their rip is the stub's.
            let kept = [c.rbx, c.rbp, c.r12, c.r13, c.r14, c.r15];
            let regs = t.saved().get();
            regs.to_context(c);
            [c.rbx, c.rbp, c.r12, c.r13, c.r14, c.r15] = kept;
            // SAFETY: as above.
            c.rip = sites::restart_address(unsafe { site_of_stub(regs.rip) }, regs.rax);
            Settled::Program
        }
        p if p == Phase::Boundary as u32 => {
            t.saved().get().to_context(c);
            Settled::Program
        }
        _ => Settled::Hold,
    }
}

/// Whether the processor raised it at the instruction it interrupted.
fn is_fault(info: &SignalInfo) -> bool {
    matches!(info.signo, SIGSEGV | SIGBUS | SIGFPE | SIGILL) && info.code > 0 && info.code < 0x80
}

/// Gives a signal to the program.
fn deliver(t: &'static Thread, frame: &mut SignalFrame) {
    let signal = frame.info.signo;
    PROCESS.counters().signals.fetch_add(1, Ordering::Relaxed);
    let from_filter = signal == SIGSYS && frame.info.code == SYS_SECCOMP;
    if from_filter && frame.info.errno == filter::STRICT_DATA {
        // Strict mode ends a task that does what it must not by SIGKILL.
        sys::call2(nr::KILL, t.pid.get() as u64, SIGKILL as u64);
    }
    let sigsys_open = t.sigsys_forced.get()
        || frame.uc.context.rip == entry::gate_hooked() + 2
            && virtualize::temporary_mask(t).is_some_and(|mask| mask & bit(SIGSYS) == 0);
    if signal == SIGSYS && t.sigsys_blocked.get() && !sigsys_open && !from_filter {
        // The kernel's mask never has SIGSYS, the program's has: keep it for later.
        if t.sigsys_pending.get().is_none() {
            t.sigsys_pending.set(Some(frame.info));
        }
        return;
    }
    let sigsys = if t.sigsys_blocked.get() { bit(SIGSYS) } else { 0 };
    let mut blocked = frame.uc.mask & !bit(SIGSYS) | sigsys;
    if from_filter && frame.uc.context.rip == entry::program_syscall() + 2 {
        // A filter of the program's refused a call that we made on its behalf: the call is
        // over, and what was held back for it goes on.
        task::stay(t);
        let mut regs = t.saved().get();
        regs.rax = dispatch::finished(t, frame.uc.context.rax as i64) as u64;
        regs.to_context(&mut frame.uc.context);
        if t.quiet.take() || t.held.get().is_some() {
            frame.uc.mask = t.held_mask.get();
        }
        if let Some(info) = t.take_held() {
            send_to_self(t, &info);
        }
        blocked = frame.uc.mask & !bit(SIGSYS) | sigsys;
    } else if let Settled::Hold = settle(t, &mut frame.uc.context, &mut blocked) {
        PROCESS.counters().deferred.fetch_add(1, Ordering::Relaxed);
        if t.held.get().is_some() || t.quiet.get() {
            // While a special call has signals blocked, or after one is held: leave it
            // pending in the kernel until the boundary.
            send_to_self(t, &frame.info);
        } else {
            t.hold(frame.info);
            t.held_mask.set(frame.uc.mask);
        }
        if t.library_stack.get() != 0 {
            host::all_blocked(t);
        }
        frame.uc.mask = ALL;
        return;
    }
    if from_filter {
        frame.info.words[0] = frame.uc.context.rip;
    }
    let mut action = action_of(t, signal);
    if from_filter && (t.sigsys_blocked.get() || action.handler == SIG_IGN) {
        // A forced signal that is blocked or ignored ends the process (force_sig_info_to_task).
        action = Action::DEFAULT;
    }
    let fatal = action.handler == SIG_DFL && ends_by_default(signal);
    trace::signal(t, &frame.info, fatal);
    match action.handler {
        SIG_IGN => frame.uc.context.rip = sites::resume_address(frame.uc.context.rip),
        SIG_DFL => default_action(t, frame),
        _ => {
            if action.flags & SA_RESETHAND != 0 {
                let reset = Action { handler: SIG_DFL, ..action };
                t.actions.get().table.lock()[signal as usize - 1] = Some(reset);
                if signal != SIGSYS {
                    set_kernel_action(t, signal, Some(&kernel_action(signal, &reset)), None);
                }
            }
            enter_handler(t, frame, &action, blocked);
        }
    }
}

/// Lets the kernel do what it does by default, with the program's registers in the frame:
/// what a core dump shows is the program.
fn default_action(t: &Thread, frame: &mut SignalFrame) {
    let signal = frame.info.signo;
    if !ends_by_default(signal) {
        frame.uc.context.rip = sites::resume_address(frame.uc.context.rip);
        return;
    }
    let fault = is_fault(&frame.info);
    let default = Action::DEFAULT;
    set_kernel_action(t, signal, Some(&default), None);
    frame.uc.mask &= !bit(signal);
    if !fault {
        // Pending until the frame's mask is loaded, which is after its registers.
        send_to_self(t, &frame.info);
    }
}

/// Sends a signal with these contents to the current task.
pub fn send_to_self(t: &Thread, info: &SignalInfo) {
    let info_at = core::ptr::from_ref(info) as u64;
    let (pid, tid, signal) = (t.pid.get() as u64, t.tid.get() as u64, info.signo as u64);
    if sys::call4(nr::RT_TGSIGQUEUEINFO, pid, tid, signal, info_at) < 0 {
        // No room in the queue (RLIMIT_SIGPENDING): better without its contents than not.
        sys::call4(nr::TGKILL, pid, tid, signal, 0);
    }
}

/// Whether `sp` lies on the program's alternate stack (`on_sig_stack`, linux/sched/signal.h).
pub fn on_program_stack(stack: &SignalStack, sp: u64) -> bool {
    stack.flags & SS_AUTODISARM == 0
        && stack.size != 0
        && sp > stack.sp
        && sp - stack.sp <= stack.size
}

/// Copies the frame to where the kernel would have put it and makes the original lead into
/// the handler (`x64_setup_rt_frame`, arch/x86/kernel/signal_64.c).
fn enter_handler(t: &Thread, frame: &mut SignalFrame, action: &Action, blocked: u64) {
    const RED_ZONE: u64 = 128;
    let signal = frame.info.signo;
    let stack = t.stack.get();
    let sp = frame.uc.context.rsp;
    let on_stack = on_program_stack(&stack, sp);
    let wants_stack = action.flags & SA_ONSTACK != 0 && stack.size != 0;
    let entering = wants_stack && !on_program_stack(&stack, sp - RED_ZONE);
    let mut top = if entering { stack.sp + stack.size } else { sp - RED_ZONE };

    // SAFETY: `fpstate` is what the kernel put into this frame.
    let state = unsafe { extended_state_size(frame.uc.context.fpstate) };
    let state_at = (top - state as u64) & !63;
    if state != 0 {
        top = state_at;
    }
    let at = ((top - size_of::<SignalFrame>() as u64) & !15) - 8;
    if (entering || on_stack) && at <= stack.sp {
        // The alternate stack overflows: the kernel would force SIGSEGV.
        frame.info = SignalInfo { signo: SIGSEGV, code: 0x80, ..SignalInfo::EMPTY };
        return default_action(t, frame);
    }

    let mut copy = *frame;
    copy.return_to = action.restorer;
    copy.uc.stack = stack;
    copy.uc.mask &= !bit(SIGSYS);
    if t.sigsys_blocked.get() {
        copy.uc.mask |= bit(SIGSYS);
    }
    if state != 0 {
        copy.uc.context.fpstate = state_at;
        // SAFETY: copies the kernel's frame to the program's stack, where the kernel would
        // have written it; if that faults, SIGSEGV is blocked and the kernel ends the
        // program with it, as it does when it cannot write a frame.
        unsafe {
            core::ptr::copy_nonoverlapping(
                frame.uc.context.fpstate as *const u8,
                state_at as *mut u8,
                state,
            );
        }
    }
    // SAFETY: as above.
    unsafe { (at as *mut SignalFrame).write(copy) };
    if wants_stack && stack.flags & SS_AUTODISARM != 0 {
        t.stack.set(SignalStack { flags: SS_DISABLE, ..SignalStack::default() });
    }

    let mut mask = blocked | action.mask;
    if action.flags & SA_NODEFER == 0 {
        mask |= bit(signal);
    }
    t.sigsys_blocked.set(mask & bit(SIGSYS) != 0);
    let c = &mut frame.uc.context;
    c.rip = action.handler;
    c.rsp = at;
    c.rdi = signal as u64;
    c.rsi = at + core::mem::offset_of!(SignalFrame, info) as u64;
    c.rdx = at + core::mem::offset_of!(SignalFrame, uc) as u64;
    c.rax = 0;
    c.flags &= !(DIRECTION | RESUME | TRAP);
    // A handler starts with fresh vector state; no state in the frame does that.
    c.fpstate = 0;
    frame.uc.mask = mask & !bit(SIGSYS) & !UNBLOCKABLE;
}

const TRAP: u64 = 1 << 8;
const DIRECTION: u64 = 1 << 10;
const RESUME: u64 = 1 << 16;

/// At a boundary of the program's: raises what was held back and goes to `mask`. The
/// kernel delivers it at once, and [`settle`] shows the handler the saved registers.
pub fn release_held(t: &Thread, mask: u64) {
    if let Some(info) = t.take_held() {
        send_to_self(t, &info);
    }
    sys::set_mask(t, mask & !bit(SIGSYS));
}

const PR_SET_SYSCALL_USER_DISPATCH: u64 = 59;

/// Arms Syscall User Dispatch for the current task: every call outside the gate is caught.
pub fn arm(mode: Mode) -> i64 {
    const PR_SYS_DISPATCH_ON: u64 = 1;
    if mode == Mode::Fast {
        return 0;
    }
    let (start, end) = entry::gate();
    sys::call(
        nr::PRCTL,
        [PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, start, end - start, 0, 0],
    )
}

/// Ends what [`arm`] began, for the current task. Fails where the kernel has no dispatch.
pub fn disarm() -> i64 {
    sys::call(nr::PRCTL, [PR_SET_SYSCALL_USER_DISPATCH, 0, 0, 0, 0, 0])
}

/// `si_code` and `si_errno` of the SIGSYS by which a task makes the others arm themselves.
const RECRUIT: i32 = -0x5713;
/// How many have done so since the process started.
static RECRUITED: AtomicU32 = AtomicU32::new(0);

/// Arms every other task of this address space too, when the process leaves fast mode:
/// what a scan did not find must be caught in all of them. Waits for those that run.
pub fn arm_all(t: &Thread) {
    arm(Mode::Exhaustive);
    let before = RECRUITED.load(Ordering::Acquire);
    let mut called = 0;
    t.for_each_other(|other| {
        if other.pid != t.pid {
            return;
        }
        let info = SignalInfo { signo: SIGSYS, errno: RECRUIT, code: RECRUIT, ..SignalInfo::EMPTY };
        let at = core::ptr::from_ref(&info) as u64;
        let (pid, tid) = (other.pid.get() as u64, other.tid.get() as u64);
        if sys::call4(nr::RT_TGSIGQUEUEINFO, pid, tid, SIGSYS as u64, at) == 0 {
            called += 1;
        }
    });
    // A task that does not answer is ending, or stopped; it will before it goes on.
    for _ in 0..100 {
        let now = RECRUITED.load(Ordering::Acquire);
        if now.wrapping_sub(before) >= called {
            break;
        }
        sys::futex_wait(&RECRUITED, now, 10);
    }
}

/// Another task has called: see [`arm_all`].
fn recruited(frame: &mut SignalFrame) {
    arm(Mode::Exhaustive);
    let c = &mut frame.uc.context;
    // A call that does not begin again by itself does so here, where its number is known.
    if c.rip == entry::gate_hooked() + 2 && c.rax as i64 == errno::EINTR {
        // SAFETY: the frame lies on the signal stack of its task.
        let t = unsafe { Thread::of_signal_stack(core::ptr::from_ref(c) as u64) };
        c.rip = entry::gate_hooked();
        c.rax = t.nr.get();
        c.rcx = t.return_to.get();
    }
    RECRUITED.fetch_add(1, Ordering::Release);
    sys::futex_wake(&RECRUITED);
}

/// Everything the kernel must be told for a task that starts: signal stack, handlers where
/// they were cleared, dispatch.
pub fn adopt(t: &'static Thread, fresh_handlers: bool) {
    take_signal_stack(t);
    if fresh_handlers {
        take_sigsys(t);
        take_defaults(t);
    }
    if !t.bare.get() {
        task::point_gs_here(t);
    }
    arm(PROCESS.mode());
}
