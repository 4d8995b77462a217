//! The host: a libc of its own for hook libraries that need one.
//!
//! Owns: starting a second dynamic linker beside the program, in memory that the program does not
//! know, on an object that lies in memory only (`crossgate_wire::host`); the thread control block
//! and the stack that each task has there; what becomes of the calls that this libc makes. Never
//! does: anything with the libraries themselves (`library.rs`).
//!
//! A task is *inside* while %fs, by which a libc finds its thread, and the stack are the host's.
//! Its calls come here then, by a signal or by a patched site, and are the agent's own: no hook sees
//! them. What would change the program (its heap, handlers, threads) is not done. Task ends leave
//! thread and stack to the next task with the same block.

use core::mem::offset_of;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};

use crossgate_syscalls::{Behaviour, plan};
use crossgate_wire::arena::Mode;
use crossgate_wire::hooks::MOST_HOOKS;
use crossgate_wire::host::{DYNAMIC_LINKER, GIVEN, HostObject, NEEDED};

use crate::arch::x86_64::library as arch;
use crate::arch::x86_64::segment;
use crate::process::PROCESS;
use crate::sync::Lock;
use crate::sys::{self, errno, nr};
use crate::thread::Thread;
use crate::{image, library, signals, sites};

/// Address of the [`HostObject`]; zero before it is mapped.
static OBJECT: AtomicU64 = AtomicU64::new(0);
/// It has all that tasks need.
static READY: AtomicBool = AtomicBool::new(false);
/// Where in a thread control block its thread's id is: the libc tells the kernel.
static TID_AT: AtomicU64 = AtomicU64::new(0);
/// It makes calls.
static STARTED: AtomicBool = AtomicBool::new(false);
/// The first thread control block.
static FIRST: AtomicU64 = AtomicU64::new(0);

/// What of the libc the agent calls or sets, by its place in [`NEEDED`].
#[derive(Clone, Copy)]
pub enum Needed {
    /// `void *dlopen(const char *, int)`.
    Open = 0,
    /// `void *dlsym(void *, const char *)`.
    Symbol = 1,
    /// `char *dlerror(void)`.
    Error = 2,
    /// `char __libc_single_threaded`.
    SingleThreaded = 3,
    /// `void __ctype_init(void)`.
    CtypeInit = 4,
    /// `void *_dl_allocate_tls(void *)`.
    AllocateTls = 5,
    /// `const ptrdiff_t __rseq_offset`.
    RseqOffset = 6,
}

/// The dynamic linker could be started, and failed.
const ELIBBAD: i64 = -80;

/// Address of a thing of the libc; zero where it has none.
pub fn needed(what: Needed) -> u64 {
    // SAFETY: mapped by `map`, and written to by the dynamic linker only.
    unsafe { (*(OBJECT.load(Ordering::Relaxed) as *const HostObject)).needed[what as usize] }
}

/// Address of the path of library `index`.
pub fn path(index: usize) -> u64 {
    let offset = offset_of!(HostObject, paths);
    let size = crossgate_wire::hooks::LONGEST_PATH;
    OBJECT.load(Ordering::Relaxed) + (offset + index * size) as u64
}

/// Address space below the hook libraries in which the host lies, as far as it is free: patches
/// need what is near the program's libraries (`near.rs`), where the kernel would put it. All of it
/// lies in what ThreadSanitizer takes for the program's (`launch/src/inject.rs`).
const ROOM: u64 = 60 << 30;
/// How much of it has been given away.
static TAKEN: AtomicU64 = AtomicU64::new(0);

/// Where the next `len` bytes of the host may go; the kernel looks elsewhere if they cannot.
fn place(len: u64) -> u64 {
    /// Between mappings: its own sites are patched, too.
    const GAP: u64 = 16 << 20;
    let taken = TAKEN.fetch_add(len.next_multiple_of(PAGE) + GAP, Ordering::Relaxed);
    (image::library(MOST_HOOKS) - ROOM + taken % ROOM) & !(PAGE - 1)
}

/// Maps memory of the host's at a place of its own; gives its address, or `-errno`.
fn map_memory(len: u64, protection: u64, flags: u64, fd: u64, from: u64) -> Result<u64, i64> {
    check(sys::call(nr::MMAP, [place(len), len, protection, flags, fd, from]))
}

