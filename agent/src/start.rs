//! The first Rust code in a new program: from the image alone to a task with a block,
//! signal handlers and dispatch, before the program's first instruction.
//!
//! Everything that can fail is tried before the arena arrives, so that a program either
//! starts with the agent or the launcher is told why not while nothing has changed.

use core::arch::asm;
use core::cell::UnsafeCell;
use core::sync::atomic::Ordering;

use crossgate_wire::arena::{MAGIC, Mode};

use crate::arch::x86_64::frame::Regs;
use crate::arch::x86_64::segment;
use crate::image::{self, BOUND, FSGSBASE, PARAMS, Params, RUNS, Stage, StartStack};
use crate::process::PROCESS;
use crate::signals::{self, bit, number::SIGSYS};
use crate::sys::{self, nr};
use crate::thread::{Phase, Thread};
use crate::{attach, dispatch, filter, inject, library, sites, trace, uaccess};

/// Stack of [`start`], until the first block takes over. The linker script puts it in front
/// of [`START_STACK_END`].
#[used]
#[unsafe(link_section = ".bss.start_stack")]
static START_STACK: StartStack = StartStack(UnsafeCell::new([0; image::START_STACK_SIZE]));

unsafe extern "C" {
    /// Address after [`START_STACK`], 16-aligned.
    pub static START_STACK_END: u8;
}

const AT_IGNORE: u64 = 1;
const AT_BASE: u64 = 7;
const AT_HWCAP2: u64 = 26;
const AT_SYSINFO_EHDR: u64 = 33;

/// Where the auxiliary vector has the key `wanted`; its value follows.
///
/// # Safety
/// `stack` is the stack pointer at a program's entry point (System V ABI, 3.4.1).
unsafe fn auxiliary_entry(stack: *mut u64, wanted: u64) -> Option<*mut u64> {
    // SAFETY: the stack holds argc, argv, a null, the environment, a null, then pairs that
    // end with a zero key.
    unsafe {
        let mut at = stack.add(*stack as usize + 2);
        while *at != 0 {
            at = at.add(1);
        }
        at = at.add(1);
        while *at != 0 {
            if *at == wanted {
                return Some(at);
            }
            at = at.add(2);
        }
    }
    None
}

/// The auxiliary vector's value for `wanted`.
///
/// # Safety
/// As [`auxiliary_entry`].
unsafe fn auxiliary(stack: *mut u64, wanted: u64) -> Option<u64> {
    // SAFETY: as the caller says.
    unsafe { auxiliary_entry(stack, wanted).map(|entry| *entry.add(1)) }
}

/// Takes the vDSO away from the program: without it, a libc makes calls.
///
/// # Safety
/// As [`auxiliary_entry`].
unsafe fn hide_vdso(stack: *mut u64) {
    // SAFETY: as the caller says; the vector is the program's, which has not begun.
    unsafe {
        if let Some(entry) = auxiliary_entry(stack, AT_SYSINFO_EHDR) {
            entry.write(AT_IGNORE);
        }
    }
}

/// Tells the launcher that the program cannot be started with the agent, and waits for it
/// to take the program's registers back.
fn fail(what: u64, status: i64) -> ! {
    loop {
        stop(Stage::Failed, what, status as u64);
    }
}

/// Stops under the launcher, which is attached and reads the registers.
pub fn stop(stage: Stage, what: u64, more: u64) {
    // SAFETY: a breakpoint; the launcher continues after it.
    unsafe {
        asm!("int3", in("rax") stage as u64, in("rdi") what, in("rsi") more, options(nostack));
    }
}

/// Starts the agent. `stack` is the program's stack pointer. Gives the registers the
/// program starts with.
///
/// # Safety
/// Called once, by the entry code, in a process that has no other task.
pub unsafe extern "C" fn start(stack: *mut u64) -> *const Regs {
    let flags = PARAMS.flags.load(Ordering::Relaxed);
    if flags & RUNS != 0 {
        segment::allow_instructions(flags & FSGSBASE != 0);
    } else {
        // SAFETY: the entry code passes the program's stack at its entry point.
        segment::set_hwcap2(unsafe { auxiliary(stack, AT_HWCAP2) }.unwrap_or(0));
    }
    let pid = sys::call2(nr::GETPID, 0, 0) as i32;
    let Some(t) = Thread::new(pid) else { fail(nr::MMAP, sys::errno::ENOMEM) };
    t.tid.set(pid);
    let (outer, rings) = Params::halves(&PARAMS.ids);
    t.outer_pid.set(outer as i32);
    t.outer_tid.set(outer as i32);
    let supported = signals::disarm();
    if supported < 0 {
        fail(nr::PRCTL, supported);
    }
    map_arena(rings);
    stop(Stage::Ready, 0, 0);
    if flags & RUNS != 0 {
        attach::prepare(stack as u64);
    }
    let brk = sys::call2(nr::BRK, 0, 0) as u64;
    PROCESS.set_growth(brk, stack as u64);

    // What was inherited: a blocked or ignored SIGSYS is the program's, never the kernel's.
    let mut inherited = signals::Action::DEFAULT;
    signals::set_kernel_action(t, SIGSYS, None, Some(&mut inherited));
    PROCESS.set_sigsys_ignored(inherited.handler == 1);
    let mask = sys::set_mask(t, signals::closed());
    t.sigsys_blocked.set(mask & bit(SIGSYS) != 0);

    if PROCESS.control().hide_vdso != 0 {
        // SAFETY: as above.
        unsafe { hide_vdso(stack) };
    }
    const PR_GET_SECCOMP: u64 = 21;
    if sys::call2(nr::PRCTL, PR_GET_SECCOMP, 0) == 2 {
        PROCESS.set_filtered();
    }
    if flags & BOUND != 0 {
        PROCESS.set_bound();
    } else if PROCESS.control().strict != 0 {
        filter::confine(t);
    }
    dispatch::fill_interest();
    // In fast mode a call may go unseen that ignores or blocks faults, and without a trace
    // their default action is the kernel's.
    if (PROCESS.traces() || PROCESS.has_libraries()) && PROCESS.mode() == Mode::Exhaustive {
        uaccess::start_direct();
    }
    signals::adopt(t, true);
    t.actions.get().share();
    PROCESS.counters().execs.fetch_add(1, Ordering::Relaxed);
    // SAFETY: as above.
    inject::start(t, unsafe { auxiliary(stack, AT_BASE) }.unwrap_or(0));
    // SAFETY: as above.
    unsafe { library::start(t, stack) };
    trace::task_started(t, 0);
    if PROCESS.mode() == Mode::Fast {
        sites::scan(t, 0, u64::MAX);
    }
    t.saved().set(Regs {
        rip: PARAMS.entry.load(Ordering::Relaxed),
        rsp: stack as u64,
        flags: 0x202,
        ..Regs::default()
    });
    t.set_phase(Phase::Boundary);
    sys::set_mask(t, mask & !bit(SIGSYS));
    t.saved().as_ptr()
}

