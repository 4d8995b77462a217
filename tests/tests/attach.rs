//! Joining programs that run already: nothing of what they do is lost or changed while crossgate comes
//! and goes, what is traced is whole, and what cannot be joined is refused in one line.

use crossgate_tests::mode::{Mode, crossgate};
use crossgate_tests::run::Scratch;
use crossgate_tests::skip::{self, Outcome, skip};
use libtest_mimic::{Completion, Trial};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

type Check = Result<(), String>;

/// A program that never rests and checks itself: numbers go from one thread to another through a pipe,
/// each signal is counted, each child ends as it should. SIGTERM ends it.
const BUSY: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static int ends[2];
static atomic_int stop;
static atomic_long sent, received;
static void fail(const char *what) {
    printf("wrong: %s\n", what);
    fflush(stdout);
    _exit(1);
}
static void on_term(int signo) { (void)signo; stop = 1; }
static void on_queued(int signo, siginfo_t *info, void *context) {
    (void)context;
    if (signo != SIGRTMIN || info->si_value.sival_int != 4711) fail("what a signal carries");
    received++;
}
static void *writer(void *unused) {
    for (int i = 0; !stop; i++) {
        char text[9];
        snprintf(text, sizeof text, "%07d\n", i % 10000000);
        if (write(ends[1], text, 8) != 8) fail("a write");
    }
    close(ends[1]);
    return unused;
}
static void *reader(void *unused) {
    char text[9] = "";
    for (int i = 0;; i++) {
        int have = 0;
        while (have < 8) {
            ssize_t got = read(ends[0], text + have, 8 - (size_t)have);
            if (got == 0 && have == 0) return unused;
            if (got <= 0) fail("a read");
            have += (int)got;
        }
        if (atoi(text) != i % 10000000) fail("the order of numbers");
    }
}
int main(int argc, char **argv) {
    struct sigaction term = {.sa_handler = on_term}, queued = {.sa_sigaction = on_queued};
    static char stack[65536];
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    queued.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
    sigaction(SIGTERM, &term, NULL);
    sigaction(SIGRTMIN, &queued, NULL);
    sigaltstack(&alternate, NULL);
    pthread_t threads[2];
    if (pipe(ends)) return 2;
    pthread_create(&threads[0], NULL, writer, NULL);
    pthread_create(&threads[1], NULL, reader, NULL);
    printf("ready\n");
    fflush(stdout);
    for (int turn = 0; !stop; turn++) {
        union sigval value = {.sival_int = 4711};
        if (pthread_sigqueue(pthread_self(), SIGRTMIN, value) == 0) sent++;
        if (turn % 50 == 0 && argc < 2) {
            int status = 0;
            pid_t child = fork();
            if (child == 0) _exit(turn / 50 % 100);
            while (waitpid(child, &status, 0) != child) {}
            if (!WIFEXITED(status) || WEXITSTATUS(status) != turn / 50 % 100) fail("a child");
        }
        usleep(100);
    }
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    stack_t now;
    sigaltstack(NULL, &now);
    if (now.ss_sp != stack) fail("the alternate stack");
    struct sigaction after;
    sigaction(SIGRTMIN, NULL, &after);
    if (after.sa_sigaction != on_queued || !(after.sa_flags & SA_RESTART)) fail("a handler");
    if (sent != received) fail("a signal");
    printf("ok %s\n", argv[0]);
    return 0;
}
"#;

struct Bed {
    folder: Scratch,
}

