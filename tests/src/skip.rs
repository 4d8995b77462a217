//! Skips: never silent, always with a reason, counted, and failures where `CI` is set unless
//! `exclusions.csv` gives the reason in advance.

use crate::{csv, strict, tests_dir};
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use std::env;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;

static SKIPPED: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// What a test body returns.
pub type Outcome = Result<Completion, Failed>;

/// Ends a test as skipped.
///
/// # Errors
/// When `CI` is set and `tool` is not in `exclusions.csv`.
pub fn skip(test: &str, tool: &str, reason: &str) -> Outcome {
    let excluded = csv::read(&tests_dir().join("exclusions.csv"))
        .into_iter()
        .find(|row| row["tool"] == tool)
        .map(|row| row["reason"].clone());
    if strict() && excluded.is_none() {
        return Err(format!("{reason} (install it, or give a reason in exclusions.csv)").into());
    }
    let reason = excluded.unwrap_or_else(|| reason.to_owned());
    SKIPPED.lock().expect("skips").push(format!("{test}: {reason}"));
    Ok(Completion::ignored_with(reason))
}

/// Runs the tests, then prints every skip and their number.
#[must_use]
pub fn run(trials: Vec<Trial>) -> ExitCode {
    let conclusion = libtest_mimic::run(&Arguments::from_args(), trials);
    let mut skipped = SKIPPED.lock().expect("skips");
    if !skipped.is_empty() {
        skipped.sort();
        println!("skipped: {}", skipped.len());
        skipped.iter().for_each(|line| println!("    {line}"));
        println!();
    }
    conclusion.exit_code()
}

/// The path of a tool, looked for in `PATH` and where servers are installed.
#[must_use]
pub fn find_tool(name: &str) -> Option<PathBuf> {
    search_path().into_iter().map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// The folders tools are looked for in: `PATH`, `sbin`, and PostgreSQL's own.
#[must_use]
pub fn search_path() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> =
        env::split_paths(&env::var_os("PATH").unwrap_or_default()).collect();
    folders.extend(["/usr/sbin", "/sbin"].map(PathBuf::from));
    if let Ok(versions) = std::fs::read_dir("/usr/lib/postgresql") {
        folders.extend(versions.flatten().map(|version| version.path().join("bin")));
    }
    folders
}

/// Whether the tests run as root.
#[must_use]
pub fn is_root() -> bool {
    // SAFETY: geteuid takes nothing and cannot fail.
    unsafe { libc::geteuid() == 0 }
}
