//! What all tasks of one address space share: the arena, the mode, a few flags.

use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use crossgate_wire::arena::{Counters, HookKind, Mode};
use crossgate_wire::{Arena, Control};

use crate::sync::{Guard, Lock};
use crate::sys::{self, nr};

/// The one [`Process`] of this address space.
pub static PROCESS: Process = Process {
    arena: AtomicPtr::new(core::ptr::null_mut()),
    rings: AtomicU32::new(0),
    traces: AtomicBool::new(false),
    injects: AtomicBool::new(false),
    libraries: AtomicBool::new(false),
    fast: AtomicBool::new(false),
    filtered: AtomicBool::new(false),
    bound: AtomicBool::new(false),
    shares_files: AtomicBool::new(false),
    threads: AtomicBool::new(false),
    sigsys_ignored: AtomicBool::new(false),
    no_more_patches: AtomicBool::new(false),
    first_brk: AtomicU64::new(0),
    first_stack: AtomicU64::new(0),
};

/// Held while the arena's mapping grows.
static GROWING: Lock<()> = Lock::new(());

/// See the module.
pub struct Process {
    arena: AtomicPtr<u8>,
    rings: AtomicU32,
    traces: AtomicBool,
    injects: AtomicBool,
    libraries: AtomicBool,
    fast: AtomicBool,
    filtered: AtomicBool,
    bound: AtomicBool,
    shares_files: AtomicBool,
    threads: AtomicBool,
    sigsys_ignored: AtomicBool,
    no_more_patches: AtomicBool,
    first_brk: AtomicU64,
    first_stack: AtomicU64,
}

impl Process {
    /// Takes the arena mapped at `base`, of which the first `rings` rings are mapped.
    pub fn set_arena(&self, base: *mut u8, rings: u32) {
        self.arena.store(base, Ordering::Relaxed);
        self.rings.store(rings, Ordering::Relaxed);
        let control = self.control();
        self.traces.store(control.hook == HookKind::Trace as u32, Ordering::Relaxed);
        self.libraries.store(control.hook == HookKind::Library as u32, Ordering::Relaxed);
        self.injects.store(control.hook == HookKind::Inject as u32, Ordering::Relaxed);
        self.fast.store(control.mode == Mode::Fast as u32, Ordering::Relaxed);
    }

    /// The arena.
    pub fn arena(&self) -> Arena {
        // SAFETY: `start` maps it before anything else runs, and it stays mapped.
        unsafe { Arena::new(self.arena.load(Ordering::Relaxed)) }
    }

