//! Asking the supervisor for something, through a request slot and two futexes.
//!
//! Owns: taking and giving back slots, and noticing that the supervisor is gone, in which
//! case everything goes on without it.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crossgate_wire::RequestKind;
use crossgate_wire::arena::{REQUEST_ANSWERED, REQUEST_FREE, REQUEST_SENT, REQUEST_TAKEN, Request};

use crate::process::PROCESS;
use crate::sys::{self, errno, nr};
use crate::thread::Thread;

/// The supervisor's heartbeat has stood still for too long.
static GONE: AtomicBool = AtomicBool::new(false);

/// A supervisor that does not move for this many waits of a second is taken for dead. It
/// moves at least once a second unless the machine is very loaded.
const PATIENCE: u32 = 10;

/// Whether the supervisor is gone.
pub fn supervisor_gone() -> bool {
    GONE.load(Ordering::Relaxed)
}

/// Waits for `word` to leave `value`, and notices a dead supervisor. False when it is dead.
pub fn wait_for_supervisor(word: &AtomicU32, value: u32) -> bool {
    let control = PROCESS.control();
    let mut beat = control.heartbeat.load(Ordering::Relaxed);
    let mut still = 0;
    while word.load(Ordering::Acquire) == value {
        if supervisor_gone() {
            return false;
        }
        sys::futex_wait(word, value, 1000);
        let now = control.heartbeat.load(Ordering::Relaxed);
        still = if now == beat { still + 1 } else { 0 };
        beat = now;
        if still > PATIENCE && word.load(Ordering::Acquire) == value {
            GONE.store(true, Ordering::Relaxed);
            return false;
        }
    }
    true
}

/// Rings for the supervisor.
pub fn ring_doorbell() {
    let doorbell = &PROCESS.control().doorbell;
    doorbell.fetch_add(1, Ordering::Release);
    sys::futex_wake(doorbell);
}

fn take_slot() -> Option<&'static Request> {
    let slots = &PROCESS.control().requests;
    loop {
        for slot in slots {
            let (free, taken) = (REQUEST_FREE, REQUEST_TAKEN);
            let state = &slot.state;
            if state.compare_exchange(free, taken, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                return Some(slot);
            }
        }
        if supervisor_gone() {
            return None;
        }
        sys::call2(nr::SCHED_YIELD, 0, 0);
    }
}

fn send(t: &Thread, kind: RequestKind, args: [u64; 4], waits: bool) -> Option<&'static Request> {
    let slot = take_slot()?;
    slot.kind.store(kind as u32, Ordering::Relaxed);
    slot.pid.store(t.outer_pid.get(), Ordering::Relaxed);
    slot.tid.store(t.outer_tid.get(), Ordering::Relaxed);
    for (word, value) in slot.args.iter().zip(args) {
        word.store(value, Ordering::Relaxed);
    }
    slot.wants_answer.store(u32::from(waits), Ordering::Relaxed);
    slot.state.store(REQUEST_SENT, Ordering::Release);
    Some(slot)
}

/// Asks and waits. Gives the answer, or `-ESRCH` when there is no supervisor any more.
pub fn ask(t: &Thread, kind: RequestKind, args: [u64; 4]) -> i64 {
    ask_with(t, kind, args, |_| {})
}

/// As [`ask`]; `look` sees the slot's data before it is given back.
pub fn ask_with(t: &Thread, kind: RequestKind, args: [u64; 4], look: impl FnOnce(&Request)) -> i64 {
    if supervisor_gone() {
        return errno::ESRCH;
    }
    let Some(slot) = send(t, kind, args, true) else { return errno::ESRCH };
    ring_doorbell();
    if !wait_for_supervisor(&slot.state, REQUEST_SENT) {
        let (sent, free) = (REQUEST_SENT, REQUEST_FREE);
        let _ = slot.state.compare_exchange(sent, free, Ordering::Release, Ordering::Relaxed);
        return errno::ESRCH;
    }
    let mut answer = errno::ESRCH;
    if slot.state.load(Ordering::Acquire) == REQUEST_ANSWERED {
        answer = slot.result.load(Ordering::Relaxed) as i64;
        look(slot);
    }
    slot.state.store(REQUEST_FREE, Ordering::Release);
    answer
}

/// Tells and does not wait.
pub fn tell(t: &Thread, kind: RequestKind, args: [u64; 4]) {
    if !supervisor_gone() {
        send(t, kind, args, false);
        ring_doorbell();
    }
}

/// Tells what the supervisor need not know before it wakes up anyway; wakes it only when
/// the slots run short.
pub fn leave_word(t: &Thread, kind: RequestKind, args: [u64; 4]) {
    if !supervisor_gone() {
        let Some(slot) = send(t, kind, args, false) else { return };
        let first = &raw const PROCESS.control().requests[0];
        // SAFETY: both point into the same array.
        let index = unsafe { (&raw const *slot).offset_from(first) };
        if index as usize > PROCESS.control().requests.len() / 2 {
            ring_doorbell();
        }
    }
}
