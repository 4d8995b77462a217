//! What the integration tests share: the small programs and how they are built, running a command
//! with a time limit, the ways to run it (natively and under crossgate), traces, counts, and skips.
//!
//! The tests themselves are in `tests/tests/`: `hazards` (every small program, natively and in
//! both modes), `completeness` (the same calls as strace sees), `real` (programs people use) and
//! `bad_input` (errors in words, exit codes, signals). Each case is a named test of its own:
//! `cargo test -p crossgate-tests --test hazards -- exhaustive::registers`.
//!
//! The crossgate under test is `$CROSSGATE`, or the release build in the target folder. Without it
//! the hooked tests are skipped with that reason; with `CI` set they fail.

pub mod csv;
pub mod mode;
pub mod programs;
pub mod run;
pub mod skip;
pub mod stats;
pub mod trace;

use std::env;
use std::path::{Path, PathBuf};

/// The folder of this crate, which holds `programs/` and `real/`.
#[must_use]
pub fn tests_dir() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Where cargo puts what it builds.
#[must_use]
pub fn target_dir() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| tests_dir().join("../target"), PathBuf::from)
}

/// Whether a missing tool is a failure rather than a skip.
#[must_use]
pub fn strict() -> bool {
    env::var_os("CI").is_some_and(|value| !value.is_empty())
}
