//! The shape of the table's rows: a call, its arguments and its words.
//!
//! Owns: the types that `build.rs` fills from `table.txt`. Never does: hold the rows
//! themselves (they are generated). Where the data goes next: `decode` and the command line.

use crate::{Set, Type};

/// One system call.
#[derive(Debug)]
pub struct Syscall {
    /// Its name, as the kernel's tables and strace spell it on x86-64.
    pub name: &'static str,
    /// Its arguments in register order, at most six.
    pub args: &'static [Arg],
    /// What its result means when it is no error.
    pub result: ResultKind,
    /// What a hook must know about it.
    pub behaviour: Behaviour,
    /// The groups it belongs to.
    pub classes: Classes,
}

/// One argument of a call.
#[derive(Clone, Copy, Debug)]
pub struct Arg {
    /// Its name, as the manual pages spell it.
    pub name: &'static str,
    /// What its bits mean.
    pub kind: Kind,
}

/// What the bits of an argument mean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A signed 32-bit number.
    Int,
    /// An unsigned 32-bit number.
    Uint,
    /// A signed 64-bit number.
    Long,
    /// An unsigned 64-bit number.
    Ulong,
    /// A length in bytes, 64 bits.
    Size,
    /// A place in a file, signed, 64 bits.
    Offset,
    /// A 32-bit number shown in hexadecimal.
    Hex,
    /// A 64-bit number shown in hexadecimal.
    Hex64,
    /// A pointer that is not followed.
    Address,
    /// A file descriptor.
    Fd,
    /// The descriptor of a directory, or `AT_FDCWD`.
    DirFd,
    /// The number of a process, a thread or a process group.
    Pid,
    /// The number of a user or a group; -1 means no change.
    Uid,
    /// Permission bits.
    Mode,
    /// Permission bits and the type of a file.
    FileMode,
    /// A signal number.
    Signal,
    /// A device number, `dev_t`.
    Device,
    /// A System V IPC key.
    Key,
    /// A C string that names a file.
    Path,
    /// A C string.
    Str,
    /// A vector of C strings.
    Strings,
    /// A vector of C strings of which the number is shown.
    StringCount,
    /// One value of a set, 32 bits.
    Enum(Set),
    /// Bits of a set, 32 bits.
    Flags(Set),
    /// Bits of a set, 64 bits.
    Flags64(Set),
    /// A pointer to something of a known type.
    Data {
        /// Who writes it, and when it can be shown.
        direction: Direction,
        /// What one element is.
        of: Type,
        /// How many elements there are.
        extent: Extent,
    },
}

/// Who writes the memory that an argument points to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// The program; the kernel reads it.
    In,
    /// The kernel, when the call succeeds.
    Out,
    /// Both.
    InOut,
    /// The kernel, also when the call fails.
    Late,
}

/// How many elements of its type an argument points to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// One; it is shown without brackets.
    One,
    /// An array of a fixed length.
    Count(u16),
    /// As many as the argument with this index says.
    Arg(u8),
    /// As many as the `u32` says that the argument with this index points to.
    Pointee(u8),
    /// As many as the result says.
    Result,
    /// As many 64-bit words as hold the number of bits that this argument says.
    Bits(u8),
    /// One for each page of the length that this argument says.
    Pages(u8),
    /// One where this argument is a command of fcntl that takes a pointer, else none.
    Fcntl(u8),
}

/// What a result means when it is no error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResultKind {
    /// A signed 32-bit number.
    Int,
    /// An unsigned 32-bit number.
    Uint,
    /// A signed 64-bit number.
    Long,
    /// A number of bytes.
    Size,
    /// A place in a file.
    Offset,
    /// A number shown in hexadecimal.
    Hex,
    /// An address.
    Address,
    /// Permission bits, shown in octal.
    Mode,
    /// A file descriptor.
    Fd,
    /// The number of a process, a thread or a process group.
    Pid,
    /// The number of a user or a group.
    Uid,
    /// A personality, shown by name.
    Personality,
    /// A scheduling policy, shown by name.
    SchedPolicy,
    /// The call does not return.
    None,
}

/// What a hook must know about a call: a set of bits, one for each `behaviour` line of the
/// table, and the argument that one of them is about.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Behaviour(pub(crate) u32);

impl Behaviour {
    /// No bits: a plain call.
    pub const NONE: Self = Self(0);

    /// Whether all bits of `other` are set.
    #[inline]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether one of the bits of `other` is set.
    #[inline]
    pub const fn has_any(self, other: Self) -> bool {
        self.0 & other.0 & 0x0fff_ffff != 0
    }

    /// The bits of both.
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Index of the argument that [`Self::MASK_ARGUMENT`], [`Self::MASK_STRUCT`] or
    /// [`Self::WAITS_SIGNAL`] is about.
    #[inline]
    pub const fn argument(self) -> Option<usize> {
        // The top four bits hold the index plus one.
        match self.0 >> 28 {
            0 => None,
            n => Some(n as usize - 1),
        }
    }
}

/// The groups of calls, as strace names them with a `%` before: a set of bits, one for each
/// `class` line of the table.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Classes(pub(crate) u32);

impl Classes {
    /// In no group.
    pub const NONE: Self = Self(0);

    /// Whether one of the groups of `other` is among these.
    pub const fn has_any(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// The groups of both.
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The group of this name, without the `%`.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(word, _)| *word == name).map(|(_, class)| *class)
    }
}
