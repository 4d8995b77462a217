//! Sockets: addresses, messages, control data, options.
//!
//! Owns: their layouts (`linux/socket.h`, `linux/in.h`, `linux/in6.h`, `linux/un.h`,
//! `linux/netlink.h`). Never does: resolve a name. Where the data goes next: the argument
//! printers.

use std::net::{Ipv4Addr, Ipv6Addr};

use crossgate_syscalls::Set;
use crossgate_wire::record::{Blob, BlobKind};

use crate::bytes::{address, i32_at, list, u16_at, u32_at, u64_at};
use crate::flags::{self, Names, names};
use crate::put;
use crate::strings::{limited, quote, until_nul};

fn port(out: &mut String, bytes: &[u8]) -> Option<()> {
    put!(out, "htons({})", u16::from_be(u16_at(bytes, 2)?));
    Some(())
}

/// A socket address of `bytes.len()` bytes.
pub fn sockaddr(out: &mut String, bytes: &[u8]) -> Option<()> {
    let family = u16_at(bytes, 0)?;
    out.push_str("{sa_family=");
    flags::one(out, flags::set(Set::SocketDomain), family.into());
    match (i32::from(family), bytes.len()) {
        (libc::AF_UNIX, 3..) => {
            let path = bytes.get(2..)?;
            // A name that begins with a NUL is not one of a file; all of its bytes count.
            match path.split_first() {
                Some((0, name)) => {
                    out.push_str(", sun_path=@");
                    quote(out, name);
                }
                _ => {
                    out.push_str(", sun_path=");
                    quote(out, until_nul(path));
                }
            }
        }
        (libc::AF_INET, 16..) => {
            out.push_str(", sin_port=");
            port(out, bytes)?;
            let octets: [u8; 4] = bytes.get(4..8)?.try_into().ok()?;
            put!(out, ", sin_addr=inet_addr(\"{}\")", Ipv4Addr::from(octets));
        }
        (libc::AF_INET6, 24..) => {
            out.push_str(", sin6_port=");
            port(out, bytes)?;
            let octets: [u8; 16] = bytes.get(8..24)?.try_into().ok()?;
            put!(out, ", sin6_flowinfo=htonl({})", u32::from_be(u32_at(bytes, 4)?));
            let text = Ipv6Addr::from(octets);
            put!(out, ", inet_pton(AF_INET6, \"{text}\", &sin6_addr)");
            if let Some(scope) = u32_at(bytes, 24) {
                put!(out, ", sin6_scope_id={scope}");
            }
        }
        (libc::AF_NETLINK, 12..) => {
            put!(out, ", nl_pid={}, nl_groups={:08x}", i32_at(bytes, 4)?, u32_at(bytes, 8)?);
        }
        (_, 3..) => {
            out.push_str(", sa_data=");
            quote(out, bytes.get(2..)?);
        }
        _ => {}
    }
    out.push('}');
    Some(())
}

const CONTROL: Names =
    names! { "SCM_???": SCM_RIGHTS, SCM_CREDENTIALS, SCM_SECURITY = 3, SCM_PIDFD = 4 };

/// Control data: a list of `cmsghdr` with their contents.
fn control(out: &mut String, bytes: &[u8], limit: usize) -> Option<()> {
    let mut rest = bytes;
    out.push('[');
    let mut first = true;
    while let (Some(len), Some(level), Some(kind)) =
        (u64_at(rest, 0), i32_at(rest, 8), i32_at(rest, 12))
    {
        let size = usize::try_from(len).ok().filter(|size| (16..=rest.len()).contains(size));
        let size = size.unwrap_or(rest.len());
        put!(out, "{}{{cmsg_len={len}, cmsg_level=", if first { "" } else { ", " });
        first = false;
        flags::one(out, flags::set(Set::SocketLevel), level as u32 as u64);
        out.push_str(", cmsg_type=");
        let data = rest.get(16..size)?;
        if level == libc::SOL_SOCKET {
            flags::one(out, &CONTROL, kind as u32 as u64);
        } else {
            put!(out, "{:#x}", kind);
        }
        out.push_str(", cmsg_data=");
        match (level, kind) {
            (libc::SOL_SOCKET, libc::SCM_RIGHTS) => list(out, data, 4, limit, false, |out, fd| {
                put!(out, "{}", i32_at(fd, 0)?);
                Some(())
            })?,
            (libc::SOL_SOCKET, libc::SCM_CREDENTIALS) => credentials(out, data)?,
            _ => limited(out, data, false, limit),
        }
        out.push('}');
        rest = rest.get(size.next_multiple_of(8)..).unwrap_or(&[]);
    }
    out.push(']');
    Some(())
}

