//! Joining a process that runs already, and leaving it.
//!
//! Owns: stopping all tasks of a process by ptrace, and having each do the agent's steps
//! (`wire/src/attach.rs`, `agent/src/attach.rs`). A process is stopped as long as that takes and runs
//! on as if nothing had been: calls that were interrupted begin again by themselves. Never does: put
//! the agent into memory (`inject.rs`).

use std::fs;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use crossgate_wire::arena::STUBS_SIZE;
use crossgate_wire::attach::{Exchange, Registers, Step};
use nix::errno::Errno;
use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use crate::image;
use crate::inject::{Injector, Refusal, Stopped, Waited, wait_now};

type Result<T> = std::result::Result<T, Refusal>;

/// Where in a process of ours to lead its tasks for a step. The same in all that it forks.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Of the image.
    pub base: u64,
    /// From there, what is exchanged lies here.
    pub exchange: u64,
    /// And steps begin here.
    pub entry: u64,
}

/// How long a process may be in the middle of something before it is said to be busy.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long it runs between two tries to join it.
const PAUSE: Duration = Duration::from_millis(2);
/// How long a task runs on that is in the middle of something.
const MOMENT: Duration = Duration::from_micros(100);

/// A task that is stopped, and the registers that it is to go on with.
struct Task {
    stopped: Stopped,
    regs: libc::user_regs_struct,
    /// It is in the middle of nothing of the agent's.
    calm: bool,
}

/// All tasks of a process, stopped; they run on when this is dropped.
struct Tasks {
    tasks: Vec<Task>,
}

impl Tasks {
    /// Stops all tasks of `pid`.
    fn stop(pid: Pid, serve: &mut dyn FnMut()) -> Result<Self> {
        let mut stopped = Self { tasks: Vec::new() };
        stopped.stop_others(pid, serve)?;
        Ok(stopped)
    }

    /// Stops those that are not stopped. `serve` is called while one cannot be: its child executes a
    /// program, and asks us.
    fn stop_others(&mut self, pid: Pid, serve: &mut dyn FnMut()) -> Result<()> {
        loop {
            let known = |tid: Pid| self.tasks.iter().any(|task| task.stopped.pid == tid);
            let new: Vec<Pid> = tasks_of(pid)?.into_iter().filter(|&tid| !known(tid)).collect();
            if new.is_empty() {
                break;
            }
            for tid in new {
                match stop_one(tid, serve) {
                    Ok(()) => self.tasks.push(Task::new(tid)?),
                    // It has ended meanwhile.
                    Err(Refusal::Gone) => {}
                    Err(why) => return Err(why),
                }
            }
        }
        if self.tasks.is_empty() { Err(Refusal::Gone) } else { Ok(()) }
    }

    /// Lets those run on that are in the middle of something; whether there were any. The others
    /// hold nothing that these may wait for.
    fn let_busy_go(&mut self, place: &Place) -> Result<bool> {
        let mut exchange = Exchange::default();
        let mut any = false;
        let mut index = 0;
        while let Some(task) = self.tasks.get_mut(index) {
            if !task.calm {
                exchange.registers = registers_of(&task.regs);
                task.calm = !has_been_caught(task.stopped.pid)
                    && task.step(place, Step::Calm, &mut exchange)? == 0;
            }
            if task.calm {
                index += 1;
                continue;
            }
            any = true;
            let busy = self.tasks.swap_remove(index);
            busy.stopped.let_go(busy.regs)?;
        }
        Ok(any)
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        for task in &self.tasks {
            // A task that is gone needs nothing.
            let _ = task.stopped.let_go(task.regs);
        }
    }
}

fn tasks_of(pid: Pid) -> Result<Vec<Pid>> {
    let folder = fs::read_dir(format!("/proc/{pid}/task")).map_err(|_| Refusal::Gone)?;
    let names = folder.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let tids = names.filter_map(|name| name.parse().ok()).map(Pid::from_raw);
    Ok(tids.filter(|&tid| !has_ended(pid, tid)).collect())
}

/// Whether a task has ended, and is listed until somebody collects it: ptrace refuses those.
fn has_ended(pid: Pid, tid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat")).unwrap_or_default();
    // The name before the state may hold anything.
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
    matches!(state, None | Some('Z' | 'X'))
}

