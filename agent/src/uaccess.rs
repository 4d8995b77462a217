//! Reading and writing the program's memory, wherever its pointers lead.
//!
//! Owns: the two ways to read. `process_vm_readv`/`process_vm_writev` on ourselves report
//! EFAULT where a plain access would kill the program, but take most of a microsecond. A
//! plain copy (`arch/x86_64/copy.rs`) takes a few nanoseconds; where it meets a signal of
//! any kind, a fault or not, it ends, and the kernel is asked for the rest. So what can be
//! read is always what the kernel says.
//!
//! A fault that is blocked or ignored kills the process, whatever the handler. So memory is
//! read directly only while it cannot be either:
//!
//! - the wrapper in `signals.rs` is installed whatever the program's action is: in a trace,
//!   where no call goes round the agent, and as long as the program has not ignored SIGSEGV
//!   or SIGBUS ([`DIRECT`]);
//! - the kernel's mask of this task has neither (`Thread::faults`). Whatever changes the mask
//!   makes that [`UNKNOWN`], and the next read asks the kernel: [`forget_mask`] before it
//!   changes, [`begin_handler`] and [`end_handler`] around the agent's own handlers.
//!
//! On the stack in use, where the task is alone in its memory, a small call of the kernel's
//! first tells whether the page can be read or written (100 ns), then a plain access follows.
//! Nobody is there to unmap the page in between; and if it were part of a file that another
//! process makes shorter at that moment, the program would die of its stack, too.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::arch::x86_64::copy;
use crate::arch::x86_64::frame::Context;
use crate::process::PROCESS;
use crate::signals::{bit, number::*};
use crate::sys::{self, errno, nr};
use crate::thread::Thread;

const PAGE: u64 = 4096;
/// Up to here user addresses reach on every x86-64 (TASK_SIZE_MAX with four levels of page
/// tables). What lies above is the kernel's to judge: it may be no address at all, which
/// raises another fault.
const LOWER_HALF: u64 = (1 << 47) - PAGE;
/// Below this hardly anything can be mapped (vm.mmap_min_addr). What a call takes for a
/// pointer there is mostly a number, as with `fcntl`, and a fault takes longer than a call.
const LOWEST: u64 = 64 << 10;

/// A state of `Thread::faults`: the kernel must be asked.
pub const UNKNOWN: u8 = 0;
/// It is being asked.
const ASKING: u8 = 1;
/// Faults reach the agent.
pub const OPEN: u8 = 2;
/// They do, and a copy is under way.
pub const COPYING: u8 = 3;
/// They would kill the process.
const CLOSED: u8 = 4;

/// The signals by which a read fails.
const FAULTS: u64 = bit(SIGSEGV) | bit(SIGBUS);

/// Whether this address space may read directly at all; once off, it stays so.
pub static DIRECT: AtomicBool = AtomicBool::new(false);

/// From now on reads may be direct: the handlers of faults are the agent's, and it sees
/// every change of them and of masks. At the start, before inherited actions are looked at.
pub fn start_direct() {
    DIRECT.store(true, Ordering::Relaxed);
}

/// From now on no read is direct, in any task: the kernel is about to ignore SIGSEGV or
/// SIGBUS or to treat it by itself, or a call goes round the agent that may make it so.
/// Waits for copies under way.
pub fn end_direct(t: &Thread) {
    /// In milliseconds. A copy takes longer where it waits for a page that never comes.
    const PATIENCE: u32 = 1000;
    DIRECT.store(false, Ordering::SeqCst);
    t.for_each_other(|other| {
        let mut waited = 0;
        while other.faults.load(Ordering::SeqCst) == COPYING && waited < PATIENCE {
            sys::futex_wait(&AtomicU32::new(0), 0, 1);
            waited += 1;
        }
    });
}

/// The kernel's mask of this task is about to become `mask`.
pub fn forget_mask(t: &Thread, mask: u64) {
    let state = if mask & FAULTS == 0 { UNKNOWN } else { CLOSED };
    t.faults.store(state, Ordering::Relaxed);
}

/// A handler of the agent's starts, with every signal blocked; `c` is what it interrupted.
/// A copy ends here. Gives whether there was one.
pub fn begin_handler(t: &Thread, c: &mut Context) -> bool {
    t.faults.store(CLOSED, Ordering::Relaxed);
    let landing = copy::landing(c.rip);
    if let Some(landing) = landing {
        c.rip = landing;
    }
    landing.is_some()
}

