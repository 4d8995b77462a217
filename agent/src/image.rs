//! Where the image lies in memory and what the launcher tells it.
//!
//! Owns: the symbols the linker script defines, the parameter block, the address plan of
//! the agent's memory. The launcher (`launch/src/inject.rs`) maps stubs and image in one
//! piece, within reach of a jump from the program's loader and libraries where it can, and
//! starts the image at `cg_start`. The rest lies in a region far from
//! everything, at an address that is the same for a whole tree.
//!
//! ```text
//! base - STUBS_SIZE         stubs: calls that return to their sites directly (`near.rs`)
//! base                      the image: read-execute, then read-write data
//!
//! region - n * HOOK_ROOM    hook library n
//! region                    thread blocks, mapped one by one
//! region + ARENA_OFFSET     the arena shared with the supervisor
//! ```

use core::cell::UnsafeCell;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};

use crossgate_wire::arena::STUBS_SIZE;
use crossgate_wire::hooks::HOOK_ROOM;

unsafe extern "C" {
    /// First byte of the image (agent/image.ld).
    pub static IMAGE_START: u8;
    /// First byte of the writable part, page aligned.
    pub static IMAGE_DATA: u8;
    /// First byte after the image.
    pub static IMAGE_END: u8;
    /// The table of words to relocate.
    pub static RELOCATIONS: u8;
    /// First byte after that.
    pub static RELOCATIONS_END: u8;
}

/// Distance from the region's start, where the blocks are, to the arena; room for 16,384
/// blocks before it.
const ARENA_OFFSET: u64 = 1 << 30;

/// Address of the image.
pub fn base() -> u64 {
    &raw const IMAGE_START as u64
}

/// Address after the image.
pub fn end() -> u64 {
    &raw const IMAGE_END as u64
}

/// Where stubs lie.
pub fn stubs() -> Range<u64> {
    base() - STUBS_SIZE..base()
}

/// Address of the first thread block.
pub fn blocks() -> u64 {
    PARAMS.region.load(Ordering::Relaxed)
}

/// Address of the arena.
pub fn arena() -> u64 {
    blocks() + ARENA_OFFSET
}

/// Address of hook library `index`: below the blocks.
pub fn library(index: usize) -> u64 {
    blocks() - (index as u64 + 1) * HOOK_ROOM
}

/// Whether `[start, start + len)` touches the agent's memory.
pub fn overlaps(start: u64, len: u64) -> bool {
    let arena_end = arena() + crate::process::PROCESS.arena_len();
    let touches = |part: Range<u64>| start < part.end && start.saturating_add(len) > part.start;
    let libraries = u64::from(crate::process::PROCESS.control().hooks.count);
    let start_of_libraries = blocks() - libraries * HOOK_ROOM;
    touches(stubs().start..end()) || touches(start_of_libraries..arena_end)
}

/// What the agent tells the launcher when it stops itself with `int3` at start: rax holds one
/// of these, rdi and rsi what belongs to it.
#[repr(u64)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// All is well: the next step is the program's first instruction.
    Ready = 1,
    /// The descriptor in rdi, a socket, waits for the arena's.
    WantsArena = 2,
    /// It has no descriptors left to receive the arena by: it tries again once the launcher
    /// has raised the limit.
    WantsDescriptors = 3,
    /// It cannot start: the call in rdi gave rsi (`-errno`).
    Failed = 4,
    /// It is in a program that runs already: what is exchanged lies at rdi, and steps begin at rsi
    /// (`attach.rs`).
    Attached = 5,
    /// A step is done, and gave rdi.
    Done = 6,
}

/// What the launcher tells the agent at start, in registers (`launch/src/inject.rs`), which
/// `cg_start` writes here.
#[repr(C)]
pub struct Params {
    /// The program's first instruction (rbx).
    pub entry: AtomicU64,
    /// Start of the region (rbp).
    pub region: AtomicU64,
    /// Bytes of the arena to map at first (r12).
    pub arena_size: AtomicU64,
    /// Process id as the launcher sees it; in the upper half, how many rings the arena's
    /// first part holds (r13).
    pub ids: AtomicU64,
    /// One more than the arena's descriptor in this process, where it was inherited, and, in
    /// the upper half, than the image's (r14).
    pub descriptors: AtomicU64,
    /// Flags: [`BOUND`], [`RUNS`], [`FSGSBASE`] (r15).
    pub flags: AtomicU64,
}

/// A filter that the program has inherited names this image's address.
pub const BOUND: u64 = 1;
/// The program runs already.
pub const RUNS: u64 = 2;
/// Of such a program: the kernel allows `wrgsbase`.
pub const FSGSBASE: u64 = 4;

impl Params {
    /// The two halves of a word.
    pub fn halves(word: &AtomicU64) -> (u32, u32) {
        let word = word.load(Ordering::Relaxed);
        (word as u32, (word >> 32) as u32)
    }
}

/// See [`Params`].
pub static PARAMS: Params = Params {
    entry: AtomicU64::new(0),
    region: AtomicU64::new(0),
    arena_size: AtomicU64::new(0),
    ids: AtomicU64::new(0),
    descriptors: AtomicU64::new(0),
    flags: AtomicU64::new(0),
};

/// As much as a task's: steps of joining and leaving (`attach.rs`) run on it, too. What nobody
/// touches takes no memory.
pub const START_STACK_SIZE: usize = 22 << 10;

/// A stack for code that runs while there is no other task, or all others are stopped.
#[repr(C, align(16))]
pub struct StartStack(pub UnsafeCell<[u8; START_STACK_SIZE]>);

// SAFETY: one task at a time uses it: see above.
unsafe impl Sync for StartStack {}
