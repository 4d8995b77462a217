//! What `crossgate inject` is told happens, to the calls that were meant and to no other; a run
//! can be had again from its seed and from its log. Where strace can do the same, it is asked.

use crossgate_tests::mode::{Mode, crossgate};
use crossgate_tests::programs::Programs;
use crossgate_tests::run::{Finished, Job, Scratch};
use crossgate_tests::skip::{self, Outcome, find_tool, skip};
use libtest_mimic::{Completion, Trial};
use std::ffi::OsString;
use std::fs;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

type Check = Result<(), String>;

/// A run, and the log of what was injected.
struct Injected {
    finished: Finished,
    log: String,
}

impl Injected {
    /// `# TASK CALL NUMBER EFFECT` of each fault, in the order of the text.
    fn faults(&self) -> Vec<&str> {
        let mut faults: Vec<_> =
            self.log.lines().filter_map(|line| Some(line.rsplit_once("  # ")?.1)).collect();
        faults.sort_unstable();
        faults
    }
}

fn inject(options: &[&str], program: &[OsString]) -> Injected {
    let scratch = Scratch::new("inject");
    let log = scratch.path().join("log");
    let mut line: Vec<OsString> = vec![crossgate().into(), "inject".into(), "-o".into()];
    line.push(log.clone().into());
    line.extend(options.iter().map(OsString::from));
    line.push("--".into());
    line.extend_from_slice(program);
    let finished = Job::new(line).run();
    let log =
        fs::read_to_string(&log).unwrap_or_else(|error| format!("no log: {error}\n{finished}"));
    Injected { finished, log }
}

fn words(line: &[&str]) -> Vec<OsString> {
    line.iter().map(OsString::from).collect()
}

fn expect(holds: bool, what: &str, run: &Injected) -> Check {
    if holds { Ok(()) } else { Err(format!("{what}\n{}\nlog:\n{}", run.finished, run.log)) }
}

/// Expressions that strace knows, and the program they are tried on: the same ending, the same
/// output, the same number of calls touched.
const LIKE_STRACE: [(&str, &[&str]); 10] = [
    ("inject=openat:error=EACCES:when=3+", &["cat", "/etc/hostname", "/etc/passwd"]),
    ("fault=read:error=EIO:when=2", &["cat", "/etc/passwd"]),
    ("inject=read:retval=0:when=2+", &["cat", "/etc/passwd"]),
    ("inject=close:error=EBADF:when=2..4", &["cat", "/etc/passwd"]),
    ("inject=newfstatat,statx,fstat:error=EIO:when=2+2", &["ls", "-l", "/etc/passwd"]),
    ("fault=getdents64:when=1", &["ls", "/etc"]),
    ("inject=execve:error=ENOENT:when=1", &["sh", "-c", "exec /bin/true"]),
    ("inject=execve:error=EACCES:when=2", &["sh", "-c", "exec sh -c 'exec /bin/true'"]),
    ("inject=clone,fork,vfork,clone3:error=EAGAIN", &["sh", "-c", "/bin/true; echo $?"]),
    ("inject=exit_group:signal=KILL", &["true"]),
];

fn as_strace_does(expression: &str, program: &[&str]) -> Outcome {
    if find_tool("strace").is_none() {
        return skip(expression, "strace", "it needs strace, which is not here");
    }
    let scratch = Scratch::new("strace");
    let log = scratch.path().join("log");
    let mut line = words(&["strace", "-f", "-qq", "-e", expression, "-o"]);
    line.push(log.clone().into());
    line.extend(words(program));
    let want = Job::new(line).run();
    let touched = |text: &str| text.lines().filter(|line| line.contains("(INJECTED)")).count();
    let want_touched = touched(&fs::read_to_string(&log)?);
    for mode in ["exhaustive", "fast"] {
        let got = inject(&["--mode", mode, "-e", expression], &words(program));
        let as_shell = |finished: &Finished| match finished.ending().split_once(' ') {
            Some(("signal", number)) => {
                format!("exit {}", 128 + number.parse::<i32>().unwrap_or(0))
            }
            _ => finished.ending(),
        };
        expect(as_shell(&want) == as_shell(&got.finished), &format!("strace: {want}"), &got)?;
        expect(want.stdout == got.finished.stdout, &format!("strace: {want}"), &got)?;
        let got_touched = touched(&got.log);
        let both = format!("strace touched {want_touched} calls, crossgate {got_touched}");
        expect(want_touched == got_touched, &both, &got)?;
    }
    Ok(Completion::Completed)
}

