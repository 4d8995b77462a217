//! Seccomp filters of the program: each gets a prologue that lets the agent's own call
//! instruction pass, and nothing else changes.
//!
//! Owns: that prologue, and the filter of strict mode, which lets calls pass from the gate and nowhere
//! else. What it means for a program that contains itself is said in
//! SECURITY.md: code that runs inside the process can jump to that instruction.

use crossgate_wire::RequestKind;

use crate::arch::x86_64::entry;
use crate::process::PROCESS;
use crate::sys::{self, errno::*, nr};
use crate::thread::Thread;
use crate::{request, uaccess};

/// `struct sock_filter` (include/uapi/linux/filter.h).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Insn {
    code: u16,
    jt: u8,
    jf: u8,
    k: u32,
}

/// `struct sock_fprog`.
#[repr(C)]
struct Program {
    len: u64,
    filter: u64,
}

const BPF_LD_W_ABS: u16 = 0x20;
const BPF_JEQ_K: u16 = 0x15;
const BPF_RET_K: u16 = 0x06;
const RET_ALLOW: u32 = 0x7fff_0000;
/// SECCOMP_RET_TRAP with this as its data: `siginfo.si_errno` of the signal.
const RET_TRAP: u32 = 0x0003_0000;
/// Marks a call that strict mode forbids.
pub const STRICT_DATA: i32 = 0x5713;
/// BPF_MAXINSNS.
const MOST: usize = 4096;
/// Offsets in `struct seccomp_data` (include/uapi/linux/seccomp.h).
const NR: u32 = 0;
const IP_LOW: u32 = 8;
const IP_HIGH: u32 = 12;

const SECCOMP_SET_MODE_STRICT: u64 = 0;
const SECCOMP_SET_MODE_FILTER: u64 = 1;
const PR_SECCOMP_MODE_STRICT: u64 = 1;
const PR_SECCOMP_MODE_FILTER: u64 = 2;
const PR_SET_NO_NEW_PRIVS: u64 = 38;

const fn insn(code: u16, jt: u8, jf: u8, k: u32) -> Insn {
    Insn { code, jt, jf, k }
}

/// "If the call comes from `ip`, allow it."
pub fn prologue(ip: u64) -> [Insn; 5] {
    [
        insn(BPF_LD_W_ABS, 0, 0, IP_LOW),
        insn(BPF_JEQ_K, 0, 3, ip as u32),
        insn(BPF_LD_W_ABS, 0, 0, IP_HIGH),
        insn(BPF_JEQ_K, 0, 1, (ip >> 32) as u32),
        insn(BPF_RET_K, 0, 0, RET_ALLOW),
    ]
}

/// What strict mode allows (`mode1_syscalls`, kernel/seccomp.c), as a filter.
const STRICT: [Insn; 7] = [
    insn(BPF_LD_W_ABS, 0, 0, NR),
    insn(BPF_JEQ_K, 4, 0, nr::READ as u32),
    insn(BPF_JEQ_K, 3, 0, nr::WRITE as u32),
    insn(BPF_JEQ_K, 2, 0, nr::EXIT as u32),
    insn(BPF_JEQ_K, 1, 0, nr::RT_SIGRETURN as u32),
    insn(BPF_RET_K, 0, 0, RET_TRAP | STRICT_DATA as u32),
    insn(BPF_RET_K, 0, 0, RET_ALLOW),
];

/// Offset in `struct seccomp_data`.
const ARCH: u32 = 4;
const ARCH_X86_64: u32 = 0xc000_003e;
const BPF_JGT_K: u16 = 0x25;
const BPF_JSET_K: u16 = 0x45;
/// SECCOMP_RET_USER_NOTIF: the supervisor decides.
const RET_NOTIFY: u32 = 0x7fc0_0000;
/// Set in the numbers of the x32 interface.
const X32_BIT: u32 = 0x4000_0000;
const SIGN_BIT: u32 = 0x8000_0000;

/// Asks the supervisor about each call that ends (`ip` is the address after it) outside of
/// `(start, end]`, or is none of the 64-bit interface. Both lie within the same 4 GiB or in
/// neighbouring ones.
fn only_from(start: u64, end: u64) -> [Insn; 15] {
    let (start_high, end_high) = ((start >> 32) as u32, (end >> 32) as u32);
    // In the same 4 GiB both limits count; else each in its own.
    let same = start_high == end_high;
    [
        insn(BPF_LD_W_ABS, 0, 0, ARCH),
        insn(BPF_JEQ_K, 0, 12, ARCH_X86_64),
        insn(BPF_LD_W_ABS, 0, 0, NR),
        // Negative numbers have that bit, too, and are no calls at all.
        insn(BPF_JSET_K, 1, 0, SIGN_BIT),
        insn(BPF_JSET_K, 9, 0, X32_BIT),
        insn(BPF_LD_W_ABS, 0, 0, IP_HIGH),
        insn(BPF_JEQ_K, 0, 2, start_high),
        insn(BPF_LD_W_ABS, 0, 0, IP_LOW),
        insn(BPF_JGT_K, if same { 2 } else { 4 }, 5, start as u32),
        insn(BPF_JEQ_K, 0, 4, end_high),
        insn(BPF_LD_W_ABS, 0, 0, IP_LOW),
        insn(BPF_JGT_K, 2, 0, end as u32),
        insn(BPF_RET_K, 0, 0, RET_ALLOW),
        insn(BPF_RET_K, 0, 0, RET_ALLOW),
        insn(BPF_RET_K, 0, 0, RET_NOTIFY),
    ]
}

