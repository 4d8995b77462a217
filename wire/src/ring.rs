//! One task's ring of records: a single producer (the task) and a single consumer (the
//! supervisor), no locks, no system call while there is room.
//!
//! `head` and `tail` count bytes since the ring was taken and never wrap; their difference
//! is what is unread. A record is never split: where it does not fit before the end of the
//! data, a [`Kind::Pad`](crate::Kind::Pad) record fills the rest.

use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64};

/// Nobody's.
pub const FREE: u32 = 0;
/// A task writes to it.
pub const ACTIVE: u32 = 1;
/// Its task is gone; free once it is empty.
pub const RETIRED: u32 = 2;

/// The shared words of a ring. The producer's and the consumer's lie on cache lines of
/// their own.
#[repr(C, align(64))]
pub struct RingHeader {
    /// [`FREE`], [`ACTIVE`] or [`RETIRED`].
    pub state: AtomicU32,
    /// Process of the task, as the supervisor sees it.
    pub pid: AtomicI32,
    /// The task, likewise.
    pub tid: AtomicI32,
    /// Futex: set by the producer while it waits for room, cleared and woken by the consumer.
    pub waiting: AtomicU32,
    _pad0: [u64; 6],
    /// Bytes written. Stored with release order after the record is complete.
    pub head: AtomicU64,
    _pad1: [u64; 7],
    /// Bytes read. Stored with release order after the record was copied.
    pub tail: AtomicU64,
    _pad2: [u64; 7],
}

const _: () = assert!(size_of::<RingHeader>() == 192);
