//! The bench of the hook: what it costs to send every system call of a program to code of
//! one's own, and what the peers charge for it.
//!
//! Owns: the options, the list of works and the figures they must reach. [`micro`] times
//! single calls, [`startup`] new programs, [`programs`] and [`servers`] whole loads, [`sockets`] what
//! a hook can gain, [`memory`] what a hooked process is larger by.

mod memory;
mod micro;
mod programs;
mod servers;
mod sockets;
mod startup;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clap::Args;

use crate::exec::{self, Bed};
use crate::report::{Report, Work};
use crate::variant::{self, Variant};

/// What `bench hook` can be told.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Fewer rounds and smaller loads: figures within minutes, with more spread
    #[arg(long)]
    pub quick: bool,
    /// Measure only works whose name contains NAME ("micro", "getppid", "nginx", ...)
    #[arg(long, value_name = "NAME")]
    pub filter: Option<String>,
    /// Measure every variant this many times [default: 5 to 61, by the noise of the work]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub rounds: Option<u16>,
    /// Also write everything to FILE as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Print the table as Markdown
    #[arg(long)]
    pub markdown: bool,
    /// Measure this crossgate program
    #[arg(long, value_name = "PATH")]
    pub crossgate: Option<PathBuf>,
    /// Measure only the peers
    #[arg(long, conflicts_with = "crossgate")]
    pub peers_only: bool,
    /// Also measure a hook that is a preloaded library (zpoline=/path/libzpoline.so)
    #[arg(long, value_name = "NAME=LIBRARY", value_parser = preload)]
    pub preload: Vec<(String, PathBuf)>,
}

fn preload(argument: &str) -> Result<(String, PathBuf), String> {
    let (name, library) = argument.split_once('=').ok_or("give NAME=LIBRARY")?;
    let library = fs::canonicalize(library).map_err(|error| format!("{library}: {error}"))?;
    Ok((name.to_owned(), library))
}

/// One run of the bench: what its parts share.
struct Bench<'a> {
    options: &'a Options,
    bed: Bed,
    /// The crossgate program.
    program: Option<PathBuf>,
    /// The ways of running it, probed.
    crossgate: Vec<Variant>,
}

impl Bench<'_> {
    /// Rounds for a work of which `most` are enough.
    fn rounds(&self, most: usize) -> usize {
        match self.options.rounds {
            Some(rounds) => rounds.into(),
            None if self.options.quick => most.min(3),
            None => most,
        }
    }

    /// Whether the work called `name` is to be measured; says so if it is.
    fn wants(&self, name: &str) -> bool {
        let wanted = self.options.filter.as_ref().is_none_or(|part| name.contains(part.as_str()));
        if wanted {
            eprintln!("measuring {name}");
        }
        wanted
    }

    /// Native twice, crossgate in its four ways, and strace in at most `strace_rounds` rounds.
    fn variants(&self, strace_rounds: usize) -> Vec<Variant> {
        let mut variants = vec![Variant::native(), Variant::native_again()];
        variants.extend(self.crossgate.iter().cloned());
        variants.push(Variant::strace().at_most(strace_rounds));
        variants
    }

    /// Where a variant that writes a trace may write it.
    fn trace_file(&self) -> PathBuf {
        self.bed.scratch.file("trace")
    }
}

/// `command` behind what `variant` puts before it.
fn behind(variant: &Variant, out: &Path, command: &Command) -> Command {
    let mut words = variant.command(out);
    words.push(command.get_program().to_owned());
    words.extend(command.get_args().map(ToOwned::to_owned));
    let mut whole = Command::new(&words[0]);
    whole.args(&words[1..]);
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            whole.env(name, value);
        }
    }
    whole
}

/// Whether the variant runs its command at all and passes on how that ended: one that does
/// nothing, successfully, would be the fastest.
fn probe(bed: &Bed, variant: &Variant) -> Result<(), String> {
    const STATUS: i32 = 7;
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("exit {STATUS}")]);
    let mut whole = behind(variant, &bed.scratch.file("trace"), &shell);
    exec::run(&mut whole, &bed.scratch, Duration::from_secs(20), &[STATUS])
        .map_err(|error| format!("sh -c 'exit {STATUS}': {error}"))
}