/// That handler is about to return; the mask it returns to may be any.
pub fn end_handler(t: &Thread) {
    t.faults.store(UNKNOWN, Ordering::Relaxed);
}

/// Whether `len` bytes at `address` may be read directly.
fn may_fault(t: &Thread, address: u64, len: usize) -> bool {
    let end = address.checked_add(len as u64);
    if address < LOWEST || end.is_none_or(|end| end > LOWER_HALF) {
        return false;
    }
    match t.faults.load(Ordering::Relaxed) {
        OPEN => true,
        UNKNOWN if DIRECT.load(Ordering::Relaxed) => {
            t.faults.store(ASKING, Ordering::Relaxed);
            let found = if sys::mask() & FAULTS == 0 { OPEN } else { CLOSED };
            // After a handler that ran meanwhile the answer may be wrong, and the state is
            // no longer `ASKING`.
            let (asking, relaxed) = (ASKING, Ordering::Relaxed);
            t.faults.compare_exchange(asking, found, relaxed, relaxed).is_ok() && found == OPEN
        }
        _ => false,
    }
}

#[repr(C)]
struct IoVec {
    base: u64,
    len: u64,
}

/// Copies up to `into.len()` bytes from `address`; gives how many could be read. The copy
/// stops at the first page that cannot be read.
pub fn read(t: &Thread, address: u64, into: &mut [u8]) -> usize {
    let mut have = 0;
    if may_fault(t, address, into.len()) {
        have = copy::copy(into, address, &t.faults);
    }
    if have < into.len() {
        have += read_by_kernel(t, address.wrapping_add(have as u64), &mut into[have..]);
    }
    have
}

/// Reads a string of up to `into.len()` bytes. Gives its length, whether it goes on, and
/// whether it ran into memory that cannot be read.
pub fn read_string(t: &Thread, address: u64, into: &mut [u8]) -> (usize, bool, bool) {
    let mut len = 0;
    if may_fault(t, address, into.len()) {
        len = copy::copy_string(into, address, &t.faults);
        if len > 0 && into[len - 1] == 0 {
            return (len - 1, false, false);
        }
    }
    // Most strings are short, and what is not copied costs nothing.
    let mut step = 128;
    while len < into.len() {
        let want = step.min(into.len() - len);
        let rest = &mut into[len..len + want];
        let got = read_by_kernel(t, address.wrapping_add(len as u64), rest);
        if let Some(end) = rest[..got].iter().position(|&b| b == 0) {
            return (len + end, false, false);
        }
        len += got;
        if got < want {
            return (len, false, true);
        }
        step = 1024;
    }
    (len, true, false)
}

/// [`read`], with the kernel's help.
fn read_by_kernel(t: &Thread, address: u64, into: &mut [u8]) -> usize {
    if on_own_stack(t, address, into.len()) {
        read_alone(address, into)
    } else {
        read_by_call(t, address, into)
    }
}

/// [`read`] for code that the program runs: if it could not be read any more, the program
/// could not run it.
pub fn read_code(t: &Thread, address: u64, into: &mut [u8]) -> usize {
    if PROCESS.has_threads() { read(t, address, into) } else { read_alone(address, into) }
}

/// Whether the range lies on the stack that the program is using, and no other task can
/// change what is mapped.
fn on_own_stack(t: &Thread, address: u64, len: usize) -> bool {
    const RED_ZONE: u64 = 128;
    /// How far from its end a stack is looked for.
    const NEAR: u64 = 64 << 10;
    let from_end = address.wrapping_sub(t.program_rsp.get().wrapping_sub(RED_ZONE));
    from_end < NEAR && len as u64 <= NEAR - from_end && !PROCESS.has_threads()
}

/// [`read`], where no other task can change what is mapped.
fn read_alone(address: u64, into: &mut [u8]) -> usize {
    let mut have = 0;
    while have < into.len() {
        let at = address.wrapping_add(have as u64);
        let len = (into.len() - have).min((PAGE - at % PAGE) as usize);
        // Whether a page can be read does not depend on where in it.
        if !sys::can_read_word(at.min((at & !(PAGE - 1)) + PAGE - 8)) {
            break;
        }
        // SAFETY: `len` bytes from `at` on lie in a page that can be read; `into` is ours.
        unsafe {
            core::ptr::copy_nonoverlapping(at as *const u8, into[have..].as_mut_ptr(), len);
        }
        have += len;
    }
    have
}

