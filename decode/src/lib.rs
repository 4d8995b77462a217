//! System calls as text, in the format of strace 6.1.
//!
//! Owns: how one call (its number, six arguments, result and the copies of memory that came
//! with them) becomes one line, and how signals and ends of processes look. Never does:
//! read another process, decide what to show, write to a file, or trust a byte: the copies
//! come from the traced program, and whatever they hold, the worst is a line with a pointer
//! where a struct could have been. Where the data goes next: the command line adds the
//! task's number and prints the line.
//!
//! The order of things in a call's line follows `crossgate_syscalls`' table: each argument
//! has a kind, each kind its way to print (`args.rs`), each struct its function in the file
//! of its family. The few calls whose arguments depend on each other are in `special.rs`.

mod args;
mod bytes;
mod caps;
mod errno;
mod flags;
mod fs;
mod ioctl;
mod net;
mod poll;
mod process;
mod result;
mod signals;
mod special;
mod strings;
mod time;
mod uring;

pub use errno::{error as error_name, number as error_number};
pub use process::ended;
pub use result::error;
pub use signals::{delivered as signal, name as signal_name, number as signal_number};
pub use strings::quote;

use bytes::put;
use crossgate_syscalls::{Behaviour, Syscall};
use crossgate_wire::record::Blobs;

/// How to print.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Bytes of a string, and elements of an array, that are shown before `...`. Paths are
    /// always shown whole.
    pub string_limit: usize,
    /// Column at which `= result` begins; a longer line gets one space instead.
    pub result_column: usize,
}

impl Default for Options {
    /// What strace does when it is not told otherwise.
    fn default() -> Self {
        Self { string_limit: 32, result_column: 40 }
    }
}

/// A call as it was when it began.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// Its number on this architecture.
    pub nr: u64,
    /// Its six argument registers.
    pub args: [u64; 6],
    /// Memory the arguments point to, copied at entry.
    pub blobs: Blobs<'a>,
}

/// How a call ended.
#[derive(Clone, Copy, Debug)]
pub struct Exit<'a> {
    /// The result register: a value or `-errno`.
    pub result: i64,
    /// Memory the arguments point to, copied at exit.
    pub blobs: Blobs<'a>,
}

/// The table's row for this number on the architecture this is compiled for.
fn lookup(nr: u64) -> Option<&'static Syscall> {
    #[cfg(target_arch = "x86_64")]
    return crossgate_syscalls::x86_64::lookup(nr);
    #[cfg(target_arch = "aarch64")]
    return crossgate_syscalls::aarch64::lookup(nr);
}

impl Options {
    /// Writes the beginning of the call: its name and the arguments up to the first one that
    /// is known only when the call has ended. [`Options::exit`] writes the rest.
    pub fn enter(&self, out: &mut String, call: &Call<'_>) {
        match lookup(call.nr) {
            Some(row) => out.push_str(row.name),
            // As strace shows it: the kernel takes 32 bits of the number, with their sign.
            None => put!(out, "syscall_{:#x}", i64::from(call.nr as i32)),
        }
        out.push('(');
        args::Args::new(self, out, call, None).print();
    }

    /// Writes what [`Options::enter`] left out, and the result. `column` is the number of
    /// characters that the line has so far, a prefix of the caller's included.
    pub fn exit(&self, out: &mut String, column: usize, call: &Call<'_>, exit: &Exit<'_>) {
        let start = out.len();
        args::Args::new(self, out, call, Some(exit)).print();
        self.close(out, start, column);
        result::print(out, self, call, exit);
    }

    /// Writes the rest of a call that will never end, because it ended its task.
    pub fn no_exit(&self, out: &mut String, column: usize, call: &Call<'_>) {
        let start = out.len();
        // A call that was interrupted for good shows `<unfinished ...>` where its
        // arguments stop; the ones that never return have none that come late.
        let ends = lookup(call.nr).is_some_and(|row| {
            row.behaviour.has_any(Behaviour::ENDS_TASK.with(Behaviour::ENDS_PROCESS))
        });
        if !ends {
            out.push_str(" <unfinished ...>");
        }
        self.close(out, start, column);
        out.push_str("= ?");
    }

    /// Writes `)` and the blanks before the result; `column` is where the line was when `out`
    /// had `start` bytes; all of them are ASCII.
    fn close(&self, out: &mut String, start: usize, column: usize) {
        out.push_str(") ");
        let at = column + out.len() - start;
        for _ in at..self.result_column {
            out.push(' ');
        }
    }
}
