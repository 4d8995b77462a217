//! The %gs base, by which the entry code finds the thread block, and the %fs base, by which a libc
//! finds its thread.
//!
//! Linux leaves %gs to user space on x86-64. Kernels and processors with
//! FSGSBASE let user code write it directly; elsewhere `arch_prctl` does it.

use core::arch::asm;
use core::sync::atomic::{AtomicBool, Ordering};

use crate::sys;

/// Set at start from the auxiliary vector: `wrgsbase` is allowed.
static HAVE_FSGSBASE: AtomicBool = AtomicBool::new(false);

/// Bit of AT_HWCAP2 by which the kernel allows the instructions
/// (arch/x86/include/uapi/asm/hwcap2.h, since 5.9).
const HWCAP2_FSGSBASE: u64 = 1 << 1;
/// `arch_prctl` operation (arch/x86/include/uapi/asm/prctl.h).
pub const ARCH_SET_GS: u64 = 0x1001;
/// `arch_prctl` operation.
pub const ARCH_GET_GS: u64 = 0x1004;
const ARCH_SET_FS: u64 = 0x1002;
const ARCH_GET_FS: u64 = 0x1003;

/// Takes the kernel's word about FSGSBASE.
pub fn set_hwcap2(hwcap2: u64) {
    allow_instructions(hwcap2 & HWCAP2_FSGSBASE != 0);
}

/// Whether the instructions are allowed.
pub fn allow_instructions(yes: bool) {
    HAVE_FSGSBASE.store(yes, Ordering::Relaxed);
}

/// Makes `base` the current thread's %gs base.
///
/// # Safety
/// `base` is what the code that runs next with %gs expects: a thread block for the entry
/// code, the program's own value for a program that uses %gs itself.
pub unsafe fn set_gs_base(base: u64) {
    if HAVE_FSGSBASE.load(Ordering::Relaxed) {
        // SAFETY: allowed by the kernel (see `HAVE_FSGSBASE`); writes no memory.
        unsafe { asm!("wrgsbase {}", in(reg) base, options(nostack, preserves_flags)) };
    } else {
        sys::call2(sys::nr::ARCH_PRCTL, ARCH_SET_GS, base);
    }
}

/// The current thread's %fs base.
pub fn fs_base() -> u64 {
    let mut base = 0u64;
    if HAVE_FSGSBASE.load(Ordering::Relaxed) {
        // SAFETY: allowed by the kernel; reads no memory.
        unsafe { asm!("rdfsbase {}", out(reg) base, options(nomem, nostack, preserves_flags)) };
    } else {
        sys::call2(sys::nr::ARCH_PRCTL, ARCH_GET_FS, (&raw mut base) as u64);
    }
    base
}

/// Makes `base` the current thread's %fs base; the agent itself uses none.
pub fn set_fs_base(base: u64) {
    if HAVE_FSGSBASE.load(Ordering::Relaxed) {
        // SAFETY: allowed by the kernel; writes no memory.
        unsafe { asm!("wrfsbase {}", in(reg) base, options(nostack, preserves_flags)) };
    } else {
        sys::call2(sys::nr::ARCH_PRCTL, ARCH_SET_FS, base);
    }
}
