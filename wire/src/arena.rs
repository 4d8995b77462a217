//! The arena: a memfd that every process of the tree maps, laid out as
//! control page · request slots · scratch · rules · ring headers · ring data.

use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

use crate::hooks::Hooks;
use crate::inject::{RULES_SIZE, Rules};
use crate::ring::RingHeader;

/// First word of [`Control`]; a mapping that does not start with it is not an arena.
pub const MAGIC: u64 = u64::from_le_bytes(*b"xgate\0\0\x01");
/// Calls with a number below this have an entry in [`Control::interest`].
pub const CALLS: usize = 1024;
/// Number of request slots; a task that finds none free yields until one is.
pub const REQUESTS: usize = 64;
/// Bytes at the start of the arena for [`Control`] and the request slots.
pub const CONTROL_SIZE: usize = 64 << 10;
/// Bytes after that in which the supervisor puts answers too long for a request slot.
pub const SCRATCH_SIZE: usize = 192 << 10;

/// Bytes before the agent's image for stubs (`agent/src/image.rs`).
pub const STUBS_SIZE: u64 = 128 << 10;

/// What a task does with a call of which the hook does not want to know.
pub const INTEREST_NONE: u8 = 0;
/// The hook wants to see this call's entry and exit.
pub const INTEREST_HOOK: u8 = 1;

/// How sites are found and whether anything can escape.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Syscall User Dispatch stays armed: a site is patched after it has trapped.
    Exhaustive = 0,
    /// Sites are found by scanning what becomes executable; nothing traps.
    Fast = 1,
}

/// The built-in hook that runs in the target.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HookKind {
    /// Every call goes straight through.
    Pass = 0,
    /// Every call of interest becomes an enter and an exit record.
    Trace = 1,
    /// Calls get other results, signals and delays, as the arena's [`Rules`] say.
    Inject = 2,
    /// Hook libraries see the calls that they subscribe to.
    Library = 3,
}

/// Sizes of the parts of an arena that vary. All in bytes or counts.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Number of rings; zero where the hook writes no records.
    pub rings: u32,
    /// Data bytes of each ring, a power of two.
    pub ring_size: u32,
}

impl Geometry {
    /// Offset of the first ring header.
    pub const HEADERS: usize = CONTROL_SIZE + SCRATCH_SIZE + RULES_SIZE;

    /// Offset of the data of ring 0 in an arena that was made with this geometry.
    pub const fn data_offset(self) -> usize {
        (Self::HEADERS + self.rings as usize * size_of::<RingHeader>()).next_multiple_of(4096)
    }

    /// Length of the whole arena.
    pub const fn size(self) -> usize {
        self.size_of_rings(self.rings)
    }

    /// Length of the part of the arena that holds the first `rings` rings: what a process
    /// maps whose address space is limited.
    pub const fn size_of_rings(self, rings: u32) -> usize {
        self.data_offset() + rings as usize * self.ring_size as usize
    }
}

/// The first bytes of the arena.
#[repr(C)]
pub struct Control {
    /// [`MAGIC`].
    pub magic: u64,
    /// Sizes of the rings.
    pub geometry: Geometry,
    /// A [`Mode`].
    pub mode: u32,
    /// A [`HookKind`].
    pub hook: u32,
    /// Whether children and new programs are followed (0 or 1).
    pub follow: u32,
    /// Whether the supervisor may trace programs that gain rights (0 or 1).
    pub privileged: u32,
    /// Most bytes of a string or buffer that a record carries (strace's `-s`).
    pub string_limit: u32,
    /// A site is patched when it traps for this many times.
    pub patch_after: u32,
    /// Whether every patch decision is reported through a [`RequestKind::Site`] (0 or 1).
    pub report_sites: u32,
    /// Futex on which the supervisor sleeps; tasks add one and wake it.
    pub doorbell: AtomicU32,
    /// Added to by the supervisor at least once a second; stands still when it is gone.
    pub heartbeat: AtomicU32,
    /// Process id of the supervisor in its own namespace.
    pub supervisor: AtomicI32,
    /// Set once a process may see other process ids than the supervisor does.
    pub foreign: AtomicU32,
    /// Whether the supervisor's process id is its name in /proc (0 or 1).
    pub reachable: u32,
    /// Whether no call may reach the kernel but through the agent (0 or 1).
    pub strict: u32,
    /// Whether programs are to have no vDSO (0 or 1).
    pub hide_vdso: u32,
    /// The supervisor's descriptor of this memory.
    pub arena_descriptor: u32,
    /// The supervisor's descriptor of the agent's image.
    pub image_descriptor: u32,
    /// One more than the highest ring that was ever taken.
    pub rings_used: AtomicU32,
    /// What the agents count; `crossgate run --stats` shows it.
    pub counters: Counters,
    /// Per call number: [`INTEREST_NONE`] or [`INTEREST_HOOK`].
    pub interest: [u8; CALLS],
    /// Hook libraries, with [`HookKind::Library`].
    pub hooks: Hooks,
    /// Requests of tasks to the supervisor.
    pub requests: [Request; REQUESTS],
}

const _: () = assert!(size_of::<Control>() <= CONTROL_SIZE);

