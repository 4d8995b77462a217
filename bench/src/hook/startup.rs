//! Processor time of short programs, with everything that is done for them: what hooking
//! adds to a start, and to each further program that a process starts.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::{Bench, RUN, behind, program};
use crate::report::{Goal, Unit, Work};
use crate::series::{Sample, interleave};
use crate::variant::{TRACE_FILE, Variant};

const LIMIT: Duration = Duration::from_secs(60);

/// Starts in a row that one sample is the mean of.
const STARTS: u32 = 10;
/// Programs started in a row by [`followed`], so that one start is not lost in the noise.
const FOLLOWED: usize = 40;

pub(super) fn measure(bench: &Bench) -> Vec<Work> {
    // What a trace costs by its kind of output is not a matter of starting.
    let mut variants = bench.variants(usize::MAX);
    variants.retain(|variant| variant.name != TRACE_FILE);
    let rounds = bench.rounds(15);

    let works: [(&str, &str, &[&str], Option<Goal>); 5] = [
        ("start-up: /bin/true", "true", &[], Some(Goal::AddedAtMinima(0.8))),
        ("start-up: sh -c 'exec /bin/true'", "sh", &["-c", "exec /bin/true"], None),
        ("start-up: sh -c '/bin/true; /bin/true'", "sh", &["-c", "/bin/true; /bin/true"], None),
        ("start-up: python3 -c 1", "python3", &["-c", "1"], None),
        ("start-up: node -e 0", "node", &["-e", "0"], Some(Goal::Ratio(1.3))),
    ];
    let mut measured = Vec::new();
    for (name, target, arguments, goal) in works {
        if !bench.wants(name) {
            continue;
        }
        let mut command = match program(target) {
            Ok(command) => command,
            Err(reason) => {
                measured.push(Work::absent(name, &reason));
                continue;
            }
        };
        command.args(arguments);
        // The first starts find the caches as the variant before left them, and what is asked
        // is the start, not that.
        let outcomes = interleave(rounds, &variants, |variant| {
            let value = cpu(bench, variant, &command, STARTS)?;
            Ok(Sample { value, besides: Vec::new() })
        });
        let goals: Vec<_> = goal.map(|goal| (RUN, goal)).into_iter().collect();
        measured.push(Work::new(name, Unit::Milliseconds, &variants, outcomes, &goals));
    }
    let name = "start-up: each further fork + exec of /bin/true";
    if bench.wants(name) {
        let outcomes = interleave(rounds, &variants, |variant| followed(bench, variant));
        let goals = [(RUN, Goal::AddedAtMinima(0.2))];
        measured.push(Work::new(name, Unit::Milliseconds, &variants, outcomes, &goals));
    }
    measured
}

/// What one more program costs a shell that is already running.
fn followed(bench: &Bench, variant: &Variant) -> Result<Sample, String> {
    let script = |starts: usize| {
        let mut shell = program("sh")?;
        shell.arg("-c").arg("/bin/true; ".repeat(starts) + "exec /bin/true");
        Ok::<_, String>(shell)
    };
    let with = cpu(bench, variant, &script(FOLLOWED)?, 1)?;
    let without = cpu(bench, variant, &script(0)?, 1)?;
    Ok(Sample { value: (with - without) / FOLLOWED as f64, besides: Vec::new() })
}

fn cpu(bench: &Bench, variant: &Variant, command: &Command, times: u32) -> Result<f64, String> {
    let mut whole = behind(variant, Path::new("/dev/null"), command);
    Ok(bench.bed.cpu_of(&mut whole, times, LIMIT)?.cpu_ms)
}
