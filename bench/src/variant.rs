//! The variants: every way of running a program that is measured, and why one cannot be.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::exec::find_program;

/// How a variant differs from the native program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum How {
    /// Nothing is added.
    Native,
    /// A command goes before the program's own; `{out}` in it is a scratch file.
    Prefix(Vec<OsString>),
    /// The micro program does it to itself: the value of its last argument.
    Itself(&'static str),
}

/// One way of running a program.
#[derive(Clone, Debug)]
pub struct Variant {
    /// The name in the table; also what goals are looked up by.
    pub name: String,
    /// What is different.
    pub how: How,
    /// Why it cannot run here.
    pub unavailable: Option<String>,
    /// Why nothing that it measures could be believed.
    pub broken: Option<String>,
    /// It is measured in at most this many rounds (the slow ones).
    pub most_rounds: usize,
    /// Whether another process does work for it, whose cost is worth a figure.
    pub supervised: bool,
}

/// Name of the variant that all others are compared with.
pub const NATIVE: &str = "native";
/// Name of `crossgate run --mode fast`.
pub const FAST: &str = "run --mode fast";
/// Name of `crossgate run --mode fast` with a hook library that lets every call pass.
pub const HOOK: &str = "run --mode fast --hook";
/// Under a hook with a libc of its own.
pub const LIBC_HOOK: &str = "the same, with a libc";
/// Name of `crossgate run`.
pub const RUN: &str = "run";
/// Name of `crossgate trace -o /dev/null`.
pub const TRACE: &str = "trace -o /dev/null";
/// Name of `crossgate trace -o FILE`.
pub const TRACE_FILE: &str = "trace -o FILE";

impl Variant {
    fn new(name: &str, how: How) -> Self {
        Self {
            name: name.to_owned(),
            how,
            unavailable: None,
            broken: None,
            most_rounds: usize::MAX,
            supervised: false,
        }
    }

    fn prefix<A: Into<OsString>>(name: &str, command: impl IntoIterator<Item = A>) -> Self {
        Self::new(name, How::Prefix(command.into_iter().map(Into::into).collect()))
    }

    fn needs(mut self, program: &str) -> Self {
        if find_program(program).is_none() {
            self.unavailable = Some(format!("{program} is not installed"));
        }
        self
    }

    /// The program as it is.
    pub fn native() -> Self {
        Self::new(NATIVE, How::Native)
    }

    /// The program as it is, once more: its distance to native is what this run's figures
    /// cannot tell from nothing.
    pub fn native_again() -> Self {
        Self::new("native again", How::Native)
    }

    /// `strace -f` with its output thrown away.
    pub fn strace() -> Self {
        let variant =
            Self::prefix("strace -f -o /dev/null", ["strace", "-f", "-o", "/dev/null", "--"]);
        Self { supervised: true, ..variant.needs("strace") }
    }

    /// A tracer that does the least that ptrace allows.
    pub fn ptracer(program: &Path) -> Self {
        Self { supervised: true, ..Self::prefix("minimal ptrace tracer", [program]) }
    }

    /// Syscall User Dispatch armed with every call in the allowed range: what any use of it
    /// costs at least.
    pub fn dispatch_range() -> Self {
        Self::new("SUD, allowed range", How::Itself("sud-range"))
    }

    /// Syscall User Dispatch armed with a selector that always allows.
    pub fn dispatch_allow() -> Self {
        Self::new("SUD, selector ALLOW", How::Itself("sud-allow"))
    }

    /// Syscall User Dispatch with every call made again by the signal handler.
    pub fn dispatch_signal() -> Self {
        Self::new("SUD + SIGSYS", How::Itself("sud-sigsys"))
    }

    /// `perf trace`, which reads the kernel's tracepoints.
    pub fn perf_trace() -> Self {
        let variant = Self::prefix("perf trace", ["perf", "trace", "-o", "/dev/null", "--"]);
        Self { supervised: true, ..variant.needs("perf") }
    }

    /// A hook that is a preloaded library: `NAME=LIBRARY`.
    pub fn preload(name: &str, library: &Path) -> Self {
        let mut setting = OsString::from("LD_PRELOAD=");
        setting.push(library);
        Self::prefix(name, [OsString::from("env"), setting])
    }

