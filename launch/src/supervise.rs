//! The supervisor: one thread that starts the first program, answers the agents of its
//! tree, reads their records and knows when the last process is gone.
//!
//! Owns: the loop, the set of known processes, attaching around an exec. It sleeps on one
//! futex, the doorbell: agents ring it, and so does our own SIGCHLD handler, so children
//! and stopped tracees wake it too. Processes that are not our children are watched by
//! pidfd. It stays attached to nobody, except from the moment a task asks to execute a
//! program until the agent is in the new image.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::time::Duration;

use crossgate_wire::arena::{
    CALLS, Counters, Geometry, HookKind, Mode, REQUEST_ANSWERED, REQUEST_FREE, REQUEST_SENT,
    Request, RequestKind, SCRATCH_SIZE, SITE_ENTERED, SITE_LOADS_NUMBER, SiteEntry, SiteKind,
    UNTRACED_RIGHTS, UNTRACED_TRACEE,
};
use crossgate_wire::host::DYNAMIC_LINKER;
use crossgate_wire::{Record, Rules};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::ptrace;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use nix::unistd::Pid;

use crate::arena::OwnArena;
use crate::attach::{self, Place};
use crate::drain::{Drain, wake};
use crate::error::{Error, Result};
use crate::inject::{Descriptors, Inherited, Injector, Refusal};
use crate::library::Library;
use crate::namespaces;
use crate::program::Program;
use crate::scan::{self, Scanner};
use crate::spawn;
use crate::strict::{Outside, Strict};

/// How a tree is run.
pub struct Options {
    /// How sites are found.
    pub mode: Mode,
    /// The hook in the agents.
    pub hook: HookKind,
    /// Follow children and new programs.
    pub follow: bool,
    /// Most bytes of a string in a record.
    pub string_limit: u32,
    /// A site is patched when it is caught this many times.
    pub patch_after: u32,
    /// Report every decision about a site.
    pub report_sites: bool,
    /// Which calls the hook wants, by number; the answer for 1023 also stands for numbers
    /// that do not exist.
    pub interest: Box<[bool; CALLS]>,
    /// What is injected, with [`HookKind::Inject`].
    pub rules: Option<Rc<Rules>>,
    /// Hook libraries, with [`HookKind::Library`].
    pub libraries: Vec<Library>,
    /// Whether a library that fails ends the program, or is left out from then on.
    pub goes_on: bool,
    /// Whether programs are to have no vDSO, so that looks at the clock are calls.
    pub hide_vdso: bool,
    /// Whether a program is ended at its first call that does not come through its agent.
    pub strict: bool,
    /// Sizes of the rings.
    pub geometry: Geometry,
    /// What happens when the first program ends before its descendants.
    pub linger: Linger,
}

/// What happens when the first program ends before its descendants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Linger {
    /// Wait for them all, as strace does.
    Wait,
    /// Return at once; a child of this process goes on serving them.
    Background,
}

/// A task of the traced tree, by its ids as this process sees them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Task {
    /// Process id.
    pub pid: i32,
    /// Thread id.
    pub tid: i32,
}

/// A decision about a site.
#[derive(Debug, Clone)]
pub struct SiteReport {
    /// The file the code comes from, empty for anonymous memory.
    pub object: String,
    /// Address of the call instruction in the file (of its segment's file offset).
    pub offset: u64,
    /// Address in the process.
    pub address: u64,
    /// The call number there, where one is known.
    pub nr: Option<u64>,
    /// What became of it.
    pub kind: SiteKind,
    /// See [`crossgate_wire::arena::SiteReason`].
    pub reason: u64,
}

/// Receives what happens in the tree. The order is that of time, as far as the processors'
/// clocks tell it.
pub trait Observer {
    /// One record of a task, as it is and as the bytes it was read from.
    fn record(&mut self, task: Task, record: &Record, bytes: &[u8]);
    /// Everything there is for now was handed on.
    fn pause(&mut self) {}
    /// `pid` executes a new program: the exec of its thread `tid` succeeded.
    fn executed(&mut self, pid: i32, tid: i32);
    /// A task is gone and its last record was handed on.
    fn task_gone(&mut self, task: Task);
    /// A process is gone; how is known for the first one only.
    fn process_gone(&mut self, pid: i32, ending: Option<Ending>);
    /// A site was decided on.
    fn site(&mut self, pid: i32, report: SiteReport);
    /// A process that runs already was joined, with these tasks.
    fn joined(&mut self, _pid: i32, _tasks: &[i32]) {}
    /// A process was left, and runs on.
    fn left(&mut self, _pid: i32) {}
    /// A process goes on without the agent.
    fn untraced(&mut self, _pid: i32) {}
    /// What the agents have counted when this process stops serving the tree.
    fn counted(&mut self, _counters: &Counters) {}
    /// Something the user must know.
    fn note(&mut self, text: &str);
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// With this status.
    Exited(i32),
    /// By this signal, with a core dump or not.
    Killed(i32, bool),
}

impl Ending {
    /// The exit code a shell would report.
    pub fn code(self) -> u8 {
        match self {
            Self::Exited(status) => status as u8,
            Self::Killed(signal, _) => 128u8.wrapping_add(signal as u8),
        }
    }
}

