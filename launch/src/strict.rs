//! Strict mode: no call of a program's reaches the kernel but through its agent.
//!
//! Owns: the other end of the filter that the first agent installs (`agent/src/filter.rs`). Calls made
//! anywhere but at the agent's call instructions, or by an interface that agents do not see, come
//! here (seccomp_unotify(2)), and the process that made one is killed. Only a program that has just been
//! executed may make some, until its agent is in it.

use std::collections::HashSet;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::sys::signal::{SigSet, SigmaskHow};
use nix::unistd::Pid;

/// `struct seccomp_notif` (include/uapi/linux/seccomp.h).
#[repr(C)]
#[derive(Default)]
struct Notification {
    id: u64,
    pid: u32,
    flags: u32,
    nr: i32,
    arch: u32,
    ip: u64,
    args: [u64; 6],
}

/// `struct seccomp_notif_resp`.
#[repr(C)]
struct Response {
    id: u64,
    value: i64,
    error: i32,
    flags: u32,
}

nix::ioctl_readwrite!(receive, b'!', 0, Notification);
nix::ioctl_readwrite!(respond, b'!', 1, Response);

const FLAG_CONTINUE: u32 = 1;

/// A call that did not come through an agent.
pub struct Outside {
    /// The thread that made it.
    pub tid: i32,
    /// Its number.
    pub nr: i32,
    /// It was made by the interface of 64-bit programs.
    pub native: bool,
    /// The address after the call instruction.
    pub ip: u64,
}

#[derive(Default)]
struct Shared {
    /// Processes at the first instruction of a program.
    entering: HashSet<i32>,
    /// Not told yet.
    outside: Vec<Outside>,
}

/// See the module.
#[derive(Clone, Default)]
pub struct Strict(Arc<Mutex<Shared>>);

impl Strict {
    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes over the listener that `pid` has as descriptor `fd`. When there is something to tell, the
    /// supervisor gets SIGCHLD.
    pub fn listen(&self, pid: Pid, fd: i32) -> io::Result<()> {
        // SAFETY: plain system calls; the results are descriptors of ours.
        let listener = unsafe {
            let pidfd = owned(libc::syscall(libc::SYS_pidfd_open, pid.as_raw(), 0))?;
            owned(libc::syscall(libc::SYS_pidfd_getfd, pidfd.as_raw_fd(), fd, 0))?
        };
        let strict = self.clone();
        // The supervisor's signals interrupt its sleep, not this thread's.
        let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
        let started = std::thread::Builder::new().spawn(move || strict.serve(&listener));
        before.thread_set_mask()?;
        started.map(drop)
    }

    fn serve(&self, listener: &OwnedFd) {
        loop {
            let mut seen = Notification::default();
            // SAFETY: as the kernel lays it out, and zero as it wants it.
            match unsafe { receive(listener.as_raw_fd(), &raw mut seen) } {
                Ok(_) => {}
                // The task is gone meanwhile.
                Err(nix::errno::Errno::ENOENT | nix::errno::Errno::EINTR) => continue,
                Err(_) => return,
            }
            let tid = seen.pid as i32;
            if self.shared().entering.contains(&tid) {
                let mut go_on = Response { id: seen.id, value: 0, error: 0, flags: FLAG_CONTINUE };
                // SAFETY: as above. Where it fails, the task is gone.
                let _ = unsafe { respond(listener.as_raw_fd(), &raw mut go_on) };
                continue;
            }
            const AUDIT_ARCH_X86_64: u32 = 0xc000_003e;
            let native = seen.arch == AUDIT_ARCH_X86_64;
            self.shared().outside.push(Outside { tid, nr: seen.nr, native, ip: seen.ip });
            // All of its process; the call waits for an answer that does not come. The supervisor may
            // be done by then: no memory is shared with it but what this holds.
            // SAFETY: plain system calls.
            unsafe {
                libc::kill(tid, libc::SIGKILL);
                libc::kill(libc::getpid(), libc::SIGCHLD);
            }
        }
    }

    /// `pid` is at the first instruction of a program, until the result is dropped.
    pub fn entering(&self, pid: Pid) -> Entering<'_> {
        self.shared().entering.insert(pid.as_raw());
        Entering { strict: self, pid }
    }

    /// What there is to tell.
    pub fn take(&self) -> Vec<Outside> {
        std::mem::take(&mut self.shared().outside)
    }
}

/// See [`Strict::entering`].
pub struct Entering<'a> {
    strict: &'a Strict,
    pid: Pid,
}

impl Drop for Entering<'_> {
    fn drop(&mut self) {
        self.strict.shared().entering.remove(&self.pid.as_raw());
    }
}

/// # Safety
/// `fd` is a descriptor that nobody else owns, or -1 with `errno`.
unsafe fn owned(fd: i64) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: as the caller says.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}
