//! Programs that use %gs themselves. The entry code finds a thread block by %gs, so for such
//! a program no trampoline can work: every call of the task goes by two signals, one before
//! and one after. Slow, and exact.
//!
//! Owns: the change to this way (when the program sets its %gs base) and the way itself.
//! The call is made by `cg_bare` with the program's registers; the second call instruction
//! behind it lies outside the allowed range and brings us back with the result in rax.

use crossgate_wire::arena::Mode;

use crate::arch::x86_64::entry;
use crate::arch::x86_64::frame::{Context, Regs, SignalFrame};
use crate::arch::x86_64::segment;
use crate::dispatch;
use crate::process::PROCESS;
use crate::signals;
use crate::sites;
use crate::sys::{self, nr};
use crate::thread::{Phase, Thread};
use crate::virtualize::Outcome;

/// `arch_prctl(ARCH_SET_GS, base)`.
pub fn take_over(t: &'static Thread, args: [u64; 6]) -> i64 {
    if !t.bare.get() {
        PROCESS.end_patches();
        // No task may escape: it is caught before its sites are no longer patched.
        if PROCESS.mode() == Mode::Fast {
            PROCESS.set_exhaustive();
            signals::arm_all(t);
        }
        sites::revert(0, u64::MAX);
        t.bare.set(true);
    }
    let result = sys::on_behalf(nr::ARCH_PRCTL, args);
    if result == 0 {
        // SAFETY: the program's own value, for its own use; this task no longer needs ours.
        unsafe { segment::set_gs_base(args[1]) };
    }
    result
}

/// A call of a bare task was caught.
pub fn begin(t: &'static Thread, frame: &mut SignalFrame) {
    let mut regs = Regs::from_context(&frame.uc.context);
    t.saved().set(regs);
    t.bare_return.set(regs.rip);
    t.return_to.set(regs.rip);
    t.set_phase(Phase::Boundary);
    match dispatch::begin(t, &mut regs, Some(&mut frame.uc.mask)) {
        Outcome::Result(result) => {
            regs.rax = dispatch::finished(t, result) as u64;
            regs.to_context(&mut frame.uc.context);
        }
        Outcome::Again => {
            dispatch::cancelled(t);
            frame.uc.context.rip = regs.rip - 2;
        }
        Outcome::Call => {
            let c = &mut frame.uc.context;
            [c.rdi, c.rsi, c.rdx, c.r10, c.r8, c.r9] = t.args.get();
            c.rax = t.nr.get();
            c.rip = entry::bare();
        }
    }
}

/// The call has been made: `c` holds its result.
pub fn complete(t: &Thread, c: &mut Context) {
    let mut regs = t.saved().get();
    regs.rip = t.bare_return.get();
    regs.rax = dispatch::finished(t, c.rax as i64) as u64;
    regs.to_context(c);
}

/// A signal came around the call.
pub fn settle(t: &Thread, c: &mut Context) {
    if c.rip == entry::bare() {
        let restarts = c.rax == nr::RESTART_SYSCALL;
        dispatch::interrupted(t, restarts);
        let mut regs = t.saved().get();
        if restarts {
            regs.rax = nr::RESTART_SYSCALL;
        }
        regs.rip = t.bare_return.get() - 2;
        regs.to_context(c);
    } else {
        complete(t, c);
    }
}
