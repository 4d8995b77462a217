//! What the agent and the supervisor share: one memory area (the *arena*) per tree of
//! traced processes, and the records that travel through it.
//!
//! Owns: the layout of the arena, the ring that carries one task's records, the request
//! slots by which a task asks the supervisor for something, the rules of what to inject, and
//! the encoding of records.
//! Never does: system calls, allocation, or anything that could differ between the two
//! sides; both compile this same file. Where the data goes next: the agent writes
//! (`agent/src/trace.rs`), the supervisor reads (`launch/src/drain.rs`), `decode` prints.
#![no_std]

pub mod arena;
pub mod attach;
pub mod hooks;
pub mod host;
pub mod inject;
pub mod record;
pub mod ring;

pub use arena::{Arena, Control, Geometry, Request, RequestKind, SiteEntry};
pub use inject::Rules;
pub use record::{Blob, BlobKind, Kind, Record, Writer};
pub use ring::RingHeader;