const ANONYMOUS: u64 = sys::MAP_PRIVATE | sys::MAP_ANONYMOUS;

/// Maps the object out of the arena's file, open as `fd`. Gives 0 or `-errno`.
pub fn map(fd: u32) -> i64 {
    let from = PROCESS.control().hooks.host;
    let len = size_of::<HostObject>() as u64;
    let protection = sys::READ | sys::WRITE;
    match map_memory(len, protection, sys::MAP_PRIVATE, u64::from(fd), from) {
        Ok(at) => OBJECT.store(at, Ordering::Relaxed),
        Err(errno) => return errno,
    }
    0
}

/// Starts the host in a new program, whose stack pointer is `program`. `vectors` is how to keep the
/// vector registers. Gives `-errno`.
///
/// # Safety
/// `program` is the stack pointer at a program's entry point.
pub unsafe fn start(t: &Thread, program: *const u64, vectors: u32) -> Result<(), i64> {
    let linker = map_linker()?;
    // SAFETY: as the caller says.
    let stack = unsafe { first_stack(program, &linker) }?;
    // SAFETY: the object is mapped, and nobody else uses it yet.
    let object = unsafe { &mut *(OBJECT.load(Ordering::Relaxed) as *mut HostObject) };
    for (index, symbol) in object.given().iter_mut().enumerate() {
        symbol.value = library::function_address(index as u64).unwrap_or(0);
    }
    const { assert!(GIVEN == 10) };
    STARTED.store(true, Ordering::Relaxed);
    sys::set_mask(t, signals::closed());
    let program_base = segment::fs_base();
    t.library_stack.set(stack);
    // SAFETY: the linker's entry point, with the stack that it expects.
    let started = unsafe { arch::start_host(t, linker.entry, vectors) };
    let block = segment::fs_base();
    t.library_stack.set(0);
    segment::set_fs_base(program_base);
    let found_all = NEEDED
        .iter()
        .zip(&object.needed)
        .all(|(name, &address)| address != 0 || *name == NEEDED[Needed::RseqOffset as usize]);
    if started.is_none() || block == program_base || !found_all {
        return Err(ELIBBAD);
    }
    FIRST.store(block, Ordering::Relaxed);
    t.host().set(Host { block, ..t.host().get() });
    // SAFETY: the libc's own variable and its thread's header: from here on it takes its locks.
    unsafe {
        (needed(Needed::SingleThreaded) as *mut u8).write(0);
        ((block + MULTIPLE_THREADS) as *mut u32).write(1);
    }
    READY.store(true, Ordering::Relaxed);
    if own_stack(t) { Ok(()) } else { Err(errno::ENOMEM) }
}

// ---- the dynamic linker -----------------------------------------------------------------

/// A program that is mapped.
struct Mapped {
    base: u64,
    entry: u64,
}

const PAGE: u64 = 4096;
const MAP_FIXED: u64 = 0x10;

/// Maps the dynamic linker as the kernel maps one (`load_elf_interp`, fs/binfmt_elf.c).
fn map_linker() -> Result<Mapped, i64> {
    const AT_FDCWD: u64 = -100i64 as u64;
    const O_CLOEXEC: u64 = 0o2000000;
    let mut path = [0u8; DYNAMIC_LINKER.len() + 1];
    path[..DYNAMIC_LINKER.len()].copy_from_slice(DYNAMIC_LINKER.as_bytes());
    let fd = check(sys::call4(nr::OPENAT, AT_FDCWD, path.as_ptr() as u64, O_CLOEXEC, 0))?;
    let mapped = map_file(fd);
    sys::call2(nr::CLOSE, fd, 0);
    mapped
}

fn check(result: i64) -> Result<u64, i64> {
    if result < 0 { Err(result) } else { Ok(result as u64) }
}

/// `Elf64_Ehdr` and the program headers after it, as 64-bit words.
const HEADER_WORDS: usize = 120;
const PT_LOAD: u32 = 1;

