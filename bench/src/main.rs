//! `crossgate-bench`: the benches as a program of their own. `cargo xtask bench` builds
//! what they need and then runs the same code.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use crossgate_bench::hook;

#[derive(Parser)]
#[command(about = "Measure crossgate beside its peers")]
struct Cli {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Subcommand)]
enum Bench {
    /// What hooking every system call costs.
    Hook(hook::Options),
}

fn main() -> ExitCode {
    let Bench::Hook(options) = Cli::parse().bench;
    match hook::run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("crossgate-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
