//! Hook libraries: what `crossgate.h` promises holds, in dynamic and static programs and in both
//! modes; a hook that fails ends the program or is left out; what cannot be a hook is refused in
//! one line. Every small program runs under a hook that watches every call, and under one that lets
//! every call pass.

use crossgate_tests::mode::{Mode, crossgate};
use crossgate_tests::programs::{Program, Programs};
use crossgate_tests::run::{Finished, Job, Scratch};
use crossgate_tests::skip::{self, Outcome, find_tool, skip};
use libtest_mimic::{Completion, Trial};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;

type Check = Result<(), String>;

/// A test, given what all share and its name.
type Trying = Box<dyn FnOnce(&Bed, &str) -> Outcome + Send>;

/// Makes calls a hook of `tests/hooks/promises.c` knows, and prints what it got.
const CALLER: &str = r#"
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
static void *thread(void *unused) {
    (void)unused;
    return (void *)syscall(SYS_getppid);
}
int main(int argc, char **argv) {
    const char *wish = argc > 1 ? argv[1] : "";
    if (!strcmp(wish, "file")) {
        char text[64] = "";
        int file = open("/nowhere", O_RDONLY);
        printf("%d %zd\n", file >= 0, read(file, text, sizeof text));
    } else if (!strcmp(wish, "uid")) {
        printf("%ld\n", syscall(SYS_getuid));
    } else if (!strcmp(wish, "state")) {
        long first = syscall(SYS_getppid), second = syscall(SYS_getppid);
        pthread_t id;
        void *other;
        if (pthread_create(&id, NULL, thread, NULL)) return 2;
        pthread_join(id, &other);
        printf("%ld %ld %ld\n", first, second, (long)other);
    } else if (!strcmp(wish, "block")) {
        pthread_t id;
        if (pthread_create(&id, NULL, thread, NULL)) return 2;
        syscall(SYS_getppid);
        pthread_join(id, NULL);
    } else if (!strcmp(wish, "events")) {
        pthread_t id;
        if (pthread_create(&id, NULL, thread, NULL)) return 2;
        pthread_join(id, NULL);
        int status = 0;
        if (fork() == 0) _exit(syscall(SYS_getppid) == 20101 ? 7 : 8);
        wait(&status);
        printf("%ld %d\n", syscall(SYS_getppid), WEXITSTATUS(status));
    } else {
        long got = syscall(SYS_getppid);
        printf("%s\n", got == getpid() ? "pid" : got == 4242 ? "4242" : got < 0 ? "failed" : "ppid");
    }
    return 0;
}
"#;