/// What happened in the whole tree; added to without order.
#[repr(C)]
#[derive(Default)]
pub struct Counters {
    /// SIGSYS signals taken by Syscall User Dispatch.
    pub traps: AtomicU64,
    /// Sites patched by a jump over the preceding `mov`.
    pub patched_mov: AtomicU64,
    /// Sites patched by a jump whose displacement borrows the next instruction's bytes.
    pub patched_pun: AtomicU64,
    /// Sites patched by moving the preceding instruction.
    pub patched_relocated: AtomicU64,
    /// Sites that stay with the signal.
    pub unpatched: AtomicU64,
    /// Signals of the program that went through the agent.
    pub signals: AtomicU64,
    /// Signals that arrived inside a hook and were held back until its end.
    pub deferred: AtomicU64,
    /// Tasks created.
    pub tasks: AtomicU64,
    /// Programs executed.
    pub execs: AtomicU64,
}

impl Counters {
    /// Their names and what they hold now.
    pub fn read(&self) -> [(&'static str, u64); 9] {
        [
            ("execs", &self.execs),
            ("tasks", &self.tasks),
            ("traps", &self.traps),
            ("patched-mov", &self.patched_mov),
            ("patched-pun", &self.patched_pun),
            ("patched-relocated", &self.patched_relocated),
            ("unpatched", &self.unpatched),
            ("signals", &self.signals),
            ("deferred", &self.deferred),
        ]
        .map(|(name, counter)| (name, counter.load(Ordering::Relaxed)))
    }
}

/// What a task asks of the supervisor.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RequestKind {
    /// `tid` is about to execute a program: attach to it. `args` = signal mask the new
    /// program is to have, how many programs the task has tried to execute, the address its
    /// agent must have (zero: any), descriptors that it inherits (of the arena, and in the
    /// upper half of the image; one more than the number, zero for none). Answer 0, or
    /// `-errno`.
    Exec = 1,
    /// The exec did not happen: let go of `tid`. No answer.
    ExecFailed = 2,
    /// A new process, or a new thread where ids differ: `args[0]` is its maker (by the
    /// supervisor's ids, process and thread), `args[1]` the address of eight bytes in its
    /// memory that hold `args[2]`. Answer: its ids as the supervisor sees them, the process
    /// in the upper half; or `-errno`.
    Task = 3,
    /// A site was decided on: `args` = address after the call instruction, [`SiteKind`],
    /// reason, call number. Answer 0.
    Site = 4,
    /// Find the sites in the executable part of `args[0] .. args[0] + args[1]` of `pid`. Answer: their number, as
    /// [`SiteEntry`] in the scratch area, which belongs to the task until it sends
    /// [`RequestKind::ScanDone`]; `data` holds 1 when there is code that could not be
    /// searched.
    Scan = 5,
    /// The scratch area may be used again. No answer.
    ScanDone = 6,
    /// Which instruction before the site at `args[0]` (the call instruction's address) may
    /// run elsewhere? Answer: its length, its bytes in `data`; or `-errno`.
    Relocate = 7,
    /// Hook library `args[0]` failed in call number `args[3]`: by signal `args[1]` at offset
    /// `args[2]` of it, by giving itself up (zero), or by refusing to start (`-errno`). No
    /// answer.
    HookFailed = 10,
    /// The listener of strict mode's filter is descriptor `args[0]`; or, negative, why there is none.
    Strict = 12,
    /// Hook library `args[0]` cannot be loaded: why, in `args[2]` bytes at address `args[1]`.
    HookRefused = 11,
    /// `pid` made process `args[0]`, as it sees it. No answer.
    Child = 9,
    /// The task, and what it executes, runs without the agent from here: because the
    /// supervisor could not attach (`args[0]` is its answer, `-errno`), because it asked to
    /// be traced by another program ([`UNTRACED_TRACEE`]), or because what it executes gains
    /// rights ([`UNTRACED_RIGHTS`]). No answer.
    Untraced = 8,
}

/// See [`RequestKind::Untraced`].
pub const UNTRACED_TRACEE: u64 = 0;
/// See [`RequestKind::Untraced`].
pub const UNTRACED_RIGHTS: u64 = 1;

/// How a site was patched, or that it was not.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SiteKind {
    /// The `mov $nr, %eax` before it became a jump.
    Mov = 1,
    /// The call instruction became a jump that borrows the next three bytes.
    Pun = 2,
    /// The instruction before it was moved into the trampoline.
    Relocated = 3,
    /// It stays as it is and traps at each call.
    Signal = 4,
}

impl SiteKind {
    /// The kind whose discriminant is `n`.
    pub fn from_u64(n: u64) -> Option<Self> {
        Some(match n {
            1 => Self::Mov,
            2 => Self::Pun,
            3 => Self::Relocated,
            4 => Self::Signal,
            _ => return None,
        })
    }
}

