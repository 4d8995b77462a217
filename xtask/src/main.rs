//! `cargo xtask`: what people run while developing.
//!
//! Owns: which commands make up a build, a test and a bench. Never does the work itself:
//! it calls cargo, and the crates that do.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use clap::{Parser, Subcommand};
use crossgate_bench::hook;

#[derive(Parser)]
#[command(bin_name = "cargo xtask", about = "Build, test and measure crossgate")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Build the crossgate program.
    Build,
    /// Run the test suites.
    Test {
        /// Also what takes long
        #[arg(long)]
        full: bool,
        /// Arguments for `cargo test`, after `--`
        #[arg(last = true)]
        arguments: Vec<String>,
    },
    /// Measure crossgate beside its peers.
    Bench {
        #[command(subcommand)]
        bench: Bench,
    },
}

#[derive(Subcommand)]
enum Bench {
    /// What hooking every system call costs.
    Hook(hook::Options),
}

fn main() -> ExitCode {
    let done = match Cli::parse().task {
        Task::Build => build().map(|_| ()),
        Task::Test { full, arguments } => test(full, &arguments),
        Task::Bench { bench: Bench::Hook(options) } => bench_hook(options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Builds the crossgate program and returns where it is, which depends on the target and on
/// settings that only cargo knows.
fn build() -> Result<PathBuf, String> {
    let arguments = ["build", "--release", "--package", "crossgate"];
    let output = cargo_command(&arguments)
        .arg("--message-format=json-render-diagnostics")
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot run cargo: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo {}: {}", arguments.join(" "), output.status));
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    messages
        .lines()
        .filter_map(executable)
        .find(|path| path.file_name().is_some_and(|name| name == "crossgate"))
        .ok_or_else(|| "cargo does not say where crossgate is".into())
}

/// The program that one of cargo's messages says it made.
fn executable(message: &str) -> Option<PathBuf> {
    let (_, rest) = message.split_once(r#""executable":""#)?;
    Some(rest.split_once('"')?.0.into())
}

fn test(full: bool, arguments: &[String]) -> Result<(), String> {
    // The tests run the program, which a test build of the workspace does not make.
    build()?;
    let mut words = vec!["test", "--workspace", "--release", "--locked", "--no-fail-fast"];
    words.extend(arguments.iter().map(String::as_str));
    let mut command = cargo_command(&words);
    if full {
        // What is tested with random input gets a hundred times as much of it.
        command.env("PROPTEST_CASES", "25600");
        // And what takes minutes is not left out.
        command.env("CROSSGATE_FULL", "1");
    }
    run(&mut command, &words)
}

fn bench_hook(mut options: hook::Options) -> Result<(), String> {
    if options.crossgate.is_none() && !options.peers_only {
        options.crossgate = Some(build()?);
    }
    hook::run(&options)
}

fn cargo_command(arguments: &[&str]) -> Command {
    // Set by the cargo that runs this program, so that both are of one toolchain.
    let mut command = Command::new(env::var_os("CARGO").unwrap_or("cargo".into()));
    command.args(arguments).current_dir(root());
    command
}

fn run(command: &mut Command, arguments: &[&str]) -> Result<(), String> {
    let status = command.status().map_err(|error| format!("cannot run cargo: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("cargo {}: {status}", arguments.join(" "))) }
}

/// The workspace.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_was_built() {
        let message = r#"{"reason":"compiler-artifact","executable":"/t/crossgate","fresh":true}"#;
        assert_eq!(executable(message), Some(PathBuf::from("/t/crossgate")));
        assert_eq!(executable(r#"{"executable":null}"#), None);
    }
}
