//! The small programs: the table `programs/programs.csv`, and building what it lists.
//!
//! Results go to `target/test-programs` and are rebuilt when their source (or `check.h`, or the
//! way they are built) is newer.

use crate::{csv, skip, target_dir, tests_dir};
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::thread;
use std::time::SystemTime;

/// One line of the table.
#[derive(Clone, Debug)]
pub struct Program {
    /// The name of the case and of the file that is built.
    pub name: String,
    source: PathBuf,
    build: String,
    args: Vec<String>,
    /// How it ends: an exit code, a signal's name, or `none` for what cannot be run.
    pub expect: String,
    /// Whether every run makes the same calls.
    pub exact: bool,
    /// Calls that are not compared because their number depends on timing or addresses.
    pub noise: Vec<String>,
    /// Calls of which fast mode misses some, as `docs/limits.md` says.
    pub fast_unseen: Vec<String>,
    /// Whether part of it runs without crossgate, which must be said on standard error.
    pub untraced: bool,
    needs: Vec<String>,
    excluded: Vec<(String, String)>,
}

/// The whole table, and what came of building each line.
#[derive(Debug)]
pub struct Programs {
    /// The lines that can be run.
    pub all: Vec<Program>,
    built: HashMap<String, Result<PathBuf, String>>,
}

fn words(text: &str, separator: char) -> Vec<String> {
    text.split(separator).map(str::trim).filter(|word| !word.is_empty()).map(Into::into).collect()
}

/// The words of `WORD WORD: reason`; none without a reason.
fn with_reason(text: &str) -> Vec<String> {
    let (names, reason) = text.split_once(':').unwrap_or((text, ""));
    assert_eq!(names.is_empty(), reason.trim().is_empty(), "`{text}`: calls and a reason");
    words(names, ' ')
}

impl Program {
    fn from(row: &csv::Row) -> Self {
        Self {
            name: row["name"].clone(),
            source: tests_dir().join("programs").join(&row["source"]),
            build: row["build"].clone(),
            args: words(&row["args"], ' '),
            expect: row["expect"].clone(),
            exact: row["exact"] == "yes",
            noise: words(&row["noise"], ';'),
            fast_unseen: with_reason(&row["fast_unseen"]),
            untraced: row["untraced"] == "yes",
            needs: words(&row["needs"], ';'),
            excluded: words(&row["excluded"], ';')
                .iter()
                .filter_map(|entry| entry.split_once(':'))
                .map(|(mode, reason)| (mode.trim().to_owned(), reason.trim().to_owned()))
                .collect(),
        }
    }

    /// Why the table leaves it out of a mode, if it does.
    #[must_use]
    pub fn excluded(&self, mode: &str) -> Option<&str> {
        self.excluded.iter().find(|(name, _)| name == mode).map(|(_, reason)| reason.as_str())
    }

    /// What it needs and this machine lacks: the thing and a sentence.
    #[must_use]
    pub fn missing(&self) -> Option<(String, String)> {
        self.needs.iter().find_map(|need| {
            let present = match need.as_str() {
                "root" => skip::is_root(),
                "musl" => skip::find_tool("musl-gcc").is_some(),
                "bits32" => runs_32_bits(),
                tool => skip::find_tool(tool).is_some(),
            };
            (!present).then(|| (need.clone(), format!("it needs {need}, which is not here")))
        })
    }

    /// The words of the compiler's command line that makes `output`.
    fn recipe(&self, output: &Path) -> Vec<OsString> {
        let c: &[&str] = match self.build.as_str() {
            "c" => &["cc", "-fPIE", "-pie"],
            "c-no-pie" => &["cc", "-fno-pie", "-no-pie"],
            "c-static" => &["cc", "-static", "-fno-pie", "-no-pie"],
            "c-static-pie" => &["cc", "-static-pie", "-fPIE"],
            "c-shared" => &["cc", "-shared", "-fPIC"],
            "c-musl" => &["musl-gcc"],
            "c-musl-static" => &["musl-gcc", "-static"],
            "go" => &["go", "build", "-o"],
            "rust" => &["rustc", "--edition=2024", "-O", "-o"],
            "asm" => &["cc", "-nostdlib", "-static", "-no-pie", "-o"],
            "asm32" => &["as", "--32", "-o"],
            other => panic!("{}: no way to build `{other}`", self.name),
        };
        let mut line: Vec<OsString> = c.iter().map(OsString::from).collect();
        if self.build.starts_with("c-") || self.build == "c" {
            line.extend(
                ["-D_GNU_SOURCE", "-O1", "-g", "-Wall", "-Wextra", "-pthread", "-o"]
                    .map(OsString::from),
            );
        }
        line.push(output.into());
        line.push(self.source.clone().into());
        if self.build.starts_with("c") {
            line.push("-ldl".into());
        }
        line
    }

