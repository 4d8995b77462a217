//! Starting the first program of a tree, stopped at its first instruction.

use std::ffi::CString;
use std::sync::atomic::{AtomicUsize, Ordering};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::signal::Signal;
use nix::sys::wait::WaitStatus;
use nix::unistd::{ForkResult, Pid, fork, pipe2};

use crate::error::{Error, Result, reason};
use crate::inject::wait_for;
use crate::program::Program;

/// What SIGPIPE did when this program started. Rust's runtime ignores it before `main`; the
/// program we start must inherit what we did.
static INHERITED_SIGPIPE: AtomicUsize = AtomicUsize::new(libc::SIG_DFL);

/// Which of the standard descriptors were closed then, one bit each. The runtime opens
/// /dev/null for them.
static INHERITED_CLOSED: AtomicUsize = AtomicUsize::new(0);

extern "C" fn remember_inherited() {
    for fd in 0..3 {
        // SAFETY: a query.
        if unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 {
            INHERITED_CLOSED.fetch_or(1 << fd, Ordering::Relaxed);
        }
    }
    // SAFETY: a query that writes to a local struct.
    unsafe {
        let mut old: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(libc::SIGPIPE, std::ptr::null(), &mut old) == 0 {
            INHERITED_SIGPIPE.store(old.sa_sigaction, Ordering::Relaxed);
        }
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static REMEMBER: extern "C" fn() = remember_inherited;

/// Forks and executes `program` under ptrace; returns when it is stopped at its first
/// instruction.
pub fn start(program: &Program) -> Result<Pid> {
    let (path, args) = program.c_strings()?;
    let shown = program.path.display();
    let own = |what: &str, e: Errno| Error::own(format!("cannot {what}: {}", reason(e)));
    let (reader, writer) = pipe2(OFlag::O_CLOEXEC).map_err(|e| own("make a pipe", e))?;
    // SAFETY: this process has one thread, so the child may do as it likes.
    match unsafe { fork() }.map_err(|e| own("start a process", e))? {
        ForkResult::Child => {
            let error = execute(&path, &args);
            let bytes = (error as i32).to_ne_bytes();
            let _ = nix::unistd::write(&writer, &bytes);
            // SAFETY: ends the child without running what belongs to the parent.
            unsafe { libc::_exit(126) }
        }
        ForkResult::Parent { child } => {
            drop(writer);
            match wait_for(child) {
                Ok(WaitStatus::Stopped(_, Signal::SIGTRAP)) => Ok(child),
                Ok(_) => {
                    let mut bytes = [0u8; 4];
                    let got = nix::unistd::read(&reader, &mut bytes);
                    let errno = if got == Ok(4) {
                        Errno::from_raw(i32::from_ne_bytes(bytes))
                    } else {
                        Errno::UnknownErrno
                    };
                    Err(exec_error(&shown.to_string(), errno))
                }
                Err(e) => Err(own("wait for the program", e)),
            }
        }
    }
}

/// In the child: becomes the program. Returns only on failure.
fn execute(path: &CString, args: &[CString]) -> Errno {
    // SAFETY: plain system calls on this process; see `start`.
    unsafe {
        if libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) < 0 {
            return Errno::EPERM;
        }
        libc::signal(libc::SIGPIPE, INHERITED_SIGPIPE.load(Ordering::Relaxed));
        for fd in 0..3 {
            if INHERITED_CLOSED.load(Ordering::Relaxed) & 1 << fd != 0 {
                libc::close(fd);
            }
        }
    }
    match nix::unistd::execv(path, args) {
        Ok(never) => match never {},
        Err(e) => e,
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
