//! The arguments of a call, by the kinds that the table gives them.
//!
//! Owns: which arguments are shown at entry and which wait for the exit, and the way from a
//! kind to its printer. Never does: know a call by name (`special.rs` does, for the few
//! whose arguments depend on each other). Where the data goes next: the line.
//!
//! strace shows the arguments in their order as far as they are known when the call begins,
//! and from the first one that the kernel writes on when it has ended. Both halves run the
//! same code; [`Args::begin`] says for each argument whether this half shows it.

use crossgate_syscalls::{Direction, Extent, Kind, Syscall, Type};
use crossgate_wire::record::{Blob, BlobKind, Blobs};

use crate::bytes::{address, decimal, hex, i32_at, list, octal, u32_at, u64_at};
use crate::strings::{hexadecimal, limited, until_nul};
use crate::{
    Call, Exit, Options, caps, flags, fs, net, poll, process, put, result, signals, special,
    strings, time,
};

/// Prints one half of a call's arguments.
pub struct Args<'o, 'a> {
    pub options: &'o Options,
    pub out: &'o mut String,
    pub row: Option<&'static Syscall>,
    pub args: [u64; 6],
    enter: Blobs<'a>,
    exit: Option<&'o Exit<'a>>,
    /// An argument that the kernel writes has been reached.
    late: bool,
    /// This half has shown an argument, or the other one has.
    comma: bool,
}

impl<'o, 'a> Args<'o, 'a> {
    pub fn new(
        options: &'o Options,
        out: &'o mut String,
        call: &Call<'a>,
        exit: Option<&'o Exit<'a>>,
    ) -> Self {
        let row = crate::lookup(call.nr);
        Self {
            options,
            out,
            row,
            args: call.args,
            enter: call.blobs,
            exit,
            late: false,
            comma: false,
        }
    }

    /// All arguments that this half shows.
    pub fn print(&mut self) {
        let Some(row) = self.row else {
            for value in self.args {
                if self.begin(false) {
                    hex(self.out, value);
                }
            }
            return;
        };
        if special::print(self, row.name) {
            return;
        }
        for index in 0..row.args.len() {
            self.argument(index);
        }
    }

    /// Result of the call, in the half that comes after it.
    pub fn result(&self) -> Option<i64> {
        self.exit.map(|exit| exit.result)
    }

    /// Whether the call succeeded; `false` before its end.
    pub fn succeeded(&self) -> bool {
        self.result().is_some_and(|value| result::error(value).is_none())
    }

    /// Begins an argument; `late` when it is known only at the end of the call. Gives
    /// whether this half shows it, and has then written the comma before it.
    pub fn begin(&mut self, late: bool) -> bool {
        self.begin_with(late, true)
    }

    /// Like [`Args::begin`]; without `split_after_comma` the comma before the first late
    /// argument belongs to the second half.
    pub fn begin_with(&mut self, late: bool, split_after_comma: bool) -> bool {
        let first_late = late && !self.late;
        let at_exit = self.exit.is_some();
        if first_late {
            self.late = true;
            if !at_exit && self.comma && split_after_comma {
                self.out.push_str(", ");
            }
        }
        let shown = self.late == at_exit;
        if shown && self.comma && !(first_late && split_after_comma) {
            self.out.push_str(", ");
        }
        self.comma = true;
        shown
    }

