//! Waiting for descriptors: `pollfd`, `fd_set`, `epoll_event`.
//!
//! Owns: their layouts (`asm-generic/poll.h`, `linux/eventpoll.h`). Never does: know what a
//! descriptor is. Where the data goes next: the argument printers and the result column.

use crate::bytes::{i32_at, u16_at, u32_at, u64_at};
use crate::flags::{self, Names, names};
use crate::put;

const POLL: Names = names! { "POLL???":
    POLLIN, POLLPRI, POLLOUT, POLLERR, POLLHUP, POLLNVAL, POLLRDNORM, POLLRDBAND, POLLWRNORM,
    POLLWRBAND, POLLMSG = 0x400, POLLREMOVE = 0x1000, POLLRDHUP,
};

const EPOLL: Names = names! { "EPOLL???":
    EPOLLIN, EPOLLPRI, EPOLLOUT, EPOLLERR, EPOLLHUP, EPOLLRDNORM, EPOLLRDBAND, EPOLLWRNORM,
    EPOLLWRBAND, EPOLLMSG, EPOLLRDHUP, EPOLLEXCLUSIVE, EPOLLWAKEUP, EPOLLONESHOT, EPOLLET,
};

/// Size of a `struct pollfd`.
pub const POLLFD: usize = 8;

/// A `struct pollfd` as the program gave it.
pub fn pollfd(out: &mut String, bytes: &[u8]) -> Option<()> {
    let (fd, events) = (i32_at(bytes, 0)?, u16_at(bytes, 4)?);
    put!(out, "{{fd={fd}");
    if fd >= 0 {
        out.push_str(", events=");
        flags::bits(out, &POLL, events.into());
    }
    out.push('}');
    Some(())
}

/// Those of an array of `struct pollfd` that have events: `[{fd=3, revents=POLLIN}]`.
pub fn ready(out: &mut String, bytes: &[u8], limit: usize) -> Option<()> {
    out.push('[');
    let mut count = 0;
    for entry in bytes.chunks_exact(POLLFD) {
        let revents = u16_at(entry, 6)?;
        if revents == 0 {
            continue;
        }
        if count > 0 {
            out.push_str(", ");
        }
        if count == limit {
            out.push_str("...");
            break;
        }
        count += 1;
        put!(out, "{{fd={}, revents=", i32_at(entry, 0)?);
        flags::bits(out, &POLL, revents.into());
        out.push('}');
    }
    out.push(']');
    Some(())
}

/// The descriptors of an `fd_set`, of which the first `count` may be members.
pub fn fd_set(out: &mut String, bytes: &[u8], count: usize) {
    out.push('[');
    let mut first = true;
    let members = bytes.iter().enumerate().flat_map(|(byte, value)| {
        (0..8).filter(move |bit| value >> bit & 1 != 0).map(move |bit| byte * 8 + bit)
    });
    for fd in members.take_while(|fd| *fd < count) {
        put!(out, "{}{fd}", if first { "" } else { " " });
        first = false;
    }
    out.push(']');
}

/// Size of a `struct epoll_event`: packed on x86-64.
pub const EPOLL_EVENT: usize = if cfg!(target_arch = "x86_64") { 12 } else { 16 };

/// A `struct epoll_event`.
pub fn epoll_event(out: &mut String, bytes: &[u8]) -> Option<()> {
    let data = u64_at(bytes, EPOLL_EVENT - 8)?;
    out.push_str("{events=");
    flags::bits(out, &EPOLL, u32_at(bytes, 0)?.into());
    put!(out, ", data={{u32={}, u64={data}}}}}", data as u32);
    Some(())
}
