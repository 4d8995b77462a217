//! Putting the agent into a process that is stopped at its first instruction.
//!
//! Owns: where the agent lies, the ptrace dance. Never does: waiting for anything but the
//! process being injected. The agent's half is `agent/src/start.rs`. The usual way has one stop: code poked over the
//! program's maps the image's file, by a descriptor that the program inherited, and goes on in
//! the agent, which maps the arena by another, closes both and stops; we take the code back
//! and let go. Where there are no descriptors, the code maps anonymous memory, the image is
//! written into it, and the agent receives the arena through a socket pair that it makes: so
//! that no /proc, no path and no common namespace is needed.

use std::fs::{self, OpenOptions};
use std::io::IoSlice;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};

use crossgate_wire::arena::{Geometry, STUBS_SIZE};
use nix::errno::Errno;
use nix::sys::ptrace;
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use nix::sys::stat::fstat;
use nix::unistd::Pid;

use crate::attach::Place;
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

/// Descriptors in the new program's process, of the arena and of the image's file, which the
/// agent closes.
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub struct Descriptors {
    pub arena: i32,
    pub image: i32,
}

impl Descriptors {
    /// As the agent tells them: one more than each, the image's in the upper half.
    pub fn from_packed(packed: u64) -> Option<Self> {
        let number = |word: u64| i32::try_from(word).ok()?.checked_sub(1).filter(|&n| n >= 0);
        let (arena, image) = (number(packed & 0xffff_ffff)?, number(packed >> 32)?);
        Some(Self { arena, image })
    }

    /// Whether these are, in `pid`, the files that we made: what is in the arena is the
    /// program's word. The process is stopped and has its descriptors to itself.
    pub fn are(self, pid: Pid, arena: BorrowedFd, image: Option<BorrowedFd>) -> bool {
        let same = |number: i32, ours: BorrowedFd| {
            let there = fs::metadata(format!("/proc/{pid}/fd/{number}"));
            let ours = fstat(ours);
            matches!((there, ours), (Ok(a), Ok(b)) if (a.dev(), a.ino()) == (b.st_dev, b.st_ino))
        };
        same(self.arena, arena) && image.is_some_and(|image| same(self.image, image))
    }

    fn packed(self) -> u64 {
        (self.arena as u32 + 1) as u64 | ((self.image as u32 + 1) as u64) << 32
    }
}

/// What a new program has from the one before it in its process.
#[derive(Clone, Copy, Default)]
pub struct Inherited {
    /// Its signal mask, where that is not the one it has.
    pub mask: Option<u64>,
    /// Where its agent must be, because a filter names the address.
    pub base: Option<u64>,
    /// What it has inherited for its agent.
    pub descriptors: Option<Descriptors>,
    /// It is no new program: it runs already.
    pub runs: bool,
}

impl Inherited {
    fn flags(&self) -> u64 {
        let bound = if self.base.is_some() { BOUND } else { 0 };
        if !self.runs {
            return bound;
        }
        /// AT_HWCAP2, and its bit (arch/x86/include/uapi/asm/hwcap2.h).
        const HWCAP2_FSGSBASE: u64 = 1 << 1;
        // SAFETY: a query.
        let allowed = unsafe { libc::getauxval(libc::AT_HWCAP2) } & HWCAP2_FSGSBASE != 0;
        bound | RUNS | if allowed { FSGSBASE } else { 0 }
    }
}

