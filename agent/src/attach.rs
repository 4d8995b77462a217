//! Joining a program that runs already, and leaving it so that nothing remains.
//!
//! Owns: the steps by which that is done (`crossgate_wire::attach`). All tasks are stopped by the
//! supervisor, which has one of them at a time run [`step`], on the stack of the image, and gives it its
//! registers back afterwards. Never does: decide when; `launch/src/attach.rs` does.

use core::cell::UnsafeCell;

use crossgate_wire::attach::{Exchange, Registers, Step};

use crate::arch::x86_64::entry;
use crate::arch::x86_64::frame::{Context, SignalStack};
use crate::arch::x86_64::segment;
use crate::image::Stage;
use crate::process::PROCESS;
use crate::signals::{self, Action, Settled, bit, number::*};
use crate::sys::{self, errno, nr};
use crate::thread::Thread;
use crate::{dispatch, image, sites, start, task, trace};

/// What the supervisor tells, and is told.
#[repr(transparent)]
struct Shared(UnsafeCell<Exchange>);

// SAFETY: one task at a time looks at it, while all others are stopped.
unsafe impl Sync for Shared {}

static EXCHANGE: Shared = Shared(UnsafeCell::new(Exchange {
    step: 0,
    tid: 0,
    mask: 0,
    tasks: 0,
    registers: Registers {
        r15: 0,
        r14: 0,
        r13: 0,
        r12: 0,
        rbp: 0,
        rbx: 0,
        r11: 0,
        r10: 0,
        r9: 0,
        r8: 0,
        rax: 0,
        rcx: 0,
        rdx: 0,
        rsi: 0,
        rdi: 0,
        rip: 0,
        flags: 0,
        rsp: 0,
    },
}));

/// The agent has its memory: tells the supervisor where the steps begin, and waits for the first one.
pub fn prepare(stack: u64) -> ! {
    PROCESS.set_growth(sys::call2(nr::BRK, 0, 0) as u64, stack);
    dispatch::fill_interest();
    loop {
        start::stop(Stage::Attached, EXCHANGE.0.get() as u64, entry::step());
    }
}

/// Does a step.
///
/// # Safety
/// Called by the entry code while all other tasks are stopped.
pub unsafe extern "C" fn step() -> ! {
    // SAFETY: as the caller says.
    let exchange = unsafe { &mut *EXCHANGE.0.get() };
    let own = || Thread::find(sys::call2(nr::GETTID, 0, 0) as i32).ok_or(errno::ESRCH);
    let done = match exchange.step {
        step if step == Step::Look as u64 => look(),
        step if step == Step::JoinProgram as u64 => own().map(|t| join_program(t, exchange)),
        step if step == Step::Join as u64 => join(exchange),
        step if step == Step::Calm as u64 => own().and_then(|t| calm(t, &exchange.registers)),
        step if step == Step::Settle as u64 => own().and_then(|t| settle(t, exchange)),
        step if step == Step::Revert as u64 => own().and_then(revert),
        step if step == Step::Leave as u64 => own().map(|t| leave(t, exchange)),
        step if step == Step::LeaveProgram as u64 => own().map(leave_program),
        _ => Err(errno::EINVAL),
    };
    loop {
        start::stop(Stage::Done, done.err().unwrap_or(0) as u64, 0);
    }
}

/// A task whose alternate stack is in use cannot get ours.
fn look() -> Result<(), i64> {
    const SS_ONSTACK: u32 = 1;
    let mut stack = SignalStack::default();
    sys::call2(nr::SIGALTSTACK, 0, (&raw mut stack) as u64);
    if stack.flags & SS_ONSTACK != 0 { Err(errno::EAGAIN) } else { Ok(()) }
}

fn signals_of_program() -> impl Iterator<Item = i32> {
    (1..=signals::SIGNALS as i32).filter(|&signal| signal != SIGKILL && signal != SIGSTOP)
}

fn join_program(t: &Thread, exchange: &Exchange) {
    PROCESS.set_threads(exchange.tasks > 1);
    for signal in signals_of_program() {
        let mut action = Action::DEFAULT;
        signals::set_kernel_action(t, signal, None, Some(&mut action));
        if !action.is_handler() && signal != SIGSYS {
            if action.handler == 0 {
                signals::take_default(t, signal);
            }
            continue;
        }
        t.actions.get().table.lock()[signal as usize - 1] = Some(action);
        let ours = signals::kernel_action(signal, &action);
        signals::set_kernel_action(t, signal, Some(&ours), None);
    }
    signals::take_sigsys(t);
    PROCESS.counters().execs.fetch_add(1, core::sync::atomic::Ordering::Relaxed);
}

