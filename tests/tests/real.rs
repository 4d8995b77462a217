//! Programs people use, natively and in both modes: the same standard output, the same exit code,
//! the same files. What the agents counted shows that they were in the programs.
//!
//! Each case is a shell script in `tests/real/`, run in an empty folder of its own. The comment
//! lines at its top say what it needs: `# needs:` tools, `# ports:` how many free ports of the
//! loopback interface it gets as PORT1, PORT2, …, `# user:` who runs it (root only), `# seconds:`
//! its time limit.

use crossgate_tests::mode::Mode;
use crossgate_tests::run::{Finished, Job, Scratch};
use crossgate_tests::skip::{self, Outcome, find_tool, is_root, search_path, skip};
use crossgate_tests::stats::Stats;
use crossgate_tests::tests_dir;
use libtest_mimic::{Completion, Trial};
use std::collections::BTreeMap;
use std::ffi::{CString, OsStr};
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, OnceLock};

struct Script {
    name: String,
    path: PathBuf,
    header: BTreeMap<String, String>,
    native: OnceLock<Result<Seen, String>>,
}

/// What is compared.
struct Seen {
    finished: Finished,
    files: BTreeMap<PathBuf, String>,
    /// That the shell and what the script needs were hooked.
    hooked: Result<(), String>,
}

impl Script {
    fn from(path: PathBuf) -> Self {
        let text = fs::read_to_string(&path).expect("a script of tests/real");
        let header = text
            .lines()
            .map_while(|line| line.strip_prefix("# "))
            .filter_map(|line| line.split_once(": "))
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Self { name, path, header, native: OnceLock::new() }
    }

    fn number(&self, key: &str, default: u64) -> u64 {
        self.header.get(key).map_or(default, |value| value.parse().expect("a number"))
    }

    fn needs(&self) -> impl Iterator<Item = &str> {
        self.header.get("needs").map_or("", String::as_str).split_whitespace()
    }

    fn missing(&self) -> Option<(String, String)> {
        let tool = self.needs().find(|tool| find_tool(tool).is_none());
        if let Some(tool) = tool {
            return Some((tool.to_owned(), format!("it needs {tool}, which is not installed")));
        }
        let user = self.header.get("user")?;
        if !is_root() {
            return Some(("root".into(), format!("running as {user} needs root")));
        }
        user_id(user).is_none().then(|| (user.clone(), format!("there is no user {user}")))
    }

    fn run(&self, mode: Mode) -> Result<Seen, String> {
        let scratch = Scratch::new(&self.name);
        let folder = scratch.path().join("work");
        fs::create_dir(&folder).map_err(|error| error.to_string())?;
        // Beside the folder whose files are compared.
        let counts = scratch.path().join("counts");
        fs::write(&counts, "").map_err(|error| error.to_string())?;
        let mut line = mode.counted(&counts, &["bash".into(), self.path.clone().into_os_string()]);
        if self.header.contains_key("user") {
            // Another user may not reach this tree: in root's home it does not.
            for word in &mut line {
                let file = Path::new(word);
                if file.is_absolute() && file.is_file() && file != counts {
                    let copy = scratch.path().join(file.file_name().unwrap_or_default());
                    fs::copy(file, &copy).map_err(|error| error.to_string())?;
                    *word = copy.into_os_string();
                }
            }
        }
        let path = std::env::join_paths(search_path()).map_err(|error| error.to_string())?;
        let mut job = Job::new(line)
            .limit(self.number("seconds", 120))
            .folder(&folder)
            .variable("PATH", path)
            .variable("HOME", &folder)
            .variable("LC_ALL", "C")
            .variable("TZ", "UTC");
        let listeners: Vec<TcpListener> = (0..self.number("ports", 0))
            .map(|_| TcpListener::bind("127.0.0.1:0").expect("a free port"))
            .collect();
        for (index, listener) in listeners.iter().enumerate() {
            let port = listener.local_addr().expect("an address").port().to_string();
            job = job.variable(&format!("PORT{}", index + 1), port);
        }
        drop(listeners);
        if let Some(user) = self.header.get("user") {
            let id = user_id(user).ok_or("no such user")?;
            for path in [&folder, &counts] {
                chown(path, Some(id), Some(id)).map_err(|error| error.to_string())?;
            }
            job = job.user(id);
        }
        let finished = job.run();
        let mut files = BTreeMap::new();
        list(&folder, &folder, &mut files);
        let hooked = match mode {
            Mode::Native => Ok(()),
            _ => Stats::read(&counts).and_then(|s| s.prove_hooked(1 + self.needs().count() as u64)),
        };
        Ok(Seen { finished, files, hooked })
    }
}

