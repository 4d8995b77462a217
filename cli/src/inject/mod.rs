//! `crossgate inject`: calls of a program that fail, return something else, come with a
//! signal or take their time, to see what it makes of that.
//!
//! Owns: the command and its log. The language is in `grammar.rs`, the faults of ordinary
//! life in `faults.rs`, reading a log back in `replay.rs`. The agents decide and act
//! (`agent/src/inject.rs`); what they did comes back as records.

mod faults;
mod grammar;
mod replay;

use std::collections::HashMap;
use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use clap::Args;
use crossgate_decode as decode;
use crossgate_launch::wire::arena::{CALLS, Geometry};
use crossgate_launch::wire::inject::{
    ALWAYS, COUNTED, DELAY_ENTER, DELAY_EXIT, MOST_RULES, Operands, RESULT, Rule,
};
use crossgate_launch::wire::record::Blobs;
use crossgate_launch::wire::{Record, Rules};
use crossgate_launch::{Ending, Error, HookKind, Linger, Observer, Program, SiteReport, Task};
use crossgate_syscalls::{Direction, Extent, Kind, Type, x86_64};

use crate::output::Output;
use crate::{Target, filter, run, say};

/// Options of `crossgate inject`.
#[derive(Args)]
#[command(after_help = HELP)]
pub struct Inject {
    /// What to inject: inject=CALLS:OPTION:…, or fault=CALLS:… (may be given more than once;
    /// the first that fits a call is taken)
    #[arg(short = 'e', value_name = "EXPRESSION")]
    expressions: Vec<String>,
    /// Read further expressions from FILE, one a line
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    /// Inject into this share of the calls that fit: 0.05 or 5%; without an expression, faults
    /// that a program meets in ordinary life
    #[arg(long, value_name = "RATE")]
    rate: Option<String>,
    /// The number that random decisions depend on; the log has it
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Inject just what the log of an earlier run says
    #[arg(long, value_name = "LOG", conflicts_with_all = ["expressions", "plan", "rate", "seed"])]
    replay: Option<PathBuf>,
    /// Write the log to FILE instead of standard error
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Show at most SIZE bytes of a string
    #[arg(short = 's', long, value_name = "SIZE", default_value_t = 32)]
    string_limit: u32,
    #[command(flatten)]
    target: Target,
}

const HELP: &str = "\
Options of an expression, as in strace(1), and some more:
  error=NAME[|NAME]…    the call is not made and fails; one of these by chance
  retval=N[|N]…         the call is not made and gives N
  signal=NAME           the task gets this signal when the call returns (SIGKILL: before it)
  delay_enter=TIME      sleep before the call: microseconds, or a number with s, ms, us, ns
  delay_exit=TIME       sleep after it
  when=FIRST[..LAST][+[STEP]]  which of the calls that fit, counted for each task
  rate=RATE             this share of them, by chance, once the dynamic loader is done
  path=PATTERN          only calls that name this path, or a descriptor of it: * for any
                        text, ? for one character, / at the end for all that is below
  peer=ADDRESS          only calls on a socket with this other side: ADDRESS, :PORT,
                        ADDRESS:PORT, [V6]:PORT, /a/socket or @abstract

Each line of the log ends with # TASK CALL NUMBER EFFECT, which --replay reads.";

/// Tasks at a time whose faults are logged.
const RINGS: u32 = 1024;
const RING_SIZE: u32 = 64 << 10;
const LONGEST_STRING: u32 = 256;

impl Inject {
    /// Runs the program; gives its exit code.
    pub fn execute(self) -> Result<u8, Error> {
        let (rules, interest) = self.rules()?;
        let rules: Rc<Rules> = rules.into();
        let program = Program::find(&self.target.program)?;
        let out = Output::new(self.output.as_deref(), "log")?;
        let options = crossgate_launch::Options {
            hook: HookKind::Inject,
            string_limit: self.string_limit.min(LONGEST_STRING),
            interest,
            rules: Some(rules.clone()),
            geometry: Geometry { rings: RINGS, ring_size: RING_SIZE },
            linger: Linger::Wait,
            ..run::pass_options(&self.target)
        };
        let mut log = Log {
            out,
            options: decode::Options {
                string_limit: self.string_limit as usize,
                ..decode::Options::default()
            },
            rules: &rules,
            calls: HashMap::new(),
        };
        if self.replay.is_none() {
            log.out.write(format!("# crossgate inject: seed {}\n", rules.seed).as_bytes());
        }
        let ending = crossgate_launch::run(&program, &options, &mut log)?;
        log.out.end("the log");
        Ok(ending.code())
    }

