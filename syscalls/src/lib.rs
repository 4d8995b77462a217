//! One table of Linux system calls: numbers on each architecture, argument kinds, results,
//! behaviour, classes, and what must be copied of a call to show it.
//!
//! Owns: `table.txt`, and everything generated from it by `build.rs`. Never does: system
//! calls, allocation, formatting. Where the data goes next: the agent links
//! [`x86_64::plan`] (or [`aarch64::plan`]) and nothing else; `decode` reads [`Syscall`] to
//! print arguments; the command line reads names and [`Classes`] to filter.
#![no_std]

mod capture;
mod table;

pub use capture::{Capture, Len, What, When, fcntl_takes_pointer};
pub use table::{Arg, Behaviour, Classes, Direction, Extent, Kind, ResultKind, Syscall};

include!(concat!(env!("OUT_DIR"), "/table.rs"));

#[cfg(target_arch = "aarch64")]
pub use aarch64::plan;
#[cfg(target_arch = "x86_64")]
pub use x86_64::plan;