fn user_id(name: &str) -> Option<u32> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let name = CString::new(name).ok()?;
    let _guard = ONE_AT_A_TIME.lock().expect("getpwnam");
    // SAFETY: the name is a C string; the static entry getpwnam points to is read before another
    // thread may call it, which the guard keeps.
    unsafe { libc::getpwnam(name.as_ptr()).as_ref().map(|entry| entry.pw_uid) }
}

/// Every file below `folder`: its kind, mode and content.
fn list(root: &Path, folder: &Path, files: &mut BTreeMap<PathBuf, String>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let Ok(data) = fs::symlink_metadata(&path) else { continue };
        let mode = data.permissions().mode();
        let content = if data.is_dir() {
            list(root, &path, files);
            String::new()
        } else if data.is_symlink() {
            format!("{:?}", fs::read_link(&path).ok())
        } else if data.is_file() {
            let bytes = fs::read(&path).unwrap_or_default();
            format!("{} bytes, sum {:016x}", bytes.len(), sum(&bytes))
        } else {
            String::new()
        };
        let name = path.strip_prefix(root).unwrap_or(&path).to_owned();
        files.insert(name, format!("{mode:o} {content}"));
    }
}

/// FNV-1a, enough to notice a difference.
fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn check(script: &Script, mode: Mode, test: &str) -> Outcome {
    if let Some((tool, reason)) = script.missing() {
        return skip(test, &tool, &reason);
    }
    if let Some(reason) = mode.missing() {
        return skip(test, "crossgate", &reason);
    }
    let native = script.native.get_or_init(|| script.run(Mode::Native)).as_ref()?;
    if native.finished.timed_out || native.finished.stdout.is_empty() {
        return Err(format!("natively it does not work\n{}", native.finished).into());
    }
    let seen = script.run(mode)?;
    let finished = &seen.finished;
    if finished.ending() != native.finished.ending() {
        let want = native.finished.ending();
        return Err(format!("expected {want} as natively\n{finished}").into());
    }
    if finished.stdout != native.finished.stdout {
        let want = String::from_utf8_lossy(&native.finished.stdout);
        return Err(format!("expected the native output:\n{want}\nand got\n{finished}").into());
    }
    let mut names: Vec<&PathBuf> = native.files.keys().chain(seen.files.keys()).collect();
    names.sort();
    names.dedup();
    for name in names {
        let (want, got) = (native.files.get(name), seen.files.get(name));
        if want != got {
            let name = name.display();
            return Err(format!("file {name}: expected {want:?}, got {got:?}\n{finished}").into());
        }
    }
    if let Err(error) = &seen.hooked {
        return Err(format!("{error}\n{finished}").into());
    }
    Ok(Completion::Completed)
}

fn main() -> ExitCode {
    let mut paths: Vec<PathBuf> = fs::read_dir(tests_dir().join("real"))
        .expect("tests/real")
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension() == Some(OsStr::new("sh")))
        .collect();
    paths.sort();
    let scripts: Vec<Arc<Script>> =
        paths.into_iter().map(|path| Arc::new(Script::from(path))).collect();
    let mut trials = Vec::new();
    for mode in Mode::ALL {
        for script in &scripts {
            let (script, name) = (script.clone(), format!("{mode}::{}", script.name));
            let test = name.clone();
            trials.push(Trial::ignorable_test(name, move || check(&script, mode, &test)));
        }
    }
    skip::run(trials)
}