fn map_file(fd: u64) -> Result<Mapped, i64> {
    const ENOEXEC: i64 = -8;
    let mut words = [0u64; HEADER_WORDS];
    let len = size_of_val(&words) as u64;
    check(sys::call4(nr::PREAD64, fd, words.as_mut_ptr() as u64, len, 0))?;
    // e_entry and e_phoff are words 3 and 4, e_phnum the 16 bits at byte 56.
    let (entry, first, count) = (words[3], words[4] as usize / 8, words[7] as u16 as usize);
    let headers = words.get(first..first + count * 7).ok_or(ENOEXEC)?;
    let loads = || {
        // p_type and p_flags, p_offset, p_vaddr, p_paddr, p_filesz, p_memsz, p_align.
        headers.chunks_exact(7).filter(|header| header[0] as u32 == PT_LOAD)
    };
    let end = loads().map(|h| h[2] + h[5]).max().ok_or(ENOEXEC)?.next_multiple_of(PAGE);
    let base = map_memory(end, 0, ANONYMOUS, u64::MAX, 0)?;
    for header in loads() {
        let [kind, offset, address, _, file_size, size, _] = *header else { return Err(ENOEXEC) };
        // PF_X, PF_W and PF_R are PROT_EXEC, PROT_WRITE and PROT_READ the other way round.
        let flags = kind >> 32;
        let protection = (flags & 1) << 2 | flags & 2 | flags >> 2 & 1;
        let start = base + (address & !(PAGE - 1));
        let file_end = base + address + file_size;
        let from = offset & !(PAGE - 1);
        let fixed = sys::MAP_PRIVATE | MAP_FIXED;
        check(sys::call(nr::MMAP, [start, file_end - start, protection, fixed, fd, from]))?;
        if protection & sys::EXEC != 0 {
            note_code(start, file_end - start);
        }
        let end = base + address + size;
        let rest = file_end.next_multiple_of(PAGE);
        if protection & sys::WRITE != 0 {
            // To the end of the page: the linker's first allocations lie there.
            // SAFETY: the last page of the segment, mapped writable just now.
            unsafe { (file_end as *mut u8).write_bytes(0, (rest - file_end) as usize) };
        }
        if end > rest {
            let fixed = ANONYMOUS | MAP_FIXED;
            check(sys::call(nr::MMAP, [rest, end - rest, protection, fixed, u64::MAX, 0]))?;
        }
    }
    Ok(Mapped { base, entry: base + entry })
}

/// Bytes below the arguments of the dynamic linker's stack.
const FIRST_STACK: u64 = 256 << 10;

/// The stack with which a program begins (System V ABI, 3.4.1): no arguments, the environment of
/// the program but for what would change its libc, and its auxiliary vector with the host in it.
/// Gives the stack pointer.
///
/// # Safety
/// `program` is the stack pointer at a program's entry point.
unsafe fn first_stack(program: *const u64, linker: &Mapped) -> Result<u64, i64> {
    const MEANT_FOR_ANOTHER: [&[u8]; 2] = [b"LD_", b"GLIBC_TUNABLES="];
    const BIND_NOW: &[u8] = b"LD_BIND_NOW=1\0";
    // SAFETY: as the caller says: argc, argv, a null, the environment, a null.
    let first = unsafe { program.add(*program as usize + 2) };
    let variables = || {
        // SAFETY: up to the null, all of them are strings.
        let string = |variable: u64| unsafe { core::ffi::CStr::from_ptr(variable as *const _) };
        (0..)
            // SAFETY: up to the null.
            .map(|i| unsafe { *first.add(i) })
            .take_while(|&variable| variable != 0)
            .map(string)
            .map(core::ffi::CStr::to_bytes_with_nul)
    };
    let kept = || variables().filter(|v| !MEANT_FOR_ANOTHER.iter().any(|name| v.starts_with(name)));
    // SAFETY: the environment's null is followed by pairs.
    let auxiliary = unsafe { first.add(variables().count() + 1) };
    let pairs = || {
        // SAFETY: after the environment's null, pairs up to one with a zero key.
        (0..)
            .map(|i| unsafe { [*auxiliary.add(2 * i), *auxiliary.add(2 * i + 1)] })
            .take_while(|pair| pair[0] != 0)
    };
    let strings = kept().map(<[u8]>::len).sum::<usize>() + BIND_NOW.len();
    // argc, a null, the variables and BIND_NOW, a null, the pairs and a last one.
    let words = 2 + kept().count() + 2 + 2 * (pairs().count() + 1);
    let above = (strings + words * 8).next_multiple_of(16) as u64 + 16;
    let len = (FIRST_STACK + above).next_multiple_of(PAGE);
    let protection = sys::READ | sys::WRITE;
    let low = map_memory(len, protection, ANONYMOUS | sys::MAP_NORESERVE, u64::MAX, 0)?;
    sys::protect(low, PAGE, 0);

    let stack = (low + len - above) & !15;
    let mut word = stack as *mut u64;
    let mut text = (stack + words as u64 * 8) as *mut u8;
    // SAFETY: all of it fits into what was mapped just now.
    let mut push = |value: u64| unsafe {
        word.write(value);
        word = word.add(1);
    };
    push(0);
    push(0);
    for variable in kept().chain([BIND_NOW]) {
        push(text as u64);
        // SAFETY: as above.
        unsafe {
            text.copy_from_nonoverlapping(variable.as_ptr(), variable.len());
            text = text.add(variable.len());
        }
    }
    push(0);
    for [key, value] in pairs() {
        push(key);
        push(in_host(key, value, linker));
    }
    push(0);
    push(0);
    Ok(stack)
}