fn stop_one(tid: Pid, serve: &mut dyn FnMut()) -> Result<()> {
    const STOPPED: i32 = libc::SIGTRAP | libc::PTRACE_EVENT_STOP << 8;
    let seized = ptrace::seize(tid, ptrace::Options::empty());
    if seized == Err(Errno::EPERM) && has_ended(tid, tid) {
        return Err(Refusal::Gone);
    }
    seized?;
    ptrace::interrupt(tid)?;
    loop {
        let Some(waited) = wait_now(tid)? else {
            serve();
            std::thread::sleep(MOMENT);
            continue;
        };
        match waited {
            Waited::Gone => {
                // SAFETY: collects a tracee that is gone.
                unsafe { libc::waitpid(tid.as_raw(), std::ptr::null_mut(), libc::__WALL) };
                return Err(Refusal::Gone);
            }
            Waited::Stopped(status) if status >> 8 == STOPPED => return Ok(()),
            Waited::Stopped(status) if status >> 16 == libc::PTRACE_EVENT_STOP => {
                // SAFETY: lets go of a stopped tracee.
                unsafe { libc::ptrace(libc::PTRACE_DETACH, tid.as_raw(), 0, 0) };
                return Err(Refusal::Untouched(
                    "it is stopped by a signal; continue it first".into(),
                ));
            }
            // A signal was on its way: it goes first.
            Waited::Stopped(status) => {
                let signal = libc::WSTOPSIG(status);
                // SAFETY: continues a stopped tracee with the signal it was stopped for.
                unsafe { libc::ptrace(libc::PTRACE_CONT, tid.as_raw(), 0, signal) };
            }
        }
    }
}

impl Task {
    fn new(tid: Pid) -> Result<Self> {
        let mut stopped = Stopped::new(tid, None)?;
        let regs = stopped.regs;
        // What it does for us begins no call again.
        stopped.regs.orig_rax = u64::MAX;
        stopped.regs.rax = 0;
        Ok(Self { stopped, regs, calm: false })
    }

    /// Has the task do a step; gives what the agent answered.
    fn step(&mut self, place: &Place, step: Step, exchange: &mut Exchange) -> Result<i64> {
        exchange.step = step as u64;
        exchange.tid = self.stopped.pid.as_raw() as u64;
        exchange.mask = self.stopped.mask;
        let memory = format!("/proc/{}/mem", self.stopped.pid);
        let memory = fs::OpenOptions::new().read(true).write(true).open(memory);
        let memory = memory.map_err(|e| Refusal::Untouched(format!("its memory: {e}")))?;
        let mut words = to_words(exchange);
        let at = place.base + place.exchange;
        memory.write_all_at(&words, at).map_err(|_| Refusal::Gone)?;
        let (answer, gs_base) = self.stopped.run_step(place.base + place.entry)?;
        self.regs.gs_base = gs_base;
        memory.read_exact_at(&mut words, at).map_err(|_| Refusal::Gone)?;
        *exchange = from_words(&words);
        Ok(answer)
    }
}

const EXCHANGE: usize = size_of::<Exchange>();

fn to_words(exchange: &Exchange) -> [u8; EXCHANGE] {
    // SAFETY: integers without gaps.
    unsafe { std::mem::transmute::<Exchange, [u8; EXCHANGE]>(*exchange) }
}

fn from_words(words: &[u8; EXCHANGE]) -> Exchange {
    // SAFETY: any bytes are integers.
    unsafe { std::mem::transmute::<[u8; EXCHANGE], Exchange>(*words) }
}

/// Whether something like EAGAIN was answered.
fn check(answer: i64, what: &str) -> Result<()> {
    if answer == 0 {
        return Ok(());
    }
    let errno = Errno::from_raw(i32::try_from(-answer).unwrap_or(0));
    Err(Refusal::Untouched(format!("{what} ({})", errno.desc())))
}

/// Why a process cannot be joined, seen from outside.
fn look_at(pid: Pid) -> Result<()> {
    let refuse = |why: &str| Err(Refusal::Untouched(why.into()));
    let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else {
        return Err(Refusal::Gone);
    };
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_default().trim().to_owned()
    };
    if field("State:").starts_with('Z') {
        return Err(Refusal::Gone);
    }
    if !matches!(field("Seccomp:").as_str(), "0" | "") {
        return refuse("it is under a seccomp filter, which does not know of the agent");
    }
    if field("TracerPid:") != "0" {
        return refuse("another program traces it");
    }
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    if maps.contains("memfd:crossgate") {
        return refuse("a crossgate is in it already");
    }
    Ok(())
}

