//! The agent's own system calls: raw, through the gate, never through a libc.
//!
//! Owns: the two ways a call leaves the agent (`call*`, of its own; `on_behalf`, the
//! program's) and the numbers it uses. Never does: anything with the result; errors are
//! the kernel's `-errno`.

/// Numbers of the calls the agent makes, from the one table.
pub use crossgate_syscalls::x86_64 as nr;

use crate::thread::Thread;
use crate::uaccess;

unsafe extern "C" {
    fn cg_private(nr: u64, a: u64, b: u64, c: u64, d: u64, e: u64, f: u64) -> i64;
    fn cg_program(nr: u64, a: u64, b: u64, c: u64, d: u64, e: u64, f: u64) -> i64;
}

/// `-errno` values the agent itself returns (include/uapi/asm-generic/errno*.h).
pub mod errno {
    #![allow(missing_docs)]
    pub const EPERM: i64 = -1;
    pub const ESRCH: i64 = -3;
    pub const EINTR: i64 = -4;
    pub const EAGAIN: i64 = -11;
    pub const ENOMEM: i64 = -12;
    pub const EACCES: i64 = -13;
    pub const EFAULT: i64 = -14;
    pub const EINVAL: i64 = -22;
    pub const EMFILE: i64 = -24;
}

/// A call of the agent's own with up to six arguments. The program's filters let it pass.
pub fn call(nr: u64, a: [u64; 6]) -> i64 {
    // SAFETY: enters the kernel through the gate and returns; what the call does to memory
    // is the business of whoever passes pointers, all of which are the agent's.
    unsafe { cg_private(nr, a[0], a[1], a[2], a[3], a[4], a[5]) }
}

/// As [`call`], two arguments.
pub fn call2(nr: u64, a: u64, b: u64) -> i64 {
    call(nr, [a, b, 0, 0, 0, 0])
}

/// As [`call`], four arguments.
pub fn call4(nr: u64, a: u64, b: u64, c: u64, d: u64) -> i64 {
    call(nr, [a, b, c, d, 0, 0])
}

/// A call the program makes, executed from Rust: its filters see it.
pub fn on_behalf(nr: u64, a: [u64; 6]) -> i64 {
    // SAFETY: as for `call`, with the program's own arguments.
    unsafe { cg_program(nr, a[0], a[1], a[2], a[3], a[4], a[5]) }
}

const FUTEX_WAIT: u64 = 0;
const FUTEX_WAKE: u64 = 1;

/// Sleeps while `*word == value`, at most `milliseconds`. Spurious returns happen.
pub fn futex_wait(word: &core::sync::atomic::AtomicU32, value: u32, milliseconds: u64) {
    let timeout = [milliseconds / 1000, milliseconds % 1000 * 1_000_000];
    call4(nr::FUTEX, word.as_ptr() as u64, FUTEX_WAIT, u64::from(value), timeout.as_ptr() as u64);
}

/// Wakes everyone who waits for `word`.
pub fn futex_wake(word: &core::sync::atomic::AtomicU32) {
    call4(nr::FUTEX, word.as_ptr() as u64, FUTEX_WAKE, i32::MAX as u64, 0);
}

/// PROT_READ.
pub const READ: u64 = 1;
/// PROT_WRITE.
pub const WRITE: u64 = 2;
/// PROT_EXEC.
pub const EXEC: u64 = 4;
/// MAP_SHARED.
pub const MAP_SHARED: u64 = 1;
/// MAP_PRIVATE.
pub const MAP_PRIVATE: u64 = 2;
/// MAP_ANONYMOUS.
pub const MAP_ANONYMOUS: u64 = 0x20;
/// MAP_NORESERVE.
pub const MAP_NORESERVE: u64 = 0x4000;
/// MAP_FIXED_NOREPLACE.
pub const MAP_FIXED_NOREPLACE: u64 = 0x10_0000;

/// Maps anonymous memory at exactly `address`; whether it could.
pub fn map_at(address: u64, len: u64, protection: u64) -> bool {
    let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_NORESERVE;
    let got = call(nr::MMAP, [address, len, protection, flags, u64::MAX, 0]);
    if got == address as i64 {
        return true;
    }
    if got > 0 {
        // A kernel that does not know MAP_FIXED_NOREPLACE takes the address as a hint.
        call2(nr::MUNMAP, got as u64, len);
    }
    false
}

/// Changes the protection of whole pages; whether it could.
pub fn protect(address: u64, len: u64, protection: u64) -> bool {
    call4(nr::MPROTECT, address, len, protection, 0) == 0
}

/// `SIG_SETMASK`.
const SET: u64 = 2;

/// Sets the thread's real signal mask, gives the old one.
pub fn set_mask(t: &Thread, mask: u64) -> u64 {
    uaccess::forget_mask(t, mask);
    let mut old = 0u64;
    call4(nr::RT_SIGPROCMASK, SET, (&raw const mask) as u64, (&raw mut old) as u64, 8);
    old
}

/// The thread's real signal mask.
pub fn mask() -> u64 {
    let mut mask = 0u64;
    call4(nr::RT_SIGPROCMASK, SET, 0, (&raw mut mask) as u64, 8);
    mask
}

/// Whether the eight bytes at `address` can be read: the kernel looks at a new signal mask
/// before it refuses what is to be done with it (sys_rt_sigprocmask, kernel/signal.c).
pub fn can_read_word(address: u64) -> bool {
    const NONSENSE: u64 = 3;
    call4(nr::RT_SIGPROCMASK, NONSENSE, address, 0, 8) == errno::EINVAL
}

/// Whether the eight bytes at `address` can be written. They are then this task's signal
/// mask, to be overwritten at once.
pub fn can_write_word(address: u64) -> bool {
    call4(nr::RT_SIGPROCMASK, 0, 0, address, 8) == 0
}

/// Ends the whole process with `status` (only for faults of the agent itself).
pub fn exit_process(status: u64) -> ! {
    loop {
        call2(nr::EXIT_GROUP, status, 0);
    }
}

/// A number in decimal.
pub fn decimal(mut number: u32, digits: &mut [u8; 10]) -> &[u8] {
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &digits[at..];
        }
    }
}

/// Writes to the program's standard error; whatever happens to it.
pub fn complain(text: &[u8]) {
    call4(nr::WRITE, 2, text.as_ptr() as u64, text.len() as u64, 0);
}
