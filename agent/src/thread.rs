//! One block of memory per task: what the agent knows of it, its agent stack and its
//! signal stack.
//!
//! Owns: the layout of a block, making and reusing blocks. A task finds its block by %gs
//! (the entry code) or by its stack pointer (signal handlers, which run on the block's
//! signal stack): blocks are aligned to their size.
//!
//! ```text
//! +0       unmapped: catches an overflow of the agent's stack
//! +4 KiB   agent stack (grows down from +26 KiB; the saved registers are its first words)
//! +26 KiB  Thread, in the page that the stack's first words are in: a fork copies each page
//!          that either side writes to
//!          that either side writes to; then what the task has in the host (`host.rs`), which
//!          stays with the block
//! +28 KiB  signal stack (a frame with AMX state takes 11 KiB)
//! +60 KiB  what a hook keeps of the task; no memory unless one does
//! ```

use core::cell::Cell;
use core::mem::offset_of;
use core::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use crossgate_wire::RingHeader;
use crossgate_wire::hooks::MOST_HOOKS;

use crate::arch::x86_64::frame::{Regs, SignalInfo, SignalStack};
use crate::host::Host;
use crate::signals::Actions;
use crate::sys::{self, errno, nr};

/// Size and alignment of a block.
pub const BLOCK: u64 = 64 << 10;
const GUARD: u64 = 4 << 10;
const THREAD: u64 = 26 << 10;
const STACK_TOP: u64 = THREAD;
const SIGNAL_STACK: u64 = 28 << 10;
const SIGNAL_STACK_SIZE: u64 = HOOK_STATE - SIGNAL_STACK;
const HOOK_STATE: u64 = 60 << 10;
/// Bytes that a hook may keep of a task.
pub const HOOK_STATE_SIZE: usize = (BLOCK - HOOK_STATE) as usize;
const HOST: u64 = SIGNAL_STACK - size_of::<Host>() as u64;
const _: () = assert!(size_of::<Thread>() as u64 <= HOST - THREAD);
/// Most tasks that one address space can have at a time.
const BLOCKS: usize = 16 << 10;

/// Where a task is, for signals that arrive in agent code.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// In Rust on behalf of a call: a signal is held back.
    Agent = 1,
    /// The hook has let the call go: between Rust and the call instruction a signal rolls
    /// the call back to its site.
    Call = 2,
    /// The saved registers are what the program will see next: a signal is delivered as if
    /// it were already there.
    Boundary = 3,
    /// A hook library has let the call go, and the registers it was made with are being
    /// loaded: a signal rolls the call back to its site.
    Pass = 4,
}

/// What the agent knows of a task. Only its own task touches it (and the code that makes
/// it), so the fields are cells. The first ones are read by the entry code.
#[repr(C)]
pub struct Thread {
    /// Address of this struct (`gs:0`).
    pub this: Cell<*const Thread>,
    /// Stack pointer of the program while the agent's is in use.
    pub program_rsp: Cell<u64>,
    /// Top of the agent's stack.
    pub stack_top: Cell<u64>,
    /// Address after the site of the call under way.
    pub return_to: Cell<u64>,
    /// Byte per call number (low 16 bits): non-zero when Rust must see the call.
    pub interest: Cell<*const u8>,
    /// A [`Phase`].
    pub phase: Cell<u32>,
    /// Number of the call the kernel will see.
    pub nr: Cell<u64>,
    /// Arguments of the call the kernel will see.
    pub args: Cell<[u64; 6]>,