impl Bed {
    fn new() -> Result<Self, String> {
        let bed = Self { folder: Scratch::new("attach") };
        let source = bed.file("busy.c");
        fs::write(&source, BUSY).map_err(|error| error.to_string())?;
        for (name, options) in
            [("busy", &["-pthread"][..]), ("busy-static", &["-pthread", "-static"])]
        {
            let to = bed.file(name);
            let built = Command::new("cc").args(options).arg("-o").args([&to, &source]).output();
            let built = built.map_err(|error| format!("cannot run cc: {error}"))?;
            if !built.status.success() {
                return Err(String::from_utf8_lossy(&built.stderr).into_owned());
            }
        }
        Ok(bed)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// A busy program; killed if it is not ended.
struct Busy(Child);

impl Busy {
    fn start(program: &Path, arguments: &[&str]) -> Result<Self, String> {
        let child = Command::new(program).args(arguments).stdout(Stdio::piped()).spawn();
        let mut busy = Self(child.map_err(|error| error.to_string())?);
        let mut first = String::new();
        let out = busy.0.stdout.as_mut().ok_or("no output")?;
        // A byte at a time: what comes later is for `end`.
        let mut byte = [0];
        while !first.ends_with('\n') && out.read(&mut byte).is_ok_and(|got| got == 1) {
            first.push(byte[0] as char);
        }
        if first == "ready\n" { Ok(busy) } else { Err(format!("it says {first:?}")) }
    }

    fn pid(&self) -> i32 {
        self.0.id() as i32
    }

    /// Ends it: it must say that all went well.
    fn end(mut self) -> Check {
        // SAFETY: a plain system call; it is our child.
        unsafe { libc::kill(self.pid(), libc::SIGTERM) };
        let mut text = String::new();
        let out = self.0.stdout.as_mut().ok_or("no output")?;
        out.read_to_string(&mut text).map_err(|error| error.to_string())?;
        let status = self.0.wait().map_err(|error| error.to_string())?;
        if status.success() && text.starts_with("ok ") {
            Ok(())
        } else {
            Err(format!("the program ended with {status}: {text}"))
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A crossgate that has joined something.
struct Joined {
    crossgate: Child,
    said: BufReader<ChildStderr>,
}

impl Joined {
    fn start(words: &[&str], pid: i32) -> Result<Self, String> {
        let mut command = Command::new(crossgate());
        command.args(words).args(["-p", &pid.to_string()]).stderr(Stdio::piped());
        let mut crossgate = command.spawn().map_err(|error| error.to_string())?;
        let mut said = BufReader::new(crossgate.stderr.take().ok_or("no standard error")?);
        let mut line = String::new();
        said.read_line(&mut line).map_err(|error| error.to_string())?;
        if line.starts_with(&format!("crossgate: attached to process {pid} (")) {
            return Ok(Self { crossgate, said });
        }
        said.read_to_string(&mut line).map_err(|error| error.to_string())?;
        let _ = crossgate.wait();
        Err(line)
    }

    /// Has it leave; gives what it said after that.
    fn leave(mut self) -> Result<String, String> {
        // SAFETY: a plain system call; it is our child.
        unsafe { libc::kill(self.crossgate.id() as i32, libc::SIGINT) };
        let mut text = String::new();
        self.said.read_to_string(&mut text).map_err(|error| error.to_string())?;
        let status = self.crossgate.wait().map_err(|error| error.to_string())?;
        if status.success() && text.contains("crossgate: detached from process") {
            Ok(text)
        } else {
            Err(format!("crossgate ended with {status}: {text}"))
        }
    }
}

fn wait(milliseconds: u64) {
    std::thread::sleep(Duration::from_millis(milliseconds));
}

/// The trace of a program that was joined has all numbers in a row, its threads, its signals and its
/// children.
fn traced(bed: &Bed, program: &str) -> Check {
    let busy = Busy::start(&bed.file(program), &[])?;
    let trace = bed.file(&format!("{program}-trace"));
    let file = trace.to_str().ok_or("a strange path")?;
    let joined = Joined::start(&["trace", "-o", file], busy.pid())?;
    wait(300);
    joined.leave()?;
    busy.end()?;
    let text = fs::read_to_string(&trace).map_err(|error| error.to_string())?;
    let numbers: Vec<u32> = text
        .lines()
        .filter(|line| line.contains(" write("))
        .filter_map(|line| line.split('"').nth(1)?.strip_suffix("\\n")?.parse().ok())
        .collect();
    // A call that was interrupted by our going is begun again, and shown as that.
    let gap = numbers.windows(2).find(|pair| pair[1] != pair[0] + 1 && pair[1] != pair[0]);
    if let Some(gap) = gap {
        return Err(format!("{} follows {}", gap[1], gap[0]));
    }
    for part in ["--- SIGRT", " read(", "wait4(", "+++ exited with", "rt_sigreturn"] {
        if !text.contains(part) {
            return Err(format!("no {part} in {} lines", text.lines().count()));
        }
    }
    if numbers.len() > 100 { Ok(()) } else { Err(format!("{} numbers only", numbers.len())) }
}

/// Joined and left many times in a row, while it works.
fn again_and_again(bed: &Bed, times: u32) -> Check {
    let busy = Busy::start(&bed.file("busy"), &[])?;
    let mappings = |busy: &Busy| {
        let maps = fs::read_to_string(format!("/proc/{}/maps", busy.pid())).unwrap_or_default();
        maps.lines().count()
    };
    let mut after_first = 0;
    for time in 0..times {
        let words: &[&str] = if time % 3 == 0 { &["run"] } else { &["trace", "-o", "/dev/null"] };
        let step = |what: String| format!("time {}: {what}", time + 1);
        let joined = Joined::start(words, busy.pid()).map_err(step)?;
        wait(u64::from(time % 7) * 5);
        joined.leave().map_err(step)?;
        if time == 9 {
            after_first = mappings(&busy);
        }
    }
    // What is mapped comes and goes with the program's children and threads, but does not grow.
    let now = mappings(&busy);
    if now > after_first + 20 {
        return Err(format!("{after_first} mappings have become {now}"));
    }
    busy.end()
}

/// The program ends while it is joined; and one that crossgate leaves by itself is as it was.
fn ends(bed: &Bed) -> Check {
    let busy = Busy::start(&bed.file("busy"), &[])?;
    let joined = Joined::start(&["run", "--stats"], busy.pid())?;
    wait(50);
    busy.end()?;
    let Joined { mut crossgate, mut said } = joined;
    let end = Instant::now() + Duration::from_secs(20);
    while crossgate.try_wait().is_ok_and(|status| status.is_none()) && Instant::now() < end {
        wait(10);
    }
    let mut text = String::new();
    if !crossgate.wait().is_ok_and(|status| status.success()) {
        return Err("crossgate did not end with the program".into());
    }
    said.read_to_string(&mut text).map_err(|error| error.to_string())?;
    if text.contains("calls that came by a signal") { Ok(()) } else { Err(text) }
}

/// A shell that does nothing but make processes and execute programs.
fn shell(bed: &Bed) -> Check {
    let script = "echo ready; trap 'echo ok shell; exit' TERM; while :; do /bin/true; (:); done";
    let busy = Busy::start(Path::new("sh"), &["-c", script])?;
    let trace = bed.file("shell-trace");
    let file = trace.to_str().ok_or("a strange path")?;
    for time in 0..5 {
        let joined = Joined::start(&["trace", "-o", file], busy.pid())?;
        wait(100);
        let said = joined.leave()?;
        if said.contains("cannot be left") {
            return Err(format!("time {}: {said}", time + 1));
        }
    }
    let text = fs::read_to_string(&trace).map_err(|error| error.to_string())?;
    if !text.contains("execve(\"/bin/true\"") {
        return Err(format!("no execve in {} lines", text.lines().count()));
    }
    busy.end()
}

fn refused(bed: &Bed) -> Check {
    let busy = Busy::start(&bed.file("busy"), &["without children"])?;
    let pid = busy.pid();
    let expect = |words: &[&str], pid: i32, what: &str| match Joined::start(words, pid) {
        Ok(_) => Err(format!("{what}: joined")),
        Err(said) if said.contains(what) && said.lines().count() == 1 => Ok(()),
        Err(said) => Err(format!("{what:?} expected: {said}")),
    };
    expect(&["trace"], i32::MAX, "there is no such process")?;
    expect(&["trace", "--mode", "fast"], pid, "in exhaustive mode only")?;
    expect(&["trace", "--vdso"], pid, "--vdso is for programs that start")?;
    expect(&["trace", "--no-follow"], pid, "children are always followed")?;
    let joined = Joined::start(&["run"], pid)?;
    expect(&["trace"], pid, "a crossgate is in it already")?;
    joined.leave()?;
    // SAFETY: plain system calls on our child.
    unsafe { libc::kill(pid, libc::SIGSTOP) };
    wait(50);
    let stopped = expect(&["trace"], pid, "it is stopped by a signal");
    // SAFETY: as above.
    unsafe { libc::kill(pid, libc::SIGCONT) };
    stopped?;
    busy.end()
}

fn main() -> ExitCode {
    let bed = Arc::new(Bed::new().unwrap_or_else(|error| panic!("{error}")));
    let mut trials = Vec::new();
    let mut add = |name: &str, ignored: bool, check: Box<dyn FnOnce(&Bed) -> Check + Send>| {
        let (bed, test) = (bed.clone(), name.to_owned());
        let run = move || -> Outcome {
            match Mode::Exhaustive.missing() {
                Some(reason) => skip(&test, "crossgate", &reason),
                None => {
                    check(&bed)?;
                    Ok(Completion::Completed)
                }
            }
        };
        trials.push(Trial::ignorable_test(name, run).with_ignored_flag(ignored));
    };
    for program in ["busy", "busy-static"] {
        add(&format!("traced::{program}"), false, Box::new(move |bed| traced(bed, program)));
    }
    add("again_and_again", false, Box::new(|bed| again_and_again(bed, 40)));
    // Takes minutes: for ./test --full.
    let ignored = std::env::var_os("CROSSGATE_FULL").is_none();
    add("a_thousand_times", ignored, Box::new(|bed| again_and_again(bed, 1000)));
    add("ends", false, Box::new(ends));
    add("shell", false, Box::new(shell));
    add("refused", false, Box::new(refused));
    skip::run(trials)
}