    /// What the agents are told, and which calls they must look at.
    fn rules(&self) -> Result<(Box<Rules>, filter::Set), Error> {
        let mut rules = no_rules();
        if let Some(log) = &self.replay {
            replay::read(log, &mut rules)?;
        } else {
            self.read_expressions(&mut rules)?;
        }
        rules.seed = match self.seed {
            Some(seed) => seed,
            None => random(),
        };
        let repeats = &rules.repeats[..rules.repeat_count as usize];
        let used = &rules.rules[..rules.count as usize];
        let interest = std::array::from_fn(|nr| {
            used.iter().any(|rule| rule.names(nr)) || repeats.iter().any(|r| r.nr as usize == nr)
        });
        let mut interest: filter::Set = Box::new(interest);
        // This one stands for numbers that do not exist.
        interest[CALLS - 1] = false;
        Ok((rules, interest))
    }

    fn read_expressions(&self, rules: &mut Rules) -> Result<(), Error> {
        let mut read = Vec::new();
        for expression in &self.expressions {
            let rule = grammar::rule(expression);
            read.push(rule.map_err(|what| Error::own(format!("-e {what}")))?);
        }
        if let Some(path) = &self.plan {
            read_plan(path, &mut read)?;
        }
        if read.is_empty() && (self.rate.is_some() || self.seed.is_some()) {
            for expression in faults::ORDINARY {
                read.push(grammar::rule(expression).map_err(Error::own)?);
            }
        }
        if read.is_empty() {
            return Err(Error::own(
                "nothing to inject; give -e inject=CALLS:error=NAME, --plan FILE or --rate RATE",
            ));
        }
        if read.len() > MOST_RULES {
            return Err(Error::own(format!(
                "{} expressions; there can be {MOST_RULES} at most",
                read.len()
            )));
        }
        let rate = match (&self.rate, self.seed) {
            (Some(rate), _) => grammar::rate(rate),
            // Chance was asked for, and not how much of it.
            (None, Some(_)) => grammar::rate("1%"),
            (None, None) => Ok(ALWAYS),
        };
        let rate = rate.map_err(|what| Error::own(format!("--rate {what}")))?;
        for rule in read.iter_mut().filter(|rule| rule.rate == ALWAYS) {
            rule.rate = rate;
        }
        rules.count = read.len() as u32;
        rules.rules[..read.len()].copy_from_slice(&read);
        Ok(())
    }
}

/// Reads a plan: an expression a line, `#` begins a remark.
fn read_plan(path: &Path, into: &mut Vec<Rule>) -> Result<(), Error> {
    let shown = path.display();
    let text = fs::read_to_string(path)
        .map_err(|e| Error::own(format!("{shown}: cannot read the plan: {}", plain(&e))))?;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let rule = grammar::rule(line)
            .map_err(|what| Error::own(format!("{shown}:{}: {what}", index + 1)))?;
        into.push(rule);
    }
    Ok(())
}

/// What an error says, without the number.
fn plain(error: &io::Error) -> String {
    error.to_string().split(" (os error").next().unwrap_or_default().to_owned()
}

/// A seed that nobody has to type often: the key of a hash table is random.
fn random() -> u64 {
    RandomState::new().build_hasher().finish() >> 40
}

/// No rule yet, and where the arguments of each call are.
fn no_rules() -> Box<Rules> {
    // On the heap from the start: it is too large for a stack.
    let mut rules = Box::<Rules>::new_uninit();
    // SAFETY: integers and arrays of them: zero is a valid value.
    let mut rules = unsafe {
        rules.as_mut_ptr().write_bytes(0, 1);
        rules.assume_init()
    };
    for (nr, operands) in rules.operands.iter_mut().enumerate().take(COUNTED) {
        *operands = operands_of(nr as u64);
    }
    rules
}

/// Where the paths, the descriptor and the socket address of a call are.
fn operands_of(nr: u64) -> Operands {
    let mut operands = Operands::default();
    let Some(call) = x86_64::lookup(nr) else { return operands };
    let mut folder = 0;
    let mut paths = 0;
    for (index, argument) in call.args.iter().enumerate() {
        let number = index as u8 + 1;
        match argument.kind {
            Kind::DirFd => folder = number,
            Kind::Path if paths < operands.paths.len() => {
                operands.paths[paths] = number;
                operands.folders[paths] = std::mem::take(&mut folder);
                paths += 1;
            }
            Kind::Fd if operands.descriptor == 0 => operands.descriptor = number,
            Kind::Data {
                direction: Direction::In,
                of: Type::Sockaddr,
                extent: Extent::Arg(len),
            } => {
                operands.address = number;
                operands.address_len = len + 1;
            }
            _ => {}
        }
    }
    operands
}