/// A `struct ucred`.
fn credentials(out: &mut String, bytes: &[u8]) -> Option<()> {
    let (pid, uid, gid) = (i32_at(bytes, 0)?, u32_at(bytes, 4)?, u32_at(bytes, 8)?);
    put!(out, "{{pid={pid}, uid={uid}, gid={gid}}}");
    Some(())
}

/// The four blobs of one message: header, name, contents, control data.
pub struct Message<'a> {
    header: &'a [u8],
    name: Blob<'a>,
    contents: Blob<'a>,
    control: Blob<'a>,
}

impl<'a> Message<'a> {
    /// The next message of an argument's blobs; `None` when its four blobs are not there.
    pub fn take(blobs: &mut impl Iterator<Item = Blob<'a>>) -> Option<Self> {
        let header = blobs.next()?;
        let (name, contents, control) = (blobs.next()?, blobs.next()?, blobs.next()?);
        let kinds = [header.kind, name.kind, contents.kind, control.kind];
        let wanted = [BlobKind::Bytes, BlobKind::Bytes, BlobKind::Iovec, BlobKind::Bytes];
        (kinds == wanted).then_some(Self { header: header.data, name, contents, control })
    }

    /// The bytes sent or received, of an `mmsghdr`.
    pub fn len(&self) -> Option<u32> {
        u32_at(self.header, 56)
    }

    /// A `struct user_msghdr`. `name_len` is the length of the name's buffer before a
    /// receive; it is shown when the kernel changed it.
    pub fn print(&self, out: &mut String, name_len: Option<u32>, limit: usize) -> Option<()> {
        let header = self.header;
        out.push_str("{msg_name=");
        let name = u64_at(header, 0)?;
        let mark = out.len();
        if name == 0 || sockaddr(out, self.name.data).is_none() {
            out.truncate(mark);
            address(out, name);
        }
        let len = i32_at(header, 8)?;
        out.push_str(", msg_namelen=");
        if let Some(before) = name_len.map(|len| len as i32).filter(|before| *before != len) {
            put!(out, "{before} => ");
        }
        put!(out, "{len}, msg_iov=");
        if u64_at(header, 16)? == 0 {
            out.push_str("NULL");
        } else {
            crate::strings::iovec(out, &self.contents, true, limit);
        }
        put!(out, ", msg_iovlen={}", u64_at(header, 24)?);
        let control_len = u64_at(header, 40)?;
        if control_len != 0 {
            out.push_str(", msg_control=");
            let mark = out.len();
            if self.control.data.is_empty() || control(out, self.control.data, limit).is_none() {
                out.truncate(mark);
                address(out, u64_at(header, 32)?);
            }
        }
        put!(out, ", msg_controllen={control_len}, msg_flags=");
        flags::bits(out, flags::set(Set::Msg), u32_at(header, 48)?.into());
        out.push('}');
        Some(())
    }
}

const SOCKET: Names = names! { "SO_???":
    SO_DEBUG, SO_REUSEADDR, SO_TYPE, SO_ERROR, SO_DONTROUTE, SO_BROADCAST, SO_SNDBUF, SO_RCVBUF,
    SO_KEEPALIVE, SO_OOBINLINE, SO_NO_CHECK, SO_PRIORITY, SO_LINGER, SO_BSDCOMPAT, SO_REUSEPORT,
    SO_PASSCRED, SO_PEERCRED, SO_RCVLOWAT, SO_SNDLOWAT, SO_RCVTIMEO_OLD = 20,
    SO_SNDTIMEO_OLD = 21, SO_BINDTODEVICE, SO_ATTACH_FILTER, SO_DETACH_FILTER, SO_PEERNAME,
    SO_TIMESTAMP_OLD = 29, SO_ACCEPTCONN, SO_PEERSEC, SO_SNDBUFFORCE, SO_RCVBUFFORCE,
    SO_PASSSEC, SO_TIMESTAMPNS_OLD = 35, SO_MARK, SO_TIMESTAMPING_OLD = 37, SO_PROTOCOL,
    SO_DOMAIN, SO_RXQ_OVFL, SO_PEEK_OFF, SO_INCOMING_CPU, SO_ATTACH_BPF = 50, SO_BUSY_POLL,
    SO_MAX_PACING_RATE = 47, SO_INCOMING_NAPI_ID = 56, SO_COOKIE = 57, SO_PEERGROUPS = 59,
    SO_ZEROCOPY = 60, SO_RCVTIMEO_NEW = 66, SO_SNDTIMEO_NEW = 67,
};

const TCP: Names = names! { "TCP_???":
    TCP_NODELAY, TCP_MAXSEG, TCP_CORK, TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_KEEPCNT, TCP_SYNCNT,
    TCP_LINGER2, TCP_DEFER_ACCEPT, TCP_WINDOW_CLAMP, TCP_INFO, TCP_QUICKACK, TCP_CONGESTION,
    TCP_MD5SIG, TCP_USER_TIMEOUT, TCP_FASTOPEN, TCP_TIMESTAMP, TCP_NOTSENT_LOWAT = 25,
    TCP_FASTOPEN_CONNECT = 30, TCP_ULP = 31,
};

