//! The calls whose arguments depend on each other.
//!
//! Owns: for each such call, the order in which its arguments are shown, which of them are
//! left out, and what decides the meaning of the others. Never does: anything that the
//! kinds of the table can say. Where the data goes next: the line.

use crossgate_syscalls::{Direction, Extent, Set, Type};

use crate::args::Args;
use crate::bytes::{address, hex, i32_at, list, u16_at, u32_at, u64_at};
use crate::ioctl::Writer;
use crate::strings::{limited, until_nul};
use crate::{Call, caps, flags, fs, ioctl, net, process, put, result, signals, uring};

/// Prints the arguments of the call `name` if it is one of those; `false` otherwise.
pub fn print(args: &mut Args<'_, '_>, name: &str) -> bool {
    let flag = |index: usize, bit: u64| args.args[index] & bit != 0;
    // Calls that look at their last arguments only if others say so.
    let shown = match name {
        "open" if !flags::creates(args.args[1]) => 2,
        "openat" if !flags::creates(args.args[2]) => 3,
        "mq_open" if !flags::creates(args.args[1]) => 2,
        "mremap" if !flag(3, 2 | 4) => 4,
        "mknod" if !is_device(args.args[1]) => 2,
        "mknodat" if !is_device(args.args[2]) => 3,
        "membarrier" if args.args[1] as u32 == 0 => 2,
        "preadv" | "pwritev" => 4,
        _ => 6,
    };
    if shown < 6 {
        for index in 0..shown {
            args.argument(index);
        }
        return true;
    }
    match name {
        "clone" => clone(args),
        "clone3" => clone3(args),
        "epoll_ctl" => {
            for index in 0..3 {
                args.argument(index);
            }
            // A deletion does not look at the event.
            if args.args[1] as i32 == libc::EPOLL_CTL_DEL {
                if args.begin(false) {
                    address(args.out, args.args[3]);
                }
            } else {
                args.argument(3);
            }
        }
        "arch_prctl" => {
            args.argument(0);
            if matches!(args.args[0], 0x1003 | 0x1004) {
                args.argument(1);
            } else if args.begin(false) {
                hex(args.out, args.args[1]);
            }
        }
        "dup3" | "pipe2" | "userfaultfd" | "delete_module" => {
            let last = args.row.map_or(0, |row| row.args.len().saturating_sub(1));
            for index in 0..last {
                args.argument(index);
            }
            if args.begin(false) {
                flags::open_bits(args.out, args.args[last % 6] & 0xffff_ffff);
            }
        }
        "fcntl" => fcntl(args),
        "futex" => futex(args),
        "getrandom" => {
            if args.begin(true) {
                args.random(0);
            }
            args.argument(1);
            args.argument(2);
        }
        "getsockopt" | "setsockopt" => socket_option(args, name == "getsockopt"),
        "io_uring_setup" => {
            args.argument(0);
            ring_parameters(args);
        }
        "ioctl" => ioctl_arguments(args),
        "nanosleep" => {
            args.argument(0);
            remaining(args, 1, true);
        }
        "clock_nanosleep" => {
            for index in 0..3 {
                args.argument(index);
            }
            let relative = args.args[1] as i32 & libc::TIMER_ABSTIME == 0;
            remaining(args, 3, relative);
        }
        "personality" => {
            if args.begin(false) {
                let value = args.args[0] & 0xffff_ffff;
                if value == 0xffff_ffff {
                    hex(args.out, value);
                } else {
                    personality(args.out, value);
                }
            }
        }
        "prctl" => prctl(args),
        "preadv2" | "pwritev2" => {
            for index in [0, 1, 2, 3, 5] {
                args.argument(index);
            }
        }
        "pselect6" => {
            for index in 0..5 {
                args.argument(index);
            }
            if args.begin(false) {
                signal_mask(args, 5);
            }
        }
        "recvmsg" => {
            args.argument(0);
            if args.begin(true) {
                received(args, 1);
            }
            args.argument(2);
        }
        "recvmmsg" => {
            args.argument(0);
            if args.begin(true) {
                messages(args, true);
            }
            args.argument(2);
            args.argument(3);
            if args.begin(false) {
                args.data(4, Direction::In, Type::Timespec, Extent::One);
            }
        }
        "sendmmsg" => {
            args.argument(0);
            if args.begin(true) {
                messages(args, false);
            }
            args.argument(2);
            args.argument(3);
        }
        "sendmsg" => {
            args.argument(0);
            if args.begin(false) {
                let limit = args.options.string_limit;
                let mut blobs = args.all_before(1);
                let message = net::Message::take(&mut blobs);
                args.attempt(args.args[1], |out| message?.print(out, None, limit));
            }
            args.argument(2);
        }
        "rt_sigreturn" => {
            if args.begin(false)
                && let Some(mask) = args.before(0)
            {
                let mark = args.out.len();
                args.out.push_str("{mask=");
                if signals::set(args.out, mask.data).is_none() {
                    args.out.truncate(mark);
                } else {
                    args.out.push('}');
                }
            }
        }
        "seccomp" => seccomp(args),
        "sendfile" => {
            args.argument(0);
            args.argument(1);
            if args.begin(args.args[2] != 0) {
                moved_offset(args, 2);
            }
            args.argument(3);
        }
        "socket" | "socketpair" => {
            args.argument(0);
            args.argument(1);
            if args.begin(false) {
                let domain = if name == "socket" { args.args[0] & 0xffff_ffff } else { 0 };
                net::protocol(args.out, domain, args.args[2] & 0xffff_ffff);
            }
            args.argument(3);
        }
        "wait4" => {
            args.argument(0);
            // Without a child that changed there is no status.
            let waited = args.result().is_some_and(|pid| pid > 0);
            if args.begin(true) {
                pointed(args, 1, Type::WaitStatus, waited);
            }
            args.argument(2);
            if args.begin(true) {
                pointed(args, 3, Type::Rusage, waited);
            }
        }
        _ => return false,
    }
    true
}

