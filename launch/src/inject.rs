//! Putting the agent into a process that is stopped at its first instruction.
//!
//! Owns: where the agent lies, the ptrace dance. Never does: waiting for anything but the process being injected.
//! The agent's half is `agent/src/start.rs`. Steps: run one `mmap` in the process by code
//! poked over its first instruction; write the image into the new mapping; let the agent
//! start; when it stops for the arena, pass the descriptor through a socket pair that the
//! agent made (so that no /proc, no path and no common namespace is needed); let go.

use std::fs::OpenOptions;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;

use crossgate_wire::arena::{Geometry, STUBS_SIZE};
use nix::errno::Errno;
use nix::sys::ptrace;
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;

use crate::image;

/// Why a process runs without the agent (or does not run).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// It is gone.
    Gone,
    /// It is stopped as it was and could run untouched; the text says why the agent cannot
    /// be in it.
    Untouched(String),
}

impl From<Errno> for Refusal {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::ESRCH | Errno::ECHILD => Self::Gone,
            other => Self::Untouched(format!("ptrace failed: {}", other.desc())),
        }
    }
}

type Result<T> = std::result::Result<T, Refusal>;

/// What is the same for every process of a tree.
pub struct Injector<'a> {
    region: u64,
    geometry: Geometry,
    arena: BorrowedFd<'a>,
}

/// The parameter block of `agent/src/image.rs`, word by word.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Params {
    entry: u64,
    arena_size: u64,
    rings: u64,
    stage: u32,
    socket: u32,
    status: u64,
    what: u64,
    outer_pid: u64,
    region: u64,
    bound: u64,
}

/// What a new program has from the one before it in its process.
#[derive(Clone, Copy, Default)]
pub struct Inherited {
    /// Its signal mask, where that is not the one it has.
    pub mask: Option<u64>,
    /// Where its agent must be, because a filter names the address.
    pub base: Option<u64>,
}

/// Address at which thread blocks and arena of a tree are mapped, plus a random multiple of
/// 64 KiB. Below every address the kernel chooses for libraries and stacks, above every
/// address that programs choose for themselves; inside what ThreadSanitizer takes for the
/// program's.
const LOWEST_REGION: u64 = 0x7e90_0000_0000;
const REGIONS: u64 = 1 << 20;
const PAGE: u64 = 4096;
/// What is mapped in one piece: stubs and image.
const WHOLE: u64 = STUBS_SIZE + image::SIZE;

const STAGE_WANTS_ARENA: u32 = 1;
const STAGE_FAILED: u32 = 2;
const STAGE_WANTS_DESCRIPTORS: u32 = 3;
const PTRACE_GETSIGMASK: libc::c_int = 0x420a;
const PTRACE_SETSIGMASK: libc::c_int = 0x420b;
/// User code segment of 64-bit tasks (arch/x86/include/asm/segment.h).
const USER_CS: u64 = 0x33;

/// `mov $9, %eax; syscall; int3`: the number is loaded by code because a register set at an
/// exec stop is overwritten by the exec's own result.
const CALL_MMAP: u64 = u64::from_le_bytes([0xb8, 9, 0, 0, 0, 0x0f, 0x05, 0xcc]);

impl<'a> Injector<'a> {
    /// For a tree whose agents share `arena`.
    pub fn new(geometry: Geometry, arena: BorrowedFd<'a>) -> Self {
        Self { region: LOWEST_REGION + random(REGIONS) * 0x1_0000, geometry, arena }
    }

    /// Puts the agent into `pid` and lets go of it. On refusal the process is still
    /// attached and stopped, its registers and code as they were.
    pub fn inject(&self, pid: Pid, inherited: &Inherited) -> Result<()> {
        // Each stop of the process is waited for here; its signal can wait.
        let before = SigSet::from(Signal::SIGCHLD).thread_swap_mask(SigmaskHow::SIG_BLOCK);
        let injected = self.inject_quietly(pid, inherited);
        if let Ok(before) = before {
            let _ = before.thread_set_mask();
        }
        injected
    }

    fn inject_quietly(&self, pid: Pid, inherited: &Inherited) -> Result<()> {
        let mut stopped = Stopped::new(pid, inherited.mask)?;
        if stopped.regs.cs != USER_CS {
            return Err(Refusal::Untouched("it is a 32-bit program".into()));
        }
        match self.inject_stopped(&mut stopped, inherited.base) {
            Ok(()) => stopped.release(),
            Err(Refusal::Gone) => Err(Refusal::Gone),
            Err(why) => {
                stopped.restore()?;
                Err(why)
            }
        }
    }