/// Address at which thread blocks and arena of a tree are mapped, plus a random multiple of
/// 64 KiB. Below every address the kernel chooses for libraries and stacks, above every
/// address that programs choose for themselves; inside what ThreadSanitizer takes for the
/// program's.
const LOWEST_REGION: u64 = 0x7e90_0000_0000;
const REGIONS: u64 = 1 << 20;
const PAGE: u64 = 4096;
/// `Stage` of `agent/src/image.rs`.
const STAGE_READY: u64 = 1;
const STAGE_WANTS_ARENA: u64 = 2;
const STAGE_WANTS_DESCRIPTORS: u64 = 3;
const STAGE_FAILED: u64 = 4;
const STAGE_ATTACHED: u64 = 5;
const STAGE_DONE: u64 = 6;
/// Flags of `agent/src/image.rs`.
const BOUND: u64 = 1;
const RUNS: u64 = 2;
const FSGSBASE: u64 = 4;
const PTRACE_GETSIGMASK: libc::c_int = 0x420a;
const PTRACE_SETSIGMASK: libc::c_int = 0x420b;
/// User code segment of 64-bit tasks (arch/x86/include/asm/segment.h).
pub const USER_CS: u64 = 0x33;

/// Code that is poked over the program's, and taken back: makes the call `nr` with the arguments in
/// registers, then stops. The number is loaded by code because a register set at an exec
/// stop is overwritten by the exec's own result.
fn call_and_stop(nr: libc::c_long) -> [u64; 1] {
    let [a, b, ..] = nr.to_le_bytes();
    // mov $nr, %eax; syscall; int3
    [u64::from_le_bytes([0xb8, a, b, 0, 0, 0x0f, 0x05, 0xcc])]
}

/// As [`call_and_stop`] with `mmap`; goes on in what it maps, behind the stubs, when it could.
const MAP_AND_GO: [u64; 3] = [
    // mov $9, %eax; syscall; (first byte of the next)
    u64::from_le_bytes([0xb8, 9, 0, 0, 0, 0x0f, 0x05, 0x48]),
    // test %rax, %rax; js over the next two; add $STUBS_SIZE, %rax (begun)
    u64::from_le_bytes([0x85, 0xc0, 0x78, 8, 0x48, 0x05, STUBS[0], STUBS[1]]),
    // (ended); jmp *%rax; int3
    u64::from_le_bytes([STUBS[2], STUBS[3], 0xff, 0xe0, 0xcc, 0xcc, 0xcc, 0xcc]),
];
const STUBS: [u8; 4] = (STUBS_SIZE as u32).to_le_bytes();

impl<'a> Injector<'a> {
    /// For a tree whose agents share `arena`.
    pub fn new(geometry: Geometry, arena: BorrowedFd<'a>) -> Self {
        Self { region: LOWEST_REGION + random(REGIONS) * 0x1_0000, geometry, arena }
    }

    /// Puts the agent into `pid` and lets go of it. On refusal the process is still
    /// attached and stopped, its registers and code as they were. Gives where the agent is.
    pub fn inject(&self, pid: Pid, inherited: &Inherited) -> Result<u64> {
        // Each stop of the process is waited for here; its signal can wait.
        let before = SigSet::from(Signal::SIGCHLD).thread_swap_mask(SigmaskHow::SIG_BLOCK);
        let injected = self.inject_quietly(pid, inherited);
        if let Ok(before) = before {
            let _ = before.thread_set_mask();
        }
        injected
    }

    /// Puts the agent into a process that runs already, whose tasks are all stopped, by this one of
    /// them. Gives where it is.
    pub fn inject_running(&self, stopped: &mut Stopped) -> Result<Place> {
        let inherited = Inherited { runs: true, ..Inherited::default() };
        let base = self.inject_stopped(stopped, &inherited)?;
        stopped.run_to_trap()?;
        let regs = ptrace::getregs(stopped.pid)?;
        if regs.rax != STAGE_ATTACHED {
            return Err(Refusal::Untouched("the agent did not start in it".into()));
        }
        let (exchange, entry) = (regs.rdi.wrapping_sub(base), regs.rsi.wrapping_sub(base));
        Ok(Place { base, exchange, entry })
    }

