//! Every small program natively and under crossgate in both modes: the same ending, the same
//! output. A program prints `ok NAME`, or one line with what it expected and got. What the agents
//! counted shows that they were there.

use crossgate_tests::mode::{Mode, crossgate};
use crossgate_tests::programs::{Program, Programs};
use crossgate_tests::run::{Finished, Job, Scratch};
use crossgate_tests::skip::{self, Outcome, find_tool, skip};
use crossgate_tests::stats::Stats;
use libtest_mimic::{Completion, Trial};
use std::process::ExitCode;
use std::sync::Arc;

/// The endings that the table may name, as an exit code would show them natively and hooked.
fn wanted(expect: &str, mode: Mode) -> String {
    let signal = match expect {
        "SIGSEGV" => libc::SIGSEGV,
        "SIGSYS" => libc::SIGSYS,
        "SIGKILL" => libc::SIGKILL,
        code => return format!("exit {code}"),
    };
    match mode {
        Mode::Native => format!("signal {signal}"),
        Mode::Exhaustive | Mode::Fast => format!("exit {}", 128 + signal),
    }
}

fn judge(finished: &Finished, want: &str) -> Result<(), String> {
    if finished.ending() == want { Ok(()) } else { Err(format!("expected {want}\n{finished}")) }
}

/// Whether a program found that this machine cannot run it.
fn skips(finished: &Finished) -> bool {
    finished.ending() == "exit 77" && finished.stdout.starts_with(b"skip ")
}

fn check(programs: &Programs, program: &Program, mode: Mode, test: &str) -> Outcome {
    if let Some((tool, reason)) = program.missing() {
        return skip(test, &tool, &reason);
    }
    if let Some(reason) = mode.missing() {
        return skip(test, "crossgate", &reason);
    }
    if let Some(reason) = program.excluded(&mode.to_string()) {
        return Ok(Completion::ignored_with(reason));
    }
    let line = programs.line(program)?;
    let scratch = Scratch::new("counts");
    let counts = scratch.path().join("counts");
    let finished = Job::new(mode.counted(&counts, &line)).run();
    let stdout = String::from_utf8_lossy(&finished.stdout);
    if skips(&finished) {
        if mode != Mode::Native && !skips(&Job::new(line).run()) {
            return Err(format!("it skips itself, and does not natively\n{finished}").into());
        }
        return skip(test, &program.name, stdout.trim_end());
    }
    judge(&finished, &wanted(&program.expect, mode))?;
    if program.expect == "0" && !stdout.lines().any(|line| line.starts_with("ok ")) {
        return Err(format!("expected a line `ok NAME`\n{finished}").into());
    }
    let stderr = String::from_utf8_lossy(&finished.stderr);
    let said = program.untraced && mode != Mode::Native;
    if said && !stderr.lines().any(|line| line.contains("runs without crossgate")) {
        return Err(format!("expected to be told what runs without crossgate\n{finished}").into());
    }
    let unexpected = |line: &str| !said || !line.contains("runs without crossgate");
    if program.expect == "0" && stderr.lines().any(unexpected) {
        return Err(format!("expected nothing else on standard error\n{finished}").into());
    }
    if mode != Mode::Native {
        let proof = Stats::read(&counts).and_then(|stats| stats.prove_hooked(1));
        proof.map_err(|error| format!("{error}\n{finished}"))?;
    }
    Ok(Completion::Completed)
}

/// Started by crossgate itself with no open descriptor, or with no environment.
fn started_bare(programs: &Programs, mode: Mode, test: &str, closed: bool) -> Outcome {
    if let Some(reason) = mode.missing() {
        return skip(test, "crossgate", &reason);
    }
    let name = if closed { "closed_fds" } else { "empty_environment" };
    let mut line = programs.line(programs.get(name))?;
    line.push("child".into());
    let job = Job::new(mode.command(&line));
    let (job, want) =
        if closed { (job.closed(), "exit 70") } else { (job.empty_environment(), "exit 73") };
    judge(&job.run(), want)?;
    Ok(Completion::Completed)
}

/// Under `nice`, a shell pipeline and a trace of a trace: crossgate below other programs.
fn nested(programs: &Programs, mode: Mode, test: &str) -> Outcome {
    if let Some(reason) = mode.missing() {
        return skip(test, "crossgate", &reason);
    }
    if find_tool("env").is_none() {
        return skip(test, "env", "it needs env");
    }
    let mut line = vec!["env".into(), crossgate().into_os_string()];
    line.extend(["run", "--"].map(Into::into));
    line.extend(programs.line(programs.get("registers"))?);
    judge(&Job::new(mode.command(&line)).run(), "exit 0")?;
    Ok(Completion::Completed)
}

fn main() -> ExitCode {
    let programs = Arc::new(Programs::build());
    let mut trials = Vec::new();
    for mode in Mode::ALL {
        for program in programs.all.clone() {
            let (programs, name) = (programs.clone(), format!("{mode}::{}", program.name));
            let test = name.clone();
            trials
                .push(Trial::ignorable_test(name, move || check(&programs, &program, mode, &test)));
        }
        for (what, closed) in [("no_descriptors", true), ("no_environment", false)] {
            let (programs, name) = (programs.clone(), format!("{mode}::started_with_{what}"));
            let test = name.clone();
            trials.push(Trial::ignorable_test(name, move || {
                started_bare(&programs, mode, &test, closed)
            }));
        }
    }
    for mode in Mode::HOOKED {
        let (programs, name) = (programs.clone(), format!("{mode}::crossgate_inside_crossgate"));
        let test = name.clone();
        trials.push(Trial::ignorable_test(name, move || nested(&programs, mode, &test)));
    }
    skip::run(trials)
}
