//! Starting the first program of a tree, stopped at its first instruction.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use nix::errno::Errno;
use nix::unistd::Pid;

use crate::error::{Error, Result, reason};
use crate::inject::{Descriptors, Waited, wait_for};
use crate::program::Program;

/// Which of the standard descriptors were closed when this program started, a bit each.
static CLOSED: AtomicU32 = AtomicU32::new(0);

/// Makes sure that no file of ours becomes standard input, output or error. Called first of
/// all; the program that is started inherits them closed, as we did.
pub fn keep_standard_descriptors() {
    for fd in 0..3 {
        // SAFETY: a query, and opening a file on the lowest free descriptor, which is `fd`.
        unsafe {
            if libc::fcntl(fd, libc::F_GETFD) < 0 {
                CLOSED.fetch_or(1 << fd, Ordering::Relaxed);
                libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
            }
        }
    }
}

/// What the new process needs; it runs on memory of ours.
struct Start {
    path: *const libc::c_char,
    args: *const *const libc::c_char,
    /// Set when the program could not be executed.
    error: AtomicI32,
    /// What the new process is to hand on to the agent: descriptors of arena and image here,
    /// then, once it has them without CLOEXEC, there; -1 for none.
    descriptors: [AtomicI32; 2],
}

/// Executes `program` under ptrace in a new process; returns when it is stopped at its first
/// instruction. It has inherited the arena and the image, where it could.
pub fn start(
    program: &Program,
    arena: BorrowedFd,
    image: Option<BorrowedFd>,
) -> Result<(Pid, Option<Descriptors>)> {
    const STACK: usize = 64 << 10;
    let (path, args) = program.c_strings()?;
    let mut pointers: Vec<_> = args.iter().map(|a| a.as_ptr()).collect();
    pointers.push(std::ptr::null());
    let both = image.map(|image| [arena.as_raw_fd(), image.as_raw_fd()]);
    let start = Start {
        path: path.as_ptr(),
        args: pointers.as_ptr(),
        error: AtomicI32::new(0),
        descriptors: both.unwrap_or([-1, -1]).map(AtomicI32::new),
    };
    let mut stack = vec![0u128; STACK / size_of::<u128>()];
    // As vfork, on a stack of its own: the new process shares our memory until it executes
    // the program, while this one waits. Nothing is copied.
    // SAFETY: `execute` only makes system calls and touches `start`, which outlives it.
    let child = unsafe {
        libc::clone(
            execute,
            stack.as_mut_ptr_range().end.cast(),
            libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD,
            (&raw const start).cast_mut().cast(),
        )
    };
    if child < 0 {
        return Err(Error::own(format!("cannot start a process: {}", Errno::last().desc())));
    }
    let child = Pid::from_raw(child);
    match wait_for(child) {
        Ok(Waited::Stopped(status)) if libc::WSTOPSIG(status) == libc::SIGTRAP => {
            let [arena, image] = start.descriptors.map(AtomicI32::into_inner);
            let both = arena >= 0 && image >= 0;
            Ok((child, both.then_some(Descriptors { arena, image })))
        }
        Ok(_) => {
            let _ = nix::sys::wait::waitpid(child, None);
            let errno = Errno::from_raw(start.error.load(Ordering::Relaxed));
            Err(exec_error(&program.path.display().to_string(), errno))
        }
        Err(e) => Err(Error::own(format!("cannot wait for the program: {}", e.desc()))),
    }
}

/// In the new process: becomes the program. Returns only on failure.
extern "C" fn execute(start: *mut libc::c_void) -> libc::c_int {
    unsafe extern "C" {
        static environ: *const *const libc::c_char;
    }
    // SAFETY: `start` points to the `Start` of the waiting parent; the rest are system calls.
    unsafe {
        let start = &*start.cast::<Start>();
        if libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) < 0 {
            start.error.store(libc::EPERM, Ordering::Relaxed);
            return 126;
        }
        for fd in 0..3 {
            if CLOSED.load(Ordering::Relaxed) & 1 << fd != 0 {
                libc::close(fd);
            }
        }
        hand_on(&start.descriptors);
        libc::execve(start.path, start.args, environ);
        start.error.store(Errno::last_raw(), Ordering::Relaxed);
    }
    126
}

/// In the new process: makes copies of descriptors that the program inherits, or none. The
/// agent closes them before the program's first instruction.
fn hand_on([arena, image]: &[AtomicI32; 2]) {
    // SAFETY: plain system calls on descriptors of this process.
    unsafe {
        let copies = [arena, image].map(|fd| libc::dup(fd.load(Ordering::Relaxed)));
        let both = copies.iter().all(|&copy| copy >= 0);
        for (fd, copy) in [arena, image].into_iter().zip(copies) {
            if !both && copy >= 0 {
                libc::close(copy);
            }
            fd.store(if both { copy } else { -1 }, Ordering::Relaxed);
        }
    }
}

fn exec_error(shown: &str, errno: Errno) -> Error {
    match errno {
        Errno::EPERM => Error::own(format!(
            "{shown}: not permitted to trace it; crossgate needs ptrace of its own children, \
             which this container or security policy refuses (see docs/limits.md)"
        )),
        Errno::ENOENT => Error::not_found(format!(
            "{shown}: it, or the interpreter or loader it names, does not exist; install that"
        )),
        Errno::ENOMEM | Errno::E2BIG => Error::cannot_run(format!(
            "{shown}: {}; raise the limit (`ulimit`) or pass less",
            reason(errno)
        )),
        errno => Error::cannot_run(format!("{shown}: {}", reason(errno))),
    }
}

/// Address of the environment that the first program was started with, as a trace of its
/// exec shows it.
pub fn environment_address() -> u64 {
    unsafe extern "C" {
        static environ: *const *const libc::c_char;
    }
    // SAFETY: reads the pointer's value; nobody changes the environment.
    unsafe { environ as u64 }
}
