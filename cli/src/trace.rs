//! `crossgate trace`: every call of every task as a line of strace's.
//!
//! Owns: which line is open, whose turn it is, the prefix of a line, the file. A call is
//! written when it begins; when another task comes in between, the line ends with
//! `<unfinished ...>` and goes on with `<... name resumed>`, as in strace.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use clap::{ArgGroup, Args};
use crossgate_decode as decode;
use crossgate_launch::wire::Record;
use crossgate_launch::wire::arena::Geometry;
use crossgate_launch::wire::record::Blobs;
use crossgate_launch::{Ending, Error, HookKind, Linger, Observer, Program, SiteReport, Task};
use crossgate_syscalls::{Behaviour, x86_64};

use crate::output::Output;
use crate::{Target, filter, run, say};

/// Options of `crossgate trace`.
#[derive(Args)]
#[command(mut_arg("program", |program| program.required(false)))]
#[command(group(ArgGroup::new("target").args(["attach", "program"]).required(true)))]
pub struct Trace {
    /// Write the trace to FILE instead of standard error
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Show only these calls: trace=NAME,NAME,%class,… ; `!` in front shows all others
    #[arg(short = 'e', value_name = "EXPRESSION")]
    expression: Option<String>,
    /// Show at most SIZE bytes of a string
    #[arg(short = 's', long, value_name = "SIZE", default_value_t = 32)]
    string_limit: u32,
    /// Trace a process that runs already, with all its threads, until Ctrl-C; may be given more than
    /// once
    #[arg(short = 'p', long, value_name = "PID")]
    attach: Vec<i32>,
    #[command(flatten)]
    target: Target,
}

/// Tasks at a time that can be traced; only the rings that are used take memory.
const RINGS: u32 = 2048;
/// Bytes of a ring, unless strings are so long that it must hold more.
const RING_SIZE: u32 = 128 << 10;
/// Longest string that can be asked for.
const LONGEST_STRING: u32 = 1 << 20;

/// A record must fit into a quarter of a ring, with 32 strings of a vector.
fn geometry(string_limit: u32) -> Geometry {
    Geometry { rings: RINGS, ring_size: RING_SIZE.max((string_limit * 160).next_power_of_two()) }
}

impl Trace {
    /// Runs and traces the program; gives its exit code.
    pub fn execute(self) -> Result<u8, Error> {
        let shown = self.expression.as_deref().map_or_else(|| Ok(filter::all()), filter::parse)?;
        if self.string_limit > LONGEST_STRING {
            return Err(Error::own(format!(
                "-s {}: longer than a record can be; the most is {LONGEST_STRING}",
                self.string_limit
            )));
        }
        let program = match self.attach.as_slice() {
            [] => Some(Program::find(&self.target.program)?),
            _ => None,
        };
        self.target.check_attach(&self.attach)?;
        let out = Output::new(self.output.as_deref(), "trace")?;
        let options = crossgate_launch::Options {
            hook: HookKind::Trace,
            string_limit: self.string_limit,
            interest: with_ends(&shown),
            geometry: geometry(self.string_limit),
            linger: Linger::Wait,
            ..run::pass_options(&self.target)
        };
        let mut printer = Printer {
            out,
            options: decode::Options {
                string_limit: self.string_limit as usize,
                ..decode::Options::default()
            },
            always_prefix: self.output.is_some() && !self.target.no_follow,
            shown,
            program: program.as_ref(),
            tasks: BTreeMap::new(),
            group_exit: HashMap::new(),
            untraced: HashSet::new(),
            open: None,
            column: 0,
            line: String::new(),
            first: program.is_some(),
        };
        let code = match &program {
            Some(program) => crossgate_launch::run(program, &options, &mut printer)?.code(),
            None => {
                crossgate_launch::attach(&self.attach, &options, &mut printer)?;
                0
            }
        };
        printer.flush();
        printer.out.end("the trace");
        Ok(code)
    }
}

const KILLED: Ending = Ending::Killed(9, false);
const ENDS: Behaviour = Behaviour::ENDS_TASK.with(Behaviour::ENDS_PROCESS);

/// The calls by which tasks end are always recorded: how they ended is always shown.
fn with_ends(shown: &filter::Set) -> filter::Set {
    let mut wanted = shown.clone();
    wanted[x86_64::EXIT as usize] = true;
    wanted[x86_64::EXIT_GROUP as usize] = true;
    wanted
}

/// A call under way.
struct OpenCall {
    nr: u64,
    args: [u64; 6],
    /// The enter record, whose blobs are needed at the end.
    record: Vec<u8>,
    /// Its line was ended with `<unfinished ...>`.
    suspended: bool,
}

#[derive(Default)]
struct TaskState {
    call: Option<OpenCall>,
    /// The buffer of the last one, for the next.
    spare: Vec<u8>,
    /// Status of the `exit` it made.
    exit: Option<i32>,
    /// The signal that ends it.
    signal: Option<i32>,
}