fn only_named_paths() -> Check {
    let program = words(&["sh", "-c", "cd /etc && cat hostname ./../etc/passwd"]);
    let run = inject(&["-e", "inject=openat:error=EIO:path=/etc/passwd"], &program);
    expect(run.faults().len() == 1 && run.log.contains("passwd"), "one fault expected", &run)?;
    expect(run.finished.ending() == "exit 1" && !run.finished.stdout.is_empty(), "", &run)?;
    // By its descriptor, and what lies below a folder.
    let run = inject(
        &["-e", "inject=read:error=EIO:path=/etc/"],
        &words(&["head", "-c1", "/etc/passwd"]),
    );
    expect(run.finished.stderr_text().contains("Input/output"), "a failed read expected", &run)?;
    let run =
        inject(&["-e", "inject=read:error=EIO:path=/nowhere/*"], &words(&["cat", "/etc/passwd"]));
    expect(run.faults().is_empty() && run.finished.ending() == "exit 0", "no fault", &run)
}

const PEERS: &str = r#"
import socket, errno
def attempt(name, make):
    try: print(name, make())
    except OSError as e: print(name, errno.errorcode[e.errno])
server = socket.create_server(("127.0.0.1", 0))
port = server.getsockname()[1]
client = socket.create_connection(("127.0.0.1", port))
attempt("send", lambda: client.send(b"x"))
attempt("connect", lambda: socket.create_connection(("127.0.0.1", 9)))
unix = socket.socket(socket.AF_UNIX)
attempt("unix", lambda: unix.connect("/tmp/no/such/socket"))
"#;

fn only_named_peers() -> Outcome {
    // The distribution's own: what comes first in the search may be a shell script.
    let python = "/usr/bin/python3";
    if !fs::exists(python)? {
        return skip("only_named_peers", "python3", "it needs python3, which is not here");
    }
    let program = words(&[python, "-c", PEERS]);
    for (expression, lines) in [
        ("inject=sendto:error=EPIPE:peer=127.0.0.1", ["EPIPE", "ECONNREFUSED", "ENOENT"]),
        ("inject=connect:error=ETIMEDOUT:peer=:9", ["1", "ETIMEDOUT", "ENOENT"]),
        ("inject=connect:error=EACCES:peer=/tmp/no/such/socket", ["1", "ECONNREFUSED", "EACCES"]),
        ("inject=connect:error=EIO:peer=[::1]:9", ["1", "ECONNREFUSED", "ENOENT"]),
    ] {
        let run = inject(&["-e", expression], &program);
        let [send, connect, unix] = lines;
        let want = format!("send {send}\nconnect {connect}\nunix {unix}\n");
        expect(run.finished.stdout == want.as_bytes(), &format!("expected {want}"), &run)?;
    }
    Ok(Completion::Completed)
}

fn delays() -> Check {
    let program = words(&["sh", "-c", "id -u"]);
    let options =
        ["-e", "inject=geteuid:delay_enter=300ms:when=1", "-e", "inject=getuid:delay_exit=300ms"];
    let begin = Instant::now();
    let run = inject(&options, &program);
    let took = begin.elapsed().as_millis();
    let delayed = run.log.lines().filter(|line| line.contains("(DELAYED)")).count();
    expect(delayed > 0, "some call must have been delayed", &run)?;
    expect(took >= 300 * delayed as u128, &format!("{delayed} delays took {took} ms"), &run)?;
    expect(run.finished.ending() == "exit 0", "delayed, not failed", &run)
}

