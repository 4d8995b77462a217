//! Signals: names, sets, actions, stacks, and the delivery line.
//!
//! Owns: the numbers of `asm/signal.h` and the layouts of `asm-generic/siginfo.h`. Never
//! does: deliver anything. Where the data goes next: the argument printers and the line of
//! a delivered signal.

use crate::bytes::{address, i32_at, i64_at, u32_at, u64_at};
use crate::flags::{self, Names, names};
use crate::put;

const NAMES: [&str; 31] = [
    "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2",
    "PIPE", "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG",
    "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
];

/// The name without `SIG`: from 32 on the kernel's real-time signals are counted.
fn short(out: &mut String, signal: u64) -> bool {
    match signal {
        1..=31 => out.push_str(NAMES[signal as usize - 1]),
        32 => out.push_str("RTMIN"),
        33..=64 => put!(out, "RT_{}", signal - 32),
        _ => return false,
    }
    true
}

/// The number of a signal: by its name with or without `SIG`, or as it is.
pub fn number(text: &str) -> Option<u32> {
    if let Ok(number) = text.parse() {
        return (1..=64).contains(&number).then_some(number);
    }
    let name = text.strip_prefix("SIG").unwrap_or(text);
    (1..=64).find(|&number| {
        let mut known = String::new();
        short(&mut known, number.into()) && known == name
    })
}

/// Appends the name of a signal (`SIGINT`, `SIGRT_2`), or its number when it has none.
pub fn name(out: &mut String, signal: i64) {
    let mark = out.len();
    out.push_str("SIG");
    if !u64::try_from(signal).is_ok_and(|signal| short(out, signal)) {
        out.truncate(mark);
        put!(out, "{signal}");
    }
}

/// A kernel `sigset_t`. A set with more than two thirds of the signals is shown by those
/// that it lacks.
pub fn set(out: &mut String, bytes: &[u8]) -> Option<()> {
    let mut bits = u64_at(bytes, 0)?;
    if bits.count_ones() >= 42 {
        out.push('~');
        bits = !bits;
    }
    out.push('[');
    let mut first = true;
    for signal in (1..=64).filter(|signal| bits >> (signal - 1) & 1 != 0) {
        if !first {
            out.push(' ');
        }
        first = false;
        short(out, signal);
    }
    out.push(']');
    Some(())
}

const ACTION_FLAGS: Names = names! { "SA_???":
    SA_RESTORER = 0x0400_0000, SA_NODEFER, SA_RESTART, SA_RESETHAND = 0x8000_0000, SA_ONSTACK,
    SA_SIGINFO, SA_NOCLDSTOP, SA_NOCLDWAIT, SA_UNSUPPORTED = 0x400, SA_EXPOSE_TAGBITS = 0x800,
};

/// The kernel's `struct sigaction`: handler, flags, restorer, mask.
pub fn action(out: &mut String, bytes: &[u8]) -> Option<()> {
    let (handler, action_flags) = (u64_at(bytes, 0)?, u64_at(bytes, 8)?);
    out.push_str("{sa_handler=");
    match handler {
        0 => out.push_str("SIG_DFL"),
        1 => out.push_str("SIG_IGN"),
        u64::MAX => out.push_str("SIG_ERR"),
        _ => put!(out, "{handler:#x}"),
    }
    out.push_str(", sa_mask=");
    set(out, bytes.get(24..)?)?;
    out.push_str(", sa_flags=");
    flags::bits(out, &ACTION_FLAGS, action_flags);
    if action_flags & 0x0400_0000 != 0 {
        out.push_str(", sa_restorer=");
        address(out, u64_at(bytes, 16)?);
    }
    out.push('}');
    Some(())
}

const STACK_FLAGS: Names = names! { "SS_???": SS_ONSTACK, SS_DISABLE, SS_AUTODISARM = 0x8000_0000 };