    /// Process id in the task's own namespace.
    pub pid: Cell<i32>,
    /// Thread id in the task's own namespace.
    pub tid: Cell<i32>,
    /// Process id as the supervisor sees it.
    pub outer_pid: Cell<i32>,
    /// Thread id as the supervisor sees it.
    pub outer_tid: Cell<i32>,
    /// A number that nobody else has, by which the supervisor recognises the task.
    pub nonce: Cell<u64>,
    /// Index of this block.
    pub index: Cell<u32>,
    /// The program's signal handlers; shared as the kernel shares them.
    pub actions: Cell<&'static Actions>,
    /// The program's alternate signal stack (the kernel has ours).
    pub stack: Cell<SignalStack>,
    /// The program has SIGSYS blocked (the kernel never has).
    pub sigsys_blocked: Cell<bool>,
    /// A SIGSYS that arrived while the program had it blocked.
    pub sigsys_pending: Cell<Option<SignalInfo>>,
    /// A signal that arrived in [`Phase::Agent`]; see [`Thread::hold`].
    pub held: Cell<Option<SignalInfo>>,
    /// Whether there is one, for the entry code.
    pub holds: Cell<u8>,
    /// Mask to go back to when a signal is held.
    pub held_mask: Cell<u64>,
    /// Signals were blocked for a special call; `held_mask` is to be loaded at its boundary.
    pub quiet: Cell<bool>,
    /// Not followed: the hook sees nothing of this task, nor of what it executes.
    pub silent: Cell<bool>,
    /// The hook saw the beginning of the call under way and must see its end.
    pub hooked: Cell<bool>,
    /// Signal sets without SIGSYS, for calls that take one (see `virtualize.rs`).
    pub mask_copy: Cell<[u64; 4]>,
    /// The mask a call under way has set for its own duration.
    pub temporary: Cell<Option<u64>>,
    /// SIGSYS is blocked in the kernel until the call under way has set its own mask.
    pub sigsys_forced: Cell<bool>,
    /// The call under way makes memory executable.
    pub watch: Cell<bool>,
    /// The program uses %gs itself: this task's calls go by two signals each.
    pub bare: Cell<bool>,
    /// Return address of a bare call under way.
    pub bare_return: Cell<u64>,
    /// How many programs it has tried to execute.
    pub execs: Cell<u64>,
    /// Signal mask a new task starts with.
    pub start_mask: Cell<u64>,
    /// The stack pointer to which a failing library's caller returns; zero where that is
    /// `cg_hook`, which does not.
    pub library_rsp: Cell<u64>,
    /// One more than the index of the library that is running.
    pub library: Cell<u32>,
    /// The stack pointer with which a library's code is called; zero for the agent's stack.
    pub library_stack: Cell<u64>,
    /// The same for the next library in the host.
    pub host_top: Cell<u64>,
    /// Calls are not caught until the task leaves the host.
    pub host_disarmed: Cell<bool>,
    /// For each library that waits in the middle of its work for the kernel, its stack pointer.
    pub suspended: Cell<[u64; MOST_HOOKS]>,
    /// A library that may do so is being asked.
    pub may_suspend: Cell<bool>,
    /// Whether it is the host's code that runs: a state of `host.rs`. Other tasks read it.
    pub inside: AtomicU32,
    /// A bit for each library that waits for the end of the call.
    pub watchers: Cell<u32>,
    /// The signal by which a library failed, and where.
    pub library_fault: Cell<(u64, u64)>,
    /// What kind of task this is, for its first steps.
    pub birth: Cell<Birth>,
    /// The ring this task writes to.
    pub ring: Cell<Option<&'static RingHeader>>,
    /// Index of that ring.
    pub ring_index: Cell<u32>,
    /// Position up to which the ring was free when last looked.
    pub ring_limit: Cell<u64>,
    /// Whether a fault would reach the agent: a state of `uaccess.rs`. Other tasks read it.
    pub faults: AtomicU8,
}

/// What a new task must know about how it was made.
#[derive(Clone, Copy)]
pub struct Birth {
    /// It has memory of its own (fork).
    pub own_memory: bool,
    /// It is a process of its own.
    pub process: bool,
    /// Its handlers were reset by CLONE_CLEAR_SIGHAND.
    pub cleared_handlers: bool,
    /// Thread id of its maker, as the supervisor sees it.
    pub parent: i32,
    /// Index of its maker's block.
    pub maker: u32,
    /// Process id of its maker, as the supervisor sees it.
    pub outer_pid: i32,
    /// Its maker is not followed.
    pub silent: bool,
    /// Its maker waits for its end (vfork) and frees what is its.
    pub waited_for: bool,
}

const UNMAPPED: u32 = 0;
const FREE: u32 = 1;
const USED: u32 = 2;
const MAKING: u32 = 3;
/// Other memory lies there.
const FOREIGN: u32 = 4;
const LEAVING: u32 = 1 << 31;

/// State per block: one of the above, or `LEAVING | tid`.
static STATES: [AtomicU32; BLOCKS] = [const { AtomicU32::new(0) }; BLOCKS];

fn block_address(index: usize) -> u64 {
    crate::image::blocks() + index as u64 * BLOCK
}

impl Thread {
    /// Where stubs find [`Self::interest`] from %gs.
    pub const INTEREST: u32 = offset_of!(Thread, interest) as u32;

