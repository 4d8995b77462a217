//! The result column: a value, a value and what it means, or an error.
//!
//! Owns: which results are errors (`-4095..=-1`, the kernel's rule in `linux/err.h`) and the
//! notes that some calls add. Never does: print arguments. Where the data goes next: it
//! ends the line.

use crossgate_syscalls::{ResultKind, Set};

use crate::bytes::{address, decimal, hex, octal};
use crate::{Call, Exit, Options, errno, flags, poll, put, special, time};

/// The error number of a result, if it is one.
pub fn error(result: i64) -> Option<u16> {
    (-4095..0).contains(&result).then(|| result.unsigned_abs() as u16)
}

/// Whether a signal ended the call's waiting.
pub fn interrupted(result: i64) -> bool {
    error(result)
        .is_some_and(|number| errno::restart(number).is_some() || i32::from(number) == libc::EINTR)
}

/// Appends `= result` and what there is to say about it.
pub fn print(out: &mut String, options: &Options, call: &Call<'_>, exit: &Exit<'_>) {
    out.push_str("= ");
    let row = crate::lookup(call.nr);
    let result = exit.result;
    if let Some(number) = error(result) {
        match (errno::restart(number), errno::error(number)) {
            (Some((name, text)), _) => put!(out, "? {name} ({text})"),
            (None, Some((name, text))) => {
                // Written piece by piece: most calls that fail fail like this.
                out.push_str("-1 ");
                out.push_str(name);
                out.push_str(" (");
                out.push_str(text);
                out.push(')');
            }
            (None, None) => put!(out, "-1 (errno {number})"),
        }
        return;
    }
    let Some(row) = row else { return decimal(out, result) };
    match row.result {
        ResultKind::Int if of_bits(row.name, &call.args) => hex(out, result as u64),
        ResultKind::Uint | ResultKind::Uid => decimal(out, result as u32),
        ResultKind::Int
        | ResultKind::Fd
        | ResultKind::Pid
        | ResultKind::Long
        | ResultKind::Size
        | ResultKind::Offset => decimal(out, result),
        ResultKind::Hex => hex(out, result as u64),
        ResultKind::Address => match result {
            0 => out.push('0'),
            _ => address(out, result as u64),
        },
        ResultKind::Mode => octal(out, result as u32),
        ResultKind::Personality => {
            hex(out, result as u64);
            out.push_str(" (");
            special::personality(out, result as u64);
            out.push(')');
        }
        ResultKind::SchedPolicy => {
            put!(out, "{result} (");
            flags::one(out, flags::set(Set::SchedPolicy), result as u64);
            out.push(')');
        }
        ResultKind::None => out.push('?'),
    }
    note(out, options, call, exit, row.name);
}

/// Whether the number that this call gives is a set of flags.
fn of_bits(name: &str, args: &[u64; 6]) -> bool {
    match name {
        "fcntl" => matches!(args[1] as i32, libc::F_GETFL | libc::F_GETFD | libc::F_GET_SEALS),
        "membarrier" => args[0] as i32 == 0,
        "prctl" => args[0] as i32 == libc::PR_GET_SECUREBITS,
        _ => false,
    }
}

/// What some calls add after the value.
fn note(out: &mut String, options: &Options, call: &Call<'_>, exit: &Exit<'_>, name: &str) {
    let result = exit.result;
    let blob = |arg: u8| exit.blobs.into_iter().find(|blob| blob.arg == arg);
    match name {
        "poll" | "ppoll" if result == 0 => out.push_str(" (Timeout)"),
        "select" | "pselect6" if result == 0 => out.push_str(" (Timeout)"),
        "poll" | "ppoll" => {
            let Some(fds) = blob(0) else { return };
            out.push_str(" (");
            let mark = out.len();
            if poll::ready(out, fds.data, options.string_limit).is_none() {
                out.truncate(mark);
            }
            if name == "ppoll" {
                left(out, call.args[2], blob(2).map(|b| b.data), time::timespec, true);
            }
            out.push(')');
        }
        "select" | "pselect6" => {
            out.push_str(" (");
            let mut first = true;
            for (arg, word) in [(1, "in"), (2, "out"), (3, "except")] {
                let Some(set) = blob(arg).filter(|set| set.data.iter().any(|b| *b != 0)) else {
                    continue;
                };
                put!(out, "{}{word} ", if first { "" } else { ", " });
                first = false;
                poll::fd_set(out, set.data, (call.args[0] as i32).max(0) as usize);
            }
            let print = if name == "select" { time::timeval } else { time::timespec };
            left(out, call.args[4], blob(4).map(|b| b.data), print, !first);
            out.push(')');
        }
        "fcntl" if result > 0 => match call.args[1] as i32 {
            libc::F_GETFL => {
                out.push_str(" (flags ");
                flags::open(out, result as u64);
                out.push(')');
            }
            libc::F_GETFD => {
                out.push_str(" (flags ");
                flags::bits(out, &flags::DESCRIPTOR, result as u64);
                out.push(')');
            }
            libc::F_GET_SEALS => {
                out.push_str(" (seals ");
                flags::bits(out, &flags::SEALS, result as u64);
                out.push(')');
            }
            _ => {}
        },
        "time" => {
            out.push_str(" (");
            time::date(out, result, None);
            out.push(')');
        }
        "membarrier" if call.args[0] as i32 == 0 && result > 0 => {
            out.push_str(" (");
            flags::bits(out, flags::set(Set::Membarrier), result as u64);
            out.push(')');
        }
        "prctl" => special::prctl_result(out, call, result),
        _ => {}
    }
}

/// The time that was left when a wait ended, where the program gave one.
fn left(
    out: &mut String,
    pointer: u64,
    bytes: Option<&[u8]>,
    print: fn(&mut String, &[u8]) -> Option<()>,
    comma: bool,
) {
    let Some(bytes) = bytes.filter(|_| pointer != 0) else { return };
    let mark = out.len();
    put!(out, "{}left ", if comma { ", " } else { "" });
    if print(out, bytes).is_none() {
        out.truncate(mark);
    }
}