    fn inject_quietly(&self, pid: Pid, inherited: &Inherited) -> Result<u64> {
        let mut stopped = Stopped::new(pid, inherited.mask)?;
        let injected = if stopped.regs.cs == USER_CS {
            self.inject_stopped(&mut stopped, inherited)
        } else {
            Err(Refusal::Untouched("it is a 32-bit program".into()))
        };
        match injected {
            Ok(base) => stopped.release().map(|()| base),
            Err(Refusal::Gone) => Err(Refusal::Gone),
            Err(why) => {
                if let Some(Descriptors { arena, image }) = inherited.descriptors {
                    // Not the program's; the agent may have closed them by now.
                    for fd in [arena, image] {
                        let _ = stopped.close(fd);
                    }
                }
                stopped.restore()?;
                Err(why)
            }
        }
    }

    fn inject_stopped(&self, stopped: &mut Stopped, inherited: &Inherited) -> Result<u64> {
        let rings = self.geometry.rings.min(1);
        let base = self.start(stopped, inherited, rings)?;
        let mut limit = None;
        let result = loop {
            let regs = ptrace::getregs(stopped.pid)?;
            if regs.rip.wrapping_sub(base) >= image::SIZE {
                break Err(Refusal::Untouched("the agent did not start in it".into()));
            }
            match regs.rax {
                STAGE_READY => break Ok(base),
                STAGE_WANTS_ARENA => self.send_arena(stopped.pid, regs.rdi as i32)?,
                STAGE_WANTS_DESCRIPTORS => limit = Some(RaisedLimit::raise(stopped.pid)?),
                STAGE_FAILED => break Err(failed(regs.rdi as i64, -(regs.rsi as i64))),
                errno => break Err(failed(libc::SYS_mprotect, -(errno as i64))),
            }
            stopped.run_to_trap()?;
        };
        if let Some(limit) = limit {
            limit.restore()?;
        }
        result
    }

    /// Maps stubs and image and lets the agent run to its first stop; gives where it is.
    fn start(&self, stopped: &mut Stopped, inherited: &Inherited, rings: u32) -> Result<u64> {
        let words = Words {
            rbx: stopped.regs.rip,
            rbp: self.region,
            r12: self.geometry.size_of_rings(rings) as u64,
            r13: stopped.pid.as_raw() as u64 | u64::from(rings) << 32,
            r14: inherited.descriptors.map_or(0, Descriptors::packed),
            r15: inherited.flags(),
        };
        if let Some(Descriptors { image, .. }) = inherited.descriptors
            && let Some(base) = map_image(stopped, inherited.base, Some(image), &words)?
        {
            return Ok(base);
        }
        let Some(base) = map_image(stopped, inherited.base, None, &words)? else {
            let why = if inherited.base.is_some() {
                "a filter that it inherits names an address that is not free in it"
            } else {
                "its address space has no room for the agent"
            };
            return Err(Refusal::Untouched(why.into()));
        };
        self.write_image(stopped.pid, base)?;
        stopped.go(base, &words)?;
        Ok(base)
    }