const IP: Names = names! { "IP_???":
    IP_TOS, IP_TTL, IP_HDRINCL, IP_OPTIONS, IP_RECVOPTS, IP_RETOPTS, IP_PKTINFO,
    IP_MTU_DISCOVER, IP_RECVERR, IP_RECVTTL, IP_RECVTOS, IP_MTU, IP_FREEBIND,
    IP_TRANSPARENT, IP_BIND_ADDRESS_NO_PORT = 24, IP_MULTICAST_IF, IP_MULTICAST_TTL,
    IP_MULTICAST_LOOP, IP_ADD_MEMBERSHIP, IP_DROP_MEMBERSHIP,
};

const IPV6: Names = names! { "IPV6_???":
    IPV6_UNICAST_HOPS, IPV6_MULTICAST_IF, IPV6_MULTICAST_HOPS, IPV6_MULTICAST_LOOP,
    IPV6_ADD_MEMBERSHIP, IPV6_MTU_DISCOVER, IPV6_MTU, IPV6_RECVERR, IPV6_V6ONLY,
    IPV6_RECVPKTINFO, IPV6_PKTINFO, IPV6_RECVHOPLIMIT, IPV6_RECVTCLASS, IPV6_TCLASS,
};

const NETLINK: Names = names! { "NETLINK_???":
    NETLINK_ADD_MEMBERSHIP, NETLINK_DROP_MEMBERSHIP, NETLINK_PKTINFO,
    NETLINK_BROADCAST_ERROR, NETLINK_NO_ENOBUFS, NETLINK_CAP_ACK, NETLINK_EXT_ACK = 11,
    NETLINK_GET_STRICT_CHK = 12,
};

/// The name of a socket option, which depends on the level.
pub fn option_name(out: &mut String, level: i32, option: u64) {
    let names = match level {
        libc::SOL_SOCKET => &SOCKET,
        libc::SOL_TCP => &TCP,
        libc::SOL_IP => &IP,
        libc::SOL_IPV6 => &IPV6,
        libc::SOL_NETLINK => &NETLINK,
        _ => return put!(out, "{option}"),
    };
    flags::one(out, names, option);
}

/// The value of a socket option, `bytes.len()` bytes of it.
pub fn option(out: &mut String, level: i32, option: u64, bytes: &[u8], limit: usize) -> Option<()> {
    match (level, option as i32, bytes.len()) {
        (libc::SOL_SOCKET, libc::SO_LINGER, 8) => {
            let (on, seconds) = (i32_at(bytes, 0)?, i32_at(bytes, 4)?);
            put!(out, "{{l_onoff={on}, l_linger={seconds}}}");
        }
        (libc::SOL_SOCKET, libc::SO_PEERCRED, 12) => credentials(out, bytes)?,
        (libc::SOL_SOCKET, libc::SO_ERROR, 4) => {
            let number = i32_at(bytes, 0)?;
            match u16::try_from(number).ok().and_then(crate::errno::error) {
                Some((name, _)) => put!(out, "[{name}]"),
                None => put!(out, "[{number}]"),
            }
        }
        // Most options are an `int`, and less than that means nothing.
        (_, _, 1..4) => return None,
        (_, _, 4) => put!(out, "[{}]", i32_at(bytes, 0)?),
        _ => limited(out, bytes, false, limit),
    }
    Some(())
}

const NETLINK_PROTOCOL: Names = names! { "NETLINK_???":
    NETLINK_ROUTE, NETLINK_USERSOCK, NETLINK_FIREWALL, NETLINK_SOCK_DIAG, NETLINK_NFLOG,
    NETLINK_XFRM, NETLINK_SELINUX, NETLINK_ISCSI, NETLINK_AUDIT, NETLINK_FIB_LOOKUP,
    NETLINK_CONNECTOR, NETLINK_NETFILTER, NETLINK_IP6_FW, NETLINK_DNRTMSG,
    NETLINK_KOBJECT_UEVENT, NETLINK_GENERIC, NETLINK_SCSITRANSPORT, NETLINK_ECRYPTFS,
    NETLINK_RDMA, NETLINK_CRYPTO,
};

/// The protocol of a socket, whose names depend on the domain.
pub fn protocol(out: &mut String, domain: u64, value: u64) {
    match domain as i32 {
        libc::AF_INET | libc::AF_INET6 => {
            flags::one(out, flags::set(Set::SocketProtocol), value);
        }
        libc::AF_NETLINK => flags::one(out, &NETLINK_PROTOCOL, value),
        _ => put!(out, "{value}"),
    }
}