fn is_device(mode: u64) -> bool {
    matches!(mode as u32 & libc::S_IFMT, libc::S_IFCHR | libc::S_IFBLK)
}

/// What the kernel wrote if `wrote`, else the address.
fn pointed(args: &mut Args<'_, '_>, index: usize, of: Type, wrote: bool) {
    if wrote {
        args.data(index, Direction::Out, of, Extent::One);
    } else {
        address(args.out, args.args[index]);
    }
}

/// The time left of a sleep: written only when a signal ended it.
fn remaining(args: &mut Args<'_, '_>, index: usize, relative: bool) {
    if args.begin(true) {
        let wrote = relative && args.result().is_some_and(result::interrupted);
        pointed(args, index, Type::Timespec, wrote);
    }
}

/// A named personality and the bits above it.
pub fn personality(out: &mut String, value: u64) {
    match value & 0xff {
        0 => out.push_str("PER_LINUX"),
        8 => out.push_str("PER_LINUX32"),
        kind => put!(out, "{kind:#x} /* PER_??? */"),
    }
    if value & !0xff != 0 {
        out.push('|');
        flags::bits(out, &flags::PERSONALITY, value & !0xff);
    }
}

fn clone(args: &mut Args<'_, '_>) {
    let clone = args.args[0];
    let has = |bit: libc::c_int| clone & u64::from(bit as u32) != 0;
    // On x86-64 the address for the child's number comes before the thread's storage.
    let (child, tls) = if cfg!(target_arch = "x86_64") { (3, 4) } else { (4, 3) };
    if args.begin(false) {
        args.out.push_str("child_stack=");
        address(args.out, args.args[1]);
    }
    if args.begin(false) {
        args.out.push_str("flags=");
        flags::clone(args.out, clone);
    }
    if (has(libc::CLONE_PARENT_SETTID) || has(libc::CLONE_PIDFD)) && args.begin_with(true, false) {
        let pidfd = !has(libc::CLONE_PARENT_SETTID);
        args.out.push_str(if pidfd { "pidfd=" } else { "parent_tid=" });
        args.data(2, Direction::Out, Type::Tid, Extent::One);
    }
    if has(libc::CLONE_SETTLS) && args.begin_with(true, false) {
        put!(args.out, "tls={:#x}", args.args[tls]);
    }
    if (has(libc::CLONE_CHILD_SETTID) || has(libc::CLONE_CHILD_CLEARTID))
        && args.begin_with(true, false)
    {
        args.out.push_str("child_tidptr=");
        address(args.out, args.args[child]);
    }
}

