//! What goes wrong is said in one line that names the thing, the cause and the way out, with the
//! shell's exit codes (126 cannot be run, 127 not found, and as with `env` 125 for what crossgate
//! itself cannot do); a target's own ending, and signals, pass through.

use crossgate_tests::mode::{Mode, crossgate};
use crossgate_tests::run::{Finished, Job, Scratch, send, wait};
use crossgate_tests::skip::{self, Outcome, is_root, skip};
use crossgate_tests::stats::Stats;
use libtest_mimic::{Completion, Trial};
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

type Check = Result<(), String>;

/// A case: its name, its body (given an empty folder), whether it needs root.
type Case = (&'static str, fn(&Path) -> Check, bool);

fn command(arguments: &[&str]) -> Job {
    let words = arguments.iter().map(OsString::from);
    Job::new(std::iter::once(crossgate().into_os_string()).chain(words)).limit(20)
}

/// One line on standard error that has all of `words`, nothing on standard output, that ending.
fn refused(finished: &Finished, code: i32, words: &[&str]) -> Check {
    let text = finished.stderr_text();
    let missing: Vec<_> =
        words.iter().filter(|word| !text.to_lowercase().contains(&word.to_lowercase())).collect();
    if finished.ending() != format!("exit {code}") {
        Err(format!("expected exit {code}\n{finished}"))
    } else if text.lines().count() != 1 {
        Err(format!("expected exactly one line on standard error\n{finished}"))
    } else if !missing.is_empty() {
        Err(format!("expected {missing:?} in the message\n{finished}"))
    } else if !finished.stdout.is_empty() {
        Err(format!("expected nothing on standard output\n{finished}"))
    } else if ["panicked", "RUST_BACKTRACE", "Os {"].iter().any(|word| text.contains(word)) {
        Err(format!("expected words for people\n{finished}"))
    } else {
        Ok(())
    }
}

fn ended(finished: &Finished, code: i32, stdout: &str) -> Check {
    let same = finished.stdout == stdout.as_bytes() && finished.stderr.is_empty();
    if finished.ending() == format!("exit {code}") && same {
        Ok(())
    } else {
        Err(format!("expected exit {code}, {stdout:?} and no message\n{finished}"))
    }
}

fn file(folder: &Path, name: &str, bytes: &[u8], mode: u32) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, bytes).expect("a file of the test");
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("its mode");
    path
}

/// The path of a file of the test, which is plain ASCII.
fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

fn refuse(path: &Path, code: i32, words: &[&str]) -> Check {
    for command_name in ["run", "trace"] {
        refused(&command(&[command_name, "--", text(path)]).run(), code, words)?;
    }
    Ok(())
}

fn unknown_program(folder: &Path) -> Check {
    refuse(&folder.join("no-such-program"), 127, &["no-such-program", "no such file"])?;
    refused(&command(&["run", "--", "no-such-name"]).run(), 127, &["no-such-name"])
}

fn dangling_link(folder: &Path) -> Check {
    symlink("nowhere", folder.join("dangling")).expect("symlink");
    refuse(&folder.join("dangling"), 127, &["dangling"])
}

fn not_executable(folder: &Path) -> Check {
    let path = file(folder, "plain-file", b"#!/bin/sh\nexit 0\n", 0o644);
    refuse(&path, 126, &["plain-file", "executable", "chmod"])
}

fn directory(folder: &Path) -> Check {
    fs::create_dir(folder.join("a-folder")).expect("a folder");
    refuse(&folder.join("a-folder"), 126, &["a-folder", "directory"])
}

fn wrong_architecture(folder: &Path) -> Check {
    let mut image = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    image.extend([2, 0, 183, 0, 1, 0, 0, 0]); // an executable for AArch64
    image.extend([0; 8 + 8 + 8 + 4]);
    image.extend([64, 0, 56, 0, 0, 0, 64, 0, 0, 0, 0, 0]);
    refuse(&file(folder, "for-arm", &image, 0o755), 126, &["for-arm", "aarch64"])
}

fn truncated_program(folder: &Path) -> Check {
    refuse(&file(folder, "cut-off", b"\x7fELF\x02\x01\x01", 0o755), 126, &["cut-off"])
}

fn junk_and_empty(folder: &Path) -> Check {
    refuse(&file(folder, "junk", b"no program at all", 0o755), 126, &["junk", "ELF", "#!"])?;
    refuse(&file(folder, "empty", b"", 0o755), 126, &["empty", "ELF", "#!"])
}

fn script_without_interpreter(folder: &Path) -> Check {
    let script = b"#!/no/such/interpreter\nexit 0\n";
    let path = file(folder, "script", script, 0o755);
    refuse(&path, 126, &["script", "/no/such/interpreter"])
}

fn script_runs(folder: &Path) -> Check {
    let path = file(folder, "good", b"#!/bin/sh\necho \"$1\"\nexit 4\n", 0o755);
    ended(&command(&["run", "--", text(&path), "word"]).run(), 4, "word\n")
}

