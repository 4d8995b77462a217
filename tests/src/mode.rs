//! The ways to run a program: natively, and under crossgate in each of its modes.

use crate::target_dir;
use std::env;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

/// How a program is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Without crossgate.
    Native,
    /// `crossgate run --mode exhaustive`.
    Exhaustive,
    /// `crossgate run --mode fast`.
    Fast,
}

impl Mode {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Native, Self::Exhaustive, Self::Fast];
    /// Those that need crossgate.
    pub const HOOKED: [Self; 2] = [Self::Exhaustive, Self::Fast];

    /// The command line that runs `program` this way.
    #[must_use]
    pub fn command(self, program: &[OsString]) -> Vec<OsString> {
        self.command_with(&[], program)
    }

    /// As [`Self::command`]; what the agents count goes to `file`.
    #[must_use]
    pub fn counted(self, file: &Path, program: &[OsString]) -> Vec<OsString> {
        self.command_with(&["--stats".into(), "-o".into(), file.into()], program)
    }

    fn command_with(self, options: &[OsString], program: &[OsString]) -> Vec<OsString> {
        let mut line = Vec::new();
        if self != Self::Native {
            line.push(crossgate().into_os_string());
            line.extend(["run", "--mode", &self.to_string()].map(OsString::from));
            line.extend_from_slice(options);
            line.push("--".into());
        }
        line.extend_from_slice(program);
        line
    }

    /// Why this mode cannot be used here, if so.
    #[must_use]
    pub fn missing(self) -> Option<String> {
        let path = crossgate();
        (self != Self::Native && !path.is_file())
            .then(|| format!("no crossgate at {}: build it, or set CROSSGATE", path.display()))
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Native => "native",
            Self::Exhaustive => "exhaustive",
            Self::Fast => "fast",
        })
    }
}

/// The crossgate under test: `$CROSSGATE`, else the release build for the host's named target (what
/// `.cargo/config.toml` asks for), else the one of a build that names none.
#[must_use]
pub fn crossgate() -> PathBuf {
    let named = format!("{}-unknown-linux-gnu/release/crossgate", env::consts::ARCH);
    let path = env::var_os("CROSSGATE").map_or_else(
        || {
            let named = target_dir().join(named);
            if named.is_file() { named } else { target_dir().join("release/crossgate") }
        },
        PathBuf::from,
    );
    path.canonicalize().unwrap_or(path)
}