/// What the auxiliary vector tells the host under `key` (include/uapi/linux/auxvec.h).
fn in_host(key: u64, value: u64, linker: &Mapped) -> u64 {
    const AT_PHDR: u64 = 3;
    const AT_PHENT: u64 = 4;
    const AT_PHNUM: u64 = 5;
    const AT_BASE: u64 = 7;
    const AT_FLAGS: u64 = 8;
    const AT_ENTRY: u64 = 9;
    const AT_SECURE: u64 = 23;
    let object = OBJECT.load(Ordering::Relaxed);
    match key {
        AT_PHDR => object + offset_of!(HostObject, headers) as u64,
        AT_PHENT => 56,
        // SAFETY: mapped.
        AT_PHNUM => unsafe { (*(object as *const HostObject)).headers.len() as u64 },
        AT_BASE => linker.base,
        AT_ENTRY => arch::host_ready(),
        AT_FLAGS | AT_SECURE => 0,
        _ => value,
    }
}

// ---- tasks ------------------------------------------------------------------------------

/// What a task has in the host. It stays with the task's block.
#[derive(Clone, Copy, Default)]
pub struct Host {
    /// Address of its thread control block; zero for none.
    pub block: u64,
    /// Address of its stack; zero for none.
    pub stack: u64,
}

/// Bytes that a task's stack in the host takes, and its alignment.
const STACK: u64 = 1 << 20;
/// Its lower part, which is not there: even a function with large variables runs into it.
const GUARD: u64 = STACK - (256 << 10);

// Fields of a thread control block that are part of the ABI between compilers, libc and debuggers
// (`tcbhead_t`, sysdeps/x86_64/nptl/tls.h).
const SELF: [u64; 2] = [0, 16];
const MULTIPLE_THREADS: u64 = 24;
const GUARDS: [u64; 2] = [40, 48];

/// Maps the stack of a task, where it has none. The word at its end leads back to the task.
fn own_stack(t: &Thread) -> bool {
    let mut host = t.host().get();
    if host.stack == 0 {
        let (protection, flags) = (sys::READ | sys::WRITE, ANONYMOUS | sys::MAP_NORESERVE);
        let Ok(low) = map_memory(2 * STACK, protection, flags, u64::MAX, 0) else { return false };
        host.stack = low.next_multiple_of(STACK);
        if host.stack > low {
            sys::call2(nr::MUNMAP, low, host.stack - low);
        }
        let end = host.stack + STACK;
        sys::call2(nr::MUNMAP, end, low + 2 * STACK - end);
        sys::protect(host.stack, GUARD, 0);
        t.host().set(host);
    }
    let last = host.stack + STACK - 16;
    // SAFETY: the last words of the stack, which is this task's.
    unsafe { (last as *mut u64).write(core::ptr::from_ref(t) as u64) };
    t.host_top.set(last);
    true
}

