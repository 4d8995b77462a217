//! The `crossgate` program: its commands and options, and what they print.
//!
//! Owns: the command line, one file per command. Never does: tracing itself; it fills in
//! `crossgate_launch::Options`, and what comes back goes through `crossgate_decode`.

#![cfg_attr(not(test), no_main)]

mod deny;
mod filter;
mod inject;
mod output;
mod run;
mod sites;
mod trace;

use std::ffi::{OsString, c_char, c_int};
use std::io::Write;

use clap::{Args, Parser, Subcommand, ValueEnum};
use crossgate_launch::{Error, Mode};

/// See and shape every system call of an unmodified program, in process.
#[derive(Parser)]
#[command(name = "crossgate", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a program with every call passing through crossgate, unseen
    Run(run::Run),
    /// Print every system call of a program and its children, as strace does
    Trace(trace::Trace),
    /// Make calls of a program fail, return something else, or take their time
    Inject(inject::Inject),
    /// Refuse calls of a program, or log them, by a small policy
    Deny(deny::Deny),
    /// Run a program, then show how each of its call instructions was patched, and why not
    Sites(sites::Sites),
}

/// What every command that starts a program takes.
#[derive(Args)]
struct Target {
    /// How call instructions are found
    #[arg(long, value_enum, default_value_t = ModeName::Exhaustive)]
    mode: ModeName,
    /// Follow children and the programs they execute (the default)
    #[arg(short = 'f', long, overrides_with = "no_follow")]
    follow: bool,
    /// Leave children and executed programs alone
    #[arg(long)]
    no_follow: bool,
    /// Take the vDSO away: the time, the processor's number and random bytes are calls then
    #[arg(long)]
    vdso: bool,
    /// The program and its arguments
    #[arg(trailing_var_arg = true, required = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

impl Target {
    /// Whether these options go with joining processes that run already.
    fn check_attach(&self, pids: &[i32]) -> Result<(), Error> {
        let wrong = |what: &str| Err(Error::own(format!("-p: {what}")));
        if pids.is_empty() {
            Ok(())
        } else if self.mode == ModeName::Fast {
            wrong("a program that runs already is joined in exhaustive mode only")
        } else if self.vdso {
            wrong("--vdso is for programs that start; this one has its vDSO already")
        } else if self.no_follow {
            wrong("children are always followed")
        } else {
            Ok(())
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ModeName {
    /// Nothing escapes: what is not patched yet is caught by the kernel
    Exhaustive,
    /// Only what a scan of the code finds, at less cost per call
    Fast,
}

impl ModeName {
    fn mode(self) -> Mode {
        match self {
            Self::Exhaustive => Mode::Exhaustive,
            Self::Fast => Mode::Fast,
        }
    }
}

/// One line on standard error that says who speaks.
fn say(text: &str) {
    eprintln!("crossgate: {text}");
}

/// The C entry point, in place of Rust's own: the runtime's preparations (a handler for
/// stack overflows, ignoring SIGPIPE) cost a tenth of a millisecond at each start, and the
/// program that is started must inherit what we did.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, allow(dead_code))]
extern "C" fn main(_: c_int, _: *const *const c_char) -> c_int {
    crossgate_launch::spawn::keep_standard_descriptors();
    let code = execute();
    // Nobody else will.
    let _ = std::io::stdout().flush();
    c_int::from(code)
}

fn execute() -> u8 {
    let done: Result<u8, Error> = match Cli::parse().command {
        Command::Run(run) => run.execute(),
        Command::Trace(trace) => trace.execute(),
        Command::Inject(inject) => inject.execute(),
        Command::Deny(deny) => deny.execute(),
        Command::Sites(sites) => sites.execute(),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            say(&error.message);
            error.code
        }
    }
}