/// Futex of the arena in use, for the signal handler.
static DOORBELL: AtomicPtr<AtomicU32> = AtomicPtr::new(std::ptr::null_mut());
/// The first program's process, to which termination signals are passed on.
static FIRST: AtomicU32 = AtomicU32::new(0);

extern "C" fn on_child(_: libc::c_int) {
    let doorbell = DOORBELL.load(Ordering::Relaxed);
    if !doorbell.is_null() {
        // SAFETY: points into the arena for as long as it is set.
        unsafe { (*doorbell).fetch_add(1, Ordering::Relaxed) };
    }
}

/// The heartbeat of the arena in use.
static HEARTBEAT: AtomicPtr<AtomicU32> = AtomicPtr::new(std::ptr::null_mut());

/// Beats also while this process waits: for a reader of its output, for a program.
extern "C" fn beat(_: libc::c_int) {
    let heartbeat = HEARTBEAT.load(Ordering::Relaxed);
    if !heartbeat.is_null() {
        // SAFETY: points into the arena for as long as it is set.
        unsafe { (*heartbeat).fetch_add(1, Ordering::Relaxed) };
    }
}

/// Starts the timer behind [`beat`].
fn start_heartbeat(heartbeat: &AtomicU32) {
    HEARTBEAT.store(heartbeat.as_ptr().cast(), Ordering::Relaxed);
    let action = SigAction::new(SigHandler::Handler(beat), SaFlags::SA_RESTART, SigSet::empty());
    let every = libc::timeval { tv_sec: 0, tv_usec: 500_000 };
    let timer = libc::itimerval { it_interval: every, it_value: every };
    // SAFETY: the handler only touches an atomic; the timer is this process's own.
    unsafe {
        let _ = sigaction(Signal::SIGALRM, &action);
        libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut());
    }
}

extern "C" fn pass_on(signal: libc::c_int) {
    let first = FIRST.load(Ordering::Relaxed);
    if first != 0 {
        // SAFETY: kill(2) is async-signal-safe.
        unsafe { libc::kill(first as i32, signal) };
    }
}

fn handle(signal: Signal, handler: SigHandler) {
    let action = SigAction::new(handler, SaFlags::empty(), SigSet::empty());
    // SAFETY: the handlers above only touch atomics and make one system call.
    let _ = unsafe { sigaction(signal, &action) };
}

/// The time stamp counter.
pub fn now() -> u64 {
    // SAFETY: every x86-64 processor has it.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Runs `program` with an agent in every process of its tree. Returns how the program
/// itself ended.
pub fn run(program: &Program, options: &Options, observer: &mut dyn Observer) -> Result<Ending> {
    let arena = OwnArena::new(options)?;
    DOORBELL.store(arena.control().doorbell.as_ptr().cast(), Ordering::Relaxed);
    handle(Signal::SIGCHLD, SigHandler::Handler(on_child));
    let (first, descriptors) = spawn::start(program, arena.fd(), arena.image())?;
    FIRST.store(first.as_raw() as u32, Ordering::Relaxed);
    // The terminal's signals reach the program by themselves; what is sent to us alone is
    // passed on.
    handle(Signal::SIGINT, SigHandler::SigIgn);
    handle(Signal::SIGQUIT, SigHandler::SigIgn);
    handle(Signal::SIGTERM, SigHandler::Handler(pass_on));
    handle(Signal::SIGHUP, SigHandler::Handler(pass_on));

    start_heartbeat(&arena.control().heartbeat);
    let injector = Injector::new(arena.geometry(), arena.fd());
    if let Err(why) = injector.inject(first, &Inherited { descriptors, ..Inherited::default() }) {
        let _ = nix::sys::signal::kill(first, Signal::SIGKILL);
        let _ = nix::sys::wait::waitpid(first, None);
        let shown = program.path.display();
        return Err(match why {
            Refusal::Gone => Error::own(format!("{shown}: ended before it could start")),
            Refusal::Untouched(why) => Error::cannot_run(format!(
                "{shown}: cannot run with crossgate: {why}; see docs/limits.md"
            )),
        });
    }
    let mut supervisor = Supervisor {
        arena: &arena,
        injector: &injector,
        options,
        observer,
        drain: Drain::new(arena.get(), arena.geometry()),
        scanner: Scanner::default(),
        first,
        ending: None,
        processes: HashMap::new(),
        executing: HashMap::new(),
        scanning: None,
        scan_queue: Vec::new(),
        strict: Strict::default(),
        places: HashMap::new(),
        offsets: None,
    };
    supervisor.observer.executed(first.as_raw(), first.as_raw());
    supervisor.know(first);
    let ending = supervisor.serve();
    supervisor.observer.counted(&arena.control().counters);
    DOORBELL.store(std::ptr::null_mut(), Ordering::Relaxed);
    HEARTBEAT.store(std::ptr::null_mut(), Ordering::Relaxed);
    Ok(ending)
}

/// Joins processes that run already, and follows them and what they make until all have ended or this
/// process is told to stop (SIGINT, SIGTERM, SIGHUP); then leaves them.
pub fn attach(pids: &[i32], options: &Options, observer: &mut dyn Observer) -> Result<()> {
    let arena = OwnArena::new(options)?;
    DOORBELL.store(arena.control().doorbell.as_ptr().cast(), Ordering::Relaxed);
    handle(Signal::SIGCHLD, SigHandler::Handler(on_child));
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        handle(signal, SigHandler::Handler(stop));
    }
    start_heartbeat(&arena.control().heartbeat);
    let injector = Injector::new(arena.geometry(), arena.fd());
    let mut supervisor = Supervisor {
        arena: &arena,
        injector: &injector,
        options,
        observer,
        drain: Drain::new(arena.get(), arena.geometry()),
        scanner: Scanner::default(),
        first: Pid::from_raw(0),
        ending: Some(Ending::Exited(0)),
        processes: HashMap::new(),
        executing: HashMap::new(),
        scanning: None,
        scan_queue: Vec::new(),
        strict: Strict::default(),
        places: HashMap::new(),
        offsets: None,
    };
    for &pid in pids {
        if let Err(error) = supervisor.join(Pid::from_raw(pid)) {
            supervisor.leave_all();
            return Err(error);
        }
    }
    supervisor.serve();
    supervisor.observer.counted(&arena.control().counters);
    DOORBELL.store(std::ptr::null_mut(), Ordering::Relaxed);
    HEARTBEAT.store(std::ptr::null_mut(), Ordering::Relaxed);
    Ok(())
}

