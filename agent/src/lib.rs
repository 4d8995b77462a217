//! The agent: code that lives inside a traced process and sees every system call it makes.
//!
//! It is one static image without libc, general registers only (`x86_64-unknown-none`), put
//! into the process by `crossgate-launch` before the program's first instruction. Rules for
//! everything in this crate:
//!
//! - no libc, no allocation, no vector registers, no thread-local storage;
//! - every system call goes through the gate (`sys.rs`): anywhere else it would come back
//!   to us;
//! - the program's memory is only touched through `uaccess.rs`, its stack not at all;
//! - a signal may arrive at every instruction: see the phases in `thread.rs`;
//! - a child of a fork has all of this memory and one task.
//!
//! The life of a call: a site's trampoline → `arch/x86_64/entry.rs` → `dispatch.rs` →
//! the hook (`trace.rs`, `inject.rs`, `library.rs`) and `virtualize.rs` → the gate → back the same way.
#![no_std]

pub mod arch {
    //! What depends on the processor; same names on every architecture.
    pub mod x86_64;
}

#[cfg(target_os = "none")]
pub mod attach;
#[cfg(target_os = "none")]
pub mod bare;
#[cfg(target_os = "none")]
pub mod dispatch;
#[cfg(target_os = "none")]
pub mod filter;
#[cfg(target_os = "none")]
pub mod host;
#[cfg(target_os = "none")]
pub mod image;
#[cfg(target_os = "none")]
pub mod inject;
#[cfg(target_os = "none")]
pub mod library;
#[cfg(target_os = "none")]
pub mod near;
#[cfg(target_os = "none")]
pub mod process;
#[cfg(target_os = "none")]
pub mod request;
#[cfg(target_os = "none")]
pub mod signals;
#[cfg(target_os = "none")]
pub mod sites;
#[cfg(target_os = "none")]
pub mod start;
#[cfg(target_os = "none")]
pub mod sync;
#[cfg(target_os = "none")]
pub mod sys;
#[cfg(target_os = "none")]
pub mod task;
#[cfg(target_os = "none")]
pub mod thread;
#[cfg(target_os = "none")]
pub mod trace;
#[cfg(target_os = "none")]
pub mod uaccess;
#[cfg(target_os = "none")]
pub mod virtualize;