    /// Its control page.
    pub fn control(&self) -> &'static Control {
        // SAFETY: as in `arena`; the mapping lives as long as the process.
        unsafe { &*self.arena.load(Ordering::Relaxed).cast() }
    }

    /// Its counters.
    pub fn counters(&self) -> &'static Counters {
        &self.control().counters
    }

    /// How many of the arena's rings are mapped here.
    pub fn rings(&self) -> u32 {
        self.rings.load(Ordering::Relaxed)
    }

    /// Keeps the arena's mapping as it is while the process forks.
    pub fn lock_for_fork(&self) -> Guard<'static, ()> {
        GROWING.lock()
    }

    /// In the child of a fork: the lock is the parent's to release.
    pub fn unlock_after_fork(&self) {
        GROWING.force_unlock();
    }

    /// Makes sure that ring `index` is mapped, growing the mapping where it is; false when
    /// there is no address space for it. Address space is taken only when it is needed:
    /// it counts against the program's limit.
    pub fn map_ring(&self, index: u32) -> bool {
        if index < self.rings() {
            return true;
        }
        let guard = GROWING.lock();
        if index < self.rings() {
            return true;
        }
        let geometry = self.control().geometry;
        let wanted = (index + 1).next_multiple_of(4).min(geometry.rings);
        let base = self.arena.load(Ordering::Relaxed) as u64;
        let old = geometry.size_of_rings(self.rings()) as u64;
        let new = geometry.size_of_rings(wanted) as u64;
        let grown = sys::call4(nr::MREMAP, base, old, new, 0) == base as i64;
        if grown {
            self.rings.store(wanted, Ordering::Release);
        }
        drop(guard);
        grown
    }

    /// Length of the mapped part of the arena.
    pub fn arena_len(&self) -> u64 {
        self.control().geometry.size_of_rings(self.rings()) as u64
    }

    /// Whether calls become records.
    pub fn traces(&self) -> bool {
        self.traces.load(Ordering::Relaxed)
    }

    /// Whether something may be injected into calls.
    pub fn injects(&self) -> bool {
        self.injects.load(Ordering::Relaxed)
    }

    /// Whether hook libraries may see calls.
    pub fn has_libraries(&self) -> bool {
        self.libraries.load(Ordering::Relaxed)
    }

    /// How sites are found.
    pub fn mode(&self) -> Mode {
        if self.fast.load(Ordering::Relaxed) { Mode::Fast } else { Mode::Exhaustive }
    }

    /// Not all sites could be found and patched: the kernel has to catch the rest.
    pub fn set_exhaustive(&self) {
        self.fast.store(false, Ordering::Relaxed);
    }

    /// The program has installed a filter of its own.
    pub fn is_filtered(&self) -> bool {
        self.filtered.load(Ordering::Relaxed)
    }

    /// See [`Self::is_filtered`].
    pub fn set_filtered(&self) {
        self.filtered.store(true, Ordering::Relaxed);
    }

    /// A filter names the address of this image: what the program executes needs its agent
    /// at the same place.
    pub fn is_bound(&self) -> bool {
        self.bound.load(Ordering::Relaxed)
    }

    /// See [`Self::is_bound`].
    pub fn set_bound(&self) {
        self.bound.store(true, Ordering::Relaxed);
    }

    /// Another process may have the same descriptors (CLONE_FILES).
    pub fn shares_files(&self) -> bool {
        self.shares_files.load(Ordering::Relaxed)
    }

    /// See [`Self::shares_files`].
    pub fn set_shares_files(&self) {
        self.shares_files.store(true, Ordering::Relaxed);
    }

    /// Other tasks may be running in this address space.
    pub fn has_threads(&self) -> bool {
        self.threads.load(Ordering::Relaxed)
    }

    /// See [`Self::has_threads`].
    pub fn set_threads(&self, yes: bool) {
        self.threads.store(yes, Ordering::Relaxed);
    }

    /// The program inherited SIGSYS ignored.
    pub fn sigsys_ignored(&self) -> bool {
        self.sigsys_ignored.load(Ordering::Relaxed)
    }

    /// See [`Self::sigsys_ignored`].
    pub fn set_sigsys_ignored(&self, yes: bool) {
        self.sigsys_ignored.store(yes, Ordering::Relaxed);
    }

    /// Code can no longer be made writable (PR_SET_MDWE), or must not be patched.
    pub fn patches_ended(&self) -> bool {
        self.no_more_patches.load(Ordering::Relaxed)
    }

    /// See [`Self::patches_ended`].
    pub fn end_patches(&self) {
        self.no_more_patches.store(true, Ordering::Relaxed);
    }

    /// Where the program's heap starts and its first stack lies: trampolines keep away from
    /// where both may grow.
    pub fn set_growth(&self, brk: u64, stack: u64) {
        self.first_brk.store(brk, Ordering::Relaxed);
        self.first_stack.store(stack, Ordering::Relaxed);
    }

    /// Whether the program's heap or first stack may come to need `address`.
    pub fn may_grow_to(&self, address: u64) -> bool {
        const HEAP: u64 = 1 << 30;
        const STACK: u64 = 256 << 20;
        let brk = self.first_brk.load(Ordering::Relaxed);
        let stack = self.first_stack.load(Ordering::Relaxed);
        address.wrapping_sub(brk) < HEAP || stack.wrapping_sub(address) < STACK
    }
}