fn unwritable_output(folder: &Path) -> Check {
    let output = folder.join("no-folder/out");
    let finished = command(&["trace", "-o", text(&output), "--", "/bin/echo", "ran"]).run();
    refused(&finished, 125, &["no-folder/out", "no such file"])?;
    let finished =
        command(&["run", "--stats", "-o", text(&output), "--", "/bin/echo", "ran"]).run();
    refused(&finished, 125, &["no-folder/out", "no such file"])
}

/// `run --stats` leaves the program's ending and output alone, and what it counts adds up.
fn stats_report(folder: &Path) -> Check {
    let script = "/bin/true; exec /bin/echo ran";
    let finished = command(&["run", "--stats", "--", "/bin/sh", "-c", script]).run();
    let counted = finished.stderr_text().lines().any(|line| line.contains(" 3      execs "));
    if finished.ending() != "exit 0" || finished.stdout != b"ran\n" || !counted {
        return Err(format!("expected exit 0, `ran`, and three programs counted\n{finished}"));
    }
    let counts = folder.join("counts");
    let line = ["run", "--stats", "-o", text(&counts), "--", "/bin/sh", "-c", "kill -TERM $$"];
    ended(&command(&line).run(), 143, "")?;
    Stats::read(&counts)?.prove_hooked(1)
}

fn unknown_call_name(_: &Path) -> Check {
    let finished = command(&["trace", "-e", "trace=opne", "--", "/bin/echo", "ran"]).run();
    refused(&finished, 125, &["opne", "open"])
}

fn what_to_inject(folder: &Path) -> Check {
    let plan = file(folder, "plan", b"# a remark\nread:error=EIO\nread:eror=EIO\n", 0o644);
    let no_log = file(folder, "log", b"hello\n", 0o644);
    let missing = folder.join("missing");
    let cases: [(&[&str], &[&str]); 12] = [
        (&[], &["nothing to inject", "-e inject="]),
        (&["-e", "inject=read"], &["-e inject=read", "what to inject", ":error="]),
        (&["-e", "inject=opne:error=EIO"], &["opne", "did you mean open"]),
        (&["-e", "inject=read:error=EOI"], &["no error named EOI"]),
        (&["-e", "inject=read:signal=NONE"], &["no signal named NONE"]),
        (&["-e", "inject=read:error=EIO:when=0"], &["when=0", "counted from 1"]),
        (&["-e", "inject=exit_group:error=EIO"], &["do not return"]),
        (&["-e", "inject=read:error=EIO:path=etc"], &["path=etc", "from the root"]),
        (&["--rate", "7"], &["--rate 7", "5%"]),
        (&["--plan", text(&plan)], &["plan:3", "eror: not known"]),
        (&["--plan", text(&missing)], &["missing", "no such file"]),
        (&["--replay", text(&no_log)], &["log", "no fault in it"]),
    ];
    for (options, words) in cases {
        let line = [&["inject"], options, &["--", "/bin/echo", "ran"]].concat();
        refused(&command(&line).run(), 125, words)?;
    }
    let output = folder.join("no-folder/out");
    let line = ["inject", "-e", "fault=read", "-o", text(&output), "--", "/bin/echo", "ran"];
    refused(&command(&line).run(), 125, &["no-folder/out", "no such file"])
}

fn unknown_mode(_: &Path) -> Check {
    let finished = command(&["run", "--mode", "quick", "--", "/bin/true"]).run();
    let text = finished.stderr_text();
    let said = ["quick", "exhaustive", "fast"].iter().all(|word| text.contains(word));
    if finished.ending() == "exit 2" && said {
        Ok(())
    } else {
        Err(format!("expected exit 2 and the modes there are\n{finished}"))
    }
}

fn exit_codes_pass(_: &Path) -> Check {
    for mode in Mode::HOOKED {
        for code in [0, 1, 42, 126, 127, 255] {
            let script = format!("exit {code}");
            let line = mode.command(&["/bin/sh".into(), "-c".into(), script.into()]);
            ended(&Job::new(line).limit(20).run(), code, "")?;
        }
    }
    Ok(())
}

/// `sites` reports where calls were made, and leaves the program's ending alone.
fn sites_report(_: &Path) -> Check {
    let finished = command(&["sites", "--", "/bin/sh", "-c", "exit 3"]).run();
    let said = String::from_utf8_lossy(&finished.stdout).into_owned() + &finished.stderr_text();
    if finished.ending() == "exit 3" && said.contains("libc") {
        Ok(())
    } else {
        Err(format!("expected exit 3 and a report that names libc\n{finished}"))
    }
}

fn signals_of_the_target(_: &Path) -> Check {
    for mode in Mode::HOOKED {
        for (name, number) in [("KILL", 9), ("TERM", 15), ("SEGV", 11), ("SYS", 31), ("USR1", 10)] {
            let script = format!("ulimit -c 0; kill -{name} $$; exit 0");
            let line = mode.command(&["/bin/sh".into(), "-c".into(), script.into()]);
            ended(&Job::new(line).limit(20).run(), 128 + number, "")?;
        }
    }
    Ok(())
}

