//! Where the image lies in memory and what the launcher tells it.
//!
//! Owns: the symbols the linker script defines, the parameter block, the address plan of
//! the agent's region. The launcher (`launch/src/inject.rs`) maps the image at a base that
//! is the same for a whole tree, fills [`PARAMS`] and starts it at `cg_start`.
//!
//! ```text
//! base                      the image: read-execute, then read-write data
//! base + BLOCKS_OFFSET      thread blocks, mapped one by one
//! base + ARENA_OFFSET       the arena shared with the supervisor
//! ```

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU32, AtomicU64};

unsafe extern "C" {
    /// First byte of the image (agent/image.ld).
    pub static IMAGE_START: u8;
    /// First byte of the writable part, page aligned.
    pub static IMAGE_DATA: u8;
    /// First byte after the image.
    pub static IMAGE_END: u8;
}

/// Distance from the base to the first thread block.
pub const BLOCKS_OFFSET: u64 = 16 << 20;
/// Distance from the base to the arena; room for 16,384 blocks before it.
pub const ARENA_OFFSET: u64 = 2 << 30;

/// Address of the image.
pub fn base() -> u64 {
    &raw const IMAGE_START as u64
}

/// Address after the image.
pub fn end() -> u64 {
    &raw const IMAGE_END as u64
}

/// Whether `[start, start + len)` touches the agent's region.
pub fn overlaps(start: u64, len: u64) -> bool {
    let region_end = base() + ARENA_OFFSET + crate::process::PROCESS.arena_len();
    start < region_end && start.saturating_add(len) > base()
}

/// Stages of the start at which the launcher has to do something; the agent stops itself
/// with `int3` at each.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Not started.
    None = 0,
    /// `Params::socket` waits for the arena's descriptor.
    WantsArena = 1,
    /// It cannot start: `Params::status` says why (`-errno`), `Params::what` at what.
    Failed = 2,
    /// It has no descriptors left to receive the arena by: it tries again once the launcher
    /// has raised the limit.
    WantsDescriptors = 3,
}

/// What the launcher and the agent tell each other through memory at start. The offset of
/// this struct in the image is that of the symbol `PARAMS`.
#[repr(C)]
pub struct Params {
    /// The program's first instruction.
    pub entry: AtomicU64,
    /// Bytes of the arena to map at first.
    pub arena_size: AtomicU64,
    /// How many rings these hold.
    pub rings: AtomicU64,
    /// A [`Stage`].
    pub stage: AtomicU32,
    /// Descriptor at which the agent receives the arena's, made by the agent.
    pub socket: AtomicU32,
    /// `-errno` when the start failed, as two's complement.
    pub status: AtomicU64,
    /// Number of the call that failed.
    pub what: AtomicU64,
    /// Process id as the launcher sees it.
    pub outer_pid: AtomicU64,
}

/// See [`Params`].
#[unsafe(no_mangle)]
#[unsafe(link_section = ".data.params")]
pub static PARAMS: Params = Params {
    entry: AtomicU64::new(0),
    arena_size: AtomicU64::new(0),
    rings: AtomicU64::new(0),
    stage: AtomicU32::new(0),
    socket: AtomicU32::new(0),
    status: AtomicU64::new(0),
    what: AtomicU64::new(0),
    outer_pid: AtomicU64::new(0),
};

/// Memory that only start-up code uses.
#[repr(C, align(16))]
pub struct StartStack(pub UnsafeCell<[u8; 8192]>);

// SAFETY: only the first instructions of a process use it, before there is a second task.
unsafe impl Sync for StartStack {}
