//! The way of one call through the agent: who wants to see it, the hook's turn before and
//! after, and the calls that the agent must treat itself.
//!
//! Owns: the table of interest that the entry code reads, the order of the steps. Never
//! does: the special calls themselves (`virtualize.rs`, `task.rs`), nor what the hook does
//! with a call (`trace.rs`). The entry code (`arch/x86_64/entry.rs`) calls [`enter`] and
//! [`exit`].

use core::ops::Range;
use core::sync::atomic::{AtomicU8, Ordering};

use crossgate_hook::{Action, Call, Hook};
use crossgate_syscalls::{Behaviour, plan};
use crossgate_wire::arena::{CALLS, INTEREST_HOOK};

use crate::arch::x86_64::frame::Regs;
use crate::inject::Inject;
use crate::library::{self, Libraries};
use crate::process::PROCESS;
use crate::signals;
use crate::sites;
use crate::sys;
use crate::thread::{Phase, Thread};
use crate::trace::Trace;
use crate::uaccess;
use crate::virtualize::{self, Outcome};

/// Indexed by a call number's low 16 bits: non-zero when Rust must see the call. Numbers
/// above that alias; none of them exists, and [`enter`] looks at all of the number. Pages
/// of it that nobody writes cost nothing.
static INTEREST: [AtomicU8; 1 << 16] = [const { AtomicU8::new(0) }; 1 << 16];

/// Numbers that a kernel with the x32 interface answers; nobody looks at what they do.
const X32: Range<u64> = 0x4000_0000..0x4000_0000 + CALLS as u64;

/// Calls that do not come back.
const ENDS: Behaviour = Behaviour::ENDS_TASK.with(Behaviour::ENDS_PROCESS);

const HOOK: u8 = 1;
const AGENT: u8 = 2;
/// Nobody but one simple hook library wants to see the call.
const LIBRARY: u8 = 4;

/// What the agent must see for its own sake, whatever the hook wants.
const OWN: Behaviour = Behaviour::CREATES_TASK
    .with(Behaviour::EXECUTES)
    .with(ENDS)
    .with(Behaviour::SIGNAL_ACTION)
    .with(Behaviour::SIGNAL_MASK)
    .with(Behaviour::SIGNAL_STACK)
    .with(Behaviour::SIGNAL_RETURN)
    .with(Behaviour::SIGNAL_PENDING)
    .with(Behaviour::MASK_ARGUMENT)
    .with(Behaviour::MASK_STRUCT)
    .with(Behaviour::WAITS_SIGNAL)
    .with(Behaviour::SEGMENT_BASE)
    .with(Behaviour::PROCESS_CONTROL)
    .with(Behaviour::FILTERS)
    .with(Behaviour::MAPS)
    .with(Behaviour::NAMESPACES)
    .with(Behaviour::TRACES);

/// Start of the table, for the entry code.
pub fn interest_table() -> *const u8 {
    INTEREST.as_ptr().cast()
}

/// Fills the table from what the hook asked for and what the agent needs.
pub fn fill_interest() {
    let wanted = &PROCESS.control().interest;
    for (nr, slot) in INTEREST.iter().take(CALLS).enumerate() {
        let hook = if wanted[nr] == INTEREST_HOOK { HOOK } else { 0 };
        let own = if is_agents(nr as u64) { AGENT } else { 0 };
        if hook | own != 0 {
            slot.store(hook | own, Ordering::Relaxed);
        }
    }
}

/// A hook library wants to see call `nr`; the last number also stands for those that do not
/// exist.
pub fn subscribe(nr: usize) {
    let Some(slot) = INTEREST.get(nr) else { return };
    let exists = nr < CALLS - 1;
    let only = exists && slot.load(Ordering::Relaxed) & AGENT == 0 && library::is_simple();
    slot.fetch_or(HOOK | if only { LIBRARY } else { 0 }, Ordering::Relaxed);
}

/// Whether nobody but one simple hook library wants to see this call.
pub fn only_library_wants(nr: u64) -> bool {
    INTEREST.get(nr as usize).is_some_and(|slot| slot.load(Ordering::Relaxed) & LIBRARY != 0)
}

/// Whether the hook wants to see every call, also those with numbers that do not exist.
pub fn hook_wants_all() -> bool {
    INTEREST[CALLS - 1].load(Ordering::Relaxed) & HOOK != 0
}

