//! What a hooked process is larger by, and the size of the agent that is put into it.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use object::{Object, ObjectSegment};

use super::{Bench, RUN, behind, program};
use crate::exec::Running;
use crate::report::{Figures, Goal, Row, Unit, Work};
use crate::series::{Outcome, Sample, Spread, interleave};
use crate::variant::{TRACE_FILE, Variant};

/// Most memory that hooking may add to a process, in KiB.
const ADDED: Goal = Goal::Added(512.0);
/// Largest image of the agent, in KiB.
const IMAGE: Goal = Goal::Value(128.0);

/// What is added up over the mappings of a process, in the order of [`Sample::besides`].
const KINDS: [&str; 3] = ["resident", "proportional", "private"];

pub(super) fn measure(bench: &Bench) -> Vec<Work> {
    let mut variants = vec![Variant::native()];
    let ours = bench.crossgate.iter().filter(|variant| variant.name != TRACE_FILE);
    variants.extend(ours.cloned());
    let mut works = Vec::new();
    for (name, prepare) in [("sleeper", sleeper as fn(&Bench) -> _), ("python3", python)] {
        let name = format!("memory: {name}");
        if !bench.wants(&name) {
            continue;
        }
        let (command, result): (Command, PathBuf) = match prepare(bench) {
            Ok(prepared) => prepared,
            Err(reason) => {
                works.push(Work::absent(name, &reason));
                continue;
            }
        };
        let mut native = HashSet::new();
        // The same each time but for where the loader puts things.
        let outcomes = interleave(bench.rounds(5), &variants, |variant| {
            let mappings = mappings(bench, variant, &command, &result)?;
            if variant.is_native() {
                native.extend(mappings.iter().map(|mapping| mapping.name.clone()));
            }
            let mut besides: Vec<_> =
                KINDS.iter().enumerate().map(|(i, kind)| (*kind, total(&mappings, i))).collect();
            if !variant.is_native() {
                let new = mappings.iter().filter(|mapping| !native.contains(&mapping.name));
                besides.push(("resident in mappings of new names", new.map(|m| m.sizes[0]).sum()));
            }
            Ok(Sample { value: 0.0, besides })
        });
        for (i, kind) in KINDS.iter().enumerate() {
            let outcomes = outcomes.iter().map(|outcome| select(outcome, i)).collect();
            let goals: &[_] = if i == 0 { &[(RUN, ADDED)] } else { &[] };
            works.push(Work::new(
                format!("{name}, {kind}"),
                Unit::Kibibytes,
                &variants,
                outcomes,
                goals,
            ));
        }
    }
    if bench.wants("memory: agent image") {
        works.push(image(bench));
    }
    works
}

/// The outcome with the figure of kind `i` as its value; what is of new names stays beside
/// the first.
fn select(outcome: &Outcome, i: usize) -> Outcome {
    let Outcome::Measured(samples) = outcome else { return outcome.clone() };
    let each = |(round, sample): &(usize, Sample)| {
        let rest = if i == 0 { &sample.besides[KINDS.len()..] } else { &[] };
        (*round, Sample { value: sample.besides[i].1, besides: rest.to_vec() })
    };
    Outcome::Measured(samples.iter().map(each).collect())
}

fn sleeper(bench: &Bench) -> Result<(Command, PathBuf), String> {
    let result = bench.bed.scratch.file("sleeper-id");
    let mut command = Command::new(bench.bed.scratch.file("sleeper"));
    command.arg(&result);
    Ok((command, result))
}

fn python(bench: &Bench) -> Result<(Command, PathBuf), String> {
    let result = bench.bed.scratch.file("python-id");
    let mut command = program("python3")?;
    let script = "import os, sys, time\n\
                  with open(sys.argv[1], 'w') as f: f.write(f'{os.getpid()}\\n')\n\
                  time.sleep(1000)\n";
    command.args(["-c", script]).arg(&result);
    Ok((command, result))
}

/// One mapping of a process.
#[derive(Debug, PartialEq)]
struct Mapping {
    name: String,
    /// In KiB, in the order of [`KINDS`].
    sizes: [f64; KINDS.len()],
}

fn total(mappings: &[Mapping], kind: usize) -> f64 {
    mappings.iter().map(|mapping| mapping.sizes[kind]).sum()
}

/// Starts the command, which writes its process id to `result`, and reads its mappings once
/// it sleeps.
fn mappings(
    bench: &Bench,
    variant: &Variant,
    command: &Command,
    result: &Path,
) -> Result<Vec<Mapping>, String> {
    let _ = fs::remove_file(result);
    let mut whole = behind(variant, &bench.trace_file(), command);
    let mut running = Running::start(&mut whole, &bench.bed.scratch, Stdio::null())?;
    let id = wait_for_id(&mut running, result)?;
    // From writing its id to falling asleep.
    thread::sleep(Duration::from_millis(100));
    let smaps = fs::read_to_string(format!("/proc/{id}/smaps"))
        .map_err(|error| format!("mappings: {error}"))?;
    kill(Pid::from_raw(id), Signal::SIGTERM).map_err(|error| format!("cannot end it: {error}"))?;
    running.wait(Duration::from_secs(20))?;
    Ok(parse(&smaps))
}