fn clone3(args: &mut Args<'_, '_>) {
    let blob = args.before(0);
    if args.begin(false) {
        args.attempt(args.args[0], |out| process::clone_args(out, blob?.data));
    }
    // What the kernel wrote follows its struct: the child's number is the result.
    let wanted = blob.and_then(|blob| u64_at(blob.data, 0)).unwrap_or(0);
    let parent = wanted & u64::from(libc::CLONE_PARENT_SETTID as u32) != 0;
    if parent
        && args.continued()
        && let Some(child) = args.result().filter(|child| *child > 0)
    {
        put!(args.out, " => {{parent_tid=[{child}]}}");
    }
    args.argument(1);
}

fn fcntl(args: &mut Args<'_, '_>) {
    args.argument(0);
    args.argument(1);
    let (command, value) = (args.args[1] as i32, args.args[2]);
    match command {
        libc::F_GETFD
        | libc::F_GETFL
        | libc::F_GETOWN
        | libc::F_GETLEASE
        | libc::F_GETPIPE_SZ
        | libc::F_GET_SEALS
        | 11 => {}
        libc::F_GETLK | libc::F_OFD_GETLK => {
            if args.begin(true) {
                let blob = args.after(2);
                args.attempt(value, |out| fs::lock(out, blob?.data, true));
            }
        }
        libc::F_SETLK | libc::F_SETLKW | libc::F_OFD_SETLK | libc::F_OFD_SETLKW => {
            if args.begin(false) {
                let blob = args.before(2);
                args.attempt(value, |out| fs::lock(out, blob?.data, false));
            }
        }
        _ => {
            if args.begin(false) {
                match command {
                    libc::F_SETFD => flags::bits(args.out, &flags::DESCRIPTOR, value),
                    libc::F_SETFL => flags::open(args.out, value),
                    libc::F_SETLEASE => flags::one(args.out, &fs::LOCKS, value),
                    libc::F_ADD_SEALS => flags::bits(args.out, &flags::SEALS, value),
                    // F_SETSIG
                    10 => signals::name(args.out, (value as i32).into()),
                    libc::F_DUPFD | libc::F_DUPFD_CLOEXEC | libc::F_SETOWN | libc::F_SETPIPE_SZ => {
                        put!(args.out, "{}", value as i32)
                    }
                    _ => put!(args.out, "{value:#x}"),
                }
            }
        }
    }
}

const FUTEX_PRIVATE: u64 = 128;
const FUTEX_REALTIME: u64 = 256;

fn futex(args: &mut Args<'_, '_>) {
    args.argument(0);
    let op = args.args[1] & 0xffff_ffff;
    let command = op & !(FUTEX_PRIVATE | FUTEX_REALTIME);
    if args.begin(false) {
        match flags::name(flags::set(Set::FutexOp), command) {
            Some(name) => {
                let private = if op & FUTEX_PRIVATE != 0 { "_PRIVATE" } else { "" };
                put!(args.out, "{name}{private}");
                if op & FUTEX_REALTIME != 0 {
                    args.out.push_str("|FUTEX_CLOCK_REALTIME");
                }
            }
            None => flags::one(args.out, flags::set(Set::FutexOp), op),
        }
    }
    let number = |args: &mut Args<'_, '_>, index: usize| {
        if args.begin(false) {
            put!(args.out, "{}", args.args[index] as u32);
        }
    };
    let bitset = |args: &mut Args<'_, '_>| {
        if args.begin(false) {
            match args.args[5] as u32 {
                u32::MAX => args.out.push_str("FUTEX_BITSET_MATCH_ANY"),
                bits => hex(args.out, bits.into()),
            }
        }
    };
    match command {
        // WAIT
        0 => {
            number(args, 2);
            args.argument(3);
        }
        // WAKE, FD
        1 | 2 => number(args, 2),
        // REQUEUE
        3 => {
            number(args, 2);
            number(args, 3);
            args.argument(4);
        }
        // CMP_REQUEUE, CMP_REQUEUE_PI
        4 | 12 => {
            number(args, 2);
            number(args, 3);
            args.argument(4);
            number(args, 5);
        }
        // WAKE_OP
        5 => {
            number(args, 2);
            number(args, 3);
            args.argument(4);
            if args.begin(false) {
                wake_op(args.out, args.args[5] as u32);
            }
        }
        // LOCK_PI, LOCK_PI2
        6 | 13 => args.argument(3),
        // UNLOCK_PI, TRYLOCK_PI
        7 | 8 => {}
        // WAIT_BITSET
        9 => {
            number(args, 2);
            args.argument(3);
            bitset(args);
        }
        // WAKE_BITSET
        10 => {
            number(args, 2);
            bitset(args);
        }
        // WAIT_REQUEUE_PI
        11 => {
            number(args, 2);
            args.argument(3);
            args.argument(4);
        }
        _ => {
            number(args, 2);
            if args.begin(false) {
                address(args.out, args.args[3]);
            }
            args.argument(4);
            if args.begin(false) {
                hex(args.out, args.args[5] & 0xffff_ffff);
            }
        }
    }
}