fn join(exchange: &Exchange) -> Result<(), i64> {
    let (pid, tid) = (sys::call2(nr::GETPID, 0, 0) as i32, sys::call2(nr::GETTID, 0, 0) as i32);
    let t = match Thread::find(tid) {
        // The one that started the agent.
        Some(t) => t,
        None => Thread::new(pid).ok_or(errno::ENOMEM)?,
    };
    t.tid.set(tid);
    t.outer_pid.set(Thread::of_index(0).outer_pid.get());
    t.outer_tid.set(exchange.tid as i32);
    t.actions.get().share();
    let (ours, mut stack) = (t.signal_stack(), SignalStack::default());
    let taken = sys::call2(nr::SIGALTSTACK, (&raw const ours) as u64, (&raw mut stack) as u64);
    if taken < 0 {
        return Err(taken);
    }
    t.stack.set(stack);
    t.sigsys_blocked.set(exchange.mask & bit(SIGSYS) != 0);
    task::point_gs_here(t);
    trace::task_started(t, 0);
    let armed = signals::arm(PROCESS.mode());
    if armed < 0 { Err(armed) } else { Ok(()) }
}

fn calm(t: &Thread, registers: &Registers) -> Result<(), i64> {
    // In a handler of the agent's, the phase is that of what the handler has interrupted.
    let stack = t.signal_stack();
    let in_handler = registers.rsp.wrapping_sub(stack.sp) <= stack.size;
    let waits = t.quiet.get() || t.holds.get() != 0 || t.bare.get();
    if in_handler || waits || !signals::can_settle(t, registers.rip) {
        return Err(errno::EAGAIN);
    }
    Ok(())
}

fn settle(t: &'static Thread, exchange: &mut Exchange) -> Result<(), i64> {
    let mut context = context_of(&exchange.registers);
    // What the call under way had set for itself ends with it.
    let mut mask = exchange.mask;
    match signals::settle(t, &mut context, &mut mask) {
        Settled::Hold => Err(errno::EAGAIN),
        Settled::Program => {
            exchange.registers = registers_of(&context);
            Ok(())
        }
    }
}

/// EACCES when some code cannot be written any more, EBUSY when the memory is another process's, too.
fn revert(t: &Thread) -> Result<(), i64> {
    const EBUSY: i64 = -16;
    let mut shared = false;
    t.for_each_other(|other| shared |= other.pid != t.pid);
    if shared {
        return Err(EBUSY);
    }
    PROCESS.end_patches();
    if sites::revert(0, u64::MAX) { Ok(()) } else { Err(errno::EACCES) }
}

fn leave(t: &Thread, exchange: &mut Exchange) {
    signals::disarm();
    // SAFETY: the program has none of its own, or it would be a bare task.
    unsafe { segment::set_gs_base(0) };
    let stack = t.stack.get();
    sys::call2(nr::SIGALTSTACK, (&raw const stack) as u64, 0);
    exchange.mask &= !bit(SIGSYS);
    if t.sigsys_blocked.get() {
        exchange.mask |= bit(SIGSYS);
    }
    if let Some(info) = t.sigsys_pending.take() {
        signals::send_to_self(t, &info);
    }
    trace::task_leaves(t);
    t.actions.get().drop_user();
}

fn leave_program(t: &Thread) {
    for signal in signals_of_program() {
        let own = signals::action_of(t, signal);
        let mut action = Action::DEFAULT;
        signals::set_kernel_action(t, signal, None, Some(&mut action));
        if action.handler == entry::on_signal() || action.handler == entry::on_sigsys() {
            // What is not in the table was the default.
            let own = if own.handler == entry::on_signal() { Action::DEFAULT } else { own };
            signals::set_kernel_action(t, signal, Some(&own), None);
        }
    }
    sites::unmap_trampolines();
    let (arena, len) = (image::arena(), PROCESS.arena_len());
    Thread::unmap_all();
    sys::call2(nr::MUNMAP, arena, len);
}

fn context_of(r: &Registers) -> Context {
    Context {
        r8: r.r8,
        r9: r.r9,
        r10: r.r10,
        r11: r.r11,
        r12: r.r12,
        r13: r.r13,
        r14: r.r14,
        r15: r.r15,
        rdi: r.rdi,
        rsi: r.rsi,
        rbp: r.rbp,
        rbx: r.rbx,
        rdx: r.rdx,
        rax: r.rax,
        rcx: r.rcx,
        rsp: r.rsp,
        rip: r.rip,
        flags: r.flags,
        ..Context::default()
    }
}

fn registers_of(c: &Context) -> Registers {
    Registers {
        r15: c.r15,
        r14: c.r14,
        r13: c.r13,
        r12: c.r12,
        rbp: c.rbp,
        rbx: c.rbx,
        r11: c.r11,
        r10: c.r10,
        r9: c.r9,
        r8: c.r8,
        rax: c.rax,
        rcx: c.rcx,
        rdx: c.rdx,
        rsi: c.rsi,
        rdi: c.rdi,
        rip: c.rip,
        flags: c.flags,
        rsp: c.rsp,
    }
}
