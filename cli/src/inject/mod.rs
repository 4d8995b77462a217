//! `crossgate inject`: calls of a program that fail, return something else, come with a
//! signal or take their time, to see what it makes of that.
//!
//! Owns: the command. Its log is in `log.rs`, which `crossgate deny` shares; the language is in `grammar.rs`, the faults of ordinary
//! life in `faults.rs`, reading a log back in `replay.rs`. The agents decide and act
//! (`agent/src/inject.rs`); what they did comes back as records.

mod faults;
pub mod grammar;
pub mod log;
mod replay;

use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use clap::Args;
use crossgate_launch::wire::Rules;
use crossgate_launch::wire::arena::{CALLS, Geometry};
use crossgate_launch::wire::inject::{ALWAYS, COUNTED, MOST_RULES, Operands};
use crossgate_launch::{Error, HookKind, Linger, Program};
use crossgate_syscalls::{Direction, Extent, Kind, Type, x86_64};

use crate::output::Output;
use crate::{Target, filter, run};
use log::Log;

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

/// Rings for the log of tasks at a time.
pub const GEOMETRY: Geometry = Geometry { rings: 1024, ring_size: 64 << 10 };
/// What is copied of strings at most.
pub const LONGEST_STRING: u32 = 256;

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
            geometry: GEOMETRY,
            linger: Linger::Wait,
            ..run::pass_options(&self.target)
        };
        let mut log = Log::new(out, self.string_limit, &rules, log::injected);
        if self.replay.is_none() {
            log.write(&format!("# crossgate inject: seed {}\n", rules.seed));
        }
        let ending = crossgate_launch::run(&program, &options, &mut log)?;
        log.end();
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
        let interest = interest(&rules);
        Ok((rules, interest))
    }

    fn read_expressions(&self, rules: &mut Rules) -> Result<(), Error> {
        let mut read = Vec::new();
        for expression in &self.expressions {
            let rule = grammar::rule(expression);
            read.push(rule.map_err(|what| Error::own(format!("-e {what}")))?);
        }
        if let Some(path) = &self.plan {
            read.extend(read_lines(path, "plan", grammar::rule)?);
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
        check_count(read.len())?;
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

/// The calls that the agents must look at.
pub fn interest(rules: &Rules) -> filter::Set {
    let repeats = &rules.repeats[..rules.repeat_count as usize];
    let used = &rules.rules[..rules.count as usize];
    let interest = std::array::from_fn(|nr| {
        used.iter().any(|rule| rule.names(nr)) || repeats.iter().any(|r| r.nr as usize == nr)
    });
    let mut interest: filter::Set = Box::new(interest);
    // This one stands for numbers that do not exist.
    interest[CALLS - 1] = false;
    interest
}

/// Reads a file of expressions with `rule`: one a line, `#` begins a remark. `what` is what the
/// file is.
pub fn read_lines<T>(
    path: &Path,
    what: &str,
    rule: impl Fn(&str) -> Result<T, String>,
) -> Result<Vec<T>, Error> {
    let shown = path.display();
    let text = fs::read_to_string(path)
        .map_err(|e| Error::own(format!("{shown}: cannot read the {what}: {}", plain(&e))))?;
    text.lines()
        .map(str::trim)
        .enumerate()
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .map(|(index, line)| {
            rule(line).map_err(|what| Error::own(format!("{shown}:{}: {what}", index + 1)))
        })
        .collect()
}

/// Checks that there are no more than agents can keep.
pub fn check_count(rules: usize) -> Result<(), Error> {
    if rules <= MOST_RULES {
        return Ok(());
    }
    Err(Error::own(format!("{rules} expressions; there can be {MOST_RULES} at most")))
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
pub fn no_rules() -> Box<Rules> {
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