fn signals() -> Check {
    let program = words(&["sh", "-c", "trap 'echo caught' USR1; cd /; cd /; echo end"]);
    let run = inject(&["-e", "inject=chdir:signal=USR1:when=2"], &program);
    expect(run.finished.stdout == b"caught\nend\n", "the handler runs once", &run)?;
    let run =
        inject(&["-e", "inject=chdir:signal=TERM:when=1"], &words(&["sh", "-c", "cd /; echo no"]));
    expect(run.finished.ending() == "exit 143", "ended by SIGTERM", &run)?;
    let run = inject(&["-e", "inject=chdir:error=EINTR:signal=USR1:when=1"], &program);
    let text = String::from_utf8_lossy(&run.finished.stdout);
    expect(text.contains("caught") && text.contains("end"), "an error and a signal", &run)
}

/// The same seed gives the same faults, another one others; a log gives its run again.
fn repeats(programs: &Programs, mode: Mode) -> Check {
    let program = programs.line(programs.get("faulty"))?;
    let mode = mode.to_string();
    let mut all = Vec::new();
    for seed in ["1", "2", "3"] {
        let options = ["--mode", &mode, "--seed", seed, "--rate", "4%"];
        let first = inject(&options, &program);
        let faults = first.faults();
        expect(faults.len() > 10, "more faults expected", &first)?;
        let tasks = ["1 ", "1.1 ", "1.2 "];
        let met = |task: &&str| faults.iter().any(|fault| fault.starts_with(*task));
        expect(tasks.iter().all(met), "faults in each of the first tasks expected", &first)?;
        let second = inject(&options, &program);
        let want = format!("expected the faults of\n{}", first.log);
        expect(second.faults() == faults, &want, &second)?;
        expect(second.finished.stdout == first.finished.stdout, &want, &second)?;

        let scratch = Scratch::new("replay");
        let log = scratch.path().join("log");
        fs::write(&log, &first.log).map_err(|error| error.to_string())?;
        let log = log.to_str().expect("a plain path");
        let again = inject(&["--mode", &mode, "--replay", log], &program);
        expect(again.faults() == faults, &want, &again)?;
        expect(again.finished.stdout == first.finished.stdout, &want, &again)?;
        all.push(first.log.lines().skip(1).map(str::to_owned).collect::<Vec<_>>());
    }
    if all[0].len() == all[1].len() && all[1].len() == all[2].len() {
        return Err("three seeds gave as many faults each".into());
    }
    Ok(())
}

/// A plan is a file of expressions; the first that fits a call is taken.
fn plans() -> Check {
    let scratch = Scratch::new("plan");
    let plan = scratch.path().join("plan");
    let text =
        "# a plan\n\nopenat:error=EACCES:path=*/hostname\nfault=openat:error=EIO:path=/etc/\n";
    fs::write(&plan, text).map_err(|error| error.to_string())?;
    let plan = plan.to_str().expect("a plain path");
    let program = words(&["sh", "-c", "cat /etc/hostname; cat /etc/passwd; cat /proc/self/comm"]);
    let run = inject(&["--plan", plan], &program);
    let errors = run.finished.stderr_text();
    expect(errors.contains("hostname: Permission denied"), "the first rule", &run)?;
    expect(errors.contains("passwd: Input/output error"), "the second rule", &run)?;
    expect(run.finished.stdout.ends_with(b"cat\n"), "no rule", &run)
}

fn main() -> ExitCode {
    let programs = Arc::new(Programs::build());
    let mut trials = Vec::new();
    let mut add = |name: String, check: Box<dyn FnOnce() -> Outcome + Send>| {
        let test = name.clone();
        trials.push(Trial::ignorable_test(name, move || match Mode::Exhaustive.missing() {
            Some(reason) => skip(&test, "crossgate", &reason),
            None => check(),
        }));
    };
    for (expression, program) in LIKE_STRACE {
        let name = format!("as_strace_does::{expression}");
        add(name, Box::new(|| as_strace_does(expression, program)));
    }
    for (name, check) in [
        ("only_named_paths", only_named_paths as fn() -> Check),
        ("delays", delays),
        ("signals", signals),
        ("plans", plans),
    ] {
        add(name.into(), Box::new(move || Ok(check().map(|()| Completion::Completed)?)));
    }
    add("only_named_peers".into(), Box::new(only_named_peers));
    for mode in Mode::HOOKED {
        let programs = programs.clone();
        let check = move || Ok(repeats(&programs, mode).map(|()| Completion::Completed)?);
        add(format!("repeats::{mode}"), Box::new(check));
    }
    skip::run(trials)
}