struct Printer<'a> {
    out: Output,
    options: decode::Options,
    always_prefix: bool,
    shown: filter::Set,
    program: Option<&'a Program>,
    tasks: BTreeMap<Task, TaskState>,
    /// Status given to `exit_group`, by process.
    group_exit: HashMap<i32, i32>,
    /// Processes that went on without crossgate.
    untraced: HashSet<i32>,
    /// Whose line is not ended yet.
    open: Option<Task>,
    /// Characters on it so far.
    column: usize,
    line: String,
    first: bool,
}

impl Printer<'_> {
    fn write(&mut self) {
        self.out.write(self.line.as_bytes());
        self.line.clear();
    }

    fn flush(&mut self) {
        self.end_open_line();
        self.pause();
    }

    /// Ends the line that another task has open.
    fn end_open_line(&mut self) {
        if let Some(task) = self.open.take() {
            if let Some(call) = self.tasks.get_mut(&task).and_then(|t| t.call.as_mut()) {
                call.suspended = true;
            }
            self.line.push_str(" <unfinished ...>\n");
            self.write();
        }
    }

    fn begin_line(&mut self, task: Task) {
        self.end_open_line();
        if self.always_prefix {
            let _ = write!(self.line, "{:<5} ", task.tid);
        } else if self.tasks.len() > 1 {
            let _ = write!(self.line, "[pid {:5}] ", task.tid);
        }
    }

    fn whole_line(&mut self, task: Task, text: &str) {
        self.begin_line(task);
        self.line.push_str(text);
        self.line.push('\n');
        self.write();
    }

    /// Whether the user wants to see a call.
    fn shows(&self, nr: u64) -> bool {
        self.shown[(nr as usize).min(self.shown.len() - 1)]
    }

    fn enter(&mut self, task: Task, nr: u64, args: [u64; 6], blobs: Blobs, bytes: &[u8]) {
        if !self.shows(nr) {
            return self.note_end(task, nr, args);
        }
        self.begin_line(task);
        let call = decode::Call { nr, args, blobs };
        self.options.enter(&mut self.line, &call);
        // Everything that is printed is ASCII.
        self.column = self.line.len();
        let behaviour = x86_64::plan::behaviour(nr);
        let ends = behaviour.has_any(ENDS);
        if ends {
            self.options.no_exit(&mut self.line, self.column, &call);
            self.line.push('\n');
        }
        self.write();
        if ends {
            self.note_end(task, nr, args);
        } else {
            let state = self.tasks.entry(task).or_default();
            let mut record = std::mem::take(&mut state.spare);
            record.clear();
            record.extend_from_slice(bytes);
            state.call = Some(OpenCall { nr, args, record, suspended: false });
            self.open = Some(task);
        }
    }

    /// Takes note of the status that a task or its process ends with.
    fn note_end(&mut self, task: Task, nr: u64, args: [u64; 6]) {
        let status = (args[0] & 0xff) as i32;
        let behaviour = x86_64::plan::behaviour(nr);
        if behaviour.has(Behaviour::ENDS_PROCESS) {
            self.group_exit.entry(task.pid).or_insert(status);
        }
        if behaviour.has_any(ENDS) {
            self.tasks.entry(task).or_default().exit = Some(status);
            // Nothing more can come of a process with one task; its end is shown at once,
            // before its parent's SIGCHLD.
            if self.tasks.keys().filter(|t| t.pid == task.pid).count() == 1 {
                self.ended(task, Ending::Exited(status));
                self.tasks.remove(&task);
            }
        }
    }

    fn exit(&mut self, task: Task, result: i64, blobs: Blobs) {
        let Some(open) = self.tasks.get_mut(&task).and_then(|t| t.call.take()) else { return };
        if self.open == Some(task) {
            self.open = None;
        } else {
            self.begin_line(task);
            let name = x86_64::lookup(open.nr).map_or_else(
                || format!("syscall_{:#x}", i64::from(open.nr as i32)),
                |call| call.name.to_owned(),
            );
            self.line.push_str(&format!("<... {name} resumed>"));
            self.column = self.line.len();
        }
        let entered = match Record::parse(&open.record) {
            Some((Record::Enter { blobs, .. }, _)) => blobs,
            _ => Blobs::EMPTY,
        };
        let call = decode::Call { nr: open.nr, args: open.args, blobs: entered };
        let exit = decode::Exit { result, blobs };
        self.options.exit(&mut self.line, self.column, &call, &exit);
        self.line.push('\n');
        self.write();
        if let Some(state) = self.tasks.get_mut(&task) {
            state.spare = open.record;
        }
    }

    /// The line of a task that ended.
    fn ended(&mut self, task: Task, how: Ending) {
        self.leave_open_call(task);
        let mut text = String::new();
        match how {
            Ending::Exited(status) => text = format!("+++ exited with {status} +++"),
            Ending::Killed(signal, core) => {
                decode::ended(&mut text, signal | if core { 0x80 } else { 0 });
            }
        }
        self.whole_line(task, &text);
    }

    /// A call that will never end.
    fn leave_open_call(&mut self, task: Task) {
        if let Some(open) = self.tasks.get_mut(&task).and_then(|t| t.call.take()) {
            if self.open == Some(task) {
                self.open = None;
            } else {
                self.begin_line(task);
                let name = x86_64::lookup(open.nr).map_or("???", |call| call.name);
                self.line.push_str(&format!("<... {name} resumed>"));
                self.column = self.line.len();
            }
            let call = decode::Call { nr: open.nr, args: open.args, blobs: Blobs::EMPTY };
            self.options.no_exit(&mut self.line, self.column, &call);
            self.line.push('\n');
            self.write();
        }
    }

    /// The line of the exec that started everything, which no agent could see.
    fn first_exec(&mut self, task: Task) {
        let Some(program) = self.program.filter(|_| self.shows(x86_64::EXECVE)) else { return };
        let quote = |s: &std::ffi::OsStr| {
            let mut text = String::new();
            decode::quote(&mut text, s.as_bytes());
            text
        };
        let args: Vec<String> = program.args.iter().map(|a| quote(a)).collect();
        let count = std::env::vars_os().count();
        let text = format!(
            "execve({}, [{}], {:#x} /* {count} var{} */) = 0",
            quote(program.path.as_os_str()),
            args.join(", "),
            crossgate_launch::spawn::environment_address(),
            if count == 1 { "" } else { "s" }
        );
        self.whole_line(task, &text);
    }
}