/// In the first program of a tree in strict mode: from here on the kernel asks the supervisor about
/// every call that is not made in the gate. What this program makes and executes inherits that.
pub fn confine(t: &Thread) {
    const NEW_LISTENER: u64 = 8;
    let (start, end) = entry::gate();
    let filter = only_from(start, end);
    let program = Program { len: filter.len() as u64, filter: filter.as_ptr() as u64 };
    let install = || {
        let at = (&raw const program) as u64;
        sys::call4(nr::SECCOMP, SECCOMP_SET_MODE_FILTER, NEW_LISTENER, at, 0)
    };
    let mut listener = install();
    if listener == EACCES {
        sys::call2(nr::PRCTL, PR_SET_NO_NEW_PRIVS, 1);
        listener = install();
    }
    if request::ask(t, RequestKind::Strict, [listener as u64, 0, 0, 0]) < 0 {
        sys::exit_process(125);
    }
    sys::call2(nr::CLOSE, listener as u64, 0);
    PROCESS.set_bound();
}

/// `seccomp`, or `prctl(PR_SET_SECCOMP)`.
pub fn install(t: &Thread, args: [u64; 6]) -> i64 {
    let by_prctl = t.nr.get() == nr::PRCTL;
    let operation = if by_prctl { args[1] } else { args[0] };
    // Argument 2 of both is the program.
    let (strict, filter) = if by_prctl {
        (PR_SECCOMP_MODE_STRICT, PR_SECCOMP_MODE_FILTER)
    } else {
        (SECCOMP_SET_MODE_STRICT, SECCOMP_SET_MODE_FILTER)
    };
    if operation == strict {
        return install_strict(t);
    }
    if operation != filter {
        return sys::on_behalf(t.nr.get(), args);
    }
    let Ok([len, address]) = uaccess::get::<[u64; 2]>(t, args[2]) else {
        return EFAULT;
    };
    let len = len as u16 as usize;
    if len == 0 || len > MOST {
        return EINVAL;
    }
    with_buffer(|buffer| {
        let start = prologue(entry::private_syscall() + 2);
        if len + start.len() > MOST {
            return ENOMEM;
        }
        buffer[..start.len()].copy_from_slice(&start);
        let body = &mut buffer[start.len()..start.len() + len];
        // SAFETY: instructions are eight bytes of integers.
        let bytes = unsafe {
            core::slice::from_raw_parts_mut(body.as_mut_ptr().cast::<u8>(), len * size_of::<Insn>())
        };
        if uaccess::read(t, address, bytes) != bytes.len() {
            return EFAULT;
        }
        let program = Program { len: (len + start.len()) as u64, filter: buffer.as_ptr() as u64 };
        let mut changed = args;
        changed[2] = (&raw const program) as u64;
        let result = sys::on_behalf(t.nr.get(), changed);
        if result >= 0 {
            PROCESS.set_filtered();
            PROCESS.set_bound();
        }
        result
    })
}

/// Strict mode as a filter: the real one would also end the agent's own calls.
fn install_strict(t: &Thread) -> i64 {
    if t.nr.get() != nr::PRCTL && (t.args.get()[1] != 0 || t.args.get()[2] != 0) {
        return EINVAL;
    }
    with_buffer(|buffer| {
        let start = prologue(entry::private_syscall() + 2);
        let len = start.len() + STRICT.len();
        buffer[..start.len()].copy_from_slice(&start);
        buffer[start.len()..len].copy_from_slice(&STRICT);
        let program = Program { len: len as u64, filter: buffer.as_ptr() as u64 };
        let install = || {
            let program = (&raw const program) as u64;
            sys::call4(nr::SECCOMP, SECCOMP_SET_MODE_FILTER, 0, program, 0)
        };
        let mut result = install();
        if result == EACCES {
            // A filter needs this without privileges; strict mode, which ends every exec,
            // makes it mean nothing.
            sys::call2(nr::PRCTL, PR_SET_NO_NEW_PRIVS, 1);
            result = install();
        }
        if result >= 0 {
            PROCESS.set_filtered();
            PROCESS.set_bound();
        }
        result
    })
}

/// Lends `f` room for the largest filter.
fn with_buffer(f: impl FnOnce(&mut [Insn]) -> i64) -> i64 {
    let len = (MOST * size_of::<Insn>()) as u64;
    let flags = sys::MAP_PRIVATE | sys::MAP_ANONYMOUS;
    let at = sys::call(nr::MMAP, [0, len, sys::READ | sys::WRITE, flags, u64::MAX, 0]);
    if at < 0 {
        return ENOMEM;
    }
    // SAFETY: a new mapping of that length; all-zero bytes are instructions.
    let result = f(unsafe { core::slice::from_raw_parts_mut(at as *mut Insn, MOST) });
    sys::call2(nr::MUNMAP, at as u64, len);
    result
}