    fn inject_stopped(&self, stopped: &mut Stopped, bound: Option<u64>) -> Result<()> {
        let base = map_image(stopped, bound)?;
        let rings = self.geometry.rings.min(1);
        let params = Params {
            entry: stopped.regs.rip,
            arena_size: self.geometry.size_of_rings(rings) as u64,
            rings: u64::from(rings),
            outer_pid: stopped.pid.as_raw() as u64,
            region: self.region,
            bound: u64::from(bound.is_some()),
            ..Params::default()
        };
        let mut image = image::at_base(base);
        // SAFETY: `Params` is plain integers without padding.
        let bytes = unsafe {
            std::slice::from_raw_parts((&raw const params).cast::<u8>(), size_of::<Params>())
        };
        let offset = image::PARAMS as usize;
        image[offset..offset + bytes.len()].copy_from_slice(bytes);
        self.write_image(stopped.pid, base, &image)?;
        let params_at = base + image::PARAMS;
        ptrace::setregs(
            stopped.pid,
            libc::user_regs_struct { rip: base, rax: 0, orig_rax: u64::MAX, ..stopped.regs },
        )?;
        stopped.run_to_trap()?;

        let mut params = read_params(stopped.pid, params_at)?;
        if params.stage == STAGE_WANTS_DESCRIPTORS {
            let limit = RaisedLimit::raise(stopped.pid)?;
            stopped.run_to_trap()?;
            params = read_params(stopped.pid, params_at)?;
            if params.stage == STAGE_WANTS_ARENA {
                self.send_arena(stopped.pid, params.socket as i32)?;
                // It receives and closes everything before it stops again.
                stopped.run_to_trap()?;
                return limit.restore();
            }
            limit.restore()?;
        }
        match params.stage {
            STAGE_WANTS_ARENA => self.send_arena(stopped.pid, params.socket as i32),
            STAGE_FAILED => {
                let errno = Errno::from_raw(-(params.status as i64) as i32);
                let what = match params.what as i64 {
                    libc::SYS_mmap => "its address space limit leaves no room for the agent",
                    libc::SYS_prctl => "the kernel has no Syscall User Dispatch (Linux 5.11)",
                    libc::SYS_socketpair => "its descriptor limit leaves no room for two more",
                    _ => "the agent cannot start in it",
                };
                Err(Refusal::Untouched(format!("{what} ({})", errno.desc())))
            }
            _ => Err(Refusal::Untouched("the agent did not start in it".into())),
        }
    }

    /// Writes to memory that the process itself may not write to.
    fn write_image(&self, pid: Pid, at: u64, bytes: &[u8]) -> Result<()> {
        let path = format!("/proc/{pid}/mem");
        if let Ok(memory) = OpenOptions::new().write(true).open(path)
            && memory.write_all_at(bytes, at).is_ok()
        {
            return Ok(());
        }
        // No /proc here: a word at a time.
        for (i, chunk) in bytes.chunks(8).enumerate() {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            let address = (at as usize + i * 8) as ptrace::AddressType;
            ptrace::write(pid, address, i64::from_ne_bytes(word))?;
        }
        Ok(())
    }

    /// Sends the arena's descriptor through the process's own socket.
    fn send_arena(&self, pid: Pid, socket: i32) -> Result<()> {
        let failed =
            |what: &str| Refusal::Untouched(format!("cannot {what}: {}", Errno::last().desc()));
        // SAFETY: plain system calls; the results are descriptors of ours.
        let socket = unsafe {
            let pidfd = libc::syscall(libc::SYS_pidfd_open, pid.as_raw(), 0);
            if pidfd < 0 {
                return Err(failed("open the process (pidfd_open)"));
            }
            let pidfd = OwnedFd::from_raw_fd(pidfd as i32);
            let fd = libc::syscall(libc::SYS_pidfd_getfd, pidfd.as_raw_fd(), socket, 0);
            if fd < 0 {
                return Err(failed("reach its socket (pidfd_getfd)"));
            }
            OwnedFd::from_raw_fd(fd as i32)
        };
        let rights = [self.arena.as_raw_fd()];
        sendmsg::<()>(
            socket.as_raw_fd(),
            &[IoSlice::new(b"a")],
            &[ControlMessage::ScmRights(&rights)],
            MsgFlags::empty(),
            None,
        )
        .map_err(|_| failed("send it the shared memory"))?;
        Ok(())
    }
}

