//! `crossgate run`: a program with the agent inside and no hook. What it costs is the cost
//! of the mechanism; that it behaves is the proof of it. `--stats` shows that the agents were
//! there: what they counted, in the layout of `perf stat`.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use clap::{ArgGroup, Args, ValueEnum};
use crossgate_launch::library::{self, Library};
use crossgate_launch::wire::arena::{Counters, Geometry};
use crossgate_launch::wire::hooks::{FOR_SVC_HOOK, FOR_ZPOLINE, MOST_HOOKS};
use crossgate_launch::wire::{Record, arena::CALLS};
use crossgate_launch::{
    Ending, Error, HookKind, Linger, Observer, Options, Program, SiteReport, Task,
};

use crate::output::Output;
use crate::{Target, say};

/// A site is patched when it is caught for this many times: a patch (two pages made writable
/// and back, one of them copied) costs about as much as this many signals.
pub const PATCH_AFTER: u32 = 6;

/// Options of `crossgate run`.
#[derive(Args)]
#[command(mut_arg("program", |program| program.required(false)))]
#[command(group(ArgGroup::new("target").args(["attach", "program"]).required(true)))]
#[command(group(ArgGroup::new("hooks").args(["hook", "compat"]).multiple(true)))]
pub struct Run {
    /// When the program has ended, print what the agents counted on standard error
    #[arg(long)]
    stats: bool,
    /// Write these counts to FILE instead of standard error
    #[arg(short, long, value_name = "FILE", requires = "stats")]
    output: Option<PathBuf>,
    /// Load a hook library, with what it is to be told; may be given more than once: the first
    /// one sees a call first
    #[arg(long, value_name = "LIBRARY[:ARGUMENT]")]
    hook: Vec<OsString>,
    /// Load what LIBZPHOOK and LIBSVCHOOK name, too: programs set up for zpoline or svc-hook run as
    /// they are
    #[arg(long)]
    compat: bool,
    /// When a hook crashes or gives itself up
    #[arg(long, value_enum, default_value_t = OnFault::End, requires = "hooks")]
    on_hook_fault: OnFault,
    /// Write what hooks log to FILE instead of standard error
    #[arg(long, value_name = "FILE", requires = "hooks")]
    hook_log: Option<PathBuf>,
    /// Join a process that runs already, with all its threads, until Ctrl-C; may be given more than
    /// once
    #[arg(short = 'p', long, value_name = "PID", conflicts_with = "hooks")]
    attach: Vec<i32>,
    #[command(flatten)]
    target: Target,
}

/// What becomes of a program whose hook fails.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OnFault {
    /// The program is ended, with status 125
    End,
    /// The hook is left out from then on
    Continue,
}

/// Tasks at a time whose hooks can log.
const RINGS: u32 = 1024;
const RING_SIZE: u32 = 64 << 10;

impl Run {
    /// Runs the program; gives its exit code.
    pub fn execute(self) -> Result<u8, Error> {
        self.target.check_attach(&self.attach)?;
        let mut options = pass_options(&self.target);
        let libraries = self.libraries()?;
        if !libraries.is_empty() {
            options.hook = HookKind::Library;
            options.libraries = libraries;
            options.goes_on = self.on_hook_fault == OnFault::Continue;
            options.geometry = Geometry { rings: RINGS, ring_size: RING_SIZE };
            options.linger = Linger::Wait;
        }
        let log = Output::new(self.hook_log.as_deref(), "log")?;
        let out = match &self.output {
            Some(path) => create(path, "counts")?,
            None => Box::new(io::stderr()),
        };
        let mut silent = Silent { counts: Counts::new(), log };
        let code = if self.attach.is_empty() {
            let program = Program::find(&self.target.program)?;
            crossgate_launch::run(&program, &options, &mut silent)?.code()
        } else {
            options.linger = Linger::Wait;
            crossgate_launch::attach(&self.attach, &options, &mut silent)?;
            0
        };
        silent.log.end("the hooks' log");
        if self.stats {
            self.print(&silent.counts, out);
        }
        Ok(code)
    }

    /// Reads the hook libraries.
    fn libraries(&self) -> Result<Vec<Library>, Error> {
        let by_variable = if self.compat { self.named_by_variables()? } else { Vec::new() };
        if self.hook.len() + by_variable.len() > MOST_HOOKS {
            return Err(Error::own(format!("there can be {MOST_HOOKS} hooks at most")));
        }
        let named = self.hook.iter().map(|word| {
            let word = word.as_bytes();
            let end = word.iter().position(|&b| b == b':').unwrap_or(word.len());
            let argument = word.get(end + 1..).unwrap_or_default();
            (Path::new(OsStr::from_bytes(&word[..end])), argument)
        });
        let by_variable = by_variable.iter().map(|(path, kind)| (Path::new(path), *kind));
        named.chain(by_variable).map(|(path, argument)| library::read(path, argument)).collect()
    }