/// Joins `pid`: puts the agent into it, and all its tasks' calls come to that from here on. Gives the
/// tasks, and where the agent is.
pub fn join(injector: &Injector, pid: Pid) -> Result<(Vec<i32>, Place)> {
    look_at(pid)?;
    let end = Instant::now() + PATIENCE;
    let mut place = None;
    loop {
        let mut all = Tasks::stop(pid, &mut || {})?;
        let count = all.tasks.len() as u64;
        let first = &mut all.tasks[0];
        if first.regs.cs != crate::inject::USER_CS {
            return Err(Refusal::Untouched("it is a 32-bit program".into()));
        }
        if first.regs.gs_base != 0 {
            return Err(Refusal::Untouched("it uses %gs itself".into()));
        }
        let place = match place {
            Some(place) => place,
            None => *place.insert(injector.inject_running(&mut first.stopped)?),
        };
        let mut exchange = Exchange { tasks: count, ..Exchange::default() };
        let mut busy = false;
        for task in &mut all.tasks {
            busy |= task.step(&place, Step::Look, &mut exchange)? != 0;
        }
        if busy && Instant::now() < end {
            drop(all);
            std::thread::sleep(PAUSE);
            continue;
        }
        if busy {
            let why = "a task of it is on its alternate signal stack and does not leave it";
            return Err(Refusal::Untouched(why.into()));
        }
        let starter = &mut all.tasks[0];
        let joined = starter.step(&place, Step::JoinProgram, &mut exchange)?;
        check(joined, "its signal handlers cannot be wrapped")?;
        for task in &mut all.tasks {
            let joined = task.step(&place, Step::Join, &mut exchange)?;
            check(joined, "a task of it cannot be joined")?;
            task.stopped.mask &= !(1 << (Signal::SIGSYS as i32 - 1));
        }
        return Ok((all.tasks.iter().map(|task| task.stopped.pid.as_raw()).collect(), place));
    }
}

/// Leaves `pid`: all its tasks go on as if there had been no agent, and its memory is as before. `serve`
/// is called while tasks run on that may wait for the supervisor, and when no task will record any more.
pub fn leave(pid: Pid, place: &Place, mut serve: impl FnMut()) -> Result<()> {
    let end = Instant::now() + PATIENCE;
    let mut all = Tasks::stop(pid, &mut serve)?;
    while all.let_busy_go(place)? {
        if Instant::now() > end {
            let why = "a task of it stays in the middle of a call (vfork, a wait for a signal)";
            return Err(Refusal::Untouched(why.into()));
        }
        serve();
        std::thread::sleep(MOMENT);
        all.stop_others(pid, &mut serve)?;
    }
    let mut exchange = Exchange::default();
    for task in &mut all.tasks {
        begin_again(&mut task.regs);
        exchange.registers = registers_of(&task.regs);
        let settled = task.step(place, Step::Settle, &mut exchange)?;
        check(settled, "a task of it does not become calm")?;
        set_registers(&mut task.regs, &exchange.registers);
    }
    let reverted = all.tasks[0].step(place, Step::Revert, &mut exchange)?;
    check(
        reverted,
        "its memory is another process's, too, or some code cannot be written any more",
    )?;
    serve();
    for task in &mut all.tasks {
        task.step(place, Step::Leave, &mut exchange)?;
        task.stopped.mask = exchange.mask;
    }
    let last = &mut all.tasks[0];
    last.step(place, Step::LeaveProgram, &mut exchange)?;
    // By code in the program's own, which is where it goes on.
    last.stopped.regs.rip = last.regs.rip;
    last.stopped.unmap(place.base - STUBS_SIZE, image::WHOLE)
}

/// Whether a call of the task was caught, and the signal that says so is still on its way.
fn has_been_caught(tid: Pid) -> bool {
    let status = fs::read_to_string(format!("/proc/{tid}/status")).unwrap_or_default();
    let pending = status.lines().find_map(|line| line.strip_prefix("SigPnd:"));
    let pending = pending.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    pending.is_some_and(|mask| mask & 1 << (Signal::SIGSYS as i32 - 1) != 0)
}

/// A call that the stop interrupted begins again, as the kernel would have it (`arch_do_signal_or_restart`,
/// arch/x86/kernel/signal.c).
fn begin_again(regs: &mut libc::user_regs_struct) {
    const ERESTARTSYS: i64 = -512;
    const ERESTARTNOHAND: i64 = -514;
    const ERESTART_RESTARTBLOCK: i64 = -516;
    if regs.orig_rax as i64 >= 0 {
        match regs.rax as i64 {
            ERESTARTNOHAND..=ERESTARTSYS => {
                regs.rax = regs.orig_rax;
                regs.rip -= 2;
            }
            ERESTART_RESTARTBLOCK => {
                regs.rax = libc::SYS_restart_syscall as u64;
                regs.rip -= 2;
            }
            _ => {}
        }
    }
    regs.orig_rax = u64::MAX;
}

macro_rules! registers {
    ($($same:ident)*) => {
        fn registers_of(regs: &libc::user_regs_struct) -> Registers {
            Registers { $($same: regs.$same,)* flags: regs.eflags }
        }

        fn set_registers(regs: &mut libc::user_regs_struct, to: &Registers) {
            $(regs.$same = to.$same;)*
            regs.eflags = to.flags;
        }
    };
}

registers!(r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi rip rsp);