/// Maps the place for stubs and image in the process, read-execute; gives the address of the
/// image.
fn map_image(stopped: &mut Stopped, bound: Option<u64>) -> Result<u64> {
    let places = match bound {
        // Whatever the program's memory said: the kernel refuses what is no place.
        Some(base) => vec![Some(base.wrapping_sub(STUBS_SIZE))],
        None => places_near(stopped.regs.rip).into_iter().map(Some).chain([None]).collect(),
    };
    for place in places {
        let fixed = if place.is_some() { libc::MAP_FIXED_NOREPLACE } else { 0 };
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | fixed;
        let protection = libc::PROT_READ | libc::PROT_EXEC;
        let hint = place.unwrap_or(0);
        let args = [hint, WHOLE, protection as u64, flags as u64, u64::MAX, 0];
        let got = stopped.call_mmap(args)?;
        if (-4095..0).contains(&got) {
            let errno = Errno::from_raw(-got as i32);
            if errno == Errno::EEXIST || errno == Errno::EPERM && place.is_some() {
                continue;
            }
            let limit = "its address space limit leaves no room for the agent";
            let other = "the kernel refuses executable memory";
            let what = if errno == Errno::ENOMEM { limit } else { other };
            return Err(Refusal::Untouched(format!("{what} ({})", errno.desc())));
        }
        return Ok(got as u64 + STUBS_SIZE);
    }
    let why = if bound.is_some() {
        "a filter that it inherits names an address that is not free in it"
    } else {
        "its address space has no room for the agent"
    };
    Err(Refusal::Untouched(why.into()))
}

/// Where stubs and image may lie for a program that starts at `entry`: within reach of a
/// jump (2 GiB) from there and from what will be mapped around it.
fn places_near(entry: u64) -> Vec<u64> {
    const GIB: u64 = 1 << 30;
    // A program linked to the usual fixed address has room below; what is mapped lowest is
    // left alone (emulators of other systems want it), and so is the heap above.
    const FIXED: std::ops::Range<u64> = 0x40_0000..0x40_0000 + GIB;
    const FIXED_ROOM: std::ops::Range<u64> = 0x20_0000..FIXED.start - WHOLE;
    let pages =
        |range: std::ops::Range<u64>| range.start + random((range.end - range.start) / PAGE) * PAGE;
    let mut places = Vec::new();
    if FIXED.contains(&entry) {
        places.push(pages(FIXED_ROOM));
    }
    // Libraries are mapped from the loader downwards.
    if let Some(low) = (entry & !(PAGE - 1)).checked_sub(GIB + GIB / 4).filter(|&low| low >= GIB) {
        places.push(pages(low..low + GIB / 4));
    }
    places
}

/// A random number below `end`.
fn random(end: u64) -> u64 {
    let mut bytes = [0u8; 8];
    // SAFETY: writes at most eight bytes to `bytes`. A short or failed read leaves zeros,
    // which is a valid, if guessable, choice.
    unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    u64::from_ne_bytes(bytes) % end
}

/// What [`wait_for`] saw.
pub enum Waited {
    /// It is stopped: the status of waitpid(2).
    Stopped(i32),
    /// It has ended; its status is still to be collected.
    Gone,
}

/// Waits until `pid` is stopped or gone, whatever of our own signals come in between.
pub fn wait_for(pid: Pid) -> nix::Result<Waited> {
    loop {
        // SAFETY: zero is a valid siginfo; the calls write to the locals only.
        let waited = unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            let flags = libc::WEXITED | libc::WSTOPPED | libc::WNOWAIT | libc::__WALL;
            let found = libc::waitid(libc::P_PID, pid.as_raw() as u32, &raw mut info, flags);
            let ended =
                matches!(info.si_code, libc::CLD_EXITED | libc::CLD_KILLED | libc::CLD_DUMPED);
            let mut status = 0;
            match Errno::result(found) {
                Ok(_) if ended => Ok(Waited::Gone),
                Ok(_) => Errno::result(libc::waitpid(pid.as_raw(), &raw mut status, libc::__WALL))
                    .map(|_| Waited::Stopped(status)),
                Err(e) => Err(e),
            }
        };
        if !matches!(waited, Err(Errno::EINTR)) {
            return waited;
        }
    }
}

/// A descriptor limit raised for as long as the agent starts.
struct RaisedLimit {
    pid: Pid,
    before: libc::rlimit,
}

impl RaisedLimit {
    fn set(pid: Pid, limit: &libc::rlimit) -> bool {
        let none = std::ptr::null_mut();
        // SAFETY: reads `limit`.
        unsafe { libc::prlimit(pid.as_raw(), libc::RLIMIT_NOFILE, limit, none) == 0 }
    }