    /// The libraries that zpoline and svc-hook would load, and which of them it was.
    fn named_by_variables(&self) -> Result<Vec<(OsString, &'static [u8])>, Error> {
        let variables = [("LIBZPHOOK", FOR_ZPOLINE), ("LIBSVCHOOK", FOR_SVC_HOOK)];
        let found: Vec<_> = variables
            .into_iter()
            .filter_map(|(variable, kind)| Some((env::var_os(variable)?, kind)))
            .collect();
        if found.is_empty() && self.hook.is_empty() {
            return Err(Error::own(
                "--compat: neither LIBZPHOOK nor LIBSVCHOOK is set; set one to the path of a hook \
                 library, or use --hook",
            ));
        }
        Ok(found)
    }

    fn print(&self, counts: &Counts, mut out: Box<dyn Write>) {
        let program: Vec<_> = self.target.program.iter().map(|w| w.to_string_lossy()).collect();
        let text = report(&program.join(" "), counts);
        if let Err(e) = out.write_all(text.as_bytes()) {
            say(&format!("the counts could not be written: {e}"));
        }
    }
}

/// Makes the file that was asked for by `-o FILE`, to hold `what`.
pub fn create(path: &Path, what: &str) -> Result<Box<dyn Write>, Error> {
    let file = File::create(path).map_err(|e| {
        let why = e
            .raw_os_error()
            .map_or_else(|| e.to_string(), |n| io::Error::from_raw_os_error(n).to_string());
        let why = why.split(" (os error").next().unwrap_or_default().to_owned();
        let path = path.display();
        Error::own(format!("{path}: cannot write the {what} there: {why}; choose another -o FILE"))
    })?;
    Ok(Box::new(file))
}

/// Options for a run in which no hook sees anything.
pub fn pass_options(target: &Target) -> Options {
    Options {
        mode: target.mode.mode(),
        hook: HookKind::Pass,
        follow: !target.no_follow,
        hide_vdso: target.vdso,
        strict: false,
        string_limit: 0,
        patch_after: PATCH_AFTER,
        report_sites: false,
        interest: Box::new([false; CALLS]),
        rules: None,
        libraries: Vec::new(),
        goes_on: false,
        geometry: Geometry { rings: 0, ring_size: 0 },
        linger: Linger::Background,
    }
}

/// Each counter of the agents' by its name.
type Counts = Vec<(&'static str, u64)>;

/// What the names that [`Counters::read`] gives stand for.
fn meaning(name: &str) -> &'static str {
    match name {
        "execs" => "programs started with the agent inside",
        "tasks" => "threads and processes made",
        "traps" => "calls that came by a signal",
        "patched-mov" => "sites patched over the mov before the call",
        "patched-pun" => "sites patched over the call itself",
        "patched-relocated" => "sites patched over moved instructions",
        "unpatched" => "sites that stay on the signal",
        "signals" => "signals that went through the agent",
        "deferred" => "times a signal had to wait for the agent",
        _ => "",
    }
}

/// The table of `--stats`.
fn report(program: &str, counts: &Counts) -> String {
    let program = program.escape_debug();
    let mut text = format!("\n Counts of crossgate's agents for '{program}':\n\n");
    for (name, count) in counts {
        text += &format!("{count:>18}      {name:<20} # {}\n", meaning(name));
    }
    text + "\n"
}

/// Sees nothing but what the user must know, the counts, and what hooks log.
struct Silent {
    counts: Counts,
    log: Output,
}

impl Silent {
    fn write(&mut self, text: &[u8]) {
        // What a hook logs may come from the program: nothing in it commands a terminal.
        let text = text.strip_suffix(b"\n").unwrap_or(text);
        let mut line = Vec::with_capacity(text.len() + 1);
        for &byte in text {
            match byte {
                b'\t' | 0x20..=0x7e | 0x80.. => line.push(byte),
                _ => line.extend_from_slice(format!("\\x{byte:02x}").as_bytes()),
            }
        }
        line.push(b'\n');
        self.log.write(&line);
    }
}

impl Observer for Silent {
    fn record(&mut self, _: Task, record: &Record, _: &[u8]) {
        if let Record::Log { text, .. } = record {
            self.write(text);
        }
    }
    fn pause(&mut self) {
        self.log.flush();
    }
    fn executed(&mut self, _: i32, _: i32) {}
    fn task_gone(&mut self, _: Task) {}
    fn process_gone(&mut self, _: i32, _: Option<Ending>) {}
    fn site(&mut self, _: i32, _: SiteReport) {}
    fn counted(&mut self, counters: &Counters) {
        self.counts = counters.read().to_vec();
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
    fn every_counter_has_a_meaning_and_its_own_line() {
        let counts = Counters::default().read().to_vec();
        assert!(counts.iter().all(|(name, _)| !meaning(name).is_empty()));
        let text = report("a 'b\n'", &counts);
        assert_eq!(text.lines().filter(|line| line.contains(" # ")).count(), counts.len());
        assert!(text.contains(r"'a \'b\n\''"), "{text}");
    }
}