/// This process was told to stop.
static STOP: AtomicBool = AtomicBool::new(false);

extern "C" fn stop(_: libc::c_int) {
    STOP.store(true, Ordering::Relaxed);
    on_child(0);
}

/// A task that is between asking to execute a program and having done it.
#[derive(Clone, Copy)]
struct Executing {
    pid: Pid,
    /// What the new program is to have from the old one.
    inherited: Inherited,
    /// Which of the task's requests it was.
    generation: u64,
    /// The exec failed: detach at the next stop.
    leaving: bool,
}

struct Supervisor<'a> {
    arena: &'a OwnArena,
    injector: &'a Injector<'a>,
    options: &'a Options,
    observer: &'a mut dyn Observer,
    drain: Drain,
    scanner: Scanner,
    first: Pid,
    ending: Option<Ending>,
    /// Known processes, each with a pidfd that becomes readable when it ends.
    processes: HashMap<i32, OwnedFd>,
    /// By thread id.
    executing: HashMap<i32, Executing>,
    /// Process that owns the scratch area.
    scanning: Option<i32>,
    /// Slots of those who wait for it.
    scan_queue: Vec<usize>,
    strict: Strict,
    /// Where the agent of each process is, as far as it is known: for leaving it.
    places: HashMap<i32, Place>,
    /// Of any of them: what is the same for all.
    offsets: Option<Place>,
}

/// Time between looks at the processes that are not our children, in milliseconds.
const LOOK: u64 = 50;
/// Longest sleep: the heartbeat must move (see `agent/src/request.rs`).
const LONGEST: u64 = 500;
/// Sleep between two readings of the rings while records arrive, in milliseconds.
const DRAIN: u64 = 2;

