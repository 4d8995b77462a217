//! What `crossgate deny` refuses is refused, logged and nothing else; under `--strict` every small
//! program behaves as it does natively, and one whose calls do not come through crossgate is killed.

use crossgate_tests::mode::{Mode, crossgate};
use crossgate_tests::programs::{Program, Programs};
use crossgate_tests::run::{Finished, Job, Scratch};
use crossgate_tests::skip::{self, Outcome, skip};
use libtest_mimic::{Completion, Trial};
use std::ffi::OsString;
use std::fs;
use std::process::{Command, ExitCode};
use std::sync::Arc;

type Check = Result<(), String>;

fn deny(mode: Mode, options: &[&str], program: &[OsString]) -> Finished {
    let mut line: Vec<OsString> = vec![crossgate().into(), "deny".into(), "--mode".into()];
    line.push(mode.to_string().into());
    line.extend(options.iter().map(OsString::from));
    line.push("--".into());
    line.extend_from_slice(program);
    Job::new(line).run()
}

/// Rules, a program, how it ends, what it prints, and what the log says besides.
type Denied = (Words, Words, &'static str, &'static str, Words);
type Words = &'static [&'static str];

const RULES: [Denied; 8] = [
    (
        &["-e", "openat:path=/etc/hostname"],
        &["cat", "/etc/hostname"],
        "exit 1",
        "",
        &["= -1 EPERM (Operation not permitted) (DENIED)  # rule 1", "cat: /etc/hostname"],
    ),
    (
        &["-e", "openat:path=/etc/:error=ENOENT"],
        &["sh", "-c", "cat /etc/../etc/hostname 2>/dev/null; echo $?"],
        "exit 0",
        "1\n",
        &["-1 ENOENT (No such file or directory) (DENIED)"],
    ),
    (
        &["-e", "%file:path=/etc/hostname:kill"],
        &["sh", "-c", "cat /etc/hostname; echo $?"],
        "exit 0",
        "137\n",
        &["(KILLED)  # rule 1"],
    ),
    (
        &["-e", "mkdir,mkdirat:log"],
        &["sh", "-c", "mkdir /proc/nothing 2>/dev/null; echo $?"],
        "exit 0",
        "1\n",
        &["= -1 ENOENT (No such file or directory) (LOGGED)  # rule 1"],
    ),
    // The first rule that fits is taken.
    (
        &[
            "-e",
            "%file:path=/usr/:allow",
            "-e",
            "%file:path=/etc/hostname:log",
            "-e",
            "%file:path=/etc/",
        ],
        &[
            "sh",
            "-c",
            "test -r /etc/hostname && test -d /usr/bin && ! test -r /etc/passwd && echo yes",
        ],
        "exit 0",
        "yes\n",
        &["(LOGGED)  # rule 2", "(DENIED)  # rule 3"],
    ),
    (
        &["-e", "connect:peer=127.0.0.1:error=ENETUNREACH"],
        &[
            "python3",
            "-c",
            "import socket\ntry: socket.socket().connect(('127.0.0.1', 9))\nexcept OSError as e: print(e.errno)",
        ],
        "exit 0",
        "101\n",
        &["(DENIED)  # rule 1"],
    ),
    (
        &["-e", "fork,vfork,clone,clone3"],
        &["sh", "-c", "/bin/true; echo no"],
        "exit 2",
        "",
        &["(DENIED)"],
    ),
    (&["-e", "getppid"], &["echo", "nothing"], "exit 0", "nothing\n", &[]),
];

fn rules(index: usize, mode: Mode) -> Check {
    let (options, program, ending, stdout, logged) = RULES[index];
    let program: Vec<OsString> = program.iter().map(OsString::from).collect();
    let finished = deny(mode, options, &program);
    let said = finished.stderr_text();
    let holds = finished.ending() == ending
        && finished.stdout == stdout.as_bytes()
        && logged.iter().all(|text| said.contains(text))
        && (!logged.is_empty() || said.is_empty());
    if holds { Ok(()) } else { Err(format!("{options:?}\n{finished}")) }
}

/// A file of rules, and what is wrong with others.
fn policies() -> Check {
    let scratch = Scratch::new("deny");
    let policy = scratch.path().join("policy");
    let file = policy.to_str().ok_or("a strange path")?;
    let write = |text: &str| fs::write(&policy, text).map_err(|error| error.to_string());
    let line = ["cat", "/etc/hostname"].map(OsString::from);
    write("# a policy\n\nopenat:path=/etc/hostname:error=EACCES\n")?;
    let finished = deny(Mode::Exhaustive, &["--policy", file], &line);
    if !finished.stderr_text().contains("EACCES (Permission denied) (DENIED)  # rule 1") {
        return Err(finished.to_string());
    }
    write("openat\nopenta:kill\n")?;
    for (options, said) in [
        (&["--policy", file][..], "policy:2: openta:kill: there is no call named openta"),
        (&["--policy", "/nowhere"], "cannot read the policy: No such file"),
        (&["-e", "openat:signal=TERM"], "signal=TERM: not known"),
        (&["-e", "openat:kill:log"], "a rule has one"),
        (&[], "nothing to deny"),
    ] {
        let finished = deny(Mode::Exhaustive, options, &line);
        let text = finished.stderr_text();
        if finished.ending() != "exit 125" || !text.contains(said) || text.lines().count() != 1 {
            return Err(format!("{said}\n{finished}"));
        }
    }
    Ok(())
}