/// The operation and comparison packed into FUTEX_WAKE_OP's last argument
/// (`linux/futex.h`, FUTEX_OP).
fn wake_op(out: &mut String, value: u32) {
    let operation = ["SET", "ADD", "OR", "ANDN", "XOR"];
    let comparison = ["EQ", "NE", "LT", "LE", "GT", "GE"];
    if value >> 31 != 0 {
        out.push_str("FUTEX_OP_OPARG_SHIFT<<28|");
    }
    match operation.get((value >> 28 & 7) as usize) {
        Some(name) => put!(out, "FUTEX_OP_{name}<<28|"),
        None => put!(out, "{:#x}<<28|", value >> 28 & 7),
    }
    hex(out, (value >> 12 & 0xfff).into());
    out.push_str("<<12|");
    match comparison.get((value >> 24 & 15) as usize) {
        Some(name) => put!(out, "FUTEX_OP_CMP_{name}<<24|"),
        None => put!(out, "{:#x}<<24|", value >> 24 & 15),
    }
    hex(out, (value & 0xfff).into());
}

fn socket_option(args: &mut Args<'_, '_>, get: bool) {
    args.argument(0);
    args.argument(1);
    let (level, option) = (args.args[1] as i32, args.args[2] & 0xffff_ffff);
    if args.begin(false) {
        net::option_name(args.out, level, option);
    }
    if args.begin(get) {
        let limit = args.options.string_limit;
        let blob = if get { args.after(3) } else { args.before(3) };
        args.attempt(args.args[3], |out| {
            let blob = blob.filter(|blob| !blob.fault)?;
            net::option(out, level, option, blob.data, limit)
        });
    }
    args.argument(4);
}

fn ioctl_arguments(args: &mut Args<'_, '_>) {
    args.argument(0);
    let request = args.args[1] & 0xffff_ffff;
    if args.begin(false) {
        ioctl::request(args.out, request);
    }
    let value = args.args[2];
    match ioctl::writer(request) {
        Some(Writer::Nobody) => {}
        Some(Writer::Kernel) => {
            if args.begin(true) {
                let blob = args.after(2);
                args.attempt(value, |out| ioctl::argument(out, request, blob?.data));
            }
        }
        Some(Writer::Program) => {
            if args.begin(false) {
                let blob = args.before(2);
                args.attempt(value, |out| ioctl::argument(out, request, blob?.data));
            }
        }
        None => {
            if args.begin(false) {
                hex(args.out, value);
            }
        }
    }
}

const DUMP: flags::Names = flags::names! { "SUID_DUMP_???":
    SUID_DUMP_DISABLE = 0, SUID_DUMP_USER = 1, SUID_DUMP_ROOT = 2,
};