/// What all tests share: compiled hooks and programs.
struct Bed {
    folder: Scratch,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn compile(options: &[&str], source: &Path, to: &Path) -> Check {
    let output = Command::new("cc")
        .args(["-O2", "-Wall", "-Wextra", "-Werror"])
        .arg("-I")
        .arg(root().join("../hook/include"))
        .args(options)
        .arg("-o")
        .args([to, source])
        .output()
        .map_err(|error| format!("cannot run cc: {error}"))?;
    if output.status.success() {
        Ok(())
    } else {
        Err(format!("{}: {}", source.display(), String::from_utf8_lossy(&output.stderr)))
    }
}

const HOOK: [&str; 4] = ["-shared", "-fPIC", "-nostdlib", "-mgeneral-regs-only"];

impl Bed {
    fn new() -> Result<Self, String> {
        let bed = Self { folder: Scratch::new("hooks") };
        compile(&HOOK, &root().join("hooks/promises.c"), &bed.file("promises.so"))?;
        compile(&HOOK[..3], &root().join("hooks/vectors.c"), &bed.file("vectors.so"))?;
        // The same with a libc, and what only such a one can do.
        compile(&HOOK[..2], &root().join("hooks/promises.c"), &bed.file("promises-libc.so"))?;
        let mut source = root().join("hooks/with_libc.c").into_os_string();
        let inline = [HOOK[0], HOOK[1], "-fno-math-errno"];
        compile(&inline, Path::new(&source), &bed.file("with_libc.so"))?;
        source = root().join("hooks/foreign.c").into_os_string();
        let options = [HOOK[0], HOOK[1], "-Wno-array-bounds"];
        compile(&options, Path::new(&source), &bed.file("foreign.so"))?;
        let options = [HOOK[0], HOOK[1], "-Wno-array-bounds", "-DSVC_HOOK"];
        compile(&options, Path::new(&source), &bed.file("foreign-svc.so"))?;
        let source = bed.file("caller.c");
        fs::write(&source, CALLER).map_err(|error| error.to_string())?;
        compile(&[], &source, &bed.file("caller"))?;
        compile(&["-static"], &source, &bed.file("caller-static"))?;
        Ok(bed)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `--hook` for `promises.c` with this argument.
    fn promise(&self, wish: &str) -> OsString {
        self.hook("promises.so", wish)
    }

    /// `--hook` for this library with this argument.
    fn hook(&self, library: &str, wish: &str) -> OsString {
        let mut word = self.file(library).into_os_string();
        word.push(":");
        word.push(wish);
        word
    }

    /// Runs a program under hooks; the last words are the program's.
    fn run(&self, mode: Mode, hooks: &[OsString], options: &[&str], line: &[OsString]) -> Finished {
        let mut words: Vec<OsString> = vec![crossgate().into(), "run".into(), "--mode".into()];
        words.push(mode.to_string().into());
        words.extend(options.iter().map(OsString::from));
        words.extend(hooks.iter().flat_map(|hook| ["--hook".into(), hook.clone()]));
        words.push("--".into());
        words.extend_from_slice(line);
        Job::new(words).run()
    }
}

/// The first hook of docs/hooks.md, as it stands there.
fn first_hook(bed: &Bed) -> Check {
    let text = fs::read_to_string(root().join("../docs/hooks.md")).map_err(|e| e.to_string())?;
    let code = text.split("```c\n").nth(1).and_then(|rest| rest.split("```").next());
    let code = code.ok_or("docs/hooks.md has no hook")?;
    let line = text.lines().find(|line| line.starts_with("cc ")).ok_or("no line to compile it")?;
    if HOOK.iter().any(|option| !line.contains(option)) {
        return Err(format!("docs/hooks.md compiles otherwise than the tests: {line}"));
    }
    let source = bed.file("mine.c");
    let hook = bed.file("libmine.so");
    // As root `id` prints 0 without it, too.
    for (result, want) in [("= 0;", "0\n"), ("= 4321;", "4321\n")] {
        fs::write(&source, code.replace("= 0;", result)).map_err(|error| error.to_string())?;
        compile(&HOOK, &source, &hook)?;
        let line = ["id".into(), "-u".into()];
        expect(&bed.run(Mode::Exhaustive, &[hook.clone().into()], &[], &line), 0, want, "")?;
    }
    Ok(())
}

/// `pkg-config` leads to the header, and says this version.
fn pkg_config(bed: &Bed, test: &str) -> Outcome {
    if find_tool("pkg-config").is_none() {
        return skip(test, "pkg-config", "it is not here");
    }
    let ask = |what: &str| {
        let mut command = Command::new("pkg-config");
        command.args([what, "crossgate"]);
        command.env("PKG_CONFIG_PATH", root().join("../hook/pkgconfig")).output()
    };
    let version = ask("--modversion")?;
    if String::from_utf8_lossy(&version.stdout).trim() != env!("CARGO_PKG_VERSION") {
        return Err(format!("{version:?}").into());
    }
    let flags = String::from_utf8_lossy(&ask("--cflags")?.stdout).trim().to_owned();
    let source = bed.file("empty.c");
    fs::write(&source, "#include <crossgate.h>\n")?;
    let built = Command::new("cc").args([&flags, "-fsyntax-only"]).arg(&source).status()?;
    if built.success() { Ok(Completion::Completed) } else { Err(flags.into()) }
}

/// The example that logs what is read, with a shell, its children and a static program.
fn read_files(bed: &Bed) -> Check {
    let hook = example(bed, "read_files")?;
    let log = bed.file("files");
    let script = "cat /etc/hostname; echo x > \"$1\"/written; \"$2\" file";
    let mut line: Vec<OsString> = ["sh", "-c", script, "sh"].map(Into::into).into();
    line.push(bed.folder.path().into());
    line.push(bed.file("caller-static").into());
    let options = ["--hook-log", log.to_str().expect("a plain path")];
    let finished = bed.run(Mode::Exhaustive, &[hook.into()], &options, &line);
    let files = fs::read_to_string(&log).map_err(|error| error.to_string())?;
    let read = |name: &str| files.lines().any(|line| line.ends_with(name));
    if read("/etc/hostname") && read("/libc.so.6") && !read("/written") && !read("/nowhere") {
        Ok(())
    } else {
        Err(format!("{finished}\nlog:\n{files}"))
    }
}

/// The example in Rust: it answers, refuses, and a panic says what and where.
fn rust_hook(bed: &Bed, test: &str) -> Outcome {
    let target = ["--target", "x86_64-unknown-none", "--print", "target-libdir"];
    let found = Command::new("rustc").args(target).output();
    let libraries = found.map(|out| String::from_utf8_lossy(&out.stdout).trim().to_owned());
    if !libraries.is_ok_and(|folder| Path::new(&folder).is_dir()) {
        return skip(test, "rustc", "it needs rustc's own x86_64-unknown-none");
    }
    let built = Command::new(root().join("../hook/examples/rust/build"))
        .arg(bed.folder.path())
        .env("CARGO_TARGET_DIR", bed.file("rust-target"))
        // Meant for the host.
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .output()?;
    if !built.status.success() {
        return Err(format!("build: {}", String::from_utf8_lossy(&built.stderr)).into());
    }
    let hook = |argument: &str| {
        let mut word = bed.file("libfake_uid.so").into_os_string();
        word.push(argument);
        [word]
    };
    let line = ["id".into(), "-u".into()];
    for mode in Mode::HOOKED {
        expect(&bed.run(mode, &hook(""), &[], &line), 0, "0\n", "")?;
        expect(&bed.run(mode, &hook(":4321"), &[], &line), 0, "4321\n", "")?;
        expect(&bed.run(mode, &hook(":x"), &[], &line), 125, "", "Invalid argument")?;
        expect(&bed.run(mode, &hook(":666"), &[], &line), 125, "", "no user 666")?;
    }
    Ok(Completion::Completed)
}

/// Compiles an example in C.
fn example(bed: &Bed, name: &str) -> Result<PathBuf, String> {
    let hook = bed.file(&format!("lib{name}.so"));
    compile(&HOOK, &root().join(format!("../hook/examples/{name}.c")), &hook)?;
    Ok(hook)
}

/// What coreutils and others do with files, all of which they name under $1.
const FILES: &str = r#"
set -e; m=$1
mkdir $m/a; echo hello > $m/a/f; cat $m/a/f; cp -r /etc/apt $m/b; ls -R $m | wc -l
mv $m/a/f $m/a/g; ln -s g $m/a/l; readlink $m/a/l; cat $m/a/l; ln $m/a/g $m/h
stat -c '%n %s %h %F' $m/h $m/a $m/a/l; (cd $m/a; pwd; /bin/pwd; ls; cat ../h; cat $m/./a//g)
find $m/a | sort; tar -C $m -cf $m/t.tar a; tar tf $m/t.tar | sort; rm -r $m/a $m/b; ls $m
dd if=/dev/zero of=$m/z bs=1k count=64 2> /dev/null; wc -c < $m/z; rm $m/z $m/h $m/t.tar
rmdir $m/nothing 2> /dev/null || echo no; touch $m/x; test -f $m/x; chmod 600 $m/x; stat -c %a $m/x
cp $m/x $m/y; sort -o $m/y $m/x; touch -d 2001-01-01 $m/y; stat -c %Y $m/y; truncate -s 5 $m/y
ls -ld $m/y | cut -c1-10; rm $m/*; cat $m/x 2> /dev/null || echo gone
"#;

/// The example in Rust with its standard library: a file system in memory.
fn memory_files(bed: &Bed) -> Check {
    let target = bed.file("std-target");
    let built = Command::new("cargo")
        .args(["build", "--release", "--quiet"])
        .current_dir(root().join("../hook/examples/memory_files"))
        .env("CARGO_TARGET_DIR", &target)
        // A library, not a static program as the repository's own.
        .env("RUSTFLAGS", "-Crelocation-model=pic")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .output()
        .map_err(|error| error.to_string())?;
    if !built.status.success() {
        return Err(format!("build: {}", String::from_utf8_lossy(&built.stderr)));
    }
    let built = format!("{}-unknown-linux-gnu/release/libmemory_files.so", std::env::consts::ARCH);
    let (native, real) = (bed.file("native"), bed.file("real"));
    fs::create_dir(&native).map_err(|error| error.to_string())?;
    let line = |folder: &str| ["sh", "-c", FILES, "sh", folder].map(OsString::from);
    let native = native.to_str().ok_or("a strange path")?;
    let expected = Job::new(line(native).to_vec()).run();
    let expected = String::from_utf8_lossy(&expected.stdout).replace(native, "/memory");
    if !expected.ends_with("gone\n") {
        return Err(format!("without a hook: {expected}"));
    }
    let mut hook = target.join(built).into_os_string();
    hook.push(":/memory=");
    hook.push(&real);
    for mode in Mode::HOOKED {
        let finished = bed.run(mode, &[hook.clone()], &[], &line("/memory"));
        expect(&finished, 0, &expected, "")?;
    }
    let wrong = target.join("x86_64-unknown-linux-gnu/release/libmemory_files.so:memory");
    expect(
        &bed.run(Mode::Exhaustive, &[wrong.into()], &[], &["true".into()]),
        125,
        "",
        "its crossgate_hook_init says Invalid argument",
    )
}

/// A server and a client of its own, in one program with two processes.
const TALK: &str = r#"
import os, socket, sys
server = socket.socket(); server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
port = int(sys.argv[1]); server.bind(("127.0.0.1", port)); server.listen()
if os.fork() == 0:
    client = socket.create_connection(("localhost", port))
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    client.sendall(b"x" * 100000 + b"."); client.shutdown(socket.SHUT_WR)
    print(client.getpeername() == ("127.0.0.1", port), client.recv(10), flush=True); os._exit(0)
connection, peer = server.accept()
got = b""
while not got.endswith(b"."): got += connection.recv(70000)
connection.sendall(b"%d" % len(got)); os.wait()
print(peer[0], connection.getsockname() == ("127.0.0.1", port), server.getsockname()[1] == port)
print(connection.getsockopt(socket.SOL_SOCKET, socket.SO_DOMAIN) == socket.AF_UNIX)
"#;

/// The example that replaces TCP between local programs.
fn local_sockets(bed: &Bed) -> Check {
    let hook = example(bed, "local_sockets")?;
    let port = 20000 + std::process::id() % 10000;
    let line = ["python3", "-c", TALK, &port.to_string()].map(OsString::from);
    for mode in Mode::HOOKED {
        let want = "True b'100001'\n127.0.0.1 True True\nTrue\n";
        expect(&bed.run(mode, &[hook.clone().into()], &[], &line), 0, want, "")?;
        // Another port stays TCP's.
        let mut other = hook.clone().into_os_string();
        other.push(":1");
        let want = "True b'100001'\n127.0.0.1 True True\nFalse\n";
        expect(&bed.run(mode, &[other], &[], &line), 0, want, "")?;
    }
    Ok(())
}

/// The example with a clock and random numbers that repeat.
fn deterministic(bed: &Bed) -> Check {
    const LOOK: &str = "import os, random, time\n\
        before = time.monotonic(); time.sleep(3600); slept = time.monotonic() - before\n\
        print(int(time.time()), 3600 <= slept < 3601, random.random(), os.urandom(4).hex())\n\
        print(open('/dev/urandom', 'rb').read(4).hex())";
    let mut hook = example(bed, "deterministic")?.into_os_string();
    hook.push(":7@1000000000");
    for mode in Mode::HOOKED {
        let run = |line: &[&str]| {
            let line: Vec<_> = line.iter().map(OsString::from).collect();
            bed.run(mode, &[hook.clone()], &["--vdso"], &line)
        };
        expect(&run(&["date", "-u", "+%s"]), 0, "1000000000\n", "")?;
        let first = run(&["python3", "-c", LOOK]);
        let text = String::from_utf8_lossy(&first.stdout).into_owned();
        if !text.starts_with("1000003600 True 0.") {
            return Err(first.to_string());
        }
        expect(&run(&["python3", "-c", LOOK]), 0, &text, "")?;
    }
    Ok(())
}

fn expect(finished: &Finished, code: i32, stdout: &str, stderr: &str) -> Check {
    let said = finished.stderr_text();
    let as_wanted = if stderr.is_empty() { said.is_empty() } else { said.contains(stderr) };
    if finished.ending() == format!("exit {code}")
        && finished.stdout == stdout.as_bytes()
        && as_wanted
    {
        Ok(())
    } else {
        Err(format!("expected exit {code}, {stdout:?} and {stderr:?}\n{finished}"))
    }
}

/// What the hook is told to do, what the program asks for, what it prints, what the hook logs.
const PROMISES: [(&str, &str, &str, &str); 12] = [
    ("nothing", "", "ppid\n", ""),
    ("answer", "", "4242\n", ""),
    ("fail", "", "failed\n", ""),
    ("another call", "", "pid\n", ""),
    ("change", "", "pid\n", ""),
    // What a hook changes counts only where it says so.
    ("look", "", "ppid\n", ""),
    ("pass", "", "ppid\n", ""),
    ("redirect", "file", "1 ", ""),
    ("memory", "", "ppid\n", "ok\n"),
    ("state", "state", "1 2 1\n", ""),
    // Two tasks have begun and one has ended; in the child, one process more.
    ("events", "events", "20001 7\n", ""),
    ("everything", "", "ppid\n", ""),
];

fn promise(bed: &Bed, mode: Mode, library: &str, program: &str, index: usize) -> Check {
    let (wish, asked, stdout, stderr) = PROMISES[index];
    let mut line = vec![bed.file(program).into_os_string()];
    line.push(asked.into());
    let finished = bed.run(mode, &[bed.hook(library, wish)], &[], &line);
    if wish == "redirect" {
        let hostname = fs::read("/etc/hostname").map_err(|error| error.to_string())?;
        return expect(&finished, 0, &format!("1 {}\n", hostname.len()), "");
    }
    expect(&finished, 0, stdout, stderr)
}

/// The first hook is the program's neighbour: it sees a call first and its result last.
fn order(bed: &Bed) -> Check {
    // SAFETY: a query.
    let uid = i64::from(unsafe { libc::getuid() });
    let line = [bed.file("caller").into_os_string(), "uid".into()];
    for (first, second, want) in
        [("double", "add one", (uid + 1) * 2), ("add one", "double", uid * 2 + 1)]
    {
        let hooks = [bed.promise(first), bed.promise(second)];
        expect(&bed.run(Mode::Exhaustive, &hooks, &[], &line), 0, &format!("{want}\n"), "")?;
    }
    // A call that the first one answers does not reach the second.
    let line = [bed.file("caller").into_os_string()];
    let hooks = [bed.promise("answer"), bed.promise("crash")];
    expect(&bed.run(Mode::Exhaustive, &hooks, &[], &line), 0, "4242\n", "")
}

fn failing(bed: &Bed) -> Check {
    let line = [bed.file("caller").into_os_string()];
    for (wish, how) in [
        ("crash", "SIGSEGV"),
        ("crash later", "SIGSEGV"),
        ("illegal", "SIGILL"),
        ("give up", "it gave itself up in getppid"),
        ("refuse", "crossgate_hook_init says"),
        ("crash at start", "SIGSEGV"),
    ] {
        for mode in Mode::HOOKED {
            let hooks = [bed.promise(wish)];
            let ended = bed.run(mode, &hooks, &[], &line);
            expect(&ended, 125, "", how)?;
            expect(&ended, 125, "", "hook promises.so failed")?;
            let goes_on = bed.run(mode, &hooks, &["--on-hook-fault", "continue"], &line);
            expect(&goes_on, 0, "ppid\n", how)?;
            expect(&goes_on, 0, "ppid\n", "goes on without it")?;
        }
    }
    Ok(())
}

/// A hook with a libc: what it does, what the program prints then, what is said.
const WITH_LIBC: [(&str, i32, &str, &str); 6] = [
    ("refused", 0, "ppid\n", "ok\n"),
    ("print", 0, "printed\nppid\n", ""),
    ("abort", 125, "", "hook with_libc.so failed"),
    ("exit", 125, "", "it gave itself up in getppid"),
    ("overflow", 125, "", "SIGSEGV"),
    ("exit at start", 125, "", "it gave itself up"),
];

fn with_libc(bed: &Bed) -> Check {
    for mode in Mode::HOOKED {
        for program in ["caller", "caller-static"] {
            let line = [bed.file(program).into_os_string()];
            for (wish, code, stdout, stderr) in WITH_LIBC {
                let finished = bed.run(mode, &[bed.hook("with_libc.so", wish)], &[], &line);
                expect(&finished, code, stdout, stderr).map_err(|e| format!("{wish}: {e}"))?;
            }
            // One thread waits in the hook for another to come.
            let line = [line[0].clone(), "block".into()];
            let finished = bed.run(mode, &[bed.hook("with_libc.so", "block")], &[], &line);
            if finished.ending() != "exit 0" {
                return Err(finished.to_string());
            }
        }
    }
    Ok(())
}

/// A library written for zpoline: its wish, the program's, and what that prints.
const FOREIGN: [(&str, i32, &str); 5] = [
    ("", 0, "ppid\n"),
    ("answer", 0, "4242\n"),
    ("change", 0, "pid\n"),
    ("twice", 0, "ppid\n"),
    ("crash", 125, ""),
];

fn foreign(bed: &Bed) -> Check {
    for mode in Mode::HOOKED {
        for program in ["caller", "caller-static"] {
            let kinds = [bed.hook("foreign.so", ""), bed.hook("foreign-svc.so", "svc-hook")];
            let all = kinds.iter().flat_map(|kind| FOREIGN.map(|wished| (kind, wished)));
            for (foreign, (wish, code, stdout)) in all {
                let line = [bed.file(program).into_os_string()];
                let run = |line: &[OsString], hooks: &[OsString], options: &[&str]| {
                    let mut words: Vec<OsString> = vec!["env".into()];
                    words.push(format!("WISH={wish}").into());
                    words.extend_from_slice(line);
                    bed.run(mode, hooks, options, &words)
                };
                let said = if code == 0 { "" } else { "hook foreign" };
                let hooks = [foreign.clone()];
                expect(&run(&line, &hooks, &[]), code, stdout, said)?;
                // Between two others, on the same stack.
                let hooks =
                    [bed.hook("with_libc.so", ""), foreign.clone(), bed.hook("with_libc.so", "")];
                expect(&run(&line, &hooks, &[]), code, stdout, said)?;
                if code != 0 {
                    let options = ["--on-hook-fault", "continue"];
                    expect(&run(&line, &hooks[1..2], &options), 0, "ppid\n", said)?;
                }
            }
        }
    }
    Ok(())
}

/// `--compat` loads what the variables of zpoline and svc-hook name.
fn compat(bed: &Bed) -> Check {
    for (variable, library) in [("LIBZPHOOK", "foreign.so"), ("LIBSVCHOOK", "foreign-svc.so")] {
        let mut setting = OsString::from(variable);
        setting.push("=");
        setting.push(bed.file(library));
        let line = ["env".into(), "WISH=answer".into(), setting];
        let crossgate = [crossgate().into(), "run".into(), "--compat".into(), "--".into()];
        let program = [bed.file("caller").into_os_string()];
        let words: Vec<_> = line.into_iter().chain(crossgate).chain(program).collect();
        expect(&Job::new(words).run(), 0, "4242\n", "")?;
    }
    let without = bed.run(Mode::Exhaustive, &[], &["--compat"], &["true".into()]);
    expect(&without, 125, "", "neither LIBZPHOOK nor LIBSVCHOOK is set")
}

/// Libraries that cannot be hooks: how they are made, and what is said.
const REFUSED: [(&str, &[&str], &str, &[&str]); 6] = [
    (
        "function",
        &HOOK,
        "int getenv(void); int crossgate_hook_init(void) { return getenv(); } int crossgate_hook_enter(void) { return 0; }",
        &["it needs the function getenv"],
    ),
    (
        "no init",
        &HOOK,
        "int crossgate_hook_enter(void) { return 0; }",
        &["no function crossgate_hook_init"],
    ),
    (
        "no enter",
        &HOOK,
        "int crossgate_hook_init(void) { return 0; }",
        &["no function crossgate_hook_enter"],
    ),
    (
        "missing symbol",
        &["-shared", "-fPIC"],
        "int nobodys(void); int crossgate_hook_init(void) { return nobodys(); } int crossgate_hook_enter(void) { return 0; }",
        &["undefined symbol: nobodys"],
    ),
    (
        "calls",
        &HOOK,
        "int crossgate_hook_init(void) { __asm__ volatile(\"syscall\" ::: \"rax\", \"rcx\", \"r11\", \"memory\"); return 0; } int crossgate_hook_enter(void) { return 0; }",
        &["call instruction of its own", "crossgate_call"],
    ),
    ("program", &[], "int main(void) { return 0; }", &["is a program, not a library"]),
];

fn refused(bed: &Bed) -> Check {
    let line: [OsString; 2] = ["/bin/echo".into(), "ran".into()];
    let check = |hook: &Path, words: &[&str]| {
        let finished = bed.run(Mode::Exhaustive, &[hook.into()], &[], &line);
        expect(&finished, 125, "", words[0])?;
        let said = finished.stderr_text();
        let name = hook.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let all = words.iter().all(|word| said.contains(word)) && said.contains(&name);
        if all && said.lines().count() == 1 {
            Ok(())
        } else {
            Err(format!("{words:?}\n{finished}"))
        }
    };
    for (name, options, source, words) in REFUSED {
        let from = bed.file(&format!("{name}.c"));
        fs::write(&from, source).map_err(|error| error.to_string())?;
        let to = bed.file(&format!("{name}.so"));
        compile(options, &from, &to)?;
        check(&to, words)?;
    }
    let text = bed.file("text.so");
    fs::write(&text, "no library\n").map_err(|error| error.to_string())?;
    check(&text, &["it is no shared library for x86-64"])?;
    check(&bed.file("missing.so"), &["cannot read the hook", "No such file"])
}

/// A small program under a hook that watches every call, or lets it pass, as it is natively.
fn hazard(
    bed: &Bed,
    programs: &Programs,
    program: &Program,
    (hook, mode): (&str, Mode),
    test: &str,
) -> Outcome {
    if let Some((tool, reason)) = program.missing() {
        return skip(test, &tool, &reason);
    }
    if let Some(reason) = program.excluded(&mode.to_string()) {
        return Ok(Completion::ignored_with(reason));
    }
    if program.name == "chroot_exec" && matches!(hook, "with_libc" | "foreign") {
        return Ok(Completion::ignored_with("there is no libc in its chroot"));
    }
    let line = programs.line(program)?;
    let hooks = match hook {
        "vectors" | "with_libc" | "foreign" => [bed.hook(&format!("{hook}.so"), "")],
        wish => [bed.promise(wish)],
    };
    let finished = bed.run(mode, &hooks, &[], &line);
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
    let bed = Arc::new(Bed::new().unwrap_or_else(|error| panic!("{error}")));
    let mut trials = Vec::new();
    let mut add = |name: String, check: Trying| {
        let (bed, test) = (bed.clone(), name.clone());
        trials.push(Trial::ignorable_test(name, move || match Mode::Exhaustive.missing() {
            Some(reason) => skip(&test, "crossgate", &reason),
            None => check(&bed, &test),
        }));
    };
    for (index, (wish, ..)) in PROMISES.iter().enumerate() {
        for mode in Mode::HOOKED {
            for program in ["caller", "caller-static"] {
                for library in ["promises", "promises-libc"] {
                    let check = move |bed: &Bed, _: &str| {
                        promise(bed, mode, &format!("{library}.so"), program, index)?;
                        Ok(Completion::Completed)
                    };
                    add(format!("{library}::{wish}::{mode}::{program}"), Box::new(check));
                }
            }
        }
    }
    for (name, check) in [
        ("order", order as fn(&Bed) -> Check),
        ("failing", failing),
        ("with_libc", with_libc),
        ("foreign", foreign),
        ("compat", compat),
        ("refused", refused),
        ("first_hook", first_hook),
        ("read_files", read_files),
        ("memory_files", memory_files),
        ("local_sockets", local_sockets),
        ("deterministic", deterministic),
    ] {
        let check = move |bed: &Bed, _: &str| {
            check(bed)?;
            Ok(Completion::Completed)
        };
        add(name.into(), Box::new(check));
    }
    add("rust_hook".into(), Box::new(rust_hook));
    add("pkg_config".into(), Box::new(pkg_config));
    for program in programs.all.iter().filter(|p| p.expect == "0" && !p.untraced) {
        let exhaustive = Mode::Exhaustive;
        let mut hooks: Vec<_> =
            ["everything", "pass", "with_libc", "foreign"].map(|hook| (hook, exhaustive)).into();
        if ["registers", "vector_state", "signal_storm", "goroutines", "min_stack"]
            .contains(&program.name.as_str())
        {
            hooks.push(("vectors", exhaustive));
        }
        if ["signal_storm", "exit_signals", "restart_read", "eintr", "threads_many", "fork_threads"]
            .contains(&program.name.as_str())
        {
            let hooked = ["everything", "pass", "with_libc", "foreign"];
            hooks.extend(hooked.map(|hook| (hook, Mode::Fast)));
        }
        for (hook, mode) in hooks {
            let (programs, program) = (programs.clone(), program.clone());
            let name = format!("{hook}::{mode}::{}", program.name);
            let check =
                move |bed: &Bed, test: &str| hazard(bed, &programs, &program, (hook, mode), test);
            add(name, Box::new(check));
        }
    }
    skip::run(trials)
}