fn wait_for_id(running: &mut Running, result: &Path) -> Result<i32, String> {
    let end = Instant::now() + Duration::from_secs(30);
    while Instant::now() < end {
        let text = fs::read_to_string(result).unwrap_or_default();
        if let Some(id) = text.strip_suffix('\n').and_then(|id| id.parse().ok()) {
            return Ok(id);
        }
        if let Ok(status) = running.wait(Duration::ZERO) {
            let complaint = running.complaint().unwrap_or_default();
            return Err(format!("did not start: {status}: {complaint}"));
        }
        thread::sleep(Duration::from_millis(5));
    }
    Err("did not start within 30 s".into())
}

fn parse(smaps: &str) -> Vec<Mapping> {
    let mut mappings: Vec<Mapping> = Vec::new();
    for line in smaps.lines() {
        let mut words = line.split_ascii_whitespace();
        let Some(first) = words.next() else { continue };
        let Some(field) = first.strip_suffix(':') else {
            // Range, permissions, offset, device and inode come before the name.
            let name = words.skip(4).collect::<Vec<_>>().join(" ");
            mappings.push(Mapping { name, sizes: [0.0; KINDS.len()] });
            continue;
        };
        let kind = match field {
            "Rss" => 0,
            "Pss" => 1,
            "Private_Clean" | "Private_Dirty" => 2,
            _ => continue,
        };
        let size: Option<f64> = words.next().and_then(|size| size.parse().ok());
        if let (Some(mapping), Some(size)) = (mappings.last_mut(), size) {
            mapping.sizes[kind] += size;
        }
    }
    mappings
}

/// The image that was last built along with the program: flat, as the program carries it,
/// or else the file it is made of.
fn image(bench: &Bench) -> Work {
    let size = bench
        .program
        .as_deref()
        .ok_or_else(|| "no crossgate program given".to_owned())
        .and_then(|program| {
            let target = target_directory(program)
                .ok_or_else(|| format!("{} is not where cargo builds", program.display()))?;
            newest(target, "agent.image")
                .or_else(|| newest(target, "crossgate-agent"))
                .ok_or_else(|| "no agent.image or crossgate-agent where cargo builds".to_owned())
        })
        .and_then(|file| {
            let data = fs::read(&file).map_err(|error| format!("{}: {error}", file.display()))?;
            let (stored, occupied) = sizes(&data);
            Ok((stored as f64 / 1024.0, occupied as f64 / 1024.0))
        });
    let figures =
        size.map_err(|reason| format!("not here: {reason}")).map(|(stored, occupied)| Figures {
            spread: Spread { min: stored, p25: stored, median: stored, p75: stored },
            rounds: 1,
            added: None,
            added_at_minimum: None,
            ratio: None,
            besides: vec![("address space", occupied)],
        });
    let row = Row { variant: RUN.into(), figures, goal: Some(IMAGE) };
    Work { name: "memory: agent image".into(), unit: Unit::Kibibytes, rows: vec![row] }
}

/// The directory into which cargo built `program`, if it is still there.
fn target_directory(program: &Path) -> Option<&Path> {
    let profile = program.parent()?;
    let target = profile.parent()?;
    // Cargo marks it so; without that, this could be the root of the file system.
    target.join("CACHEDIR.TAG").is_file().then_some(target)
}

/// Bytes that loading an ELF file takes from it, and bytes of address space that it then
/// has, zeroes included. Of anything else, its length.
fn sizes(data: &[u8]) -> (u64, u64) {
    let Ok(file) = object::File::parse(data) else {
        return (data.len() as u64, data.len() as u64);
    };
    let stored = file.segments().map(|segment| segment.file_range().1).sum();
    let begin = file.segments().map(|segment| segment.address()).min().unwrap_or(0);
    let end = file.segments().map(|segment| segment.address() + segment.size()).max().unwrap_or(0);
    (stored, end - begin)
}

fn newest(directory: &Path, name: &str) -> Option<PathBuf> {
    let mut found = Vec::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() {
                directories.push(entry.path());
            } else if kind.is_file() && entry.file_name() == name {
                let modified = entry.metadata().and_then(|data| data.modified());
                found.extend(modified.ok().map(|time| (time, entry.path())));
            }
        }
    }
    found.into_iter().max().map(|(_, path)| path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_mappings() {
        let smaps = "5500-5600 r--p 00000000 fe:00 12 /usr/bin/a b\n\
                     Rss:                  8 kB\n\
                     Pss:                  4 kB\n\
                     Pss_Dirty:            1 kB\n\
                     Private_Clean:        2 kB\n\
                     Private_Dirty:        1 kB\n\
                     VmFlags: rd mr\n\
                     7f00-7f10 rw-p 00000000 00:00 0 \n\
                     Rss:                  4 kB\n";
        assert_eq!(
            parse(smaps),
            [
                Mapping { name: "/usr/bin/a b".into(), sizes: [8.0, 4.0, 3.0] },
                Mapping { name: String::new(), sizes: [4.0, 0.0, 0.0] },
            ]
        );
    }

    #[test]
    fn a_flat_image_is_its_length() {
        assert_eq!(sizes(&[0; 100]), (100, 100));
    }
}