impl Observer for Printer<'_> {
    fn record(&mut self, task: Task, record: &Record, bytes: &[u8]) {
        self.tasks.entry(task).or_default();
        match *record {
            Record::Enter { nr, args, blobs, .. } => {
                self.enter(task, nr, args, blobs, bytes);
            }
            Record::Exit { result, blobs, .. } => self.exit(task, result, blobs),
            Record::Cancel { .. } => {
                // It begins again: what was written of it stays as the beginning.
                if let Some(state) = self.tasks.get_mut(&task) {
                    state.call = None;
                }
                if self.open == Some(task) {
                    self.open = None;
                    self.line.push_str(" <cancelled ...>\n");
                    self.write();
                }
            }
            Record::Signal { info, fatal, .. } => {
                let mut text = String::new();
                decode::signal(&mut text, info);
                self.whole_line(task, &text);
                if let Some(state) = self.tasks.get_mut(&task)
                    && fatal
                {
                    let number = info.get(..4).and_then(|b| b.try_into().ok());
                    state.signal = number.map(i32::from_ne_bytes);
                }
            }
            Record::TaskStart { .. } | Record::Inject { .. } | Record::Log { .. } | Record::Pad => {
            }
        }
    }

    fn executed(&mut self, pid: i32, tid: i32) {
        let task = Task { pid, tid };
        if self.first {
            self.first = false;
            self.tasks.entry(task).or_default();
            self.first_exec(task);
            return;
        }
        self.exit(task, 0, Blobs::EMPTY);
        // The executing thread takes the process's id; all others are gone.
        self.tasks.retain(|t, _| t.pid != pid);
        self.tasks.entry(Task { pid, tid: pid }).or_default();
    }

    fn task_gone(&mut self, task: Task) {
        // The last thread's end is that of the process, and is shown then.
        let last = self.group_exit.contains_key(&task.pid) || task.pid == task.tid;
        if let Some(status) = self.tasks.get(&task).and_then(|t| t.exit)
            && !last
        {
            self.ended(task, Ending::Exited(status));
            self.tasks.remove(&task);
        }
    }

    fn process_gone(&mut self, pid: i32, ending: Option<Ending>) {
        let tasks: Vec<Task> = self.tasks.keys().filter(|t| t.pid == pid).copied().collect();
        let group = self.group_exit.remove(&pid);
        let fatal = tasks.iter().find_map(|t| self.tasks[t].signal);
        for task in tasks {
            let own = self.tasks[&task].exit;
            let how = ending.or_else(|| match (fatal, group, own) {
                (Some(signal), ..) => Some(Ending::Killed(signal, false)),
                (None, Some(status), _) | (None, None, Some(status)) => {
                    Some(Ending::Exited(status))
                }
                // Nobody but its parent is told how a process ended; what ends one without
                // a trace is SIGKILL, unless it was not traced any more.
                (None, None, None) => (!self.untraced.contains(&pid)).then_some(KILLED),
            });
            if let Some(how) = how {
                self.ended(task, how);
            }
            self.tasks.remove(&task);
        }
        self.untraced.remove(&pid);
    }

    fn site(&mut self, _: i32, _: SiteReport) {}

    fn joined(&mut self, pid: i32, tids: &[i32]) {
        self.tasks.extend(tids.iter().map(|&tid| (Task { pid, tid }, Default::default())));
    }

    fn left(&mut self, pid: i32) {
        self.tasks.retain(|task, _| task.pid != pid);
        self.group_exit.remove(&pid);
    }

    fn pause(&mut self) {
        self.out.flush();
    }

    fn untraced(&mut self, pid: i32) {
        self.untraced.insert(pid);
    }

    fn note(&mut self, text: &str) {
        self.flush();
        say(text);
    }
}