/// A call into which something is injected.
#[derive(Default)]
struct Injected {
    /// The record of its beginning.
    enter: Vec<u8>,
    /// `# TASK CALL NUMBER EFFECT`, and what strace calls it.
    remark: String,
    mark: &'static str,
}

struct Log<'a> {
    out: Output,
    options: decode::Options,
    rules: &'a Rules,
    calls: HashMap<Task, Injected>,
}

impl Log<'_> {
    /// The line of a call; `exit` is how it ended, if it did.
    fn line(&mut self, task: Task, exit: Option<decode::Exit>) {
        let Some(injected) = self.calls.remove(&task) else { return };
        let Some((Record::Enter { nr, args, blobs, .. }, _)) = Record::parse(&injected.enter)
        else {
            return;
        };
        let call = decode::Call { nr, args, blobs };
        let mut line = format!("{:<5} ", task.tid);
        self.options.enter(&mut line, &call);
        let column = line.len();
        match exit {
            Some(exit) => self.options.exit(&mut line, column, &call, &exit),
            None => self.options.no_exit(&mut line, column, &call),
        }
        line.push_str(injected.mark);
        line.push_str(&injected.remark);
        line.push('\n');
        self.out.write(line.as_bytes());
    }

    fn injected(&mut self, task: Task, rule: u32, result: u32, occurrence: u32, name: &[u8]) {
        let Some(injected) = self.calls.get_mut(&task) else { return };
        let Some((Record::Enter { nr, .. }, _)) = Record::parse(&injected.enter) else { return };
        let Some(rule) = self.rules.rules.get(rule as usize) else { return };
        let effect = &rule.effect;
        injected.mark = if effect.what & RESULT != 0 {
            " (INJECTED)"
        } else if effect.what & (DELAY_ENTER | DELAY_EXIT) != 0 {
            " (DELAYED)"
        } else {
            ""
        };
        injected.remark = format!(
            "  # {} {} {occurrence} {}",
            String::from_utf8_lossy(name),
            x86_64::lookup(nr).map_or("?", |call| call.name),
            grammar::text(effect, result as usize)
        );
    }
}

impl Observer for Log<'_> {
    fn record(&mut self, task: Task, record: &Record, bytes: &[u8]) {
        match *record {
            Record::Enter { .. } => {
                let enter = bytes.to_vec();
                self.calls.insert(task, Injected { enter, ..Injected::default() });
            }
            Record::Inject { rule, result, occurrence, task: name, .. } => {
                self.injected(task, rule, result, occurrence, name);
            }
            Record::Exit { result, blobs, .. } => {
                self.line(task, Some(decode::Exit { result, blobs }));
            }
            Record::Cancel { .. } => {
                self.calls.remove(&task);
            }
            Record::Signal { .. } | Record::TaskStart { .. } | Record::Log { .. } | Record::Pad => {
            }
        }
    }

    fn executed(&mut self, pid: i32, tid: i32) {
        let exit = decode::Exit { result: 0, blobs: Blobs::EMPTY };
        self.line(Task { pid, tid }, Some(exit));
    }

    fn task_gone(&mut self, task: Task) {
        self.line(task, None);
    }

    fn process_gone(&mut self, pid: i32, _: Option<Ending>) {
        let left: Vec<Task> = self.calls.keys().filter(|task| task.pid == pid).copied().collect();
        for task in left {
            self.line(task, None);
        }
    }

    fn site(&mut self, _: i32, _: SiteReport) {}

    fn pause(&mut self) {
        self.out.flush();
    }

    fn note(&mut self, text: &str) {
        self.pause();
        say(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operands_are_found_by_their_kind() {
        let openat = operands_of(x86_64::OPENAT);
        assert_eq!((openat.paths, openat.folders), ([2, 0], [1, 0]));
        let rename = operands_of(x86_64::RENAMEAT2);
        assert_eq!((rename.paths, rename.folders), ([2, 4], [1, 3]));
        let read = operands_of(x86_64::READ);
        assert_eq!((read.descriptor, read.paths[0]), (1, 0));
        let connect = operands_of(x86_64::CONNECT);
        assert_eq!((connect.descriptor, connect.address, connect.address_len), (1, 2, 3));
        assert_eq!(operands_of(511), Operands::default());
    }
}