/// A `stack_t`.
pub fn stack(out: &mut String, bytes: &[u8]) -> Option<()> {
    out.push_str("{ss_sp=");
    address(out, u64_at(bytes, 0)?);
    out.push_str(", ss_flags=");
    flags::bits(out, &STACK_FLAGS, u32_at(bytes, 8)?.into());
    put!(out, ", ss_size={}}}", u64_at(bytes, 16)?);
    Some(())
}

const NOTIFY: Names =
    names! { "SIGEV_???": SIGEV_SIGNAL, SIGEV_NONE, SIGEV_THREAD, SIGEV_THREAD_ID };

/// A `struct sigevent`.
pub fn event(out: &mut String, bytes: &[u8]) -> Option<()> {
    let (value, signal, notify) = (u64_at(bytes, 0)?, i32_at(bytes, 8)?, i32_at(bytes, 12)?);
    out.push('{');
    if value != 0 {
        out.push_str("sigev_value={");
        put!(out, "sival_int={}, sival_ptr={value:#x}}}, ", value as i32);
    }
    out.push_str("sigev_signo=");
    if notify == libc::SIGEV_NONE || notify == libc::SIGEV_THREAD {
        put!(out, "{signal}");
    } else {
        name(out, signal.into());
    }
    out.push_str(", sigev_notify=");
    flags::one(out, &NOTIFY, notify as u32 as u64);
    if notify == libc::SIGEV_THREAD_ID {
        put!(out, ", sigev_notify_thread_id={}", i32_at(bytes, 16)?);
    }
    out.push('}');
    Some(())
}

const SI_QUEUE: i32 = -1;
const SI_TIMER: i32 = -2;
const SI_MESGQ: i32 = -3;
const SI_KERNEL: i32 = 0x80;

/// The name of an `si_code`, which depends on the signal.
fn code(signal: i32, code: i32) -> Option<&'static str> {
    let of_signal: &[&str] = match signal {
        libc::SIGILL => &[
            "ILL_ILLOPC",
            "ILL_ILLOPN",
            "ILL_ILLADR",
            "ILL_ILLTRP",
            "ILL_PRVOPC",
            "ILL_PRVREG",
            "ILL_COPROC",
            "ILL_BADSTK",
        ],
        libc::SIGFPE => &[
            "FPE_INTDIV",
            "FPE_INTOVF",
            "FPE_FLTDIV",
            "FPE_FLTOVF",
            "FPE_FLTUND",
            "FPE_FLTRES",
            "FPE_FLTINV",
            "FPE_FLTSUB",
        ],
        libc::SIGSEGV => &["SEGV_MAPERR", "SEGV_ACCERR", "SEGV_BNDERR", "SEGV_PKUERR"],
        libc::SIGBUS => {
            &["BUS_ADRALN", "BUS_ADRERR", "BUS_OBJERR", "BUS_MCEERR_AR", "BUS_MCEERR_AO"]
        }
        libc::SIGTRAP => {
            &["TRAP_BRKPT", "TRAP_TRACE", "TRAP_BRANCH", "TRAP_HWBKPT", "TRAP_UNK", "TRAP_PERF"]
        }
        libc::SIGCHLD => &[
            "CLD_EXITED",
            "CLD_KILLED",
            "CLD_DUMPED",
            "CLD_TRAPPED",
            "CLD_STOPPED",
            "CLD_CONTINUED",
        ],
        libc::SIGIO => &["POLL_IN", "POLL_OUT", "POLL_MSG", "POLL_ERR", "POLL_PRI", "POLL_HUP"],
        libc::SIGSYS => &["SYS_SECCOMP", "SYS_USER_DISPATCH"],
        _ => &[],
    };
    let own = usize::try_from(code).ok().and_then(|n| n.checked_sub(1));
    if let Some(found) = own.and_then(|n| of_signal.get(n)) {
        return Some(found);
    }
    Some(match code {
        0 => "SI_USER",
        SI_KERNEL => "SI_KERNEL",
        SI_QUEUE => "SI_QUEUE",
        SI_TIMER => "SI_TIMER",
        SI_MESGQ => "SI_MESGQ",
        -4 => "SI_ASYNCIO",
        -5 => "SI_SIGIO",
        -6 => "SI_TKILL",
        -7 => "SI_DETHREAD",
        -60 => "SI_ASYNCNL",
        _ => return None,
    })
}

