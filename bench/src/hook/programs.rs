//! Processor time of whole programs that call the kernel a lot. The time is the program's
//! alone; what a supervisor spends on it is shown beside.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::{Bench, RUN, TRACE, program};
use crate::report::{Goal, Unit, Work};
use crate::series::{Sample, interleave};

const LIMIT: Duration = Duration::from_secs(300);

/// One load.
struct Load {
    name: &'static str,
    command: Command,
    /// Exit statuses that are no failure.
    accepted: &'static [i32],
    /// Removed before each run.
    fresh: Vec<PathBuf>,
    goals: &'static [(&'static str, Goal)],
}

pub(super) fn measure(bench: &Bench) -> Vec<Work> {
    type Prepare = fn(&Bench) -> Result<Load, String>;
    let loads: [(&'static str, Prepare); 4] = [
        ("program: find /usr", find),
        ("program: tar of /usr/share/doc", tar),
        ("program: sqlite3, small transactions on tmpfs", sqlite),
        ("program: git status of many files", git),
    ];
    let variants = bench.variants(if bench.options.quick { 1 } else { 2 });
    let mut works = Vec::new();
    for (name, prepare) in loads {
        if !bench.wants(name) {
            continue;
        }
        let load = match prepare(bench) {
            Ok(load) => Load { name, ..load },
            Err(reason) => {
                works.push(Work::absent(name, &reason));
                continue;
            }
        };
        // Fills the caches of the file system, which the first variant would pay for.
        let _ = sample(bench, &load, &variants[0]);
        let outcomes =
            interleave(bench.rounds(11), &variants, |variant| sample(bench, &load, variant));
        works.push(Work::new(load.name, Unit::Milliseconds, &variants, outcomes, load.goals));
    }
    works
}

fn sample(bench: &Bench, load: &Load, variant: &crate::variant::Variant) -> Result<Sample, String> {
    for file in &load.fresh {
        let _ = fs::remove_file(file);
    }
    let out = bench.trace_file();
    let prefix = variant.command(&out);
    let measured = bench.bed.cpu_inside(&prefix, &load.command, LIMIT, load.accepted);
    let _ = fs::remove_file(&out);
    let (program, all) = measured?;
    let mut besides = vec![("wall ms", program.wall_ms)];
    if variant.supervised {
        besides.push(("supervisor ms", all.cpu_ms - program.cpu_ms));
    }
    Ok(Sample { value: program.cpu_ms, besides })
}

fn find(_: &Bench) -> Result<Load, String> {
    let mut command = program("find")?;
    command.arg("/usr");
    Ok(Load {
        name: "",
        command,
        // Some directories may be closed to this user.
        accepted: &[0, 1],
        fresh: Vec::new(),
        goals: &[(RUN, Goal::Ratio(1.10)), (TRACE, Goal::Ratio(2.0))],
    })
}

fn tar(_: &Bench) -> Result<Load, String> {
    program("tar")?;
    let directory = "/usr/share/doc";
    if !Path::new(directory).is_dir() {
        return Err(format!("there is no {directory}"));
    }
    let mut command = program("sh")?;
    // Through a pipe: tar does not read what it would write to /dev/null.
    command.args(["-c", "tar cf - -C / usr/share/doc | cat >/dev/null"]);
    Ok(Load { name: "", command, accepted: &[0], fresh: Vec::new(), goals: &[] })
}

/// The default rollback journal makes about twenty calls per transaction, more than the
/// write-ahead log would: the case that suits a hook least.
fn sqlite(bench: &Bench) -> Result<Load, String> {
    let mut command = program("sqlite3")?;
    let memory = bench.bed.memory.as_ref().ok_or("no writable tmpfs at /dev/shm")?;
    let script = memory.file("script.sql");
    let write = || {
        let mut file = BufWriter::new(File::create(&script)?);
        writeln!(file, "CREATE TABLE t (k INTEGER PRIMARY KEY, v TEXT);")?;
        let transactions = if bench.options.quick { 2_000 } else { 10_000 };
        for i in 0..transactions {
            let value = "v".repeat(100);
            writeln!(
                file,
                "BEGIN; INSERT INTO t (v) VALUES ('{value}'); \
                 INSERT INTO t (v) VALUES ('{i}'); COMMIT;"
            )?;
        }
        file.flush()
    };
    write().map_err(|error: std::io::Error| format!("{}: {error}", script.display()))?;
    let (database, journal) = (memory.file("db"), memory.file("db-journal"));
    command.arg("-batch").arg(&database).arg(format!(".read {}", script.display()));
    Ok(Load { name: "", command, accepted: &[0], fresh: vec![database, journal], goals: &[] })
}

fn git(bench: &Bench) -> Result<Load, String> {
    let git = || {
        let mut git = program("git")?;
        // The user's own settings must not decide what is measured.
        git.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
        git.arg("-C").arg(bench.bed.scratch.file("repository"));
        Ok::<_, String>(git)
    };
    let directory = bench.bed.scratch.file("repository");
    let (directories, files) = if bench.options.quick { (50, 100) } else { (200, 100) };
    let write = || {
        for i in 0..directories {
            let inner = directory.join(format!("directory-{i}"));
            fs::create_dir_all(&inner)?;
            for j in 0..files {
                fs::write(inner.join(format!("file-{j}")), format!("{i} {j}\n"))?;
            }
        }
        Ok(())
    };
    write().map_err(|error: std::io::Error| format!("{}: {error}", directory.display()))?;
    let person = ["-c", "user.name=bench", "-c", "user.email=bench@localhost"];
    for arguments in [&["init", "-q"][..], &["add", "."], &["commit", "-q", "-m", "files"]] {
        let mut command = git()?;
        command.args(person).args(arguments);
        crate::exec::run(&mut command, &bench.bed.scratch, LIMIT, &[0])?;
    }
    let mut command = git()?;
    command.arg("status");
    Ok(Load { name: "", command, accepted: &[0], fresh: Vec::new(), goals: &[] })
}