/// Runs the bench, prints its table, and writes the JSON file if one is wanted.
pub fn run(options: &Options) -> Result<(), String> {
    let crossgate = match &options.crossgate {
        Some(path) => Some(
            fs::canonicalize(path)
                .map_err(|error| format!("cannot use {}: {error}", path.display()))?,
        ),
        None => None,
    };
    exec::end_in_order().map_err(|error| format!("signals: {error}"))?;
    let bed = Bed::new()?;
    let mut variants = Variant::crossgate(crossgate.as_deref());
    for variant in variants.iter_mut().filter(|variant| variant.unavailable.is_none()) {
        variant.broken = probe(&bed, variant).err();
    }
    let bench = Bench { options, bed, program: crossgate, crossgate: variants };
    let mut report = Report { circumstances: circumstances(&bench), works: Vec::new() };
    let parts: [fn(&Bench) -> Vec<Work>; 6] = [
        micro::measure,
        startup::measure,
        programs::measure,
        servers::measure,
        sockets::measure,
        memory::measure,
    ];
    for part in parts {
        report.works.extend(part(&bench));
    }
    if exec::interrupted() {
        return Err("interrupted".into());
    }
    if report.works.is_empty() {
        return Err("the filter leaves nothing to measure".into());
    }
    for (name, value) in &report.circumstances {
        println!("{}{name}: {value}", if options.markdown { "- " } else { "" });
    }
    println!("\n{}", report.table(options.markdown));
    println!("\n{EXPLANATION}");
    if let Some(file) = &options.json {
        fs::write(file, format!("{}\n", report.json()))
            .map_err(|error| format!("{}: {error}", file.display()))?;
    }
    Ok(())
}

const EXPLANATION: &str = "\
min, median and p25–p75 are over the rounds, in each of which all variants ran in turn.
added and ratio are medians of each round's difference and ratio to native in that round;
at minima is the difference of the two minima. What must be says which of them decides.
native again is the program as it is, measured as another variant: what it differs by is
noise.
micro: timed inside the program, per call, in bursts with sleeps between; the figure of a
round is that below which a tenth of its bursts lie. start-up: user + system time of
everything, the supervisor included. program, server: user + system time of the program
alone, the supervisor's beside.";

/// The machine, and the versions of what is measured.
fn circumstances(bench: &Bench) -> Vec<(String, String)> {
    let line = |path: &str| {
        let text = fs::read_to_string(path).unwrap_or_default();
        text.lines().next().unwrap_or("unknown").trim().to_owned()
    };
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or("unknown", |(_, model)| model);
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let mut all = vec![
        ("processor".into(), format!("{model}, {processors} online")),
        ("kernel".into(), line("/proc/sys/kernel/osrelease")),
        (
            "page-table isolation (meltdown)".into(),
            line("/sys/devices/system/cpu/vulnerabilities/meltdown"),
        ),
        ("clock".into(), line("/sys/devices/system/clocksource/clocksource0/current_clocksource")),
        ("load average before".into(), line("/proc/loadavg")),
        ("quick".into(), if bench.options.quick { "yes" } else { "no" }.into()),
    ];
    for (program, argument) in [
        ("strace", "--version"),
        ("perf", "--version"),
        ("python3", "--version"),
        ("node", "--version"),
        ("sqlite3", "--version"),
        ("git", "--version"),
        ("nginx", "-v"),
        ("redis-server", "--version"),
    ] {
        if let Some(version) = version(bench, program, argument) {
            all.push((program.into(), version));
        }
    }
    all
}

fn version(bench: &Bench, program: &str, argument: &str) -> Option<String> {
    let mut command = Command::new(exec::find_program(program)?);
    // Some say it on their standard error.
    let script = r#""$0" "$1" 2>&1"#;
    let mut shell = Command::new("sh");
    shell.args(["-c", script]).arg(command.arg(argument).get_program()).arg(argument);
    let text = exec::output(&mut shell, &bench.bed.scratch, Duration::from_secs(10)).ok()?;
    Some(text.lines().next()?.trim().to_owned())
}

/// A command for the program called `name`, or why there is none.
fn program(name: &str) -> Result<Command, String> {
    exec::find_program(name).map(Command::new).ok_or_else(|| format!("{name} is not installed"))
}

/// Names of variants, for goals.
use variant::{FAST, RUN, TRACE, TRACE_FILE};