fn sender(out: &mut String, bytes: &[u8]) -> Option<()> {
    put!(out, ", si_pid={}, si_uid={}", i32_at(bytes, 16)?, u32_at(bytes, 20)?);
    Some(())
}

fn value(out: &mut String, bytes: &[u8], at: usize) -> Option<()> {
    let value = u64_at(bytes, at)?;
    if value != 0 {
        put!(out, ", si_int={}, si_ptr={value:#x}", value as i32);
    }
    Some(())
}

/// A `siginfo_t`. Which of its fields mean something depends on the signal and its code.
pub fn info(out: &mut String, bytes: &[u8]) -> Option<()> {
    let (signal, error, si_code) = (i32_at(bytes, 0)?, i32_at(bytes, 4)?, i32_at(bytes, 8)?);
    if (signal, error, si_code) == (0, 0, 0) {
        out.push_str("{}");
        return Some(());
    }
    out.push_str("{si_signo=");
    name(out, signal.into());
    out.push_str(", si_code=");
    match code(signal, si_code) {
        Some(text) => out.push_str(text),
        None => put!(out, "{:#x} /* SI_??? */", si_code as u32),
    }
    if error != 0 {
        out.push_str(", si_errno=");
        match u16::try_from(error).ok().and_then(crate::errno::error) {
            Some((text, _)) => out.push_str(text),
            None => put!(out, "{error}"),
        }
    }
    match si_code {
        0 | -6 => sender(out, bytes)?,
        SI_KERNEL if signal != libc::SIGSEGV => {}
        SI_TIMER => {
            put!(out, ", si_timerid={:#x}", u32_at(bytes, 16)?);
            put!(out, ", si_overrun={}", i32_at(bytes, 20)?);
            value(out, bytes, 24)?;
        }
        _ if si_code < 0 => {
            sender(out, bytes)?;
            value(out, bytes, 24)?;
        }
        _ => match signal {
            libc::SIGCHLD => {
                sender(out, bytes)?;
                out.push_str(", si_status=");
                let status = i32_at(bytes, 24)?;
                if si_code == libc::CLD_EXITED {
                    put!(out, "{status}");
                } else {
                    name(out, status.into());
                }
                put!(out, ", si_utime={}, si_stime={}", i64_at(bytes, 32)?, i64_at(bytes, 40)?);
            }
            libc::SIGILL | libc::SIGFPE | libc::SIGSEGV | libc::SIGBUS | libc::SIGTRAP => {
                out.push_str(", si_addr=");
                address(out, u64_at(bytes, 16)?);
            }
            libc::SIGIO => {
                put!(out, ", si_band={}", i64_at(bytes, 16)?);
                put!(out, ", si_fd={}", i32_at(bytes, 24)?);
            }
            libc::SIGSYS => {
                out.push_str(", si_call_addr=");
                address(out, u64_at(bytes, 16)?);
                let nr = u32_at(bytes, 24)?;
                out.push_str(", si_syscall=");
                match crate::lookup(nr.into()) {
                    Some(row) => put!(out, "__NR_{}", row.name),
                    None => put!(out, "{nr}"),
                }
                out.push_str(", si_arch=");
                flags::one(out, &flags::AUDIT_ARCH, u32_at(bytes, 28)?.into());
            }
            _ => {
                sender(out, bytes)?;
                value(out, bytes, 24)?;
            }
        },
    }
    out.push('}');
    Some(())
}

/// Appends the line of a delivered signal: `--- SIGALRM {si_signo=SIGALRM, ...} ---`. `bytes`
/// is the kernel's `siginfo_t`.
pub fn delivered(out: &mut String, bytes: &[u8]) {
    out.push_str("--- ");
    name(out, i32_at(bytes, 0).unwrap_or(0).into());
    out.push(' ');
    let mark = out.len();
    if info(out, bytes).is_none() {
        out.truncate(mark);
        out.push_str("{}");
    }
    out.push_str(" ---");
}
