//! Starts a program with the agent inside it and serves the agents of its whole tree.
//!
//! Owns: putting the image into a process at an exec ([`inject`]), starting the first program
//! ([`spawn`]), answering agents ([`supervise`]), reading their records ([`drain`]), finding
//! call instructions with a disassembler ([`scan`]). Never does: printing; what it learns
//! goes to an [`Observer`].

pub mod arena;
mod attach;
pub mod drain;
pub mod error;
pub mod image;
pub mod inject;
pub mod library;
mod namespaces;
pub mod program;
pub mod scan;
pub mod spawn;
mod strict;
pub mod supervise;

pub use error::{Error, Result};
pub use program::Program;
pub use supervise::{Ending, Linger, Observer, Options, SiteReport, Task, attach, run};

pub use crossgate_wire as wire;
pub use crossgate_wire::arena::{HookKind, Mode, SiteKind, SiteReason};
