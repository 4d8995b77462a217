//! Runs things: compiles the C programs of the bench, starts commands with a deadline,
//! takes processor time, and ends what it started.
//!
//! A process is only ever signalled by the id of one that this module started, or of a
//! descendant of it.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{env, thread};

use nix::errno::Errno;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, kill, killpg, sigaction};
use nix::unistd::Pid;

/// The C programs of the bench, carried in the binary so that it runs from anywhere.
const SOURCES: [(&str, &str); 4] = [
    ("micro", include_str!("../programs/micro.c")),
    ("cputime", include_str!("../programs/cputime.c")),
    ("ptracer", include_str!("../programs/ptracer.c")),
    ("sleeper", include_str!("../programs/sleeper.c")),
];

/// The hook libraries, each with its source and how it is compiled; and the header that they need.
const HOOKS: [(&str, &str, &[&str]); 4] = [
    ("passing-hook", HOOK_SOURCE, &WITHOUT_LIBC),
    ("watching-hook", HOOK_SOURCE, &["-nostdlib", "-mgeneral-regs-only", "-DWATCH"]),
    ("libc-hook", HOOK_SOURCE, &[]),
    ("local_sockets", include_str!("../../hook/examples/local_sockets.c"), &WITHOUT_LIBC),
];
const WITHOUT_LIBC: [&str; 2] = ["-nostdlib", "-mgeneral-regs-only"];
const HOOK_SOURCE: &str = include_str!("../programs/hook.c");
const HOOK_HEADER: &str = include_str!("../../hook/include/crossgate.h");

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Makes SIGINT and SIGTERM end the run in order: what it started is ended and what it
/// wrote is removed.
pub fn end_in_order() -> Result<(), Errno> {
    extern "C" fn on_signal(_: i32) {
        INTERRUPTED.store(true, Ordering::Relaxed);
    }
    let action =
        SigAction::new(SigHandler::Handler(on_signal), SaFlags::SA_RESTART, SigSet::empty());
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        // SAFETY: the handler does nothing but store to an atomic.
        unsafe { sigaction(signal, &action) }?;
    }
    Ok(())
}

/// Whether one of those signals came.
pub fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// A directory of this run, removed when dropped.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// A new directory in `parent`.
    pub fn new(parent: &Path) -> io::Result<Self> {
        let path = parent.join(format!("crossgate-bench-{}", std::process::id()));
        fs::create_dir(&path)?;
        // A server that drops its privileges must still reach its files.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        Ok(Self(path))
    }

    /// A name in the directory.
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed is left: there is nobody to tell.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What running takes: the scratch directories and the compiled programs in them.
#[derive(Debug)]
pub struct Bed {
    /// Files that may live on a disk.
    pub scratch: Scratch,
    /// Files that must cost no disk; absent where no tmpfs is writable.
    pub memory: Option<Scratch>,
    /// The processor on which measured programs stay, and the one for load generators;
    /// absent where there is only one.
    pub processors: Option<(usize, usize)>,
}

impl Bed {
    /// Makes the directories and compiles the programs into them.
    pub fn new() -> Result<Self, String> {
        let scratch = Scratch::new(&env::temp_dir())
            .map_err(|error| format!("cannot make a scratch directory: {error}"))?;
        for (name, source) in SOURCES {
            compile(&scratch, &[], &format!("{name}.c"), source, name)?;
        }
        let header = scratch.file("crossgate.h");
        fs::write(&header, HOOK_HEADER)
            .map_err(|error| format!("{}: {error}", header.display()))?;
        for (name, source, options) in HOOKS {
            let options = [&["-shared", "-fPIC"], options].concat();
            compile(&scratch, &options, &format!("{name}.c"), source, name)?;
        }
        let shared_memory = Path::new("/dev/shm");
        let memory = is_tmpfs(shared_memory).then(|| Scratch::new(shared_memory).ok()).flatten();
        let processors = match allowed_processors().as_slice() {
            [first, .., last] => Some((*last, *first)),
            _ => None,
        };
        Ok(Self { scratch, memory, processors })
    }

