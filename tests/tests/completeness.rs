//! No call escapes and none is invented: for programs that make the same calls in every run,
//! `crossgate trace` counts per call what `strace -f` counts, from the first execve on, in both
//! modes, and the program ends the same way.
//!
//! The column `noise` of `programs.csv` names the calls whose number depends on timing or on
//! addresses (futex, the munmap that aligns a new malloc arena, reads of /proc/self/maps). Each
//! program's strace is also compared with a second one of its own, so that a wrong `exact` in the
//! table is found natively. `fast_unseen` names, with a reason, the calls of which fast mode may
//! count fewer, never more; it must miss some, which shows that the program was in fast mode and
//! had not fallen back. `trace`'s own options are held against strace's the same way.

use crossgate_tests::mode::{Mode, crossgate};
use crossgate_tests::programs::{Program, Programs};
use crossgate_tests::run::{Job, Scratch};
use crossgate_tests::skip::{self, Outcome, find_tool, skip};
use crossgate_tests::trace::{Counts, count, differences};
use libtest_mimic::{Completion, Trial};
use std::ffi::{CString, OsString};
use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Options of `trace`, and the strace options that mean the same; the program makes no threads,
/// about which the two need not agree without following.
const OPTIONS: [(&str, &[&str], &[&str]); 4] = [
    ("filter", &["-e", "trace=openat,exit_group"], &["-f", "-e", "trace=openat,exit_group"]),
    ("filter_without_prefix", &["-e", "openat"], &["-f", "-e", "openat"]),
    ("follow", &["-f"], &["-f"]),
    ("no_follow", &["--no-follow"], &[]),
];

fn options(programs: &Programs, ours: &[&str], theirs: &[&str], test: &str) -> Outcome {
    if find_tool("strace").is_none() {
        return skip(test, "strace", "it needs strace, which is not here");
    }
    if let Some(reason) = Mode::Exhaustive.missing() {
        return skip(test, "crossgate", &reason);
    }
    let line = programs.line(programs.get("closed_fds"))?;
    let with = |start: &[&str], options: &[&str]| -> Vec<OsString> {
        start.iter().chain(options).map(OsString::from).collect()
    };
    let want = traced(&with(&["strace", "-qq"], theirs), &line)?;
    let mut tracer: Vec<OsString> = vec![crossgate().into()];
    tracer.extend(with(&["trace"], ours));
    let different = differences(&want.0, &traced(&tracer, &line)?.0, &[]);
    if different.is_empty() {
        Ok(Completion::Completed)
    } else {
        Err(format!("calls that differ for {ours:?} (name, strace, got): {different:?}").into())
    }
}

/// The calls of a traced program, and how it ended, as a shell would say it.
fn traced(tracer: &[OsString], program: &[OsString]) -> Result<(Counts, i32), String> {
    let scratch = Scratch::new("trace");
    let file = scratch.path().join("trace");
    let mut line = tracer.to_vec();
    line.extend(["-o".into(), file.clone().into(), "--".into()]);
    line.extend_from_slice(program);
    let finished = Job::new(line).run();
    if finished.timed_out {
        return Err(finished.to_string());
    }
    let text = fs::read(&file).map_err(|error| format!("no trace: {error}\n{finished}"))?;
    let counts = count(&String::from_utf8_lossy(&text));
    if counts.is_empty() {
        return Err(format!("an empty trace\n{finished}"));
    }
    let status = finished.status;
    Ok((counts, status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default())))
}