impl Supervisor<'_> {
    fn serve(&mut self) -> Ending {
        let control = self.arena.control();
        let traces = self.records();
        let mut looked = now_ms();
        let mut idle = 0u32;
        loop {
            let bell = control.doorbell.load(Ordering::Acquire);
            control.heartbeat.fetch_add(1, Ordering::Relaxed);
            let requests = self.answer_requests();
            self.tell_of_outside();
            self.reap();
            let mut records = 0;
            if traces {
                records = self.read_rings(now());
            }
            if now_ms() - looked >= LOOK {
                looked = now_ms();
                self.look_at_processes();
            }
            if STOP.load(Ordering::Relaxed) {
                self.leave_all();
                break;
            }
            if self.ending.is_some() && self.executing.is_empty() {
                self.look_at_processes();
                // A process that has just ended may have left word of a child.
                if self.answer_requests() > 0 {
                    continue;
                }
                if self.processes.is_empty() {
                    break;
                }
                if self.options.linger == Linger::Background && self.go_to_background() {
                    break;
                }
            }
            idle = if requests + records > 0 { 0 } else { idle + 1 };
            let others = self.processes.keys().any(|&p| p != self.first.as_raw());
            let sleep = match (traces, others) {
                (true, _) => (DRAIN << (idle / 8).min(5)).min(LOOK),
                (false, true) => LOOK,
                (false, false) => LONGEST,
            };
            self.sleep(bell, sleep);
        }
        // What was killed for a call may have been the last.
        self.tell_of_outside();
        if traces {
            self.read_rings(u64::MAX);
        }
        self.ending.unwrap_or(Ending::Exited(0))
    }

    /// Joins a process that runs already.
    fn join(&mut self, pid: Pid) -> Result<()> {
        let refuse =
            |why: &str| Error::cannot_run(format!("cannot attach to process {pid}: {why}"));
        match attach::join(self.injector, pid) {
            Ok((tasks, place)) => {
                self.offsets = Some(place);
                self.place(pid, place.base);
                self.know(pid);
                let count = tasks.len();
                let plural = if count == 1 { "" } else { "s" };
                self.observer.joined(pid.as_raw(), &tasks);
                self.observer.note(&format!("attached to process {pid} ({count} thread{plural})"));
                Ok(())
            }
            Err(Refusal::Gone) => Err(refuse("there is no such process")),
            Err(Refusal::Untouched(why)) => Err(refuse(&why)),
        }
    }

    /// The agent of `pid` lies at `base`.
    fn place(&mut self, pid: Pid, base: u64) {
        if let Some(offsets) = self.offsets {
            self.places.insert(pid.as_raw(), Place { base, ..offsets });
        }
    }

    /// Leaves all processes.
    fn leave_all(&mut self) {
        // Parents first: what they make from then on is none of ours.
        while let Some(&pid) = self.processes.keys().min() {
            let pid = Pid::from_raw(pid);
            let left = self.leave(pid);
            self.drain.retire(pid.as_raw());
            self.read_rings(u64::MAX);
            self.processes.remove(&pid.as_raw());
            match left {
                Ok(()) => {
                    self.observer.left(pid.as_raw());
                    self.observer.note(&format!("detached from process {pid}"));
                }
                Err(Refusal::Gone) => self.observer.process_gone(pid.as_raw(), None),
                Err(Refusal::Untouched(why)) => {
                    let text = format!("process {pid} cannot be left: {why}; it keeps its agent");
                    self.observer.note(&text);
                }
            }
        }
    }

    /// Leaves a process; one that is about to execute a program does so first.
    fn leave(&mut self, pid: Pid) -> std::result::Result<(), Refusal> {
        const TRIES: u32 = 1000;
        let mut result = Err(Refusal::Untouched("it does not come to execute a program".into()));
        for _ in 0..TRIES {
            let executes = |supervisor: &Self| {
                supervisor.executing.values().any(|executing| executing.pid == pid)
            };
            if !executes(self) {
                let unknown = || Refusal::Untouched("where its agent is is not known".into());
                let place = self.places.get(&pid.as_raw()).copied().ok_or_else(unknown)?;
                result = attach::leave(pid, &place, || {
                    self.answer_requests();
                    self.reap_executing();
                    self.read_rings(u64::MAX);
                });
                // It may have asked for that meanwhile.
                if result.is_ok() || !executes(self) {
                    break;
                }
            }
            self.answer_requests();
            self.reap_executing();
            std::thread::sleep(Duration::from_millis(1));
        }
        result
    }

    fn sleep(&self, bell: u32, milliseconds: u64) {
        let doorbell = &self.arena.control().doorbell;
        let timeout = libc::timespec {
            tv_sec: (milliseconds / 1000) as i64,
            tv_nsec: (milliseconds % 1000 * 1_000_000) as i64,
        };
        // SAFETY: waits on a word of the arena; returns at once when it has changed.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                doorbell.as_ptr(),
                libc::FUTEX_WAIT,
                bell,
                &raw const timeout,
            )
        };
    }

    /// The first program is gone and others are not: leaves a child that serves them, and
    /// returns in this process. False when that could not be done.
    fn go_to_background(&mut self) -> bool {
        // SAFETY: this process has one thread.
        match unsafe { nix::unistd::fork() } {
            Ok(nix::unistd::ForkResult::Parent { .. }) => true,
            Ok(nix::unistd::ForkResult::Child) => {
                // Whoever reads our output must see its end.
                for fd in 0..3 {
                    // SAFETY: nothing in this process uses them any more.
                    unsafe { libc::close(fd) };
                }
                let control = self.arena.control();
                control.supervisor.store(std::process::id() as i32, Ordering::Relaxed);
                FIRST.store(0, Ordering::Relaxed);
                // Timers are not inherited.
                start_heartbeat(&control.heartbeat);
                loop {
                    let bell = control.doorbell.load(Ordering::Acquire);
                    control.heartbeat.fetch_add(1, Ordering::Relaxed);
                    self.answer_requests();
                    self.reap();
                    self.look_at_processes();
                    let idle = self.answer_requests() == 0;
                    if idle && self.processes.is_empty() && self.executing.is_empty() {
                        std::process::exit(0);
                    }
                    self.sleep(bell, LONGEST);
                }
            }
            Err(_) => false,
        }
    }

    /// Takes note of a process.
    fn know(&mut self, pid: Pid) {
        if self.processes.contains_key(&pid.as_raw()) {
            return;
        }
        // SAFETY: a plain system call; the result is a descriptor of ours.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid.as_raw(), 0) };
        if fd >= 0 {
            // SAFETY: as above.
            self.processes.insert(pid.as_raw(), unsafe { OwnedFd::from_raw_fd(fd as i32) });
        }
    }

    /// Finds out which processes are gone.
    fn look_at_processes(&mut self) {
        let gone: Vec<i32> = {
            let pids: Vec<i32> = self.processes.keys().copied().collect();
            let mut fds: Vec<PollFd> = pids
                .iter()
                .map(|pid| PollFd::new(self.processes[pid].as_fd(), PollFlags::POLLIN))
                .collect();
            if poll(&mut fds, PollTimeout::ZERO).unwrap_or(0) == 0 {
                return;
            }
            pids.iter()
                .zip(&fds)
                .filter(|(_, fd)| fd.any() == Some(true))
                .map(|(&pid, _)| pid)
                .collect()
        };
        for pid in gone {
            if pid == self.first.as_raw() && self.ending.is_none() {
                // Its status is ours to collect first.
                self.reap();
                if self.ending.is_none() {
                    continue;
                }
            }
            let ending = if pid == self.first.as_raw() { self.ending } else { None };
            self.gone(pid, ending);
        }
    }

    /// A process has ended: what it held is free, what it wrote is handed on.
    fn gone(&mut self, pid: i32, ending: Option<Ending>) {
        self.processes.remove(&pid);
        self.places.remove(&pid);
        self.executing.retain(|_, e| e.pid.as_raw() != pid);
        self.release_requests(pid);
        self.release_carried(pid);
        if self.records() {
            self.drain.retire(pid);
            self.read_rings(u64::MAX);
        }
        self.observer.process_gone(pid, ending);
    }

    /// Frees the slots of a process that is gone, and the scratch area if it had it. Words
    /// that it left for us stay.
    fn release_requests(&mut self, pid: i32) {
        let control = self.arena.control();
        for (index, slot) in control.requests.iter().enumerate() {
            let waits = slot.wants_answer.load(Ordering::Relaxed) != 0;
            let state = slot.state.load(Ordering::Acquire);
            let pending = state == REQUEST_SENT || state == REQUEST_ANSWERED;
            if slot.pid.load(Ordering::Relaxed) == pid && waits && pending {
                self.scan_queue.retain(|&queued| queued != index);
                slot.state.store(REQUEST_FREE, Ordering::Release);
            }
        }
        if self.scanning == Some(pid) {
            self.scanning = None;
            if let Some(next) = self.scan_queue.pop() {
                self.scan(next);
            }
        }
    }

    /// Frees what a process that was killed while it executed a program has left.
    fn release_carried(&self, pid: i32) {
        for slot in &self.arena.get().rules().carried {
            let (relaxed, release) = (Ordering::Relaxed, Ordering::Release);
            let _ = slot.pid.compare_exchange(pid, 0, release, relaxed);
        }
    }

    /// Whether the agents write records.
    fn records(&self) -> bool {
        self.options.geometry.rings > 0
    }

    /// Hands on records up to time `horizon`; gives their number.
    fn read_rings(&mut self, horizon: u64) -> usize {
        let mut gone = Vec::new();
        let mut count = 0;
        let observer = &mut *self.observer;
        self.drain.run(
            horizon,
            |task, record, bytes| {
                count += 1;
                observer.record(task, record, bytes);
            },
            |task| gone.push(task),
        );
        for task in gone {
            self.observer.task_gone(task);
        }
        if count > 0 {
            self.observer.pause();
        }
        count
    }

    /// Waits, without blocking, for our child and for the tasks we are attached to.
    fn reap(&mut self) {
        loop {
            let mut status = 0;
            // SAFETY: writes to `status`; see waitpid(2) for __WALL.
            let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL | libc::WNOHANG) };
            if pid <= 0 {
                return;
            }
            self.waited(Pid::from_raw(pid), status);
        }
    }

    /// The same for tasks that execute a program only: others are being stopped.
    fn reap_executing(&mut self) {
        let tasks = self.executing.iter().flat_map(|(&tid, e)| [tid, e.pid.as_raw()]);
        for pid in tasks.collect::<Vec<i32>>() {
            let mut status = 0;
            let flags = libc::__WALL | libc::WNOHANG;
            // SAFETY: writes to `status`.
            if unsafe { libc::waitpid(pid, &raw mut status, flags) } == pid {
                self.waited(Pid::from_raw(pid), status);
            }
        }
    }

    fn waited(&mut self, pid: Pid, status: i32) {
        const EXEC_STOP: i32 = libc::SIGTRAP | (libc::PTRACE_EVENT_EXEC << 8);
        const GROUP_STOP: i32 = libc::PTRACE_EVENT_STOP;
        if libc::WIFEXITED(status) || libc::WIFSIGNALED(status) {
            self.executing.remove(&pid.as_raw());
            if pid == self.first {
                self.ending = Some(if libc::WIFEXITED(status) {
                    Ending::Exited(libc::WEXITSTATUS(status))
                } else {
                    Ending::Killed(libc::WTERMSIG(status), libc::WCOREDUMP(status))
                });
            }
            return;
        }
        if !libc::WIFSTOPPED(status) {
            return;
        }
        if status >> 8 == EXEC_STOP {
            self.executed(pid);
        } else if self.executing.get(&pid.as_raw()).is_some_and(|e| e.leaving) {
            self.executing.remove(&pid.as_raw());
            let signal = if status >> 16 == 0 { libc::WSTOPSIG(status) } else { 0 };
            // SAFETY: lets go of a stopped tracee, which gets the signal it was stopped for.
            unsafe { libc::ptrace(libc::PTRACE_DETACH, pid.as_raw(), 0, signal) };
        } else if status >> 16 == GROUP_STOP {
            if libc::WSTOPSIG(status) == libc::SIGTRAP {
                let _ = ptrace::cont(pid, None);
            } else {
                // SAFETY: keeps a stopped task stopped and us informed (ptrace(2), LISTEN).
                unsafe { libc::ptrace(libc::PTRACE_LISTEN, pid.as_raw(), 0, 0) };
            }
        } else {
            // By number: real-time signals have no name.
            // SAFETY: continues a stopped tracee with the signal it was stopped for.
            unsafe { libc::ptrace(libc::PTRACE_CONT, pid.as_raw(), 0, libc::WSTOPSIG(status)) };
        }
    }

    /// `pid` is stopped at the first instruction of a new program.
    fn executed(&mut self, pid: Pid) {
        let tid = ptrace::getevent(pid).map_or(pid.as_raw(), |tid| tid as i32);
        let by_thread = self.executing.remove(&tid);
        let executing = self.executing.remove(&pid.as_raw()).or(by_thread);
        if self.records() {
            self.drain.retire(pid.as_raw());
            self.read_rings(u64::MAX);
        }
        self.observer.executed(pid.as_raw(), tid);
        let mut inherited = executing.map(|e| e.inherited).unwrap_or_default();
        let (arena, image) = (self.arena.fd(), self.arena.image());
        inherited.descriptors = inherited.descriptors.filter(|d| d.are(pid, arena, image));
        // What the agent needs to begin it cannot ask through itself.
        let strict = self.strict.clone();
        let entering = strict.entering(pid);
        let injected = self.injector.inject(pid, &inherited);
        drop(entering);
        match injected {
            Ok(base) => self.place(pid, base),
            Err(Refusal::Gone) => {}
            Err(Refusal::Untouched(why)) => {
                let _ = ptrace::detach(pid, None);
                let path = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
                self.untraced(pid, &path, &why);
            }
        }
    }

    fn untraced(&mut self, pid: Pid, path: &std::path::Path, why: &str) {
        self.observer.untraced(pid.as_raw());
        // The path may hold anything.
        let shown = path.display().to_string().escape_debug().to_string();
        self.observer.note(&format!("{shown} (pid {pid}): runs without crossgate: {why}"));
    }

    fn answer_requests(&mut self) -> usize {
        let mut count = 0;
        for index in 0..self.arena.control().requests.len() {
            let slot = &self.arena.control().requests[index];
            if slot.state.load(Ordering::Acquire) == REQUEST_SENT
                && !self.scan_queue.contains(&index)
            {
                count += 1;
                self.answer(index);
            }
        }
        count
    }

    fn reply(&self, index: usize, result: i64) {
        let slot: &Request = &self.arena.control().requests[index];
        slot.result.store(result as u64, Ordering::Relaxed);
        if slot.wants_answer.load(Ordering::Relaxed) == 0 {
            slot.state.store(REQUEST_FREE, Ordering::Release);
            return;
        }
        slot.state.store(REQUEST_ANSWERED, Ordering::Release);
        wake(&slot.state);
    }

    fn answer(&mut self, index: usize) {
        let slot = &self.arena.control().requests[index];
        let kind = slot.kind.load(Ordering::Relaxed);
        let pid = Pid::from_raw(slot.pid.load(Ordering::Relaxed));
        let tid = Pid::from_raw(slot.tid.load(Ordering::Relaxed));
        let args: [u64; 4] = std::array::from_fn(|i| slot.args[i].load(Ordering::Relaxed));
        if kind == RequestKind::Exec as u32 {
            let result = self.attach(pid, tid, args);
            self.reply(index, result);
        } else if kind == RequestKind::ExecFailed as u32 {
            self.reply(index, 0);
            self.let_go(tid, args[1]);
        } else if kind == RequestKind::Task as u32 {
            let result = self.introduced(Task { pid: pid.as_raw(), tid: tid.as_raw() }, args);
            self.reply(index, result);
        } else if kind == RequestKind::Child as u32 {
            self.reply(index, 0);
            // Where ids differ the child introduces itself.
            let child = Pid::from_raw(args[0] as i32);
            if self.arena.control().foreign.load(Ordering::Relaxed) == 0 {
                if self.belongs(child) {
                    if let Some(place) = self.places.get(&pid.as_raw()) {
                        self.places.insert(child.as_raw(), *place);
                    }
                    self.know(child);
                } else if nix::sys::signal::kill(child, None) == Err(Errno::ESRCH) {
                    // It has come and gone since.
                    self.gone(child.as_raw(), None);
                }
            }
        } else if kind == RequestKind::Site as u32 {
            let report = site_report(pid, args);
            self.observer.site(pid.as_raw(), report);
            self.reply(index, 0);
        } else if kind == RequestKind::Scan as u32 {
            if self.scanning.is_some() {
                self.scan_queue.push(index);
            } else {
                self.scan(index);
            }
        } else if kind == RequestKind::ScanDone as u32 {
            self.reply(index, 0);
            self.scanning = None;
            if let Some(next) = self.scan_queue.pop() {
                self.scan(next);
            }
        } else if kind == RequestKind::Relocate as u32 {
            let known = self.processes.contains_key(&pid.as_raw());
            let moved =
                known.then(|| scan::movable_before(&mut self.scanner, pid, args[0])).flatten();
            let slot = &self.arena.control().requests[index];
            let result = moved.map_or(-i64::from(libc::ENOENT), |bytes| {
                for (word, chunk) in slot.data.iter().zip(bytes.chunks(8)) {
                    let mut value = [0; 8];
                    value[..chunk.len()].copy_from_slice(chunk);
                    word.store(u64::from_ne_bytes(value), Ordering::Relaxed);
                }
                bytes.len() as i64
            });
            self.reply(index, result);
        } else if kind == RequestKind::HookFailed as u32 {
            self.reply(index, 0);
            self.hook_failed(pid, args);
        } else if kind == RequestKind::Strict as u32 {
            let result = self.listen(pid, args[0] as i64);
            self.reply(index, result);
        } else if kind == RequestKind::HookRefused as u32 {
            self.hook_refused(pid, args);
            self.reply(index, 0);
        } else if kind == RequestKind::Untraced as u32 {
            self.reply(index, 0);
            let path = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
            let why = match args[0] {
                UNTRACED_TRACEE => "from here another program traces it".to_owned(),
                UNTRACED_RIGHTS => "what it executes next gains rights (set-uid, set-gid or file \
                                    capabilities), which the kernel gives to no traced program"
                    .to_owned(),
                errno => {
                    let errno = Errno::from_raw(-(errno as i64) as i32);
                    format!("what it executes next cannot be followed ({})", errno.desc())
                }
            };
            self.untraced(pid, &path, &why);
        } else {
            self.reply(index, -i64::from(libc::EINVAL));
        }
    }

    /// A hook library failed in a process.
    fn hook_failed(&mut self, pid: Pid, [library, why, offset, nr]: [u64; 4]) {
        let Some(library) = self.options.libraries.get(library as usize) else { return };
        let name = String::from_utf8_lossy(library.name()).escape_debug().to_string();
        let call = crossgate_syscalls::x86_64::lookup(nr)
            .map_or_else(|| format!("call {nr}"), |call| call.name.to_owned());
        let how = match i32::try_from(why as i64) {
            Ok(refused @ ..0) => {
                let errno = Errno::from_raw(-refused);
                format!("its crossgate_hook_init says {}", errno.desc())
            }
            Ok(0) => format!("it gave itself up in {call}"),
            Ok(signal) => {
                let signal = Signal::try_from(signal).map_or("a signal", Signal::as_str);
                format!("{signal} at {offset:#x} of it, in {call}")
            }
            Err(_) => "for a reason unknown".into(),
        };
        let then = self.then();
        self.observer.note(&format!("hook {name} failed in pid {pid}: {how}; the program {then}"));
    }

    /// The first program's agent has installed the filter of strict mode, and `fd` is its listener
    /// there; or it could not. Gives 0 or `-errno`.
    fn listen(&mut self, pid: Pid, fd: i64) -> i64 {
        let listening = match i32::try_from(fd) {
            Ok(fd @ 0..) => self.strict.listen(pid, fd),
            _ => Err(std::io::Error::from_raw_os_error(-fd as i32)),
        };
        let Err(why) = listening else { return 0 };
        let errno = Errno::from_raw(why.raw_os_error().unwrap_or(libc::EIO));
        let why = errno.desc();
        self.observer.note(&format!("--strict: cannot filter its calls: {why}; it is ended"));
        -i64::from(errno as i32)
    }

    /// Tells of calls that did not come through an agent.
    fn tell_of_outside(&mut self) {
        for Outside { tid, nr, native, ip } in self.strict.take() {
            let call = crossgate_syscalls::x86_64::lookup(nr as u64).filter(|_| native);
            let call = call.map_or_else(|| format!("call {nr}"), |call| call.name.to_owned());
            let kind = if native { "" } else { " of the 32-bit interface" };
            self.observer.note(&format!(
                "--strict: {call}{kind} before {ip:#x} in thread {tid} did not come through \
                 crossgate; the process is killed"
            ));
        }
    }

    /// A hook library cannot be loaded in a process.
    fn hook_refused(&mut self, pid: Pid, [library, at, len, errno]: [u64; 4]) {
        const LONGEST: u64 = 1000;
        let Some(library) = self.options.libraries.get(library as usize) else { return };
        let mut why = vec![0; len.min(LONGEST) as usize];
        let read = fs::File::open(format!("/proc/{pid}/mem"))
            .and_then(|memory| memory.read_exact_at(&mut why, at));
        let why = match read {
            Ok(()) if errno != 0 => {
                let errno = Errno::from_raw(-(errno as i64) as i32);
                format!("it needs a libc, and {DYNAMIC_LINKER} says {}", errno.desc())
            }
            Ok(()) => String::from_utf8_lossy(&why).escape_debug().to_string(),
            Err(_) => "its dynamic linker says no".into(),
        };
        let name = String::from_utf8_lossy(library.name()).escape_debug().to_string();
        let then = self.then();
        self.observer
            .note(&format!("hook {name} cannot be loaded in pid {pid}: {why}; the program {then}"));
    }

    /// What becomes of a program whose hook fails.
    fn then(&self) -> &'static str {
        if self.options.goes_on { "goes on without it" } else { "is ended" }
    }

    /// A new task introduces itself. Gives its ids as we see them, or `-errno`.
    fn introduced(&mut self, seen: Task, [maker, proof_at, proof, _]: [u64; 4]) -> i64 {
        let foreign = self.arena.control().foreign.load(Ordering::Relaxed) != 0;
        let found = if foreign {
            namespaces::find((maker >> 32) as i32, seen, proof_at, proof)
        } else {
            Some(seen)
        };
        let Some(task) = found.filter(|task| self.belongs(Pid::from_raw(task.pid))) else {
            return -i64::from(libc::ESRCH);
        };
        if task.pid == task.tid {
            self.know(Pid::from_raw(task.pid));
        }
        i64::from(task.pid) << 32 | i64::from(task.tid)
    }

    /// Whether a process is one of the tree: known, the child of one that is, or, when its
    /// parent is gone, one that has the arena mapped. What a request says is written by a
    /// program; nothing may make us touch a process that is not traced.
    fn belongs(&self, pid: Pid) -> bool {
        if self.processes.contains_key(&pid.as_raw()) {
            return true;
        }
        parent_of(pid).is_some_and(|parent| self.processes.contains_key(&parent))
            || scan::mappings(pid).iter().any(|map| map.identity == self.arena.identity())
    }

    /// Attaches to a task that is about to execute a program. Gives 0 or `-errno`.
    fn attach(&mut self, pid: Pid, tid: Pid, args: [u64; 4]) -> i64 {
        let [mask, generation, base, packed] = args;
        let inherited = Inherited {
            mask: Some(mask),
            base: (base != 0).then_some(base),
            descriptors: Descriptors::from_packed(packed),
            runs: false,
        };
        if let Some(executing) = self.executing.get_mut(&tid.as_raw()) {
            // Its last exec failed and we have not let go yet.
            *executing = Executing { pid, inherited, generation, leaving: false };
            return 0;
        }
        let thread = pid == tid || fs::exists(format!("/proc/{pid}/task/{tid}")).unwrap_or(false);
        if !thread || !self.belongs(pid) {
            return -i64::from(libc::ESRCH);
        }
        match ptrace::seize(tid, ptrace::Options::PTRACE_O_TRACEEXEC) {
            Ok(()) => {
                // A vfork child executes before its maker can tell of it.
                self.know(pid);
                let executing = Executing { pid, inherited, generation, leaving: false };
                self.executing.insert(tid.as_raw(), executing);
                0
            }
            Err(e) => -i64::from(e as i32),
        }
    }

    /// Detaches from a task whose exec failed. It must be stopped for that, and we must not
    /// wait for it: it may be waiting for us.
    fn let_go(&mut self, tid: Pid, generation: u64) {
        // Slots are not read in the order of time: it may have asked again since.
        if let Some(executing) = self.executing.get_mut(&tid.as_raw())
            && executing.generation == generation
        {
            executing.leaving = true;
            // SAFETY: interrupts a task we are attached to.
            unsafe { libc::ptrace(libc::PTRACE_INTERRUPT, tid.as_raw(), 0, 0) };
        }
    }

    /// Answers a scan: the scratch area is the asker's until it says it is done.
    fn scan(&mut self, index: usize) {
        let slot = &self.arena.control().requests[index];
        let pid = Pid::from_raw(slot.pid.load(Ordering::Relaxed));
        let [start, len] = [0, 1].map(|i| slot.args[i].load(Ordering::Relaxed));
        let mut found = if self.processes.contains_key(&pid.as_raw()) {
            self.scanner.sites(pid, start, len)
        } else {
            scan::Found::default()
        };
        let most = SCRATCH_SIZE / size_of::<SiteEntry>();
        found.blind |= found.sites.len() > most;
        found.sites.truncate(most);
        slot.data[0].store(u64::from(found.blind), Ordering::Relaxed);
        let scratch = self.arena.get().scratch().cast::<SiteEntry>();
        for (i, site) in found.sites.iter().enumerate() {
            let loads = if site.loads_number { SITE_LOADS_NUMBER } else { 0 };
            let entered = if site.entered { SITE_ENTERED } else { 0 };
            let entry = SiteEntry {
                address: site.address,
                movable: site.movable as u32,
                flags: loads | entered,
            };
            // SAFETY: inside the scratch area, as truncated above; only the asker reads it,
            // after our answer.
            unsafe { scratch.add(i).write(entry) };
        }
        self.scanning = Some(pid.as_raw());
        self.reply(index, found.sites.len() as i64);
    }
}