/// Starts a shell that writes its pid, sends `signal` to it or to crossgate, looks at the ending.
fn signal_sent(folder: &Path, to_target: bool, signal: i32, script: &str, code: i32) -> Check {
    let ready = folder.join("ready");
    let script = script.replace("READY", text(&ready));
    let scratch = Scratch::new("signal");
    let job = command(&["run", "--", "/bin/sh", "-c", &script]);
    let mut child = job.start(scratch.path()).map_err(|error| error.to_string())?;
    let end = Instant::now() + Duration::from_secs(10);
    let pid = loop {
        let written = fs::read_to_string(&ready).unwrap_or_default();
        if let (true, Ok(pid)) = (written.ends_with('\n'), written.trim().parse::<i32>()) {
            break pid;
        }
        if Instant::now() > end {
            wait(&mut child, Duration::ZERO);
            return Err("the target did not start within 10 s".into());
        }
        thread::sleep(Duration::from_millis(5));
    };
    if to_target {
        // SAFETY: the shell this test started wrote its own pid and waits for this signal.
        unsafe { libc::kill(pid, signal) };
    } else {
        send(&child, signal);
    }
    let (status, timed_out) = wait(&mut child, Duration::from_secs(10));
    if timed_out || status.code() != Some(code) {
        let stderr = fs::read_to_string(scratch.path().join("stderr")).unwrap_or_default();
        return Err(format!(
            "signal {signal}: expected exit {code}, got {status}, timed out {timed_out}\n{stderr}"
        ));
    }
    Ok(())
}

const WAITING: &str = "echo $$ > READY.new; mv READY.new READY; while :; do sleep 0.05; done";

fn killed_target(folder: &Path) -> Check {
    signal_sent(folder, true, libc::SIGKILL, WAITING, 137)
}

fn signal_to_crossgate(folder: &Path) -> Check {
    let script = format!("trap 'exit 33' TERM; {WAITING}");
    signal_sent(folder, false, libc::SIGTERM, &script, 33)?;
    fs::remove_file(folder.join("ready")).map_err(|error| error.to_string())?;
    signal_sent(folder, false, libc::SIGTERM, WAITING, 143)
}

/// As an ordinary user: a set-uid program of root's, and a program that may not be read.
fn as_ordinary_user(folder: &Path) -> Check {
    const NOBODY: u32 = 65534;
    let tool = file(folder, "crossgate", &fs::read(crossgate()).expect("crossgate"), 0o755);
    let setuid = file(folder, "set-uid", &fs::read("/bin/true").expect("/bin/true"), 0o755);
    chown(&setuid, Some(0), Some(0)).expect("chown");
    fs::set_permissions(&setuid, fs::Permissions::from_mode(0o4755)).expect("its mode");
    let line = |program: &Path| {
        [tool.as_os_str(), "run".as_ref(), "--".as_ref(), program.as_os_str()].map(OsString::from)
    };
    refused(&Job::new(line(&setuid)).user(NOBODY).limit(20).run(), 126, &["set-uid"])?;
    ended(&Job::new(line(Path::new("/bin/true"))).user(NOBODY).limit(20).run(), 0, "")
}

fn main() -> ExitCode {
    let cases: &[Case] = &[
        ("unknown_program", unknown_program, false),
        ("dangling_link", dangling_link, false),
        ("not_executable", not_executable, false),
        ("directory", directory, false),
        ("wrong_architecture", wrong_architecture, false),
        ("truncated_program", truncated_program, false),
        ("junk_and_empty", junk_and_empty, false),
        ("script_without_interpreter", script_without_interpreter, false),
        ("script_runs", script_runs, false),
        ("unwritable_output", unwritable_output, false),
        ("stats_report", stats_report, false),
        ("unknown_call_name", unknown_call_name, false),
        ("what_to_inject", what_to_inject, false),
        ("unknown_mode", unknown_mode, false),
        ("exit_codes_pass", exit_codes_pass, false),
        ("sites_report", sites_report, false),
        ("signals_of_the_target", signals_of_the_target, false),
        ("killed_target", killed_target, false),
        ("signal_to_crossgate", signal_to_crossgate, false),
        ("as_ordinary_user", as_ordinary_user, true),
    ];
    let trial = |&(name, check, needs_root): &Case| {
        Trial::ignorable_test(name, move || -> Outcome {
            if let Some(reason) = Mode::Exhaustive.missing() {
                return skip(name, "crossgate", &reason);
            }
            if needs_root && !is_root() {
                return skip(name, "root", "becoming another user needs root");
            }
            let scratch = Scratch::new(name);
            check(scratch.path())?;
            Ok(Completion::Completed)
        })
    };
    skip::run(cases.iter().map(trial).collect())
}