    fn raise(pid: Pid) -> Result<Self> {
        const ENOUGH: u64 = 4096;
        let mut before = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: a query.
        unsafe { libc::prlimit(pid.as_raw(), libc::RLIMIT_NOFILE, std::ptr::null(), &mut before) };
        let more = before.rlim_cur.saturating_add(ENOUGH);
        let both = libc::rlimit { rlim_cur: more, rlim_max: more.max(before.rlim_max) };
        let soft = libc::rlimit { rlim_cur: before.rlim_max, ..before };
        if Self::set(pid, &both) || before.rlim_max > before.rlim_cur && Self::set(pid, &soft) {
            return Ok(Self { pid, before });
        }
        Err(Refusal::Untouched("its descriptor limit leaves no room for three more".into()))
    }

    fn restore(self) -> Result<()> {
        Self::set(self.pid, &self.before);
        Ok(())
    }
}

fn read_params(pid: Pid, at: u64) -> Result<Params> {
    let mut params = Params::default();
    // SAFETY: `Params` is plain integers without padding: any bytes are a value.
    let bytes = unsafe {
        std::slice::from_raw_parts_mut((&raw mut params).cast::<u8>(), size_of::<Params>())
    };
    let remote = [RemoteIoVec { base: at as usize, len: bytes.len() }];
    process_vm_readv(pid, &mut [IoSliceMut::new(bytes)], &remote)?;
    Ok(params)
}

/// A process stopped at its first instruction, and how it was found.
struct Stopped {
    pid: Pid,
    regs: libc::user_regs_struct,
    mask: u64,
    /// Signals that came in between, to be sent again.
    later: Vec<i32>,
}

impl Stopped {
    fn new(pid: Pid, wanted: Option<u64>) -> Result<Self> {
        let regs = ptrace::getregs(pid)?;
        let mut mask = 0u64;
        // SAFETY: writes eight bytes to `mask`.
        Errno::result(unsafe {
            libc::ptrace(PTRACE_GETSIGMASK as _, pid.as_raw(), 8, &raw mut mask)
        })?;
        let mask = wanted.unwrap_or(mask);
        let stopped = Self { pid, regs, mask, later: Vec::new() };
        // Nothing but our own breakpoints may come in between.
        stopped.set_mask(!(1 << (libc::SIGTRAP - 1)))?;
        Ok(stopped)
    }

    fn set_mask(&self, mask: u64) -> Result<()> {
        let at = &raw const mask;
        // SAFETY: reads eight bytes from `mask`.
        Errno::result(unsafe { libc::ptrace(PTRACE_SETSIGMASK as _, self.pid.as_raw(), 8, at) })?;
        Ok(())
    }

    /// Runs the process until it stops itself with `int3`.
    fn run_to_trap(&mut self) -> Result<()> {
        loop {
            ptrace::cont(self.pid, None)?;
            let Waited::Stopped(status) = wait_for(self.pid)? else { return Err(Refusal::Gone) };
            match libc::WSTOPSIG(status) {
                libc::SIGTRAP => return Ok(()),
                libc::SIGSEGV | libc::SIGILL | libc::SIGBUS => {
                    return Err(Refusal::Untouched("the agent fails in it".into()));
                }
                other => self.later.push(other),
            }
        }
    }

    /// Makes the process call `mmap`.
    fn call_mmap(&mut self, args: [u64; 6]) -> Result<i64> {
        let at = self.regs.rip as ptrace::AddressType;
        let code = ptrace::read(self.pid, at)?;
        ptrace::write(self.pid, at, CALL_MMAP as i64)?;
        let [rdi, rsi, rdx, r10, r8, r9] = args;
        let regs = libc::user_regs_struct { rdi, rsi, rdx, r10, r8, r9, ..self.regs };
        ptrace::setregs(self.pid, regs)?;
        let ran = self.run_to_trap();
        let result = ptrace::getregs(self.pid)?.rax as i64;
        ptrace::write(self.pid, at, code)?;
        ran.map(|()| result)
    }

    /// As it was found, still stopped.
    fn restore(&self) -> Result<()> {
        let regs = libc::user_regs_struct { rax: 0, orig_rax: u64::MAX, ..self.regs };
        ptrace::setregs(self.pid, regs)?;
        self.set_mask(self.mask)
    }

    /// Lets go: the agent carries on.
    fn release(self) -> Result<()> {
        self.set_mask(self.mask)?;
        ptrace::detach(self.pid, None)?;
        for signal in self.later {
            // The process may be gone by now, and then so is the signal.
            // SAFETY: a plain system call.
            unsafe { libc::kill(self.pid.as_raw(), signal) };
        }
        Ok(())
    }
}