/// A reader that stops for longer than it takes to give the supervisor up for dead: the program
/// waits for it, and all calls are there in the end.
fn paused_reader(programs: &Programs, test: &str) -> Outcome {
    const PAUSE: Duration = Duration::from_secs(13);
    if let Some(reason) = Mode::Exhaustive.missing() {
        return skip(test, "crossgate", &reason);
    }
    let scratch = Scratch::new("paused");
    let pipe = scratch.path().join("pipe");
    let name = CString::new(pipe.as_os_str().as_bytes()).expect("a path");
    // SAFETY: takes a C string and a number.
    if unsafe { libc::mkfifo(name.as_ptr(), 0o600) } != 0 {
        return Err(format!("mkfifo: {}", io::Error::last_os_error()).into());
    }
    let mut line: Vec<OsString> = vec![crossgate().into(), "trace".into(), "-o".into()];
    line.extend([pipe.clone().into(), "--".into()]);
    line.extend(programs.line(programs.get("calls_many"))?);
    // Both ends are ours as well: neither open waits for the other.
    let mut reader =
        OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(&pipe)?;
    let text = thread::scope(|scope| {
        let job = scope.spawn(|| Job::new(line).run());
        thread::sleep(PAUSE);
        let mut text = Vec::new();
        let mut part = vec![0; 1 << 16];
        loop {
            let done = job.is_finished();
            match reader.read(&mut part) {
                Ok(size) => text.extend_from_slice(&part[..size]),
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
                Err(_) if done => break,
                Err(_) => thread::sleep(Duration::from_millis(5)),
            }
        }
        io::Result::Ok(text)
    })?;
    let calls = count(&String::from_utf8_lossy(&text)).get("getppid").copied();
    if calls == Some(20_001) {
        Ok(Completion::Completed)
    } else {
        Err(format!("expected 20001 calls of getppid, got {calls:?}").into())
    }
}

/// What is held against one strace of a program.
#[derive(Clone, Copy, PartialEq)]
enum Other {
    /// Another strace.
    Strace,
    /// A trace in this mode.
    Trace(Mode),
}

fn check(programs: &Programs, program: &Program, other: Other, test: &str) -> Outcome {
    if let Some((tool, reason)) = program.missing() {
        return skip(test, &tool, &reason);
    }
    if find_tool("strace").is_none() {
        return skip(test, "strace", "it needs strace, which is not here");
    }
    let strace: Vec<OsString> = ["strace", "-f", "-qq"].map(Into::into).into();
    let tracer = match other {
        Other::Strace => strace.clone(),
        Other::Trace(mode) => {
            if let Some(reason) = mode.missing() {
                return skip(test, "crossgate", &reason);
            }
            let mode = mode.to_string();
            let options = ["trace", "--mode", &mode].map(OsString::from);
            [crossgate().into_os_string()].into_iter().chain(options).collect()
        }
    };
    let line = programs.line(program)?;
    let (want, want_ending) = traced(&strace, &line)?;
    let (got, ending) = traced(&tracer, &line)?;
    if ending != want_ending {
        return Err(format!("under strace it ends with {want_ending}, here with {ending}").into());
    }
    let unseen: &[String] =
        if other == Other::Trace(Mode::Fast) { &program.fast_unseen } else { &[] };
    let mut different = differences(&want, &got, &program.noise);
    let all = different.len();
    different.retain(|(name, want, got)| got > want || !unseen.contains(name));
    if !unseen.is_empty() && different.len() == all {
        let names = unseen.join(", ");
        let why = "it was in exhaustive mode, or programs.csv is out of date";
        return Err(format!("fast mode missed no call of {names}: {why}").into());
    }
    if different.is_empty() {
        return Ok(Completion::Completed);
    }
    let lines: Vec<String> = different
        .iter()
        .map(|(name, want, got)| format!("    {name}: strace {want}, got {got}"))
        .collect();
    Err(format!("calls that differ for {line:?}:\n{}", lines.join("\n")).into())
}

fn main() -> ExitCode {
    let programs = Arc::new(Programs::build());
    let mut trials = Vec::new();
    let traces = Mode::HOOKED.map(Other::Trace);
    for other in [Other::Strace].into_iter().chain(traces) {
        let side = match other {
            Other::Strace => "strace_twice".to_owned(),
            Other::Trace(mode) => format!("trace_{mode}"),
        };
        for program in programs.all.iter().filter(|program| program.exact).cloned() {
            let (programs, name) = (programs.clone(), format!("{side}::{}", program.name));
            let test = name.clone();
            trials.push(Trial::ignorable_test(name, move || {
                check(&programs, &program, other, &test)
            }));
        }
    }
    for (what, ours, theirs) in OPTIONS {
        let (programs, name) = (programs.clone(), format!("options::{what}"));
        let test = name.clone();
        trials.push(Trial::ignorable_test(name, move || options(&programs, ours, theirs, &test)));
    }
    trials.push(Trial::ignorable_test("paused_reader", move || {
        paused_reader(&programs, "paused_reader")
    }));
    skip::run(trials)
}