/// Whether the hook wants to see this call.
pub fn hook_wants(nr: u64) -> bool {
    match INTEREST.get(nr as usize) {
        Some(slot) if (nr as usize) < CALLS => slot.load(Ordering::Relaxed) & HOOK != 0,
        _ => hook_wants_all(),
    }
}

/// Whether the agent must see this call for its own sake.
pub fn is_agents(nr: u64) -> bool {
    plan::behaviour(nr).has_any(OWN)
}

/// Whether this call must come to Rust.
pub fn rust_wants(nr: u64) -> bool {
    match INTEREST.get(nr as usize) {
        Some(slot) if (nr as usize) < CALLS => slot.load(Ordering::Relaxed) != 0,
        _ => hook_wants_all() || X32.contains(&nr),
    }
}

/// The hook of this tree.
struct Chosen;

impl Hook<Thread> for Chosen {
    fn enter(&self, t: &Thread, call: &mut Call) -> Action {
        if PROCESS.traces() {
            Trace.enter(t, call)
        } else if PROCESS.injects() {
            Inject.enter(t, call)
        } else {
            Libraries.enter(t, call)
        }
    }

    fn exit(&self, t: &Thread, call: &Call, result: i64) -> i64 {
        if PROCESS.traces() {
            Trace.exit(t, call, result)
        } else if PROCESS.injects() {
            Inject.exit(t, call, result)
        } else {
            Libraries.exit(t, call, result)
        }
    }

    fn cancelled(&self, t: &Thread) {
        if PROCESS.traces() {
            Trace.cancelled(t);
        } else if PROCESS.injects() {
            Inject.cancelled(t);
        } else {
            Libraries.cancelled(t);
        }
    }
}

fn call_of(regs: &Regs) -> Call {
    // The kernel looks at 32 bits of rax (do_syscall_64, arch/x86/entry/common.c).
    Call { nr: u64::from(regs.rax as u32), args: regs.args(), site: regs.rip - 2 }
}

/// A call begins. Returns 0 when the kernel is to have it (number and arguments are then in
/// the thread block), else the registers hold the answer.
///
/// # Safety
/// Called by the entry code with the registers it saved and the current task's block.
pub unsafe extern "C" fn enter(regs: *mut Regs, t: *const Thread) -> u32 {
    // SAFETY: see above; the registers lie on this task's agent stack.
    let (regs, t) = unsafe { (&mut *regs, &*t) };
    let outcome = begin(t, regs, None);
    conclude(t, regs, outcome)
}

/// The hook library on the way of `cg_hook` has said what becomes of a call (one of
/// `crossgate_wire::hooks`), or could not be asked; `call` is as it left it. Gives what
/// [`enter`] gives.
///
/// # Safety
/// As [`enter`]; `call` lies on the same stack.
pub unsafe extern "C" fn decided(
    regs: *mut Regs,
    t: *const Thread,
    action: u32,
    call: *const Call,
    result: i64,
) -> u32 {
    // SAFETY: as in `enter`.
    let (regs, t, call) = unsafe { (&mut *regs, &*t, *call) };
    let seen = call_of(regs);
    t.nr.set(seen.nr);
    t.args.set(seen.args);
    t.hooked.set(!t.silent.get());
    let outcome = match Libraries::first_decided(t, i64::from(action as i32), result) {
        Some(Action::Answer(result)) => Outcome::Result(result),
        Some(Action::Continue) => proceed(t, regs, call, None),
        None => proceed(t, regs, seen, None),
    };
    conclude(t, regs, outcome)
}

fn conclude(t: &'static Thread, regs: &mut Regs, outcome: Outcome) -> u32 {
    match outcome {
        Outcome::Result(result) => {
            regs.rax = finished(t, result) as u64;
            to_boundary(t);
            1
        }
        Outcome::Again => {
            again(t, regs);
            1
        }
        Outcome::Call => {
            t.set_phase(Phase::Call);
            if t.held.get().is_none() {
                return 0;
            }
            // A signal came while the hook had the call: it goes first, and the call
            // begins again when its handler returns to the site.
            t.set_phase(Phase::Agent);
            again(t, regs);
            1
        }
    }
}