fn prctl(args: &mut Args<'_, '_>) {
    args.argument(0);
    let limit = args.options.string_limit;
    let value = args.args[1];
    match args.args[0] as i32 {
        libc::PR_GET_DUMPABLE
        | libc::PR_GET_KEEPCAPS
        | libc::PR_GET_TIMERSLACK
        | libc::PR_GET_SECCOMP
        | libc::PR_GET_SECUREBITS => {}
        libc::PR_SET_NAME => {
            if args.begin(false) {
                let blob = args.before(1);
                args.attempt(value, |out| {
                    limited(out, until_nul(blob?.data), false, limit);
                    Some(())
                });
            }
        }
        libc::PR_GET_NAME => {
            if args.begin(true) {
                let blob = args.after(1);
                args.attempt(value, |out| {
                    limited(out, until_nul(blob?.data), false, limit);
                    Some(())
                });
            }
        }
        libc::PR_GET_PDEATHSIG | libc::PR_GET_CHILD_SUBREAPER => {
            let signal = args.args[0] as i32 == libc::PR_GET_PDEATHSIG;
            if args.begin(true) {
                let blob = args.after(1);
                args.attempt(value, |out| {
                    let number = i32_at(blob?.data, 0)?;
                    out.push('[');
                    if signal {
                        signals::name(out, number.into());
                    } else {
                        put!(out, "{number}");
                    }
                    out.push(']');
                    Some(())
                });
            }
        }
        libc::PR_SET_PDEATHSIG => {
            if args.begin(false) {
                signals::name(args.out, (value as i32).into());
            }
        }
        libc::PR_SET_DUMPABLE => {
            if args.begin(false) {
                flags::one(args.out, &DUMP, value);
            }
        }
        libc::PR_CAPBSET_READ | libc::PR_CAPBSET_DROP => {
            if args.begin(false) {
                flags::one(args.out, &caps::CAPABILITIES, value);
            }
        }
        libc::PR_SET_KEEPCAPS | libc::PR_SET_TIMERSLACK | libc::PR_SET_CHILD_SUBREAPER => {
            if args.begin(false) {
                put!(args.out, "{value}");
            }
        }
        libc::PR_SET_NO_NEW_PRIVS | libc::PR_SET_THP_DISABLE => {
            for index in 1..5 {
                if args.begin(false) {
                    put!(args.out, "{}", args.args[index]);
                }
            }
        }
        libc::PR_GET_NO_NEW_PRIVS | libc::PR_GET_THP_DISABLE => {
            for index in 1..5 {
                if args.begin(false) {
                    hex(args.out, args.args[index]);
                }
            }
        }
        // PR_SET_VMA, whose only attribute is a name for anonymous memory.
        0x5356_4d41 if value == 0 => {
            if args.begin(false) {
                args.out.push_str("PR_SET_VMA_ANON_NAME");
            }
            if args.begin(false) {
                address(args.out, args.args[2]);
            }
            if args.begin(false) {
                put!(args.out, "{}", args.args[3]);
            }
            if args.begin(false) {
                let blob = args.before(4);
                args.attempt(args.args[4], |out| {
                    limited(out, until_nul(blob?.data), false, 80);
                    Some(())
                });
            }
        }
        _ => {
            for index in 1..5 {
                if args.begin(false) {
                    hex(args.out, args.args[index]);
                }
            }
        }
    }
}

/// What `prctl`'s result means where it is not a plain number.
pub fn prctl_result(out: &mut String, call: &Call<'_>, result: i64) {
    match call.args[0] as i32 {
        libc::PR_GET_DUMPABLE => {
            out.push_str(" (");
            flags::one(out, &DUMP, result as u64);
            out.push(')');
        }
        libc::PR_GET_SECUREBITS if result != 0 => {
            out.push_str(" (");
            flags::bits(out, &flags::SECURE, result as u64);
            out.push(')');
        }
        _ => {}
    }
}

/// `{sigmask=[INT], sigsetsize=8}`, of the pair that pselect6 takes.
fn signal_mask(args: &mut Args<'_, '_>, index: usize) {
    let mut blobs = args.all_before(index);
    let (pair, set) = (blobs.next(), blobs.next());
    args.attempt(args.args[index], |out| {
        let pair = pair?;
        let (pointer, size) = (u64_at(pair.data, 0)?, u64_at(pair.data, 8)?);
        out.push_str("{sigmask=");
        match set.filter(|_| pointer != 0) {
            Some(set) => signals::set(out, set.data)?,
            None => address(out, pointer),
        }
        put!(out, ", sigsetsize={size}}}");
        Some(())
    });
}