    /// The argument by which a C program is told to stay on the measured processor.
    pub fn measured_processor(&self) -> String {
        self.processors.map_or("-1".into(), |(measured, _)| measured.to_string())
    }

    /// The argument by which a load generator is kept off the measured processor.
    pub fn load_processor(&self) -> String {
        self.processors.map_or("-1".into(), |(_, load)| load.to_string())
    }

    /// Runs `command` so many times in a row and takes the processor time of one run, of it
    /// and of all that it starts.
    pub fn cpu_of(
        &self,
        command: &mut Command,
        times: u32,
        limit: Duration,
    ) -> Result<Times, String> {
        let result = self.scratch.file("outer");
        let mut wrapped = Command::new(self.scratch.file("cputime"));
        wrapped.arg(&result).arg("-1").arg(times.to_string());
        append(&mut wrapped, command);
        run(&mut wrapped, &self.scratch, limit, &[0])?;
        let Times { cpu_ms, wall_ms } = Times::read(&result)?;
        let times = f64::from(times);
        Ok(Times { cpu_ms: cpu_ms / times, wall_ms: wall_ms / times })
    }

    /// Runs `command` behind `prefix` and takes its processor time without the prefix's,
    /// and then that of both together. The command may exit with a status in `accepted`.
    pub fn cpu_inside<S: AsRef<OsStr>>(
        &self,
        prefix: &[S],
        command: &Command,
        limit: Duration,
        accepted: &[i32],
    ) -> Result<(Times, Times), String> {
        let (outer, inner) = (self.scratch.file("outer"), self.scratch.file("inner"));
        let _ = fs::remove_file(&inner);
        let program = self.scratch.file("cputime");
        let mut wrapped = Command::new(&program);
        wrapped.arg(&outer).args(["-1", "1"]).args(prefix);
        wrapped.arg(&program).arg(&inner).args(["-1", "1"]);
        append(&mut wrapped, command);
        run(&mut wrapped, &self.scratch, limit, accepted)?;
        Ok((Times::read(&inner)?, Times::read(&outer)?))
    }
}

/// Compiles `source`, kept as `file`, to `name`, all in `scratch`.
fn compile(
    scratch: &Scratch,
    options: &[&str],
    file: &str,
    source: &str,
    name: &str,
) -> Result<(), String> {
    let path = scratch.file(file);
    fs::write(&path, source).map_err(|error| format!("{}: {error}", path.display()))?;
    let compiler = env::var_os("CC").unwrap_or("cc".into());
    let status = Command::new(&compiler)
        .args([OsStr::new("-O2"), OsStr::new("-I"), scratch.path().as_os_str()])
        .args(options)
        .arg("-o")
        .args([&scratch.file(name), &path])
        .status()
        .map_err(|error| format!("cannot run {}: {error}", compiler.display()))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{} could not compile {file}", compiler.display()))
    }
}

/// Appends the program, arguments and settings of `command` to `wrapper`.
fn append(wrapper: &mut Command, command: &Command) {
    wrapper.arg(command.get_program()).args(command.get_args());
    if let Some(directory) = command.get_current_dir() {
        wrapper.current_dir(directory);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => wrapper.env(name, value),
            None => wrapper.env_remove(name),
        };
    }
}

/// What `cputime` wrote.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    /// Processor time in user and kernel mode, in milliseconds.
    pub cpu_ms: f64,
    /// Time from start to end, in milliseconds.
    pub wall_ms: f64,
}

impl Times {
    fn read(file: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(file).map_err(|error| format!("no times: {error}"))?;
        Self::parse(&text).ok_or_else(|| format!("times are unreadable: {text:?}"))
    }

    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace().map(str::parse::<f64>);
        let mut next = || words.next()?.ok();
        let (user_us, system_us, wall_ns) = (next()?, next()?, next()?);
        Some(Self { cpu_ms: (user_us + system_us) / 1e3, wall_ms: wall_ns / 1e6 })
    }
}

/// A started command that is ended, with everything under it, when dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    errors: PathBuf,
}

