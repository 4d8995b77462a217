//! `crossgate deny`: a small policy of which calls a program may make.
//!
//! Owns: the command. The language is `inject/grammar.rs`, the log `inject/log.rs`; the agents follow
//! the rules as those of `crossgate inject`. What this is worth against a program that means harm is
//! said in SECURITY.md.

use std::path::PathBuf;
use std::rc::Rc;

use clap::Args;
use crossgate_launch::wire::Rules;
use crossgate_launch::wire::inject::{RESULT, Rule, SIGNAL};
use crossgate_launch::{Error, HookKind, Linger, Program};

use crate::inject::log::{Hit, Log, Remark};
use crate::inject::{
    GEOMETRY, LONGEST_STRING, check_count, grammar, interest, no_rules, read_lines,
};
use crate::output::Output;
use crate::{Target, run};

/// Options of `crossgate deny`.
#[derive(Args)]
#[command(after_help = HELP)]
pub struct Deny {
    /// A rule: CALLS[:CONDITION]…[:ACTION] (may be given more than once; the first that fits a call
    /// is taken, and a call that none fits is made)
    #[arg(short = 'e', value_name = "RULE")]
    rules: Vec<String>,
    /// Read further rules from FILE, one a line
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// End the program at its first call that does not come through crossgate
    #[arg(long)]
    strict: bool,
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
CALLS are names with commas between, and classes such as %file or %network, as in strace(1).
Conditions:
  path=PATTERN   only calls that name this path, or a descriptor of it: * for any text, ? for one
                 character, / at the end for all that is below
  peer=ADDRESS   only calls on a socket with this other side: ADDRESS, :PORT, ADDRESS:PORT,
                 [V6]:PORT, /a/socket or @abstract
Actions:
  error=NAME     the call is not made and fails (EPERM if nothing is said)
  kill           the call is not made and the process is killed
  log            the call is made and logged
  allow          the call is made, and later rules do not see it

crossgate deny -e openat:path=/etc/:allow -e %file:path=/home/ -e connect:kill -- PROGRAM";

impl Deny {
    /// Runs the program; gives its exit code.
    pub fn execute(self) -> Result<u8, Error> {
        let rules: Rc<Rules> = self.read()?.into();
        let program = Program::find(&self.target.program)?;
        let out = Output::new(self.output.as_deref(), "log")?;
        let options = crossgate_launch::Options {
            hook: HookKind::Inject,
            string_limit: self.string_limit.min(LONGEST_STRING),
            interest: interest(&rules),
            rules: Some(rules.clone()),
            geometry: GEOMETRY,
            linger: Linger::Wait,
            strict: self.strict,
            ..run::pass_options(&self.target)
        };
        let mut log = Log::new(out, self.string_limit, &rules, denied);
        let ending = crossgate_launch::run(&program, &options, &mut log)?;
        log.end();
        Ok(ending.code())
    }

    fn read(&self) -> Result<Box<Rules>, Error> {
        let given = self
            .rules
            .iter()
            .map(|text| grammar::policy(text).map_err(|what| Error::own(format!("-e {what}"))));
        let mut read: Vec<Rule> = given.collect::<Result<_, _>>()?;
        if let Some(path) = &self.policy {
            read.extend(read_lines(path, "policy", grammar::policy)?);
        }
        if read.is_empty() && !self.strict {
            return Err(Error::own("nothing to deny; give -e CALLS:path=PATTERN or --policy FILE"));
        }
        check_count(read.len())?;
        let mut rules = no_rules();
        rules.count = read.len() as u32;
        rules.rules[..read.len()].copy_from_slice(&read);
        Ok(rules)
    }
}

/// What the log says behind a call: what became of it, and by which rule.
fn denied(hit: &Hit) -> Remark {
    let mark = match hit.effect.what {
        what if what & SIGNAL != 0 => " (KILLED)",
        what if what & RESULT != 0 => " (DENIED)",
        _ => " (LOGGED)",
    };
    (mark, format!("  # rule {}", hit.index + 1))
}