/// A received message, or the little that is known of one that never came.
fn received(args: &mut Args<'_, '_>, index: usize) {
    let limit = args.options.string_limit;
    let before = args.before(index).and_then(|blob| u32_at(blob.data, 8));
    let mut blobs = args.all_after(index);
    let message = net::Message::take(&mut blobs);
    let succeeded = args.succeeded();
    args.attempt(args.args[index], |out| {
        if succeeded {
            return message?.print(out, before, limit);
        }
        put!(out, "{{msg_namelen={}}}", before? as i32);
        Some(())
    });
}

/// The messages of sendmmsg and recvmmsg: those that were sent or received.
fn messages(args: &mut Args<'_, '_>, receive: bool) {
    let limit = args.options.string_limit;
    let succeeded = args.succeeded();
    let count = args.result().filter(|_| succeeded).unwrap_or(0);
    let mut before = args.all_before(1);
    let mut after = args.all_after(1);
    args.attempt(args.args[1], |out| {
        if receive && !succeeded {
            return None;
        }
        out.push('[');
        let mut index = 0;
        loop {
            let old = net::Message::take(&mut before);
            let new = net::Message::take(&mut after);
            let Some(message) = (if receive { new.as_ref() } else { old.as_ref() }) else { break };
            if index > 0 {
                out.push_str(", ");
            }
            out.push_str("{msg_hdr=");
            message.print(out, None, limit)?;
            if let Some(new) = new.as_ref().filter(|_| index < count) {
                put!(out, ", msg_len={}", new.len()?);
            }
            out.push('}');
            index += 1;
        }
        out.push(']');
        (index > 0).then_some(())
    });
}

/// `[5] => [15]`: an offset that the kernel moved.
fn moved_offset(args: &mut Args<'_, '_>, index: usize) {
    let before = args.before(index).and_then(|blob| u64_at(blob.data, 0));
    let after = args.after(index).and_then(|blob| u64_at(blob.data, 0));
    args.attempt(args.args[index], |out| {
        put!(out, "[{}]", before? as i64);
        if let Some(after) = after.filter(|after| Some(*after) != before) {
            put!(out, " => [{}]", after as i64);
        }
        Some(())
    });
}

/// The parameters of a ring: the kernel's answer goes on inside the braces.
fn ring_parameters(args: &mut Args<'_, '_>) {
    let (before, after) = (args.before(1), args.after(1));
    let known = before.is_some_and(|blob| uring::asked(&mut String::new(), blob.data).is_some());
    if args.begin(false) {
        args.attempt(args.args[1], |out| uring::asked(out, before?.data));
    }
    if args.continued() && known && args.args[1] != 0 {
        if let Some(after) = after {
            let mark = args.out.len();
            if uring::answered(args.out, after.data).is_none() {
                args.out.truncate(mark);
            }
        }
        args.out.push('}');
    }
}

fn seccomp(args: &mut Args<'_, '_>) {
    args.argument(0);
    let filter = args.args[0] as u32 == 1;
    if args.begin(false) {
        let value = args.args[1] & 0xffff_ffff;
        if filter {
            flags::bits(args.out, &flags::SECCOMP_FILTER, value);
        } else {
            hex(args.out, value);
        }
    }
    if args.begin(false) {
        let blob = args.before(2);
        let operation = args.args[0] as u32;
        args.attempt(args.args[2], |out| match operation {
            1 => {
                let data = blob?.data;
                put!(out, "{{len={}, filter=", u16_at(data, 0)?);
                address(out, u64_at(data, 8)?);
                out.push('}');
                Some(())
            }
            2 => list(out, blob?.data.get(..4)?, 4, 1, false, |out, action| {
                flags::one(out, &flags::SECCOMP_ACTION, u32_at(action, 0)?.into());
                Some(())
            }),
            _ => None,
        });
    }
}