/// The call begins again, after the signals that came have been delivered.
fn again(t: &Thread, regs: &mut Regs) {
    cancelled(t);
    regs.rip = sites::restart_address(regs.rip, regs.rax);
    to_boundary(t);
}

/// The hook's turn and the agent's own, before a call. `handler_mask` is the program's mask
/// where this runs in a signal handler, with every signal blocked already.
pub fn begin(t: &'static Thread, regs: &mut Regs, handler_mask: Option<&mut u64>) -> Outcome {
    let mut call = call_of(regs);
    let may_block = handler_mask.is_none();
    if may_block && plan::behaviour(call.nr).has_any(ENDS) {
        // The hook hears of a last call once: no signal may come between it and the kernel.
        block_signals(t);
        if t.held.get().is_some() {
            return Outcome::Again;
        }
    }
    t.hooked.set(hook_wants(call.nr) && !t.silent.get());
    t.nr.set(call.nr);
    t.args.set(call.args);
    let answer = if t.hooked.get() { Chosen.enter(t, &mut call) } else { Action::Continue };
    if let Action::Answer(result) = answer {
        return Outcome::Result(result);
    }
    proceed(t, regs, call, handler_mask)
}

/// What comes after the hook's turn: the agent's own, with the call as the hook has left it.
fn proceed(
    t: &'static Thread,
    regs: &mut Regs,
    mut call: Call,
    handler_mask: Option<&mut u64>,
) -> Outcome {
    let may_block = handler_mask.is_none();
    t.nr.set(call.nr);
    t.args.set(call.args);
    if X32.contains(&call.nr) {
        // It may be one that ignores a fault, or blocks it.
        uaccess::end_direct(t);
    }
    let behaviour = plan::behaviour(call.nr);
    if !behaviour.has_any(OWN) {
        return Outcome::Call;
    }
    if !virtualize::needs_quiet(behaviour, &call) {
        return virtualize::adjust(t, behaviour, &mut call);
    }
    if let Some(mask) = handler_mask {
        return virtualize::special(t, behaviour, regs, mask);
    }
    if may_block && !t.quiet.get() {
        block_signals(t);
    }
    let mut mask = t.held_mask.get();
    let outcome = virtualize::special(t, behaviour, regs, &mut mask);
    t.held_mask.set(mask);
    outcome
}

/// From here on no signal comes in the middle of the call; the program's mask travels in
/// `held_mask` and is loaded at the boundary, where a signal finds the call done.
fn block_signals(t: &Thread) {
    let found = sys::set_mask(t, signals::closed());
    if t.held.get().is_none() {
        t.held_mask.set(found);
    }
    t.quiet.set(true);
}

/// A call ended in the kernel.
///
/// # Safety
/// As [`enter`]; `regs.rax` is the result.
pub unsafe extern "C" fn exit(regs: *mut Regs, t: *const Thread) {
    // SAFETY: as in `enter`.
    let (regs, t) = unsafe { (&mut *regs, &*t) };
    regs.rax = finished(t, regs.rax as i64) as u64;
    to_boundary(t);
}

/// The hook's turn after a call; gives the result the program sees.
pub fn finished(t: &Thread, result: i64) -> i64 {
    virtualize::after(t, result);
    if !t.hooked.take() {
        return result;
    }
    let call = Call { nr: t.nr.get(), args: t.args.get(), site: t.return_to.get() - 2 };
    Chosen.exit(t, &call, result)
}

/// The call did not reach the kernel.
pub fn cancelled(t: &Thread) {
    t.watch.set(false);
    virtualize::end_temporary_mask(t);
    if t.hooked.take() {
        Chosen.cancelled(t);
    }
}

/// The kernel interrupted the call for a signal and wants it to begin again.
pub fn interrupted(t: &Thread, by_restart_call: bool) {
    const ERESTARTSYS: i64 = -512;
    const ERESTART_RESTARTBLOCK: i64 = -516;
    finished(t, if by_restart_call { ERESTART_RESTARTBLOCK } else { ERESTARTSYS });
}

/// The saved registers are what the program sees next.
fn to_boundary(t: &Thread) {
    t.set_phase(Phase::Boundary);
    if t.quiet.take() || t.held.get().is_some() {
        signals::release_held(t, t.held_mask.get());
    }
}
