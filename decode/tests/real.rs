//! Holds the lines of this crate against those of the installed strace, call by call, for a
//! program that makes several hundred calls.
//!
//! Needs `strace` 6.1 and a C compiler; where they are missing the test says so and passes.

#![cfg(target_arch = "x86_64")]

mod tracer;

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs, process};

/// Calls whose numbers differ from run to run: their digits are not compared.
const VARYING: &[&str] = &[
    "--- SIG",
    "clone",
    "fork",
    "getpgid",
    "getpid",
    "getppid",
    "getrandom",
    "getrusage",
    "process_vm_readv",
    "getsid",
    "kill",
    "poll",
    "ppoll",
    "pselect6",
    "recvmsg",
    "select",
    "set_tid_address",
    "statfs",
    "sysinfo",
    "time",
    "times",
    "wait4",
    "waitid",
    "getdents64",
    "setpgid",
    "execve",
    "fstatfs",
    "brk",
];

/// The line with every run of hexadecimal digits that has a decimal one as `#`, if it varies.
fn comparable(line: &str) -> String {
    if !VARYING.iter().any(|name| line.starts_with(name)) {
        return line.to_string();
    }
    let mut out = String::new();
    let mut word = String::new();
    for c in line.chars().chain([' ']) {
        if c.is_ascii_alphanumeric() || c == '_' {
            word.push(c);
            continue;
        }
        let number = word.starts_with(|c: char| c.is_ascii_digit());
        let escape = out.ends_with('\\') && word.starts_with('x');
        out.push_str(if number || escape { "#" } else { &word });
        out.push(c);
        word.clear();
    }
    out
}

/// The strace that these texts are from.
fn strace() -> Option<&'static str> {
    let output = Command::new("strace").arg("-V").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.starts_with("strace -- version 6.1\n").then_some("strace")
}

fn scratch(name: &str) -> PathBuf {
    let directory = env::temp_dir().join(format!("decode-{}-{name}", process::id()));
    fs::create_dir_all(&directory).unwrap();
    directory
}

fn expected(program: &Path, directory: &Path, log: &Path) -> Vec<String> {
    let mut command = Command::new("strace");
    command.args(["-o".as_ref(), log.as_os_str(), program.as_os_str()]);
    command.current_dir(directory).env_clear();
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // SAFETY: both calls are async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong);
            libc::syscall(libc::SYS_close_range, 3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC);
            Ok(())
        });
    }
    assert_eq!(command.status().unwrap().code(), Some(7));
    let bytes = fs::read(log).unwrap();
    String::from_utf8_lossy(&bytes).lines().map(str::to_string).collect()
}

#[test]
fn lines_are_those_of_strace() {
    let work = scratch("real");
    let program = work.join("calls");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/calls.c");
    let compiler = Command::new("cc").arg("-O1").arg("-o").arg(&program).arg(source).status();
    if strace().is_none() || !compiler.is_ok_and(|status| status.success()) {
        eprintln!("skipped: needs strace 6.1 and cc");
        return;
    }
    let directory = work.join("run");
    let fresh = || {
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).unwrap();
    };
    fresh();
    // What `main` does begins with this line in both.
    let begin = |lines: Vec<String>| -> Vec<String> {
        let from = lines.iter().position(|line| line.contains("\"file\", O_RDWR")).unwrap();
        lines.into_iter().skip(from).collect()
    };
    let mut theirs = begin(expected(&program, &directory, &work.join("log")));
    fresh();
    let mut ours = begin(tracer::trace(&program, &directory));
    // A child's end may be told a call earlier or later.
    for lines in [&mut theirs, &mut ours] {
        lines.retain(|line| !line.starts_with("--- SIGCHLD"));
    }
    fs::remove_dir_all(&work).unwrap();
    let mut different = Vec::new();
    for (theirs, ours) in theirs.iter().zip(&ours) {
        if comparable(theirs) != comparable(ours) {
            different.push(format!("strace: {theirs}\nours:   {ours}"));
        }
    }
    let (count, total) = (different.len(), theirs.len());
    assert!(different.is_empty(), "{count} of {total} lines:\n{}", different.join("\n"));
    assert_eq!(theirs.len(), ours.len());
}