    /// Writes the image to memory that the process itself may not write to.
    fn write_image(&self, pid: Pid, at: u64) -> Result<()> {
        let bytes = image::BYTES;
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

/// What the agent is told, by the registers in which `cg_start` finds it
/// (`agent/src/image.rs`, `Params`).
#[derive(Default)]
struct Words {
    rbx: u64,
    rbp: u64,
    r12: u64,
    r13: u64,
    r14: u64,
    r15: u64,
}

impl Words {
    fn into(&self, regs: libc::user_regs_struct) -> libc::user_regs_struct {
        let Self { rbx, rbp, r12, r13, r14, r15 } = *self;
        libc::user_regs_struct { rbx, rbp, r12, r13, r14, r15, ..regs }
    }
}

/// Why the agent could not start: `call` failed with `errno`.
fn failed(call: i64, errno: i64) -> Refusal {
    let what = match call {
        libc::SYS_mmap => "its address space limit leaves no room for the agent",
        libc::SYS_prctl => "the kernel has no Syscall User Dispatch (Linux 5.11)",
        libc::SYS_socketpair => "its descriptor limit leaves no room for two more",
        _ => "the agent cannot start in it",
    };
    let errno = Errno::from_raw(i32::try_from(errno).unwrap_or(0));
    Refusal::Untouched(format!("{what} ({})", errno.desc()))
}

/// Maps stubs and image in the process, read-execute; gives the address of the image. By the
/// descriptor of its file the agent runs to its first stop, too; without one there is only
/// room for it. `None` when there is no place, or the file cannot be mapped.
fn map_image(
    stopped: &mut Stopped,
    bound: Option<u64>,
    file: Option<i32>,
    words: &Words,
) -> Result<Option<u64>> {
    let places = match bound {
        // Whatever the program's memory said: the kernel refuses what is no place.
        Some(base) => vec![Some(base.wrapping_sub(STUBS_SIZE))],
        None => places_near(stopped.regs.rip).into_iter().map(Some).chain([None]).collect(),
    };
    // The code that maps the file cannot tell where, so only just there.
    for place in places.into_iter().filter(|place| place.is_some() || file.is_none()) {
        let fixed = if place.is_some() { libc::MAP_FIXED_NOREPLACE } else { 0 };
        let content = if file.is_some() { 0 } else { libc::MAP_ANONYMOUS };
        let flags = libc::MAP_PRIVATE | libc::MAP_NORESERVE | content | fixed;
        let protection = libc::PROT_READ | libc::PROT_EXEC;
        let descriptor = file.map_or(u64::MAX, |fd| fd as u64);
        let hint = place.unwrap_or(0);
        let args = [hint, image::WHOLE, protection as u64, flags as u64, descriptor, 0];
        let got = if file.is_some() {
            stopped.map_and_go(args, words)?
        } else {
            stopped.call(libc::SYS_mmap, args)?
        };
        let Some(errno) = (-4095..0).contains(&got).then(|| Errno::from_raw(-got as i32)) else {
            return Ok(Some(got as u64 + STUBS_SIZE));
        };
        if errno == Errno::EEXIST || errno == Errno::EPERM && place.is_some() {
            continue;
        }
        if file.is_some() {
            return Ok(None);
        }
        let limit = "its address space limit leaves no room for the agent";
        let other = "the kernel refuses executable memory";
        let what = if errno == Errno::ENOMEM { limit } else { other };
        return Err(Refusal::Untouched(format!("{what} ({})", errno.desc())));
    }
    Ok(None)
}

/// Where stubs and image may lie for a program that starts at `entry`: within reach of a
/// jump (2 GiB) from there and from what will be mapped around it.
fn places_near(entry: u64) -> Vec<u64> {
    const GIB: u64 = 1 << 30;
    // A program linked to the usual fixed address has room below; what is mapped lowest is
    // left alone (emulators of other systems want it), and so is the heap above.
    const FIXED: std::ops::Range<u64> = 0x40_0000..0x40_0000 + GIB;
    const FIXED_ROOM: std::ops::Range<u64> = 0x20_0000..FIXED.start - image::WHOLE;
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
        if let Some(waited) = wait_with(pid, 0)? {
            return Ok(waited);
        }
    }
}

/// Whether `pid` is stopped or gone.
pub fn wait_now(pid: Pid) -> nix::Result<Option<Waited>> {
    wait_with(pid, libc::WNOHANG)
}

fn wait_with(pid: Pid, flags: libc::c_int) -> nix::Result<Option<Waited>> {
    // SAFETY: zero is a valid siginfo; the calls write to the locals only.
    let waited = unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let flags = flags | libc::WEXITED | libc::WSTOPPED | libc::WNOWAIT | libc::__WALL;
        let found = libc::waitid(libc::P_PID, pid.as_raw() as u32, &raw mut info, flags);
        let ended = matches!(info.si_code, libc::CLD_EXITED | libc::CLD_KILLED | libc::CLD_DUMPED);
        let mut status = 0;
        match Errno::result(found) {
            Ok(_) if info.si_pid() == 0 => Ok(None),
            Ok(_) if ended => Ok(Some(Waited::Gone)),
            Ok(_) => Errno::result(libc::waitpid(pid.as_raw(), &raw mut status, libc::__WALL))
                .map(|_| Some(Waited::Stopped(status))),
            Err(e) => Err(e),
        }
    };
    if matches!(waited, Err(Errno::EINTR)) { Ok(None) } else { waited }
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

/// A task that is stopped, and how it was found: a process at its first instruction, or, where it is
/// joined or left, anywhere.
pub struct Stopped {
    /// Its thread id.
    pub pid: Pid,
    /// Its registers when it was found.
    pub regs: libc::user_regs_struct,
    /// The signal mask that it is to have.
    pub mask: u64,
    /// Signals that came in between, to be sent again.
    later: Vec<i32>,
}

impl Stopped {
    /// `wanted` is the mask that it is to have, if not the one it has.
    pub fn new(pid: Pid, wanted: Option<u64>) -> Result<Self> {
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

    /// Runs `code` in place of the first instructions, with these arguments of a call in
    /// registers and what is told to the agent, to its first stop. Gives the registers there.
    fn run(
        &mut self,
        code: &[u64],
        args: [u64; 6],
        words: Option<&Words>,
    ) -> Result<libc::user_regs_struct> {
        let from = self.poked_at();
        let at = |i: usize| (from as usize + i * 8) as ptrace::AddressType;
        let mut before = Vec::with_capacity(code.len());
        for i in 0..code.len() {
            before.push(ptrace::read(self.pid, at(i))?);
        }
        for (i, &word) in code.iter().enumerate() {
            ptrace::write(self.pid, at(i), word as i64)?;
        }
        let [rdi, rsi, rdx, r10, r8, r9] = args;
        let regs = libc::user_regs_struct { rip: from, rdi, rsi, rdx, r10, r8, r9, ..self.regs };
        ptrace::setregs(self.pid, words.map_or(regs, |words| words.into(regs)))?;
        let ran = self.run_to_trap();
        let result = ptrace::getregs(self.pid)?;
        for (i, &word) in before.iter().enumerate() {
            ptrace::write(self.pid, at(i), word)?;
        }
        ran.map(|()| result)
    }

    /// Makes the process close a descriptor, whatever its word size.
    fn close(&mut self, fd: i32) -> Result<()> {
        // mov $6, %eax; int $0x80; int3: `close` of the 32-bit table, whose first argument is
        // in ebx.
        const CLOSE_32: u64 = u64::from_le_bytes([0xb8, 6, 0, 0, 0, 0xcd, 0x80, 0xcc]);
        let fd = fd as u64;
        if self.regs.cs == USER_CS {
            self.call(libc::SYS_close, [fd, 0, 0, 0, 0, 0])?;
        } else {
            let words = Words { rbx: fd, ..Words::default() };
            self.run(&[CLOSE_32], [0; 6], Some(&words))?;
        }
        Ok(())
    }

    /// Makes the process call `nr`; gives the result.
    fn call(&mut self, nr: libc::c_long, args: [u64; 6]) -> Result<i64> {
        Ok(self.run(&call_and_stop(nr), args, None)?.rax as i64)
    }

    /// Makes the process map the image's file at just `args[0]` and lets the agent run to its
    /// first stop. Gives `args[0]`, or `-errno` of the mapping.
    fn map_and_go(&mut self, args: [u64; 6], words: &Words) -> Result<i64> {
        let regs = self.run(&MAP_AND_GO, args, Some(words))?;
        let poked = size_of_val(&MAP_AND_GO) as u64;
        let stopped_there = regs.rip.wrapping_sub(self.poked_at()) <= poked;
        Ok(if stopped_there { regs.rax } else { args[0] } as i64)
    }

    /// Where code is poked: the start of the page of the first instruction, which has room.
    fn poked_at(&self) -> u64 {
        self.regs.rip & !(PAGE - 1)
    }

    /// Lets the agent, which lies at `base`, run to its first stop.
    fn go(&mut self, base: u64, words: &Words) -> Result<()> {
        let regs = libc::user_regs_struct { rip: base, rax: 0, orig_rax: u64::MAX, ..self.regs };
        ptrace::setregs(self.pid, words.into(regs))?;
        self.run_to_trap()
    }

    /// As it was found, still stopped.
    fn restore(&self) -> Result<()> {
        // No system call is under way that could be begun again.
        let regs = libc::user_regs_struct { rax: 0, orig_rax: u64::MAX, ..self.regs };
        ptrace::setregs(self.pid, regs)?;
        self.set_mask(self.mask)
    }

    /// Has the task run from `entry` to the agent's stop; gives the answer of that step, and the %gs
    /// base that the task has then.
    pub fn run_step(&mut self, entry: u64) -> Result<(i64, u64)> {
        ptrace::setregs(self.pid, libc::user_regs_struct { rip: entry, ..self.regs })?;
        self.run_to_trap()?;
        let regs = ptrace::getregs(self.pid)?;
        if regs.rax != STAGE_DONE {
            return Err(Refusal::Untouched("the agent fails in it".into()));
        }
        self.regs.gs_base = regs.gs_base;
        Ok((regs.rdi as i64, regs.gs_base))
    }

    /// Unmaps memory, from code that lies elsewhere.
    pub fn unmap(&mut self, start: u64, len: u64) -> Result<()> {
        self.call(libc::SYS_munmap, [start, len, 0, 0, 0, 0]).map(drop)
    }

    /// Lets it run on with these registers.
    pub fn let_go(&self, regs: libc::user_regs_struct) -> Result<()> {
        ptrace::setregs(self.pid, regs)?;
        self.set_mask(self.mask)?;
        ptrace::detach(self.pid, None)?;
        for &signal in &self.later {
            // SAFETY: a plain system call.
            unsafe { libc::syscall(libc::SYS_tkill, self.pid.as_raw(), signal) };
        }
        Ok(())
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

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use nix::sys::memfd::{MFdFlags, memfd_create};

    use super::*;

    #[test]
    fn only_our_own_files_are_taken_for_ours() {
        let file = || memfd_create("test", MFdFlags::MFD_CLOEXEC).unwrap();
        let (arena, image, other) = (file(), file(), file());
        let copies = [&arena, &image, &other].map(|fd| fd.try_clone().unwrap());
        let [arena_copy, image_copy, other_copy] = copies.each_ref().map(AsRawFd::as_raw_fd);
        let are = |arena_there, image_there| {
            let there = Descriptors { arena: arena_there, image: image_there };
            there.are(Pid::this(), arena.as_fd(), Some(image.as_fd()))
        };
        assert!(are(arena_copy, image_copy));
        assert!(!are(image_copy, arena_copy));
        assert!(!are(other_copy, image_copy));
        assert!(!are(arena_copy, other_copy));
        assert!(!are(arena_copy, i32::MAX));
        let there = Descriptors { arena: arena_copy, image: image_copy };
        assert!(!there.are(Pid::this(), arena.as_fd(), None));
    }

    #[test]
    fn descriptors_are_told_as_one_more_than_they_are() {
        let told = Descriptors { arena: 0, image: 7 }.packed();
        assert!(Descriptors::from_packed(told).is_some_and(|d| (d.arena, d.image) == (0, 7)));
        for nonsense in [0, 1, 1 << 32, u64::MAX] {
            assert!(Descriptors::from_packed(nonsense).is_none(), "{nonsense:#x}");
        }
    }
}
