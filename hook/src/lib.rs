//! What a hook is: code that sees every system call of a task before the kernel does.
//!
//! Owns: the interface between the agent and a hook. Never does: anything by itself; the
//! agent calls a hook (`agent/src/dispatch.rs`), the built-in ones live beside it.
//!
//! For a hook of your own, see [`library`] (Rust) and `include/crossgate.h` (C).
#![no_std]

#[cfg(feature = "std")]
extern crate std;

pub mod library;

/// One system call, as the program is about to make it.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Call number. A hook may change it.
    pub nr: u64,
    /// The six argument registers. A hook may change them; the program gets its own values
    /// back afterwards.
    pub args: [u64; 6],
    /// Address of the call instruction in the program.
    pub site: u64,
}

/// What happens to a call after its hook has seen it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The kernel gets it, with the number and arguments as they are now.
    Continue,
    /// The program gets this result (a value, or `-errno`) and the kernel sees nothing.
    Answer(i64),
}

/// Code that sees calls. `Task` is what the agent knows of the calling task.
///
/// A hook runs inside the program, on a stack of the agent's, with signals held back; it
/// must not use vector registers, libc, or the program's memory other than through the
/// agent's readers.
pub trait Hook<Task> {
    /// A call begins.
    fn enter(&self, task: &Task, call: &mut Call) -> Action;

    /// The call ended with `result`; what is returned is what the program sees.
    fn exit(&self, task: &Task, call: &Call, result: i64) -> i64;

    /// The call that `enter` saw did not reach the kernel because a signal came first. It
    /// begins again after the signal's handler, if that returns there.
    fn cancelled(&self, task: &Task);
}