/// [`read`], by a call that does it all.
fn read_by_call(t: &Thread, address: u64, into: &mut [u8]) -> usize {
    if into.is_empty() {
        return 0;
    }
    // Partial transfers happen at the granularity of the remote elements
    // (process_vm_readv(2)), so the range is split where a page may end it.
    let local = IoVec { base: into.as_mut_ptr() as u64, len: into.len() as u64 };
    let mut remote = [const { IoVec { base: 0, len: 0 } }; 4];
    let mut count = 0;
    let mut at = address;
    let mut left = into.len() as u64;
    while left > 0 && count < remote.len() {
        let len = if count + 1 == remote.len() { left } else { left.min(PAGE - at % PAGE) };
        remote[count] = IoVec { base: at, len };
        count += 1;
        at = at.wrapping_add(len);
        left -= len;
    }
    let got = sys::call(
        nr::PROCESS_VM_READV,
        [t.pid.get() as u64, (&raw const local) as u64, 1, remote.as_ptr() as u64, count as u64, 0],
    );
    usize::try_from(got).unwrap_or(0)
}

/// Reads a plain value, or `-EFAULT`.
pub fn get<T: Plain>(t: &Thread, address: u64) -> Result<T, i64> {
    let mut value = T::ZERO;
    // SAFETY: `Plain` types are made of integers only, any bytes are a value of theirs.
    let bytes =
        unsafe { core::slice::from_raw_parts_mut((&raw mut value).cast::<u8>(), size_of::<T>()) };
    if read(t, address, bytes) == bytes.len() { Ok(value) } else { Err(errno::EFAULT) }
}

/// Writes a plain value, or `-EFAULT`.
pub fn put<T: Plain>(t: &Thread, address: u64, value: &T) -> Result<(), i64> {
    let len = size_of::<T>() as u64;
    let in_one_page = address % PAGE + len <= PAGE;
    if in_one_page && len >= size_of::<u64>() as u64 && on_own_stack(t, address, len as usize) {
        if !sys::can_write_word(address) {
            return Err(errno::EFAULT);
        }
        // SAFETY: the page can be written, and no other task can change that.
        unsafe { (address as *mut T).write_unaligned(*value) };
        return Ok(());
    }
    let local = IoVec { base: (&raw const *value) as u64, len };
    let remote = IoVec { base: address, len };
    let done = sys::call(
        nr::PROCESS_VM_WRITEV,
        [t.pid.get() as u64, (&raw const local) as u64, 1, (&raw const remote) as u64, 1, 0],
    );
    if done == len as i64 { Ok(()) } else { Err(errno::EFAULT) }
}

/// Copies bytes to `address`; gives how many could be written. The copy stops at the first page
/// that cannot be written.
pub fn write(t: &Thread, address: u64, bytes: &[u8]) -> usize {
    let mut done = 0;
    while done < bytes.len() {
        let at = address.wrapping_add(done as u64);
        let len = (bytes.len() - done).min((PAGE - at % PAGE) as usize) as u64;
        let local = IoVec { base: bytes[done..].as_ptr() as u64, len };
        let remote = IoVec { base: at, len };
        let (local, remote) = ((&raw const local) as u64, (&raw const remote) as u64);
        let got = sys::call(nr::PROCESS_VM_WRITEV, [t.pid.get() as u64, local, 1, remote, 1, 0]);
        if got != len as i64 {
            break;
        }
        done += len as usize;
    }
    done
}

/// Types that are nothing but integers, without padding.
///
/// # Safety
/// Every bit pattern is a value, and there are no padding bytes.
pub unsafe trait Plain: Copy {
    /// All bytes zero.
    const ZERO: Self;
}

macro_rules! plain {
    ($($t:ty = $zero:expr),* $(,)?) => {
        $(
            // SAFETY: integers (or structs of them with explicit padding) only.
            unsafe impl Plain for $t {
                const ZERO: Self = $zero;
            }
        )*
    };
}

plain! {
    u8 = 0,
    u32 = 0,
    u64 = 0,
    [u64; 2] = [0; 2],
    [u64; 4] = [0; 4],
    crate::arch::x86_64::frame::SignalStack = crate::arch::x86_64::frame::SignalStack { sp: 0, flags: 0, pad: 0, size: 0 },
    crate::arch::x86_64::frame::SignalInfo = crate::arch::x86_64::frame::SignalInfo::EMPTY,
}