impl Running {
    /// Starts `command` in a process group of its own, with `output` as its standard
    /// output and its errors kept for [`Running::complaint`].
    pub fn start(command: &mut Command, scratch: &Scratch, output: Stdio) -> Result<Self, String> {
        // A name of its own: a server still writes its errors while its load runs.
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        let started = STARTED.fetch_add(1, Ordering::Relaxed);
        let errors = scratch.file(&format!("errors-{started}"));
        let file = File::create(&errors).map_err(|error| format!("errors: {error}"))?;
        let child = command
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(file)
            .env("LC_ALL", "C")
            .process_group(0)
            .spawn()
            .map_err(|error| format!("{}: {error}", command.get_program().display()))?;
        Ok(Self { child, errors })
    }

    /// The process id of the command.
    pub fn id(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// Waits for the command to end by itself.
    pub fn wait(&mut self, limit: Duration) -> Result<ExitStatus, String> {
        let end = Instant::now() + limit;
        let mut nap = Duration::from_micros(200);
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Ok(status),
                Ok(None) if interrupted() => return Err("interrupted".into()),
                Ok(None) if Instant::now() > end => {
                    return Err(format!("did not end within {} s", limit.as_secs()));
                }
                Ok(None) => thread::sleep(nap),
                Err(error) => return Err(error.to_string()),
            }
            nap = (nap * 2).min(Duration::from_millis(5));
        }
    }

    /// The last line that the command wrote to its standard error.
    pub fn complaint(&self) -> Option<String> {
        let text = fs::read(&self.errors).ok()?;
        let text = String::from_utf8_lossy(&text);
        Some(text.lines().rev().find(|line| !line.trim().is_empty())?.trim().to_owned())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.errors);
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        // Collected before the parents go, after which nothing names them.
        let below = descendants(self.id());
        let _ = killpg(Pid::from_raw(self.id()), Signal::SIGKILL);
        for process in below {
            let _ = kill(Pid::from_raw(process.id), Signal::SIGKILL);
        }
        let _ = self.child.wait();
    }
}

/// Runs `command` to its end; anything but an exit status in `accepted` is an error.
pub fn run(
    command: &mut Command,
    scratch: &Scratch,
    limit: Duration,
    accepted: &[i32],
) -> Result<(), String> {
    finish(Running::start(command, scratch, Stdio::null())?, limit, accepted)
}

/// Runs `command` to its end, which must be a success, and returns its output.
pub fn output(command: &mut Command, scratch: &Scratch, limit: Duration) -> Result<String, String> {
    let path = scratch.file("output");
    let file = File::create(&path).map_err(|error| format!("output: {error}"))?;
    finish(Running::start(command, scratch, file.into())?, limit, &[0])?;
    fs::read_to_string(&path).map_err(|error| format!("output: {error}"))
}

fn finish(mut running: Running, limit: Duration, accepted: &[i32]) -> Result<(), String> {
    let status = running.wait(limit)?;
    if status.code().is_some_and(|code| accepted.contains(&code)) {
        return Ok(());
    }
    let end = match (status.code(), status.signal()) {
        // How `cputime` and shells pass on that a signal ended their child.
        (Some(code @ 129..), _) => format!("ended by signal {}", code - 128),
        (Some(code), _) => format!("exit status {code}"),
        (_, signal) => format!("ended by signal {}", signal.unwrap_or_default()),
    };
    Err(running.complaint().map_or(end.clone(), |complaint| format!("{end}: {complaint}")))
}

/// A process, as `/proc` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its id.
    pub id: i32,
    /// Its parent's id.
    pub parent: i32,
    /// The name of its program, cut at 15 bytes.
    pub name: String,
}

impl Process {
    fn parse(stat: &str) -> Option<Self> {
        // The name is in parentheses and may itself hold any of these characters.
        let (id, rest) = stat.split_once(" (")?;
        let (name, rest) = rest.rsplit_once(") ")?;
        let parent = rest.split(' ').nth(1)?;
        Some(Self { id: id.parse().ok()?, parent: parent.parse().ok()?, name: name.to_owned() })
    }

    /// Processor time used so far by all its threads, in nanoseconds.
    pub fn cpu_ns(&self) -> Result<f64, String> {
        cpu_ns(self.id).map_err(|error| format!("processor time of {}: {error}", self.name))
    }
}