    fn build(&self, folder: &Path) -> Result<PathBuf, String> {
        let output = folder.join(&self.name);
        let note = folder.join(format!("{}.recipe", self.name));
        let recipe = self.recipe(&output);
        let recipe_text = format!("{recipe:?}");
        let inputs = [self.source.clone(), tests_dir().join("programs/check.h")];
        let newest = inputs.iter().filter_map(|path| modified(path)).max();
        if modified(&output) > newest && fs::read_to_string(&note).is_ok_and(|t| t == recipe_text) {
            return Ok(output);
        }
        // Into a name of its own first: two test programs may build at the same time.
        let fresh = folder.join(format!("{}.{}.new", self.name, std::process::id()));
        run(&self.recipe(&fresh))?;
        if self.build == "asm32" {
            let object = fresh.with_extension("o");
            fs::rename(&fresh, &object).map_err(|error| error.to_string())?;
            let link = ["ld", "-m", "elf_i386", "-o"].map(OsString::from).into_iter();
            run(&link.chain([fresh.clone().into(), object.clone().into()]).collect::<Vec<_>>())?;
            let _ = fs::remove_file(object);
        }
        fs::rename(&fresh, &output).map_err(|error| error.to_string())?;
        fs::write(&note, recipe_text).map_err(|error| error.to_string())?;
        Ok(output)
    }
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|data| data.modified()).ok()
}

fn run(line: &[OsString]) -> Result<(), String> {
    let output = Command::new(&line[0])
        .args(&line[1..])
        .env("CGO_ENABLED", "0")
        .output()
        .map_err(|error| format!("cannot run {line:?}: {error}"))?;
    if output.status.success() {
        Ok(())
    } else {
        Err(format!("{line:?} failed:\n{}", String::from_utf8_lossy(&output.stderr)))
    }
}

/// Whether the kernel runs i386 programs: the smallest one there is, written by hand.
fn runs_32_bits() -> bool {
    static ANSWER: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *ANSWER.get_or_init(|| {
        let scratch = crate::run::Scratch::new("bits32");
        let path = scratch.path().join("program");
        let mut image = vec![0x7f, b'E', b'L', b'F', 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        image.extend([2, 0, 3, 0, 1, 0, 0, 0, 0x54, 0, 5, 8, 0x34, 0, 0, 0]);
        image.extend([0, 0, 0, 0, 0, 0, 0, 0, 0x34, 0, 0x20, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
        image.extend([1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 8, 0, 0, 5, 8]);
        image.extend([0x60, 0, 0, 0, 0x60, 0, 0, 0, 5, 0, 0, 0, 0, 0x10, 0, 0]);
        // mov $1,%eax; mov $5,%ebx; int $0x80
        image.extend([0xb8, 1, 0, 0, 0, 0xbb, 5, 0, 0, 0, 0xcd, 0x80]);
        let written = fs::write(&path, image).is_ok()
            && fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755))
                .is_ok();
        written && Command::new(&path).status().is_ok_and(|status| status.code() == Some(5))
    })
}

impl Programs {
    /// Reads the table and builds what this machine can build, on as many threads as it has cores.
    ///
    /// # Panics
    /// When the table is wrong or the output folder cannot be made.
    #[must_use]
    pub fn build() -> Self {
        let mut all: Vec<Program> = csv::read(&tests_dir().join("programs/programs.csv"))
            .iter()
            .map(Program::from)
            .collect();
        let folder = target_dir().join("test-programs");
        fs::create_dir_all(&folder).expect("the folder for test programs");
        let folder = folder.canonicalize().expect("the folder for test programs");
        let queue = Mutex::new(all.clone().into_iter());
        let built = Mutex::new(HashMap::new());
        thread::scope(|scope| {
            for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
                scope.spawn(|| {
                    loop {
                        let Some(program) = queue.lock().expect("queue").next() else { break };
                        let result = match program.missing() {
                            Some((_, reason)) => Err(reason),
                            None => program.build(&folder),
                        };
                        built.lock().expect("results").insert(program.name, result);
                    }
                });
            }
        });
        all.retain(|program| program.expect != "none");
        Self { all, built: built.into_inner().expect("results") }
    }

    /// The command line of a program.
    ///
    /// # Errors
    /// With the compiler's words, when it or something it names was not built.
    pub fn line(&self, program: &Program) -> Result<Vec<OsString>, String> {
        let path = |name: &str| match self.built.get(name) {
            Some(Ok(path)) => Ok(path.clone().into_os_string()),
            Some(Err(error)) => Err(error.clone()),
            None => Err(format!("{name} is not in programs.csv")),
        };
        let mut line = vec![path(&program.name)?];
        for word in &program.args {
            let other = word.strip_prefix('{').and_then(|word| word.strip_suffix('}'));
            line.push(match other {
                Some(name) => path(name)?,
                None => word.into(),
            });
        }
        Ok(line)
    }

    /// The program of that name.
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    pub fn get(&self, name: &str) -> &Program {
        self.all.iter().find(|program| program.name == name).expect("a program of the table")
    }
}
