//! Processes: wait statuses, limits, usage, clone arguments, facts about the system, and
//! the line of a process that ended.
//!
//! Owns: the layouts of `linux/resource.h`, `linux/sched.h`, `linux/sysinfo.h` and
//! `linux/utsname.h`. Never does: wait. Where the data goes next: the argument printers,
//! and the command line for [`ended`].

use crossgate_syscalls::Set;

use crate::bytes::{address, hex, i64_at, list, u16_at, u32_at, u64_at};
use crate::strings::{quote, until_nul};
use crate::{flags, put, signals, time};

/// A wait status in the words of the macros that take it apart.
pub fn wait_status(out: &mut String, status: u32) {
    let status = status as i32;
    out.push_str("[{");
    if libc::WIFSTOPPED(status) {
        out.push_str("WIFSTOPPED(s) && WSTOPSIG(s) == ");
        let signal = libc::WSTOPSIG(status);
        signals::name(out, (signal & 0x7f).into());
        if signal & 0x80 != 0 {
            out.push_str(" | 0x80");
        }
    } else if libc::WIFSIGNALED(status) {
        out.push_str("WIFSIGNALED(s) && WTERMSIG(s) == ");
        signals::name(out, libc::WTERMSIG(status).into());
        if libc::WCOREDUMP(status) {
            out.push_str(" && WCOREDUMP(s)");
        }
    } else if libc::WIFEXITED(status) {
        put!(out, "WIFEXITED(s) && WEXITSTATUS(s) == {}", libc::WEXITSTATUS(status));
    } else if libc::WIFCONTINUED(status) {
        out.push_str("WIFCONTINUED(s)");
    } else {
        put!(out, "{:#x}", status as u32);
    }
    out.push_str("}]");
}

/// Appends the line of a process that ended, from the status that `waitpid` gave:
/// `+++ exited with 1 +++` or `+++ killed by SIGSEGV (core dumped) +++`.
pub fn ended(out: &mut String, status: i32) {
    if libc::WIFSIGNALED(status) {
        out.push_str("+++ killed by ");
        signals::name(out, libc::WTERMSIG(status).into());
        if libc::WCOREDUMP(status) {
            out.push_str(" (core dumped)");
        }
        out.push_str(" +++");
    } else {
        put!(out, "+++ exited with {} +++", libc::WEXITSTATUS(status));
    }
}

fn limit(out: &mut String, value: u64) {
    match value {
        u64::MAX => out.push_str("RLIM64_INFINITY"),
        1025.. if value.is_multiple_of(1024) => put!(out, "{}*1024", value / 1024),
        _ => put!(out, "{value}"),
    }
}

/// A `struct rlimit64`.
pub fn rlimit(out: &mut String, bytes: &[u8]) -> Option<()> {
    let (current, maximum) = (u64_at(bytes, 0)?, u64_at(bytes, 8)?);
    out.push_str("{rlim_cur=");
    limit(out, current);
    out.push_str(", rlim_max=");
    limit(out, maximum);
    out.push('}');
    Some(())
}

/// A `struct rusage`, its first fields.
pub fn rusage(out: &mut String, bytes: &[u8]) -> Option<()> {
    out.push_str("{ru_utime=");
    time::timeval(out, bytes)?;
    out.push_str(", ru_stime=");
    time::timeval(out, bytes.get(16..)?)?;
    out.push_str(", ...}");
    Some(())
}

/// A `struct tms`.
pub fn tms(out: &mut String, bytes: &[u8]) -> Option<()> {
    let word = |index: usize| i64_at(bytes, index * 8);
    put!(out, "{{tms_utime={}, tms_stime={}, ", word(0)?, word(1)?);
    put!(out, "tms_cutime={}, tms_cstime={}}}", word(2)?, word(3)?);
    Some(())
}

/// A `struct new_utsname`, its first fields: six strings of 65 bytes.
pub fn utsname(out: &mut String, bytes: &[u8]) -> Option<()> {
    out.push_str("{sysname=");
    quote(out, until_nul(bytes.get(..65)?));
    out.push_str(", nodename=");
    quote(out, until_nul(bytes.get(65..130)?));
    out.push_str(", ...}");
    Some(())
}

/// A `struct sysinfo`.
pub fn sysinfo(out: &mut String, bytes: &[u8]) -> Option<()> {
    put!(out, "{{uptime={}, loads=", i64_at(bytes, 0)?);
    list(out, bytes.get(8..32)?, 8, 3, false, |out, load| {
        put!(out, "{}", u64_at(load, 0)?);
        Some(())
    })?;
    let fields = ["totalram", "freeram", "sharedram", "bufferram", "totalswap", "freeswap"];
    for (index, name) in fields.iter().enumerate() {
        put!(out, ", {name}={}", u64_at(bytes, 32 + index * 8)?);
    }
    put!(out, ", procs={}", u16_at(bytes, 80)?);
    put!(out, ", totalhigh={}, freehigh={}", u64_at(bytes, 88)?, u64_at(bytes, 96)?);
    put!(out, ", mem_unit={}}}", u32_at(bytes, 104)?);
    Some(())
}

/// The CPUs of a mask: `[0 1]`.
pub fn cpu_set(out: &mut String, bytes: &[u8]) {
    crate::poll::fd_set(out, bytes, usize::MAX);
}

/// A `struct clone_args`, as many fields as its size has.
pub fn clone_args(out: &mut String, bytes: &[u8]) -> Option<()> {
    let word = |index: usize| u64_at(bytes, index * 8);
    let clone = word(0)?;
    let has = |bit: libc::c_int| clone & u64::from(bit as u32) != 0;
    out.push_str("{flags=");
    flags::bits(out, flags::set(Set::Clone), clone);
    if has(libc::CLONE_PIDFD) {
        out.push_str(", pidfd=");
        address(out, word(1)?);
    }
    if has(libc::CLONE_CHILD_SETTID) || has(libc::CLONE_CHILD_CLEARTID) {
        out.push_str(", child_tid=");
        address(out, word(2)?);
    }
    if has(libc::CLONE_PARENT_SETTID) {
        out.push_str(", parent_tid=");
        address(out, word(3)?);
    }
    out.push_str(", exit_signal=");
    signals::name(out, word(4)? as i64);
    out.push_str(", stack=");
    address(out, word(5)?);
    out.push_str(", stack_size=");
    hex(out, word(6)?);
    if has(libc::CLONE_SETTLS) {
        out.push_str(", tls=");
        address(out, word(7)?);
    }
    if let (Some(tids @ 1..), Some(count)) = (word(8), word(9)) {
        put!(out, ", set_tid={tids:#x}, set_tid_size={count}");
    }
    if let Some(cgroup) = word(10).filter(|_| clone & 0x2_0000_0000 != 0) {
        put!(out, ", cgroup={cgroup}");
    }
    out.push('}');
    Some(())
}