    /// The copy of what an argument pointed to at entry.
    pub fn before(&self, arg: usize) -> Option<Blob<'a>> {
        self.enter.into_iter().find(|blob| usize::from(blob.arg) == arg)
    }

    /// The copy of what an argument pointed to at exit.
    pub fn after(&self, arg: usize) -> Option<Blob<'a>> {
        self.exit?.blobs.into_iter().find(|blob| usize::from(blob.arg) == arg)
    }

    /// All copies made for an argument at entry.
    pub fn all_before(&self, arg: usize) -> impl Iterator<Item = Blob<'a>> + use<'a> {
        self.enter.into_iter().filter(move |blob| usize::from(blob.arg) == arg)
    }

    /// All copies made for an argument at exit.
    pub fn all_after(&self, arg: usize) -> impl Iterator<Item = Blob<'a>> + use<'a> {
        let blobs = self.exit.map_or(Blobs::EMPTY, |exit| exit.blobs);
        blobs.into_iter().filter(move |blob| usize::from(blob.arg) == arg)
    }

    /// Whether this is the half in which the kernel's answer is put after an argument that
    /// the first half showed; the arguments after it wait for it.
    pub fn continued(&mut self) -> bool {
        self.late = true;
        self.exit.is_some()
    }

    /// Appends what `print` appends, or the address `value` when it gives up.
    pub fn attempt(&mut self, value: u64, print: impl FnOnce(&mut String) -> Option<()>) {
        let mark = self.out.len();
        if value == 0 || print(self.out).is_none() {
            self.out.truncate(mark);
            address(self.out, value);
        }
    }

    /// One argument, by its kind.
    pub fn argument(&mut self, index: usize) {
        let Some(kind) = self.row.and_then(|row| row.args.get(index)).map(|arg| arg.kind) else {
            return;
        };
        match kind {
            Kind::Data { direction, of, extent } => {
                let late = match direction {
                    Direction::In => false,
                    Direction::Out | Direction::Late => true,
                    // The ones whose first state is worth a look.
                    Direction::InOut => !matches!(
                        of,
                        Type::Pollfd
                            | Type::FdSet
                            | Type::Timespec
                            | Type::Timeval
                            | Type::CapHeader
                    ),
                };
                if self.begin(late) {
                    self.data(index, direction, of, extent);
                }
            }
            _ => {
                if self.begin(false) {
                    self.scalar(index, kind);
                }
            }
        }
    }

    fn scalar(&mut self, index: usize, kind: Kind) {
        let value = self.args[index];
        let blob = self.before(index);
        let limit = self.options.string_limit;
        let out = &mut *self.out;
        match kind {
            Kind::Int | Kind::Fd | Kind::Pid => decimal(out, value as i32),
            Kind::Uint => decimal(out, value as u32),
            Kind::Long | Kind::Offset => decimal(out, value as i64),
            Kind::Ulong | Kind::Size => decimal(out, value),
            Kind::Hex => hex(out, value & 0xffff_ffff),
            Kind::Hex64 => hex(out, value),
            Kind::Address => address(out, value),
            Kind::DirFd if value as i32 == libc::AT_FDCWD => out.push_str("AT_FDCWD"),
            Kind::DirFd => decimal(out, value as i32),
            // -1 means that the identity does not change.
            Kind::Uid if value as u32 == u32::MAX => out.push_str("-1"),
            Kind::Uid => decimal(out, value as u32),
            Kind::Mode => octal(out, value as u32 & 0xffff),
            Kind::FileMode => fs::mode(out, value as u32 & 0xffff),
            Kind::Signal => signals::name(out, (value as i32).into()),
            Kind::Device => fs::device(out, value & 0xffff_ffff),
            Kind::Key if value as u32 == 0 => out.push_str("IPC_PRIVATE"),
            Kind::Key => hex(out, value & 0xffff_ffff),
            Kind::Path => text(out, value, blob, usize::MAX),
            Kind::Str => text(out, value, blob, limit),
            Kind::Strings => match blob {
                Some(blob) if blob.kind == BlobKind::StrVec && value != 0 && !blob.fault => {
                    strings::vector(out, &blob, limit);
                }
                _ => address(out, value),
            },
            Kind::StringCount => {
                address(out, value);
                let count = blob.filter(|blob| !blob.fault && value != 0);
                if let Some(count) = count.and_then(|blob| u64_at(blob.data, 0)) {
                    put!(out, " /* {count} var{} */", if count == 1 { "" } else { "s" });
                }
            }
            Kind::Enum(set) => flags::one(out, flags::set(set), value & 0xffff_ffff),
            Kind::Flags(set) => flags::flags(out, set, value & 0xffff_ffff),
            Kind::Flags64(set) => flags::flags(out, set, value),
            Kind::Data { .. } => {}
        }
    }

    /// What an argument points to, at the moment that its direction says.
    pub fn data(&mut self, index: usize, direction: Direction, of: Type, extent: Extent) {
        let value = self.args[index];
        let late = self.late && direction != Direction::In;
        let blob = if late { self.after(index) } else { self.before(index) };
        let Some(blob) = blob.filter(|blob| value != 0 && (!blob.fault || !blob.data.is_empty()))
        else {
            // A call that failed wrote no length, but the program gave one.
            match self.before(index).and_then(|blob| u32_at(blob.data, 0)) {
                Some(before) if of == Type::Socklen => put!(self.out, "[{before}]"),
                _ => address(self.out, value),
            }
            return;
        };
        let options = self.options;
        let limit = options.string_limit;
        let contents = !late || self.succeeded();
        let before = self.before(index).and_then(|blob| u32_at(blob.data, 0));
        let bits = match extent {
            Extent::Bits(arg) => (self.args[usize::from(arg) % 6] as i32).max(0) as usize,
            _ => usize::MAX,
        };
        let count = match extent {
            Extent::Arg(arg) => self.args[usize::from(arg) % 6],
            _ => 0,
        };
        // A kernel that knows a longer address than the buffer holds gives the whole length.
        let room = match extent {
            Extent::Pointee(arg) => self.before(usize::from(arg)),
            _ => None,
        };
        let room = room.and_then(|blob| u32_at(blob.data, 0)).map_or(usize::MAX, |n| n as usize);
        let bytes = blob.data.get(..room).unwrap_or(blob.data);
        self.attempt(value, |out| match of {
            Type::Bytes | Type::Text if matches!(extent, Extent::Pages(_)) => {
                list(out, bytes, 1, limit, blob.truncated, |out, page| {
                    put!(out, "{}", page.first()? & 1);
                    Some(())
                })
            }
            Type::Bytes | Type::Text => {
                // Nothing could be read of a buffer that was not empty.
                if blob.fault {
                    return None;
                }
                // The result of a call that gives text counts the NUL.
                if of == Type::Text && extent == Extent::Result {
                    limited(out, until_nul(bytes), blob.truncated, usize::MAX);
                } else {
                    limited(out, bytes, blob.truncated, limit);
                }
                Some(())
            }
            Type::Iovec if blob.kind == BlobKind::Iovec => {
                // The kernel refuses more (UIO_MAXIOV), so they mean nothing.
                if count > 1024 || blob.fault {
                    return None;
                }
                strings::iovec(out, &blob, contents, limit);
                Some(())
            }
            Type::Dirents | Type::Dirents32 if blob.kind == BlobKind::Count => {
                let count = u64_at(bytes, 0)?;
                let plural = if count == 1 { "y" } else { "ies" };
                put!(out, "{value:#x} /* {count} entr{plural} */");
                Some(())
            }
            Type::FdSet => {
                poll::fd_set(out, bytes, bits);
                Some(())
            }
            Type::CpuSet => {
                process::cpu_set(out, bytes);
                Some(())
            }
            Type::Socklen => {
                let now = i32_at(bytes, 0)?;
                match before.map(|before| before as i32).filter(|before| *before != now) {
                    Some(before) => put!(out, "[{before} => {now}]"),
                    None => put!(out, "[{now}]"),
                }
                Some(())
            }
            Type::Sockaddr => net::sockaddr(out, bytes),
            Type::LandlockRulesetAttr => {
                out.push_str("{handled_access_fs=");
                flags::bits(out, &flags::LANDLOCK_ACCESS, u64_at(bytes, 0)?);
                out.push('}');
                Some(())
            }
            _ => match extent {
                Extent::One => single(out, of, bytes),
                _ => {
                    let (size, print) = element(of)?;
                    list(out, bytes, size, limit, blob.truncated, print)
                }
            },
        });
    }

    /// A buffer of random bytes, all of them as escapes.
    pub fn random(&mut self, index: usize) {
        let value = self.args[index];
        let limit = self.options.string_limit;
        match self.after(index) {
            Some(blob) => self.attempt(value, |out| {
                hexadecimal(out, blob.data, blob.truncated, limit);
                Some(())
            }),
            None => address(self.out, value),
        }
    }
}

