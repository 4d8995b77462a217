//! Reading and writing the program's memory without ever faulting: by
//! `process_vm_readv`/`process_vm_writev` on ourselves, which report EFAULT where a plain
//! access would kill the program.

use crate::sys::{self, errno, nr};
use crate::thread::Thread;

const PAGE: u64 = 4096;

#[repr(C)]
struct IoVec {
    base: u64,
    len: u64,
}

/// Copies up to `into.len()` bytes from `address`; gives how many could be read. The copy
/// stops at the first page that cannot be read.
pub fn read(t: &Thread, address: u64, into: &mut [u8]) -> usize {
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
    let local = IoVec { base: (&raw const *value) as u64, len };
    let remote = IoVec { base: address, len };
    let done = sys::call(
        nr::PROCESS_VM_WRITEV,
        [t.pid.get() as u64, (&raw const local) as u64, 1, (&raw const remote) as u64, 1, 0],
    );
    if done == len as i64 { Ok(()) } else { Err(errno::EFAULT) }
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
