//! Runs one command: a process group and a scratch folder of its own, output into files, no
//! descriptor inherited, and a time limit after which the group is killed by its id.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// A folder that is removed when it goes out of scope.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes an empty folder that every user can enter.
    ///
    /// # Panics
    /// When it cannot be made.
    #[must_use]
    pub fn new(label: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("crossgate-test-{}-{number}-{label}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path)
            .unwrap_or_else(|error| panic!("cannot create {}: {error}", path.display()));
        Self(path)
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What is to be run.
#[derive(Debug)]
pub struct Job {
    line: Vec<OsString>,
    limit: Duration,
    folder: Option<PathBuf>,
    variables: Vec<(OsString, OsString)>,
    empty_environment: bool,
    closed: bool,
    user: Option<u32>,
}

/// What came of it.
#[derive(Debug)]
pub struct Finished {
    /// How it ended.
    pub status: ExitStatus,
    /// Its standard output.
    pub stdout: Vec<u8>,
    /// Its standard error.
    pub stderr: Vec<u8>,
    /// Whether it was killed at the time limit.
    pub timed_out: bool,
    repeat: String,
}

impl Job {
    /// A command line, with a limit of a minute.
    pub fn new(line: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        Self {
            line: line.into_iter().map(Into::into).collect(),
            limit: Duration::from_secs(60),
            folder: None,
            variables: Vec::new(),
            empty_environment: false,
            closed: false,
            user: None,
        }
    }

    /// Sets the time limit.
    #[must_use]
    pub fn limit(mut self, seconds: u64) -> Self {
        self.limit = Duration::from_secs(seconds);
        self
    }

    /// Sets the working folder.
    #[must_use]
    pub fn folder(mut self, folder: &Path) -> Self {
        self.folder = Some(folder.to_owned());
        self
    }

    /// Sets a variable of the environment.
    #[must_use]
    pub fn variable(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.variables.push((name.into(), value.as_ref().to_owned()));
        self
    }

    /// Starts it with no environment at all.
    #[must_use]
    pub fn empty_environment(mut self) -> Self {
        self.empty_environment = true;
        self
    }

    /// Starts it with descriptors 0 to 2 closed as well.
    #[must_use]
    pub fn closed(mut self) -> Self {
        self.closed = true;
        self
    }

    /// Runs it as another user and group of the same number.
    #[must_use]
    pub fn user(mut self, id: u32) -> Self {
        self.user = Some(id);
        self
    }

    fn repeat(&self) -> String {
        let mut text = String::new();
        if let Some(folder) = &self.folder {
            text += &format!("cd {} && ", folder.display());
        }
        for (name, value) in &self.variables {
            text += &format!("{}={} ", name.display(), quote(value));
        }
        text + &self.line.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" ")
    }

    /// Starts it, with its output into files in `scratch`.
    ///
    /// # Errors
    /// When the files cannot be made or the program cannot be started.
    pub fn start(&self, scratch: &Path) -> io::Result<Child> {
        let mut command = Command::new(&self.line[0]);
        command
            .args(&self.line[1..])
            .stdin(Stdio::null())
            .stdout(File::create(scratch.join("stdout"))?)
            .stderr(File::create(scratch.join("stderr"))?)
            .process_group(0);
        if self.empty_environment {
            command.env_clear();
        }
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        if let Some(id) = self.user {
            command.uid(id).gid(id);
        }
        let first = if self.closed { 0 } else { 3 };
        // SAFETY: the closure runs between fork and exec and only makes one async-signal-safe
        // call; marking descriptors close-on-exec keeps the pipe std reports a failed exec by.
        unsafe {
            command.pre_exec(move || {
                let flags = libc::CLOSE_RANGE_CLOEXEC as libc::c_int;
                match libc::close_range(first, libc::c_uint::MAX, flags) {
                    0 => Ok(()),
                    _ => Err(io::Error::last_os_error()),
                }
            });
        }
        command.spawn()
    }

    /// Runs it to its end or to the time limit.
    ///
    /// # Panics
    /// When it cannot be started; the message has the command line.
    #[must_use]
    pub fn run(&self) -> Finished {
        let scratch = Scratch::new("output");
        let mut child = self
            .start(scratch.path())
            .unwrap_or_else(|error| panic!("cannot start {}: {error}", self.repeat()));
        let (status, timed_out) = wait(&mut child, self.limit);
        Finished {
            status,
            stdout: fs::read(scratch.path().join("stdout")).unwrap_or_default(),
            stderr: fs::read(scratch.path().join("stderr")).unwrap_or_default(),
            timed_out,
            repeat: self.repeat(),
        }
    }
}

/// Waits for the end; kills the process group at the limit, and what is left of it in any case.
///
/// # Panics
/// When the child cannot be waited for.
pub fn wait(child: &mut Child, limit: Duration) -> (ExitStatus, bool) {
    let end = Instant::now() + limit;
    let mut timed_out = false;
    let status = loop {
        if let Some(status) = child.try_wait().expect("wait for a child of ours") {
            break status;
        }
        if Instant::now() >= end && !timed_out {
            timed_out = true;
            kill_group(child.id());
        }
        thread::sleep(Duration::from_millis(3));
    };
    kill_group(child.id());
    (status, timed_out)
}

fn kill_group(leader: u32) {
    let group = -libc::pid_t::try_from(leader).expect("a process id");
    // SAFETY: the group was made for this child alone; an empty group gives ESRCH.
    unsafe { libc::kill(group, libc::SIGKILL) };
}

/// Sends a signal to one process that these tests started.
pub fn send(child: &Child, signal: i32) {
    let pid = libc::pid_t::try_from(child.id()).expect("a process id");
    // SAFETY: the child has not been waited for, so the id is still its own.
    unsafe { libc::kill(pid, signal) };
}

fn quote(word: &OsStr) -> String {
    let text = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:{}+,@%".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.into_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

impl Finished {
    /// `exit 3`, `signal 11` or `time limit`.
    #[must_use]
    pub fn ending(&self) -> String {
        match (self.timed_out, self.status.code(), self.status.signal()) {
            (true, ..) => "time limit".to_owned(),
            (_, Some(code), _) => format!("exit {code}"),
            (.., signal) => format!("signal {}", signal.unwrap_or_default()),
        }
    }

    /// Standard error as text.
    #[must_use]
    pub fn stderr_text(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }
}

/// Everything that is worth knowing when a test failed.
impl fmt::Display for Finished {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "ended with: {}", self.ending())?;
        for (name, bytes) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            if !bytes.is_empty() {
                let text = String::from_utf8_lossy(bytes);
                let shown: String = text.chars().take(4000).collect();
                writeln!(formatter, "{name}:\n{}", shown.trim_end())?;
            }
        }
        write!(formatter, "repeat with: {}", self.repeat)
    }
}