/// A C string.
fn text(out: &mut String, value: u64, blob: Option<Blob<'_>>, limit: usize) {
    match blob {
        Some(blob) if value != 0 && blob.kind == BlobKind::Str && !blob.fault => {
            limited(out, blob.data, blob.truncated, limit);
        }
        _ => address(out, value),
    }
}

/// Something that is not an array: structs as they are, numbers in brackets.
fn single(out: &mut String, of: Type, bytes: &[u8]) -> Option<()> {
    match of {
        Type::CapData => caps::data(out, bytes),
        Type::CapHeader => caps::header(out, bytes),
        Type::Itimerspec => time::itimerspec(out, bytes),
        Type::Itimerval => time::itimerval(out, bytes),
        Type::OpenHow => fs::open_how(out, bytes),
        Type::Rlimit => process::rlimit(out, bytes),
        Type::Rusage => process::rusage(out, bytes),
        Type::Sigaction => signals::action(out, bytes),
        Type::Sigaltstack => signals::stack(out, bytes),
        Type::Sigevent => signals::event(out, bytes),
        Type::Siginfo => signals::info(out, bytes),
        Type::Sigset => signals::set(out, bytes),
        Type::Stat => fs::stat(out, bytes),
        Type::Statfs => fs::statfs(out, bytes),
        Type::Statx => fs::statx(out, bytes),
        Type::Sysinfo => process::sysinfo(out, bytes),
        Type::Timespec => time::timespec(out, bytes),
        Type::Timeval => time::timeval(out, bytes),
        Type::Timezone => time::timezone(out, bytes),
        Type::Tms => process::tms(out, bytes),
        Type::Utsname => process::utsname(out, bytes),
        Type::EpollEvent => poll::epoll_event(out, bytes),
        Type::WaitStatus => {
            process::wait_status(out, u32_at(bytes, 0)?);
            Some(())
        }
        _ => {
            let (_, print) = element(of)?;
            out.push('[');
            print(out, bytes)?;
            out.push(']');
            Some(())
        }
    }
}

