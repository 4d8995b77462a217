//! ioctl: request names and the arguments of the common ones.
//!
//! Owns: the terminal and descriptor requests of `asm-generic/ioctls.h`. Never does: guess
//! what an unknown request points to. Where the data goes next: the call's printer in
//! `special.rs`.

use crate::bytes::{i32_at, u16_at, u32_at};
use crate::flags::{self, Names, names};
use crate::put;

const REQUESTS: Names = names! { "":
    TCGETS = 0x5401, TCSETS = 0x5402, TCSETSW = 0x5403, TCSETSF = 0x5404, TCGETA = 0x5405,
    TCSETA = 0x5406, TCSETAW = 0x5407, TCSETAF = 0x5408, TCSBRK = 0x5409, TCXONC = 0x540a,
    TCFLSH = 0x540b, TIOCEXCL = 0x540c, TIOCNXCL = 0x540d, TIOCSCTTY = 0x540e,
    TIOCGPGRP = 0x540f, TIOCSPGRP = 0x5410, TIOCOUTQ = 0x5411, TIOCSTI = 0x5412,
    TIOCGWINSZ = 0x5413, TIOCSWINSZ = 0x5414, TIOCMGET = 0x5415, TIOCMBIS = 0x5416,
    TIOCMBIC = 0x5417, TIOCMSET = 0x5418, TIOCGSOFTCAR = 0x5419, TIOCSSOFTCAR = 0x541a,
    FIONREAD = 0x541b, TIOCLINUX = 0x541c, TIOCCONS = 0x541d, TIOCGSERIAL = 0x541e,
    TIOCSSERIAL = 0x541f, TIOCPKT = 0x5420, FIONBIO = 0x5421, TIOCNOTTY = 0x5422,
    TIOCSETD = 0x5423, TIOCGETD = 0x5424, TCSBRKP = 0x5425, TIOCSBRK = 0x5427,
    TIOCCBRK = 0x5428, TIOCGSID = 0x5429, TIOCGPTN = 0x8004_5430, TIOCSPTLCK = 0x4004_5431,
    TIOCGPTPEER = 0x5441, FIONCLEX = 0x5450, FIOCLEX = 0x5451, FIOASYNC = 0x5452,
    FIOQSIZE = 0x5460, SIOCGIFCONF = 0x8912, SIOCGIFFLAGS = 0x8913, SIOCGIFADDR = 0x8915,
    SIOCGIFMTU = 0x8921, SIOCGIFHWADDR = 0x8927, SIOCGIFINDEX = 0x8933,
};

/// The name of a request, or its parts as `linux/ioctl.h` composes them.
pub fn request(out: &mut String, value: u64) {
    if let Some(name) = flags::name(&REQUESTS, value) {
        return out.push_str(name);
    }
    let direction = match value >> 30 & 3 {
        0 => "_IOC_NONE",
        1 => "_IOC_WRITE",
        2 => "_IOC_READ",
        _ => "_IOC_READ|_IOC_WRITE",
    };
    put!(out, "_IOC({direction}, {:#x}, ", value >> 8 & 0xff);
    put!(out, "{:#x}, {:#x})", value & 0xff, value >> 16 & 0x3fff);
}

/// Who writes the argument of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Writer {
    /// The program.
    Program,
    /// The kernel.
    Kernel,
    /// There is no memory: the argument is a number.
    Nobody,
}

/// Who writes the argument of this request, for those that [`argument`] can print.
pub fn writer(value: u64) -> Option<Writer> {
    Some(match value {
        0x5401 | 0x540f | 0x5411 | 0x5413 | 0x541b | 0x5424 | 0x5429 | 0x8004_5430 => {
            Writer::Kernel
        }
        0x5402..=0x5404 | 0x5410 | 0x5414 | 0x5421 | 0x5423 | 0x5452 | 0x4004_5431 => {
            Writer::Program
        }
        0x540c | 0x540d | 0x5422 | 0x5450 | 0x5451 => Writer::Nobody,
        _ => return None,
    })
}

/// What the argument of a request points to.
pub fn argument(out: &mut String, value: u64, bytes: &[u8]) -> Option<()> {
    match value {
        0x5401..=0x5404 => termios(out, bytes)?,
        0x5413 | 0x5414 => {
            put!(out, "{{ws_row={}, ws_col={}, ", u16_at(bytes, 0)?, u16_at(bytes, 2)?);
            put!(out, "ws_xpixel={}, ws_ypixel={}}}", u16_at(bytes, 4)?, u16_at(bytes, 6)?);
        }
        _ => put!(out, "[{}]", i32_at(bytes, 0)?),
    }
    Some(())
}

const INPUT: Names = names! { "":
    IGNBRK, BRKINT, IGNPAR, PARMRK, INPCK, ISTRIP, INLCR, IGNCR, ICRNL, IUCLC = 0o1000, IXON,
    IXANY, IXOFF, IMAXBEL, IUTF8,
};
const OUTPUT: Names = names! { "":
    OPOST, OLCUC = 2, ONLCR, OCRNL, ONOCR, ONLRET, OFILL, OFDEL,
};
const SPEEDS: Names = names! { "":
    B0, B50, B75, B110, B134, B150, B200, B300, B600, B1200, B1800, B2400, B4800, B9600,
    B19200, B38400, B57600, B115200, B230400, B460800, B500000, B576000, B921600, B1000000,
};
const SIZES: Names = names! { "": CS5, CS6, CS7, CS8 };
const CONTROL: Names = names! { "":
    CSTOPB, CREAD, PARENB, PARODD, HUPCL, CLOCAL, CMSPAR, CRTSCTS,
};
const LOCAL: Names = names! { "":
    ISIG, ICANON, XCASE = 4, ECHO, ECHOE, ECHOK, ECHONL, NOFLSH, IEXTEN, ECHOCTL, ECHOPRT,
    ECHOKE, FLUSHO, PENDIN, TOSTOP, EXTPROC,
};

/// A `struct termios`, its four flag words.
fn termios(out: &mut String, bytes: &[u8]) -> Option<()> {
    let word = |index: usize| u32_at(bytes, index * 4).map(u64::from);
    let (input, output, control, local) = (word(0)?, word(1)?, word(2)?, word(3)?);
    out.push_str("{c_iflag=");
    flags::bits(out, &INPUT, input);
    // The delays are small numbers among the flags.
    put!(out, ", c_oflag=NL{}|CR{}", output >> 8 & 1, output >> 9 & 3);
    put!(out, "|TAB{}|BS{}", output >> 11 & 3, output >> 13 & 1);
    put!(out, "|VT{}|FF{}", output >> 14 & 1, output >> 15 & 1);
    if output & 0xff != 0 {
        out.push('|');
        flags::bits(out, &OUTPUT, output & 0xff);
    }
    out.push_str(", c_cflag=");
    flags::one(out, &SPEEDS, control & u64::from(libc::CBAUD));
    out.push('|');
    flags::one(out, &SIZES, control & u64::from(libc::CSIZE));
    let rest = control & !u64::from(libc::CBAUD | libc::CSIZE);
    if rest != 0 {
        out.push('|');
        flags::bits(out, &CONTROL, rest);
    }
    out.push_str(", c_lflag=");
    flags::bits(out, &LOCAL, local);
    out.push_str(", ...}");
    Some(())
}