/// Makes a call where no scan looks, or by an old interface.
const OUTSIDE: &str = r#"
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
int main(int argc, char **argv) {
    (void)argv;
    unsigned char new[] = {0xb8, 39, 0, 0, 0, 0x0f, 5, 0xc3}, old[] = {0xb8, 20, 0, 0, 0, 0xcd, 0x80, 0xc3};
    char *page = mmap(0, 4096, 7, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(page, argc > 1 ? old : new, sizeof new);
    printf("%d\n", ((int (*)(void))page)() == getpid());
    return 0;
}
"#;

fn outside() -> Check {
    let scratch = Scratch::new("outside");
    let (source, program) = (scratch.path().join("outside.c"), scratch.path().join("outside"));
    fs::write(&source, OUTSIDE).map_err(|error| error.to_string())?;
    let built = Command::new("cc").arg("-o").args([&program, &source]).status();
    if !built.is_ok_and(|status| status.success()) {
        return Err("cannot compile".into());
    }
    let line = [program.into_os_string(), "old".into()];
    for (mode, words, killed) in [
        // What is new to crossgate comes by a signal.
        (Mode::Exhaustive, 1, None),
        (Mode::Exhaustive, 2, Some("call 20 of the 32-bit interface")),
        (Mode::Fast, 1, Some("getpid before 0x")),
        (Mode::Fast, 2, Some("call 20 of the 32-bit interface")),
    ] {
        let finished = deny(mode, &["--strict"], &line[..words]);
        let text = finished.stderr_text();
        let holds = match killed {
            None => finished.stdout == b"1\n" && text.is_empty(),
            Some(call) => {
                finished.ending() == "exit 137"
                    && text.contains(call)
                    && text.contains("did not come through crossgate; the process is killed")
            }
        };
        if !holds {
            return Err(finished.to_string());
        }
    }
    Ok(())
}

/// Programs that cannot be what they are natively: they make 32-bit calls, or ask whether they are
/// filtered.
const NOT_STRICT: [&str; 4] = ["int80", "bad_pointers_int80", "setuid_exec", "chroot_exec"];

/// A small program under `--strict`, as it is natively.
fn strict(programs: &Programs, program: &Program, test: &str) -> Outcome {
    if let Some((tool, reason)) = program.missing() {
        return skip(test, &tool, &reason);
    }
    if let Some(reason) = program.excluded("exhaustive") {
        return Ok(Completion::ignored_with(reason));
    }
    if NOT_STRICT.contains(&program.name.as_str()) {
        return Ok(Completion::ignored_with("it makes calls that --strict forbids"));
    }
    let finished = deny(Mode::Exhaustive, &["--strict"], &programs.line(program)?);
    let stdout = String::from_utf8_lossy(&finished.stdout).into_owned();
    if finished.ending() == "exit 77" && stdout.starts_with("skip ") {
        return skip(test, &program.name, stdout.trim_end());
    }
    if finished.ending() == "exit 0" && stdout.lines().any(|line| line.starts_with("ok ")) {
        Ok(Completion::Completed)
    } else {
        Err(finished.to_string().into())
    }
}

fn main() -> ExitCode {
    let programs = Arc::new(Programs::build());
    let mut trials = Vec::new();
    let mut add = |name: String, check: Box<dyn FnOnce(&str) -> Outcome + Send>| {
        let test = name.clone();
        trials.push(Trial::ignorable_test(name, move || match Mode::Exhaustive.missing() {
            Some(reason) => skip(&test, "crossgate", &reason),
            None => check(&test),
        }));
    };
    for mode in Mode::HOOKED {
        for index in 0..RULES.len() {
            let check = move |_: &str| {
                rules(index, mode)?;
                Ok(Completion::Completed)
            };
            add(format!("rules::{mode}::{}", index + 1), Box::new(check));
        }
    }
    for (name, check) in [("policies", policies as fn() -> Check), ("outside", outside)] {
        let check = move |_: &str| {
            check()?;
            Ok(Completion::Completed)
        };
        add(name.into(), Box::new(check));
    }
    for program in programs.all.iter().filter(|p| p.expect == "0" && !p.untraced) {
        let (programs, program) = (programs.clone(), program.clone());
        let name = format!("strict::{}", program.name);
        add(name, Box::new(move |test: &str| strict(&programs, &program, test)));
    }
    skip::run(trials)
}