    /// A block for a new task, all fields as they are before a task is known; `None` when
    /// there is no memory.
    pub fn new(pid: i32) -> Option<&'static Thread> {
        for (index, state) in STATES.iter().enumerate() {
            let old = state.load(Ordering::Relaxed);
            let reusable = match old {
                UNMAPPED | FREE => true,
                USED | MAKING | FOREIGN => false,
                leaving => {
                    let tid = leaving & !LEAVING;
                    sys::call2(nr::TKILL, u64::from(tid), 0) == errno::ESRCH
                }
            };
            if !reusable
                || state
                    .compare_exchange(old, MAKING, Ordering::Acquire, Ordering::Relaxed)
                    .is_err()
            {
                continue;
            }
            let block = block_address(index);
            if old == UNMAPPED && !sys::map_at(block + GUARD, BLOCK - GUARD, sys::READ | sys::WRITE)
            {
                if sys::call4(nr::MADVISE, block + GUARD, BLOCK - GUARD, 0, 0) == 0 {
                    state.store(FOREIGN, Ordering::Release);
                    continue;
                }
                state.store(UNMAPPED, Ordering::Release);
                return None;
            }
            let thread = (block + THREAD) as *const Thread;
            // SAFETY: the block is mapped, writable, aligned and this task's alone: its
            // state has just gone from free to used.
            let thread = unsafe {
                (thread as *mut Thread).write(Thread {
                    this: Cell::new(thread),
                    program_rsp: Cell::new(0),
                    stack_top: Cell::new(block + STACK_TOP),
                    return_to: Cell::new(0),
                    interest: Cell::new(crate::dispatch::interest_table()),
                    phase: Cell::new(Phase::Boundary as u32),
                    nr: Cell::new(0),
                    args: Cell::new([0; 6]),
                    pid: Cell::new(pid),
                    tid: Cell::new(0),
                    outer_pid: Cell::new(pid),
                    outer_tid: Cell::new(0),
                    nonce: Cell::new(0),
                    index: Cell::new(index as u32),
                    actions: Cell::new(crate::signals::first_actions()),
                    stack: Cell::new(SignalStack { flags: SS_DISABLE, ..SignalStack::default() }),
                    sigsys_blocked: Cell::new(false),
                    sigsys_pending: Cell::new(None),
                    held: Cell::new(None),
                    holds: Cell::new(0),
                    held_mask: Cell::new(0),
                    quiet: Cell::new(false),
                    silent: Cell::new(false),
                    hooked: Cell::new(false),
                    mask_copy: Cell::new([0; 4]),
                    temporary: Cell::new(None),
                    sigsys_forced: Cell::new(false),
                    watch: Cell::new(false),
                    bare: Cell::new(false),
                    bare_return: Cell::new(0),
                    execs: Cell::new(0),
                    start_mask: Cell::new(0),
                    library_rsp: Cell::new(0),
                    library: Cell::new(0),
                    library_stack: Cell::new(0),
                    host_top: Cell::new(0),
                    host_disarmed: Cell::new(false),
                    suspended: Cell::new([0; MOST_HOOKS]),
                    may_suspend: Cell::new(false),
                    inside: AtomicU32::new(0),
                    watchers: Cell::new(0),
                    library_fault: Cell::new((0, 0)),
                    birth: Cell::new(Birth {
                        own_memory: false,
                        process: false,
                        cleared_handlers: false,
                        parent: 0,
                        maker: 0,
                        outer_pid: 0,
                        silent: false,
                        waited_for: false,
                    }),
                    ring: Cell::new(None),
                    ring_index: Cell::new(0),
                    ring_limit: Cell::new(0),
                    faults: AtomicU8::new(crate::uaccess::UNKNOWN),
                });
                &*thread
            };
            state.store(USED, Ordering::Release);
            return Some(thread);
        }
        None
    }

    /// The block whose signal stack `rsp` lies in.
    ///
    /// # Safety
    /// `rsp` lies in the signal stack of a block in use: true in handlers of the agent's.
    pub unsafe fn of_signal_stack(rsp: u64) -> &'static Thread {
        // SAFETY: blocks are aligned to their size, and stay mapped.
        unsafe { &*(((rsp & !(BLOCK - 1)) + THREAD) as *const Thread) }
    }

    /// The signal stack that the kernel is to use for this task.
    pub fn signal_stack(&self) -> SignalStack {
        let sp = self.stack_top.get() - STACK_TOP + SIGNAL_STACK;
        SignalStack { sp, flags: 0, pad: 0, size: SIGNAL_STACK_SIZE }
    }

    /// Where a hook keeps what it likes of this task: [`HOOK_STATE_SIZE`] bytes, aligned to
    /// a page, as the last task with this block left them.
    pub fn hook_state(&self) -> *mut u8 {
        (self.stack_top.get() - STACK_TOP + HOOK_STATE) as *mut u8
    }

    /// What the task has in the host.
    pub fn host(&self) -> &Cell<Host> {
        let at = self.stack_top.get() - STACK_TOP + HOST;
        // SAFETY: mapped with the block, zero at first, which is a value, and kept for this.
        unsafe { &*(at as *const Cell<Host>) }
    }

    /// The block with this index, which is or was in use.
    pub fn of_index(index: u32) -> &'static Thread {
        // SAFETY: its `Thread` has been written, and blocks stay mapped.
        unsafe { &*((block_address(index as usize) + THREAD) as *const Thread) }
    }

    /// The registers saved at the top of the agent's stack.
    pub fn saved(&self) -> &Cell<Regs> {
        let at = self.stack_top.get() - size_of::<Regs>() as u64;
        // SAFETY: the first words of the agent's stack are always reserved for them.
        unsafe { &*(at as *const Cell<Regs>) }
    }

    /// Keeps a signal for the next boundary.
    pub fn hold(&self, info: SignalInfo) {
        self.held.set(Some(info));
        self.holds.set(1);
    }

    /// Takes the signal that was kept.
    pub fn take_held(&self) -> Option<SignalInfo> {
        self.holds.set(0);
        self.held.take()
    }

    /// Enters `phase`; a signal from here on is treated accordingly.
    pub fn set_phase(&self, phase: Phase) {
        core::sync::atomic::compiler_fence(Ordering::SeqCst);
        self.phase.set(phase as u32);
        core::sync::atomic::compiler_fence(Ordering::SeqCst);
    }

    /// Gives the block back. Nothing may run on its stacks any more.
    pub fn free(&self) {
        STATES[self.index.get() as usize].store(FREE, Ordering::Release);
    }

    /// The task is about to end: the block is free once its thread id is. Whether this is
    /// the first time it is said.
    pub fn leave(&self) -> bool {
        let state = LEAVING | self.tid.get() as u32;
        STATES[self.index.get() as usize].swap(state, Ordering::Release) != state
    }

    /// Takes back what [`Self::leave`] said, if it did.
    pub fn stay(&self) -> bool {
        let leaving = LEAVING | self.tid.get() as u32;
        let state = &STATES[self.index.get() as usize];
        state.compare_exchange(leaving, USED, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// The block of the task with this thread id, in its own namespace.
    pub fn find(tid: i32) -> Option<&'static Thread> {
        let used = |(_, state): &(usize, &AtomicU32)| state.load(Ordering::Acquire) == USED;
        let mut blocks = STATES
            .iter()
            .take_while(|state| state.load(Ordering::Acquire) != UNMAPPED)
            .enumerate()
            .filter(used)
            .map(|(index, _)| Self::of_index(index as u32));
        blocks.find(|t| t.tid.get() == tid)
    }

    /// Unmaps all blocks: no task has one any more.
    pub fn unmap_all() {
        for (index, state) in STATES.iter().enumerate() {
            match state.swap(UNMAPPED, Ordering::Relaxed) {
                UNMAPPED => break,
                FOREIGN => {}
                _ => {
                    let block = block_address(index);
                    sys::call2(nr::MUNMAP, block + GUARD, BLOCK - GUARD);
                }
            }
        }
    }

    /// Calls `each` with every other task in use of this address space.
    pub fn for_each_other(&self, mut each: impl FnMut(&Thread)) {
        for (index, state) in STATES.iter().enumerate() {
            let state = state.load(Ordering::Acquire);
            if state == UNMAPPED {
                break;
            }
            if state != USED || index == self.index.get() as usize {
                continue;
            }
            // SAFETY: a block in use is mapped and its `Thread` written.
            let other = unsafe { &*((block_address(index) + THREAD) as *const Thread) };
            each(other);
        }
    }

    /// After a fork: this task is the only one in its new memory.
    pub fn forget_others(&self) {
        for (index, state) in STATES.iter().enumerate() {
            match state.load(Ordering::Relaxed) {
                UNMAPPED => break,
                FOREIGN => {}
                _ if index == self.index.get() as usize => {}
                // Perhaps not mapped yet: to map it again then fails, and shows that it was.
                MAKING => state.store(FOREIGN, Ordering::Relaxed),
                _ => state.store(FREE, Ordering::Relaxed),
            }
        }
    }
}

/// `ss_flags` of a stack that is not set.
pub const SS_DISABLE: u32 = 2;
