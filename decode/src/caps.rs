//! Capabilities: `capget`, `capset` and the calls of `prctl` about them.
//!
//! Owns: the names of `linux/capability.h` and the layout of its two structs. Never does:
//! check one. Where the data goes next: the argument printers.

use crate::bytes::{i32_at, u32_at};
use crate::flags::{self, Names, names};
use crate::put;

/// The capabilities by number.
pub const CAPABILITIES: Names = names! { "CAP_???":
    CAP_CHOWN = 0, CAP_DAC_OVERRIDE = 1, CAP_DAC_READ_SEARCH = 2, CAP_FOWNER = 3,
    CAP_FSETID = 4, CAP_KILL = 5, CAP_SETGID = 6, CAP_SETUID = 7, CAP_SETPCAP = 8,
    CAP_LINUX_IMMUTABLE = 9, CAP_NET_BIND_SERVICE = 10, CAP_NET_BROADCAST = 11,
    CAP_NET_ADMIN = 12, CAP_NET_RAW = 13, CAP_IPC_LOCK = 14, CAP_IPC_OWNER = 15,
    CAP_SYS_MODULE = 16, CAP_SYS_RAWIO = 17, CAP_SYS_CHROOT = 18, CAP_SYS_PTRACE = 19,
    CAP_SYS_PACCT = 20, CAP_SYS_ADMIN = 21, CAP_SYS_BOOT = 22, CAP_SYS_NICE = 23,
    CAP_SYS_RESOURCE = 24, CAP_SYS_TIME = 25, CAP_SYS_TTY_CONFIG = 26, CAP_MKNOD = 27,
    CAP_LEASE = 28, CAP_AUDIT_WRITE = 29, CAP_AUDIT_CONTROL = 30, CAP_SETFCAP = 31,
    CAP_MAC_OVERRIDE = 32, CAP_MAC_ADMIN = 33, CAP_SYSLOG = 34, CAP_WAKE_ALARM = 35,
    CAP_BLOCK_SUSPEND = 36, CAP_AUDIT_READ = 37, CAP_PERFMON = 38, CAP_BPF = 39,
    CAP_CHECKPOINT_RESTORE = 40,
};

const VERSIONS: Names = names! { "_LINUX_CAPABILITY_VERSION_???":
    _LINUX_CAPABILITY_VERSION_1 = 0x1998_0330, _LINUX_CAPABILITY_VERSION_2 = 0x2007_1026,
    _LINUX_CAPABILITY_VERSION_3 = 0x2008_0522,
};

/// A `struct __user_cap_header_struct`.
pub fn header(out: &mut String, bytes: &[u8]) -> Option<()> {
    out.push_str("{version=");
    flags::one(out, &VERSIONS, u32_at(bytes, 0)?.into());
    put!(out, ", pid={}}}", i32_at(bytes, 4)?);
    Some(())
}

fn set(out: &mut String, bits: u64) {
    if bits == 0 {
        out.push('0');
    }
    let mut first = true;
    for bit in (0..64).filter(|bit| bits >> bit & 1 != 0) {
        put!(out, "{}1<<", if first { "" } else { "|" });
        first = false;
        flags::one(out, &CAPABILITIES, bit);
    }
}

/// Two `struct __user_cap_data_struct`: the low and the high halves of three sets.
pub fn data(out: &mut String, bytes: &[u8]) -> Option<()> {
    for (index, name) in ["{effective=", ", permitted=", ", inheritable="].iter().enumerate() {
        out.push_str(name);
        let low = u64::from(u32_at(bytes, index * 4)?);
        let high = u64::from(u32_at(bytes, 12 + index * 4)?);
        set(out, high << 32 | low);
    }
    out.push('}');
    Some(())
}