    /// The four ways of running under crossgate.
    pub fn crossgate(program: Option<&Path>) -> Vec<Self> {
        let make = |name: &str, arguments: &[&str]| {
            let own = program.unwrap_or(Path::new("crossgate"));
            let mut command = vec![OsString::from(own)];
            command.extend(arguments.iter().map(OsString::from));
            let mut variant = Self::prefix(name, command);
            variant.supervised = true;
            if program.is_none() {
                variant.unavailable = Some("no crossgate program given".into());
            }
            variant
        };
        vec![
            make(FAST, &["run", "--mode", "fast", "--"]),
            make(RUN, &["run", "--"]),
            make(TRACE, &["trace", "-o", "/dev/null", "--"]),
            make(TRACE_FILE, &["trace", "-o", "{out}", "--"]),
        ]
    }

    /// Under a hook library. `fast` is the variant without it.
    pub fn hook(name: &str, fast: &Self, hook: &Path) -> Self {
        let mut variant = Self { name: name.to_owned(), ..fast.clone() };
        if let How::Prefix(words) = &mut variant.how {
            words.splice(words.len() - 1.., ["--hook".into(), hook.into(), "--".into()]);
        }
        variant
    }

    /// The program without anything, for a work that does something else then.
    pub fn named(name: &str) -> Self {
        Self::new(name, How::Native)
    }

    /// A peer that cannot be had, and why.
    pub fn absent(name: &str, reason: &str) -> Self {
        Self { unavailable: Some(reason.into()), ..Self::new(name, How::Native) }
    }

    /// Whether it is so slow that its rounds are limited and its loads should be small.
    pub fn is_slow(&self) -> bool {
        self.most_rounds != usize::MAX
    }

    /// The same variant in at most `rounds` rounds.
    pub fn at_most(mut self, rounds: usize) -> Self {
        self.most_rounds = rounds;
        self
    }

    /// Whether this is what the others are compared with.
    pub fn is_native(&self) -> bool {
        self.name == NATIVE
    }

    /// What goes before the program's own command; `out` is where a trace may be written.
    pub fn command(&self, out: &Path) -> Vec<OsString> {
        let How::Prefix(command) = &self.how else { return Vec::new() };
        command
            .iter()
            .map(|word| if word == "{out}" { OsString::from(out) } else { word.clone() })
            .collect()
    }

    /// The last argument of the micro program.
    pub fn dispatch(&self) -> &'static str {
        match self.how {
            How::Itself(argument) => argument,
            _ => "none",
        }
    }
}

/// The published hooks that are preloaded libraries. None is packaged by a distribution:
/// each is measured when its library is given.
pub fn preloads(given: &[(String, PathBuf)]) -> Vec<Variant> {
    const KNOWN: [&str; 3] = ["zpoline", "lazypoline", "syscall_intercept"];
    let mut variants: Vec<Variant> =
        given.iter().map(|(name, library)| Variant::preload(name, library)).collect();
    for name in KNOWN {
        if !given.iter().any(|(other, _)| other == name) {
            let reason = format!("no distribution package; give --preload {name}=LIBRARY");
            variants.push(Variant::absent(name, &reason));
        }
    }
    variants
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scratch_file_is_put_in() {
        let variants = Variant::crossgate(Some(Path::new("cg")));
        let file = variants.iter().find(|v| v.name == TRACE_FILE).unwrap();
        assert_eq!(file.command(Path::new("f")), ["cg", "trace", "-o", "f", "--"]);
        assert!(Variant::crossgate(None).iter().all(|v| v.unavailable.is_some()));
        assert!(Variant::native().command(Path::new("f")).is_empty());
    }

    #[test]
    fn a_given_library_replaces_the_notice() {
        let variants = preloads(&[("zpoline".into(), PathBuf::from("z.so"))]);
        assert_eq!(variants.len(), 3);
        assert_eq!(variants[0].unavailable, None);
        assert_eq!(variants[0].command(Path::new("")), ["env", "LD_PRELOAD=z.so"]);
    }
}