/// A task that is about to be asked about a call is in the middle of nothing: whoever waited for the
/// end of a call that has none (a program executed, a signal handler left) is forgotten.
pub fn begin(t: &Thread) {
    t.suspended.set(Default::default());
    t.host_top.set(t.host().get().stack + STACK - 16);
}

/// The task on whose stack in the host this is called.
///
/// # Safety
/// It is called on one.
pub unsafe fn current() -> &'static Thread {
    let here = 0u8;
    let last = ((&raw const here as u64) & !(STACK - 1)) + STACK - 16;
    // SAFETY: `own_stack` has written it; blocks stay mapped.
    unsafe { &**(last as *const *const Thread) }
}

/// Gives a task that is about to be made what it has in the host; whether it could. A fork's goes
/// on with what its maker has.
pub fn prepare(t: &Thread, child: &Thread, own_memory: bool) -> bool {
    if !READY.load(Ordering::Relaxed) {
        return true;
    }
    if !own_stack(child) {
        return false;
    }
    let mut host = child.host().get();
    if !own_memory && host.block == 0 {
        let inside = enter(t);
        // SAFETY: the libc's functions; the second one on the block that the first one has made.
        host.block = unsafe { arch::call(t, needed(Needed::AllocateTls), [0; 3], 0) }
            .map_or(0, |block| block as u64);
        if host.block != 0 {
            // SAFETY: as above.
            unsafe { write_header(host.block) };
            segment::set_fs_base(host.block);
            // SAFETY: as above.
            unsafe { arch::call(t, needed(Needed::CtypeInit), [0; 3], 0) };
        }
        leave(t, inside);
        child.host().set(host);
    }
    own_memory || host.block != 0
}

/// # Safety
/// `block` is a new thread control block.
unsafe fn write_header(block: u64) {
    let first = FIRST.load(Ordering::Relaxed);
    let word = |offset| (block + offset) as *mut u64;
    // SAFETY: the fields of a header.
    unsafe {
        for offset in SELF {
            word(offset).write(block);
        }
        for offset in GUARDS {
            word(offset).write(((first + offset) as *const u64).read());
        }
        ((block + MULTIPLE_THREADS) as *mut u32).write(1);
        // Its thread has no restartable sequences: cpu_id is RSEQ_CPU_ID_REGISTRATION_FAILED.
        let rseq = needed(Needed::RseqOffset) as *const i64;
        if !rseq.is_null() {
            const CPU_ID: i64 = 4;
            let at = (block as i64 + rseq.read() + CPU_ID) as *mut i32;
            at.write(-2);
        }
    }
}

/// The first steps of a new task; `maker` is whose block a fork's memory is a copy with.
pub fn adopt(t: &Thread, maker: Option<&Thread>) {
    if !READY.load(Ordering::Relaxed) {
        return;
    }
    if let Some(maker) = maker {
        FORKING.store(0, Ordering::Relaxed);
        FORKS.force_unlock();
        let (own, theirs) = (t.host().get(), maker.host().get());
        t.host().set(Host { block: theirs.block, ..own });
        maker.host().set(Host { block: own.block, ..theirs });
    }
    let tid = (t.host().get().block + TID_AT.load(Ordering::Relaxed)) as *mut i32;
    // SAFETY: the libc's own word for it.
    unsafe { tid.write(t.tid.get()) };
}

/// A fork is going on: nobody goes inside.
static FORKING: AtomicU32 = AtomicU32::new(0);
static FORKS: Lock<()> = Lock::new(());

/// A task's [`Thread::inside`].
const OUTSIDE: u32 = 0;
const INSIDE: u32 = 1;
/// In a call that may take long. It may hold a lock of the libc's, but for most of them it does not.
const WAITING: u32 = 2;