/// Maps the arena and makes it this process's.
fn map_arena(rings: u32) {
    // Whatever descriptors the last program left for this one, it must not see them.
    let (arena, image) = Params::halves(&PARAMS.descriptors);
    let mapped = arena > 0 && map_at_its_place(arena - 1, sys::MAP_FIXED_NOREPLACE) == 0;
    let whole = mapped && is_arena();
    if whole {
        PROCESS.set_arena(image::arena() as *mut u8, rings);
        map_libraries(arena - 1);
    }
    for descriptor in [arena, image].into_iter().filter(|&d| d > 0) {
        sys::call2(nr::CLOSE, u64::from(descriptor - 1), 0);
    }
    if !whole {
        // Reserved first, so that mapping it cannot fail once it is there.
        let size = PARAMS.arena_size.load(Ordering::Relaxed);
        if !mapped && !sys::map_at(image::arena(), size, 0) {
            fail(nr::MMAP, sys::errno::ENOMEM);
        }
        receive_arena(rings);
    }
}

/// Maps the hook libraries out of the arena's file.
fn map_libraries(arena: u32) {
    let result = library::map(arena);
    if result < 0 {
        fail(nr::MMAP, result);
    }
}

/// Maps the arena by its descriptor; gives 0 or `-errno`.
fn map_at_its_place(descriptor: u32, flags: u64) -> i64 {
    let at = image::arena();
    let size = PARAMS.arena_size.load(Ordering::Relaxed);
    let flags = sys::MAP_SHARED | sys::MAP_NORESERVE | flags;
    let args = [at, size, sys::READ | sys::WRITE, flags, u64::from(descriptor), 0];
    let mapped = sys::call(nr::MMAP, args);
    if mapped == at as i64 { 0 } else { mapped.min(sys::errno::ENOMEM) }
}

/// Whether what is mapped there is an arena.
fn is_arena() -> bool {
    sys::can_read_word(image::arena())
        // SAFETY: it is mapped and can be read.
        && unsafe { (image::arena() as *const u64).read_volatile() } == MAGIC
}

/// Receives the arena's descriptor from the launcher and maps it over its reserved place.
fn receive_arena(rings: u32) {
    const AF_UNIX: u64 = 1;
    const SOCK_DGRAM_CLOEXEC: u64 = 0x8_0002;
    const MAP_FIXED: u64 = 0x10;
    let mut pair = [0i32; 2];
    let pair_at = pair.as_mut_ptr() as u64;
    let mut tries = 0;
    loop {
        let made = sys::call4(nr::SOCKETPAIR, AF_UNIX, SOCK_DGRAM_CLOEXEC, 0, pair_at);
        // The arena's own will be a third.
        let third = if made < 0 { made } else { sys::call2(nr::DUP, pair[0] as u64, 0) };
        if third >= 0 {
            sys::call2(nr::CLOSE, third as u64, 0);
            break;
        }
        if made >= 0 {
            sys::call2(nr::CLOSE, pair[0] as u64, 0);
            sys::call2(nr::CLOSE, pair[1] as u64, 0);
        }
        if third != sys::errno::EMFILE || tries > 0 {
            fail(nr::SOCKETPAIR, third);
        }
        tries += 1;
        stop(Stage::WantsDescriptors, 0, 0);
    }
    stop(Stage::WantsArena, pair[1] as u64, 0);

    // struct msghdr with room for one descriptor (SCM_RIGHTS; cmsg(3)).
    let mut byte = 0u64;
    let buffer = [(&raw mut byte) as u64, 1];
    let mut control = [0u64; 3];
    let mut header = [0, 0, buffer.as_ptr() as u64, 1, control.as_mut_ptr() as u64, 24, 0];
    let got = sys::call4(nr::RECVMSG, pair[0] as u64, header.as_mut_ptr() as u64, 0, 0);
    let arena = control[2] as u32;
    sys::call2(nr::CLOSE, pair[0] as u64, 0);
    sys::call2(nr::CLOSE, pair[1] as u64, 0);
    if got < 0 {
        fail(nr::RECVMSG, got);
    }
    let mapped = map_at_its_place(arena, MAP_FIXED);
    if mapped < 0 {
        fail(nr::MMAP, mapped);
    }
    if !is_arena() {
        fail(nr::MMAP, sys::errno::EINVAL);
    }
    PROCESS.set_arena(image::arena() as *mut u8, rings);
    map_libraries(arena);
    sys::call2(nr::CLOSE, u64::from(arena), 0);
}