/// Process `id`, if there is one.
pub fn process(id: i32) -> Option<Process> {
    Process::parse(&fs::read_to_string(format!("/proc/{id}/stat")).ok()?)
}

/// Processor time used so far by the threads of process `id`, in nanoseconds. Unlike
/// `/proc/ID/stat` this does not count in ticks of 10 ms.
pub fn cpu_ns(id: i32) -> Result<f64, Errno> {
    let mut clock = 0;
    // SAFETY: the pointer is to a live variable of the type the call writes.
    match unsafe { libc::clock_getcpuclockid(id, &raw mut clock) } {
        0 => {}
        error => return Err(Errno::from_raw(error)),
    }
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: as above.
    Errno::result(unsafe { libc::clock_gettime(clock, &raw mut time) })?;
    Ok(time.tv_sec as f64 * 1e9 + time.tv_nsec as f64)
}

/// All processes below process `root`, which is not among them.
pub fn descendants(root: i32) -> Vec<Process> {
    let all: Vec<Process> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_name().as_encoded_bytes()[0].is_ascii_digit())
        .filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok())
        .filter_map(|stat| Process::parse(&stat))
        .collect();
    let mut found: Vec<Process> = Vec::new();
    let mut parents = vec![root];
    while let Some(parent) = parents.pop() {
        for process in all.iter().filter(|process| process.parent == parent) {
            parents.push(process.id);
            found.push(process.clone());
        }
    }
    found
}

/// The program called `name`, as the shell would find it, but never a script: a version
/// manager's wrapper is a shell whose time is not the program's.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    // Servers are installed where an ordinary user's search does not go.
    let also = ["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from);
    env::split_paths(&path).chain(also).map(|directory| directory.join(name)).find(|file| {
        let executable = fs::metadata(file)
            .is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0);
        executable && is_elf(file)
    })
}

fn is_elf(file: &Path) -> bool {
    let mut magic = [0; 4];
    File::open(file).and_then(|mut file| io::Read::read_exact(&mut file, &mut magic)).is_ok()
        && magic == *b"\x7fELF"
}

fn is_tmpfs(directory: &Path) -> bool {
    nix::sys::statfs::statfs(directory)
        .is_ok_and(|system| system.filesystem_type() == nix::sys::statfs::TMPFS_MAGIC)
}

/// The processors on which this process may run, in order.
fn allowed_processors() -> Vec<usize> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    parse_processors(list.unwrap_or_default())
}

fn parse_processors(list: &str) -> Vec<usize> {
    list.trim()
        .split(',')
        .filter_map(|part| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            Some(first.parse().ok()?..=last.parse().ok()?)
        })
        .flatten()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_cputime_writes() {
        let times = Times { cpu_ms: 1.5, wall_ms: 2.0 };
        assert_eq!(Times::parse("1000 500 2000000\n"), Some(times));
        assert_eq!(Times::parse("1000"), None);
    }

    #[test]
    fn reads_names_with_parentheses() {
        let process = Process::parse("12 (a) (b) S 7 12 12").unwrap();
        assert_eq!(process, Process { id: 12, parent: 7, name: "a) (b".into() });
    }

    #[test]
    fn reads_processor_lists() {
        assert_eq!(parse_processors("\t0-2,5\n"), [0, 1, 2, 5]);
        assert!(parse_processors("").is_empty());
    }

    #[test]
    fn takes_a_time_and_a_failure() {
        let bed = Bed::new().unwrap();
        let limit = Duration::from_secs(10);
        assert!(bed.cpu_of(&mut Command::new("true"), 2, limit).unwrap().wall_ms > 0.0);
        let mut failing = Command::new("sh");
        failing.args(["-c", "echo because >&2; exit 3"]);
        assert_eq!(bed.cpu_of(&mut failing, 1, limit), Err("exit status 3: because".into()));
        let mut hanging = Command::new("sleep");
        hanging.arg("100");
        let error = bed.cpu_of(&mut hanging, 1, Duration::from_millis(50)).unwrap_err();
        assert!(error.starts_with("did not end"), "{error}");
    }
}