/// Waits until no other task is inside, where it may hold a lock of the libc's, and keeps them
/// out: a fork's memory is a copy of that moment.
pub struct Fork(#[allow(dead_code)] Option<crate::sync::Guard<'static, ()>>);

impl Fork {
    /// See above; nothing where there is no host.
    pub fn new(t: &Thread) -> Self {
        if !READY.load(Ordering::Relaxed) || !PROCESS.has_threads() {
            return Self(None);
        }
        let guard = FORKS.lock();
        FORKING.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        t.for_each_other(|other| {
            while other.inside.load(Ordering::Acquire) == INSIDE {
                sys::futex_wait(&other.inside, INSIDE, 1);
            }
        });
        Self(Some(guard))
    }
}

impl Drop for Fork {
    fn drop(&mut self) {
        if self.0.is_some() {
            FORKING.store(0, Ordering::Release);
            sys::futex_wake(&FORKING);
        }
    }
}

fn go_inside(t: &Thread) {
    loop {
        t.inside.store(INSIDE, Ordering::Relaxed);
        if !PROCESS.has_threads() {
            return;
        }
        fence(Ordering::SeqCst);
        if FORKING.load(Ordering::Acquire) == 0 {
            return;
        }
        t.inside.store(OUTSIDE, Ordering::Release);
        sys::futex_wait(&FORKING, 1, 1000);
    }
}

/// What [`leave`] needs to know.
pub struct Entered {
    program_base: u64,
}

/// From the program to the host; a library's code may be called next.
pub fn enter(t: &Thread) -> Entered {
    go_inside(t);
    let here = 0u8;
    let stack = t.signal_stack();
    if (&raw const here as u64).wrapping_sub(stack.sp) < stack.size || t.holds.get() != 0 {
        all_blocked(t);
    }
    t.library_stack.set(t.host_top.get());
    let program_base = segment::fs_base();
    segment::set_fs_base(t.host().get().block);
    Entered { program_base }
}

/// Every signal is blocked, or will be in a moment, while the task is inside: there a caught call
/// would be its end. Calls from sites that are not patched go to the kernel until it leaves.
pub fn all_blocked(t: &Thread) {
    if PROCESS.mode() == Mode::Exhaustive && !t.host_disarmed.replace(true) {
        signals::disarm();
    }
}

/// And back.
pub fn leave(t: &Thread, entered: Entered) {
    segment::set_fs_base(entered.program_base);
    t.library_stack.set(0);
    if t.host_disarmed.take() {
        signals::arm(Mode::Exhaustive);
    }
    t.inside.store(OUTSIDE, Ordering::Release);
}

/// Whether the host makes calls.
pub fn has_started() -> bool {
    STARTED.load(Ordering::Relaxed)
}

/// Whether there is a host, or will be one.
pub fn exists() -> bool {
    PROCESS.has_libraries() && PROCESS.control().hooks.host != 0
}

// ---- calls ------------------------------------------------------------------------------

/// Where the host's code lies.
static CODE: [[AtomicU64; 2]; 256] = [const { [const { AtomicU64::new(0) }; 2] }; 256];
static CODES: AtomicU32 = AtomicU32::new(0);

fn note_code(start: u64, len: u64) {
    let index = CODES.fetch_add(1, Ordering::Relaxed) as usize;
    if let Some([from, to]) = CODE.get(index) {
        from.store(start, Ordering::Relaxed);
        to.store(start + len, Ordering::Relaxed);
    }
}

/// Whether `address` lies in the host's code.
pub fn holds(address: u64) -> bool {
    let count = (CODES.load(Ordering::Relaxed) as usize).min(CODE.len());
    CODE[..count].iter().any(|[from, to]| {
        (from.load(Ordering::Relaxed)..to.load(Ordering::Relaxed)).contains(&address)
    })
}

/// What a libc does to its process and must not do to the program's.
const NOT_DONE: Behaviour = Behaviour::CREATES_TASK
    .with(Behaviour::EXECUTES)
    .with(Behaviour::ENDS_TASK)
    .with(Behaviour::ENDS_PROCESS)
    .with(Behaviour::SIGNAL_ACTION)
    .with(Behaviour::SIGNAL_MASK)
    .with(Behaviour::SIGNAL_STACK)
    .with(Behaviour::SIGNAL_RETURN)
    .with(Behaviour::SEGMENT_BASE)
    .with(Behaviour::PROCESS_CONTROL)
    .with(Behaviour::FILTERS)
    .with(Behaviour::NAMESPACES)
    .with(Behaviour::TRACES);

/// Whether the agent must see this call of the host's.
pub fn must_see(nr: u64) -> bool {
    plan::behaviour(nr).has_any(NOT_DONE.with(Behaviour::MAPS))
        || may_wait(nr)
        || matches!(nr, nr::BRK | nr::SET_TID_ADDRESS | nr::SET_ROBUST_LIST | nr::RSEQ)
        || matches!(nr, nr::TGKILL | nr::TKILL | nr::KILL)
}

/// Calls in which a task may be for long.
fn may_wait(nr: u64) -> bool {
    matches!(
        nr,
        nr::FUTEX
            | nr::READ
            | nr::RECVFROM
            | nr::RECVMSG
            | nr::ACCEPT
            | nr::ACCEPT4
            | nr::CONNECT
            | nr::POLL
            | nr::PPOLL
            | nr::SELECT
            | nr::PSELECT6
            | nr::EPOLL_WAIT
            | nr::EPOLL_PWAIT
            | nr::NANOSLEEP
            | nr::CLOCK_NANOSLEEP
            | nr::FLOCK
            | nr::WAIT4
    )
}

/// A call of the host's: its result, or the signal by which the library has ended itself (zero:
/// without one).
pub fn call(t: &Thread, nr: u64, args: [u64; 6]) -> Result<i64, i32> {
    const ENOSYS: i64 = -38;
    const SIGABRT: i32 = 6;
    let behaviour = plan::behaviour(nr);
    let [a, b, c, ..] = args;
    let loading = !READY.load(Ordering::Relaxed);
    Ok(match nr {
        // Its malloc maps memory instead, and the program's heap stays where it is.
        nr::BRK => 0,
        nr::SET_TID_ADDRESS => {
            if loading {
                TID_AT.store(a.wrapping_sub(segment::fs_base()), Ordering::Relaxed);
            }
            i64::from(t.tid.get())
        }
        nr::SET_ROBUST_LIST => 0,
        nr::RSEQ => ENOSYS,
        // What abort does.
        nr::TGKILL if b == t.tid.get() as u64 && c == SIGABRT as u64 => return Err(SIGABRT),
        // Signals wait as it is. Its caller may look at the old mask.
        nr::RT_SIGPROCMASK => {
            if c != 0 {
                // SAFETY: eight bytes of the caller's.
                unsafe { (c as *mut u64).write(0) };
            }
            0
        }
        nr::ARCH_PRCTL if loading => sys::call(nr, args),
        _ if behaviour.has_any(Behaviour::ENDS_TASK.with(Behaviour::ENDS_PROCESS)) => {
            return Err(0);
        }
        _ if behaviour.has_any(Behaviour::CREATES_TASK) => errno::EAGAIN,
        _ if behaviour.has_any(NOT_DONE) => errno::EPERM,
        _ if may_wait(nr) => waiting(t, || sys::call(nr, args)),
        _ => {
            let mut args = args;
            if nr == nr::MMAP && a == 0 {
                args[0] = place(b);
            }
            let result = sys::call(nr, args);
            if nr == nr::MMAP && c & sys::EXEC != 0 && result > 0 {
                note_code(result as u64, b);
                if !loading && PROCESS.mode() == Mode::Fast {
                    sites::scan(t, result as u64, b);
                }
            }
            result
        }
    })
}

/// Makes a call of a library's in which the task may be for long.
pub fn waiting(t: &Thread, make: impl FnOnce() -> i64) -> i64 {
    if t.inside.load(Ordering::Relaxed) != INSIDE {
        return make();
    }
    t.inside.store(WAITING, Ordering::Release);
    let result = make();
    go_inside(t);
    result
}

/// A call from a patched site of the host's: number and arguments as in [`arch::HostCall`].
///
/// # Safety
/// Called by the entry code, on the current task's stack in the host.
pub unsafe extern "C" fn called(seen: &arch::HostCall, t: &Thread) -> i64 {
    match call(t, u64::from(seen.rax as u32), seen.args()) {
        Ok(result) => result,
        Err(signal) => {
            t.library_fault.set((signal as u64, seen.rcx));
            // SAFETY: a library is running, or the dynamic linker.
            unsafe { arch::give_up(t) }
        }
    }
}