type Print = fn(&mut String, &[u8]) -> Option<()>;

/// Size and printer of the types that come in arrays, numbers above all.
fn element(of: Type) -> Option<(usize, Print)> {
    let int: Print = |out, bytes| {
        decimal(out, i32_at(bytes, 0)?);
        Some(())
    };
    let uint: Print = |out, bytes| {
        decimal(out, u32_at(bytes, 0)?);
        Some(())
    };
    let ulong: Print = |out, bytes| {
        decimal(out, u64_at(bytes, 0)?);
        Some(())
    };
    let long: Print = |out, bytes| {
        decimal(out, u64_at(bytes, 0)? as i64);
        Some(())
    };
    let pointer: Print = |out, bytes| {
        address(out, u64_at(bytes, 0)?);
        Some(())
    };
    Some(match of {
        Type::Address => (8, pointer),
        Type::Int | Type::Tid | Type::SchedParam => (4, int),
        Type::Loff | Type::Time => (8, long),
        Type::Uid | Type::Uint | Type::Socklen => (4, uint),
        Type::Ulong => (8, ulong),
        Type::EpollEvent => (poll::EPOLL_EVENT, poll::epoll_event),
        Type::IovecBare => (16, |out, bytes| {
            let len = u64_at(bytes, 8)?;
            out.push_str("{iov_base=");
            address(out, u64_at(bytes, 0)?);
            put!(out, ", iov_len={len}}}");
            Some(())
        }),
        Type::FutexWaitv => (24, |out, bytes| {
            out.push_str("{val=");
            hex(out, u64_at(bytes, 0)?);
            out.push_str(", uaddr=");
            address(out, u64_at(bytes, 8)?);
            out.push_str(", flags=");
            flags::bits(out, &flags::WAITV, u32_at(bytes, 16)?.into());
            out.push('}');
            Some(())
        }),
        Type::Pollfd => (poll::POLLFD, poll::pollfd),
        Type::Timespec => (16, time::file_timespec),
        Type::Timeval => (16, time::file_timeval),
        _ => return None,
    })
}