/// Why a site stays with the signal (second word of [`RequestKind::Site`]).
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SiteReason {
    /// It was patched.
    None = 0,
    /// Unwinders recognise a signal's return by its bytes.
    SignalReturn = 1,
    /// No free memory within reach of a jump.
    NoRoom = 2,
    /// The page cannot be made writable.
    Protected = 3,
    /// The bytes lie across a cache line and other threads may be running them.
    Straddles = 4,
    /// No neighbouring instruction can be moved.
    NotMovable = 5,
    /// A 32-bit call instruction.
    Compat = 7,
    /// The page is writable: the program may be changing this code itself.
    Writable = 9,
    /// The page is a shared mapping of a file, which a patch would change.
    Shared = 10,
    /// Another patched site relies on its bytes.
    Overlaps = 11,
}

impl SiteReason {
    /// One clause that completes "stays on the signal because …".
    pub fn text(n: u64) -> &'static str {
        match n {
            0 => "",
            1 => "unwinders recognise a signal's return by its bytes",
            2 => "no free memory within reach of a jump",
            3 => "the page cannot be made writable",
            4 => "its bytes cross a cache line while other threads run",
            5 => "no neighbouring instruction can be moved",
            7 => "a 32-bit call instruction",
            9 => "the page is writable, the program may change this code itself",
            10 => "the page is a shared mapping of a file, which a patch would change",
            11 => "another patched site relies on its bytes",
            _ => "unknown",
        }
    }
}

/// Free; a task takes it by compare-and-swap.
pub const REQUEST_FREE: u32 = 0;
/// Being filled in.
pub const REQUEST_TAKEN: u32 = 1;
/// For the supervisor to read.
pub const REQUEST_SENT: u32 = 2;
/// Answered; the task frees it.
pub const REQUEST_ANSWERED: u32 = 3;

/// One slot. `state` is the futex on which the task waits for [`REQUEST_ANSWERED`].
#[repr(C)]
pub struct Request {
    /// One of the `REQUEST_*` states.
    pub state: AtomicU32,
    /// A [`RequestKind`].
    pub kind: AtomicU32,
    /// Process id as the supervisor sees it (as the task does in [`RequestKind::Task`]).
    pub pid: AtomicI32,
    /// Thread id, likewise.
    pub tid: AtomicI32,
    /// Words whose meaning `kind` gives.
    pub args: [AtomicU64; 4],
    /// The answer.
    pub result: AtomicU64,
    /// Whether anyone waits for the answer (0 or 1); if not the supervisor frees the slot.
    pub wants_answer: AtomicU32,
    /// Words of the answer whose meaning `kind` gives.
    pub data: [AtomicU64; 32],
}

/// The instruction before the call loads its number.
pub const SITE_LOADS_NUMBER: u32 = 1;
/// Something jumps straight to the call.
pub const SITE_ENTERED: u32 = 2;

/// One site found by [`RequestKind::Scan`].
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SiteEntry {
    /// Address of the call instruction.
    pub address: u64,
    /// Length of the instructions before it that may run elsewhere, all together; 0 for
    /// none. Right only while no task can be in the middle of them.
    pub movable: u32,
    /// [`SITE_LOADS_NUMBER`] and [`SITE_ENTERED`].
    pub flags: u32,
}

/// A mapped arena.
///
/// Every method takes `&self`: what is shared is atomic, or owned by the one task whose
/// ring it is.
#[derive(Clone, Copy)]
pub struct Arena {
    base: *mut u8,
}

// SAFETY: an arena is a shared mapping whose mutable words are atomics.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

impl Arena {
    /// # Safety
    /// `base` is the start of a readable and writable mapping of an arena that stays mapped
    /// for as long as this value or anything borrowed from it is used.
    pub const unsafe fn new(base: *mut u8) -> Self {
        Self { base }
    }

    /// Start of the mapping.
    pub fn base(&self) -> *mut u8 {
        self.base
    }

    /// The control page.
    pub fn control(&self) -> &Control {
        // SAFETY: `new` requires a mapped arena, which starts with a `Control`.
        unsafe { &*self.base.cast() }
    }

    /// The scratch area for answers of any length.
    pub fn scratch(&self) -> *mut u8 {
        // SAFETY: the scratch area lies inside every arena.
        unsafe { self.base.add(CONTROL_SIZE) }
    }

    /// The rules of what to inject.
    pub fn rules(&self) -> &Rules {
        // SAFETY: they lie inside every arena, after the scratch area; zero is a valid value.
        unsafe { &*self.base.add(CONTROL_SIZE + SCRATCH_SIZE).cast() }
    }

    /// Header of ring `index`, which must be below the number of rings.
    pub fn ring(&self, index: u32) -> &RingHeader {
        // SAFETY: the headers of all rings lie inside every arena that has them.
        unsafe { &*self.base.add(Geometry::HEADERS).cast::<RingHeader>().add(index as usize) }
    }

    /// Data of ring `index`: `geometry.ring_size` bytes. `geometry` is the caller's own copy:
    /// the one in the control page can be overwritten by any traced program.
    pub fn ring_data(&self, geometry: Geometry, index: u32) -> *mut u8 {
        // SAFETY: the caller's mapping covers this ring (see `Geometry::size_of_rings`).
        unsafe {
            self.base.add(geometry.data_offset() + index as usize * geometry.ring_size as usize)
        }
    }
}