/// Parent of a process, where there is a /proc to ask.
fn parent_of(pid: Pid) -> Option<i32> {
    // All that comes before the numbers, and the first of them, in one reading.
    let mut stat = [0; 256];
    let len = File::open(format!("/proc/{pid}/stat")).ok()?.read(&mut stat).ok()?;
    // The name, in parentheses, may hold anything; state and parent follow it.
    let stat = String::from_utf8_lossy(&stat[..len]);
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(1)?.parse().ok()
}

/// Milliseconds of the monotonic clock.
fn now_ms() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes to `time`.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1000 + time.tv_nsec as u64 / 1_000_000
}

fn site_report(pid: Pid, [after, kind, reason, nr]: [u64; 4]) -> SiteReport {
    let address = after.wrapping_sub(2);
    let maps = scan::mappings(pid);
    let map = maps.iter().find(|m| address >= m.start && address < m.end);
    SiteReport {
        object: map.map(|m| m.path.clone()).unwrap_or_default(),
        offset: map.map_or(address, |m| address - m.start + m.offset),
        address,
        nr: (nr != u64::MAX).then_some(nr),
        kind: SiteKind::from_u64(kind).unwrap_or(SiteKind::Signal),
        reason,
    }
}

/// Where the kernel says the program of `pid` is.
pub fn program_of(pid: i32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/exe")).ok()
}
