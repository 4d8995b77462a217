//! Nanoseconds per call, timed inside the program that makes it.

use std::fs;
use std::process::Command;
use std::time::Duration;

use super::{Bench, FAST, RUN, TRACE, TRACE_FILE, behind};
use crate::report::{Goal, Unit, Work};
use crate::series::{Sample, interleave, quantile};
use crate::variant::{self, HOOK, LIBC_HOOK, Variant};

/// Few enough that no tracer's buffer overflows within a burst, and enough that the clock's
/// own cost disappears.
const CALLS_PER_BURST: usize = 1000;

/// Bursts of one run.
const BURSTS: &str = "12";
/// Time between bursts, in which the reader of a trace empties the buffers that one filled.
const PAUSE_US: &str = "4000";
/// A run that takes longer makes fewer bursts.
const BUDGET_MS: &str = "250";

struct Call {
    /// First argument of the micro program.
    operation: &'static str,
    /// Name in the table.
    name: &'static str,
    /// How a trace shows it, and how many of the calls are shown so.
    traced: (&'static str, f64),
}

const CALLS: [Call; 4] = [
    Call { operation: "getppid", name: "micro: getppid()", traced: ("getppid(", 1.0) },
    Call { operation: "close", name: "micro: close(-1), fails", traced: ("close(-1", 1.0) },
    Call { operation: "zero", name: "micro: read 1 byte of /dev/zero", traced: ("read(", 1.0) },
    Call { operation: "pipe", name: "micro: 1 byte through a pipe", traced: ("read(", 0.5) },
];

fn goals(call: &Call) -> Vec<(&'static str, Goal)> {
    let mut goals = vec![(FAST, Goal::AddedAtMinima(6.0)), (RUN, Goal::AddedAtMinima(18.0))];
    if call.operation == "getppid" {
        goals.extend([
            (TRACE, Goal::AddedAtMinima(300.0)),
            (TRACE_FILE, Goal::AddedAtMinima(300.0)),
            (HOOK, Goal::AddedAtMinima(8.0)),
            (LIBC_HOOK, Goal::AddedAtMinima(25.0)),
        ]);
    }
    goals
}

pub(super) fn measure(bench: &Bench) -> Vec<Work> {
    let few = if bench.options.quick { 3 } else { 7 };
    // Short runs in many rounds: what disturbs a machine lasts for seconds, and so takes
    // whole rounds, in which all variants suffer alike, rather than single variants.
    let rounds =
        bench.options.rounds.map_or(if bench.options.quick { 15 } else { 61 }, usize::from);

    let mut variants = vec![Variant::native(), Variant::native_again()];
    variants.extend(bench.crossgate.iter().cloned());
    if let Some(fast) = bench.crossgate.iter().find(|variant| variant.name == FAST) {
        // All do nothing: one lets every call pass, one also sees results, one has a libc.
        let hooks = [
            (HOOK, "passing-hook"),
            ("the same, watching", "watching-hook"),
            (LIBC_HOOK, "libc-hook"),
        ];
        variants.extend(
            hooks.map(|(name, hook)| Variant::hook(name, fast, &bench.bed.scratch.file(hook))),
        );
    }
    variants.extend([
        Variant::dispatch_range(),
        Variant::dispatch_allow(),
        Variant::dispatch_signal(),
        // Their figures are a hundred times the noise: a few rounds say enough.
        Variant::ptracer(&bench.bed.scratch.file("ptracer")).at_most(few),
        Variant::strace().at_most(few),
        Variant::perf_trace().at_most(few),
    ]);
    variants.extend(variant::preloads(&bench.options.preload));

    let mut works = Vec::new();
    for call in CALLS.iter().filter(|call| bench.wants(call.name)) {
        let outcomes = interleave(rounds, &variants, |variant| sample(bench, call, variant));
        works.push(Work::new(call.name, Unit::Nanoseconds, &variants, outcomes, &goals(call)));
    }
    works
}

fn sample(bench: &Bench, call: &Call, variant: &Variant) -> Result<Sample, String> {
    let result = bench.bed.scratch.file("micro-result");
    let _ = fs::remove_file(&result);
    let mut micro = Command::new(bench.bed.scratch.file("micro"));
    micro
        .arg(call.operation)
        .arg(&result)
        .arg(bench.bed.measured_processor())
        .arg(CALLS_PER_BURST.to_string())
        .args([BURSTS, PAUSE_US, BUDGET_MS, variant.dispatch()]);
    let out = bench.trace_file();
    let mut command = behind(variant, &out, &micro);
    crate::exec::run(&mut command, &bench.bed.scratch, Duration::from_secs(60), &[0])?;

    let text = fs::read_to_string(&result).map_err(|error| format!("no result: {error}"))?;
    let figures: Vec<f64> = text.lines().filter_map(|line| line.parse().ok()).collect();
    let fastest_tenth = quantile(&figures, 0.1).ok_or("no bursts")?;
    let median = quantile(&figures, 0.5).ok_or("no bursts")?;
    if variant.name == TRACE_FILE {
        check_trace(&out, call, figures.len() * CALLS_PER_BURST)?;
    }
    // A burst is disturbed or it is not, and on a busy machine many are. What the call
    // costs is in those that are not.
    Ok(Sample { value: fastest_tenth, besides: vec![("median burst", median)] })
}

/// A trace that lost calls would be cheap: its figure counts only if they are all there.
fn check_trace(file: &std::path::Path, call: &Call, calls: usize) -> Result<(), String> {
    let trace = fs::read(file).map_err(|error| format!("no trace: {error}"))?;
    let _ = fs::remove_file(file);
    let (shown, share) = call.traced;
    let found = String::from_utf8_lossy(&trace).matches(shown).count();
    let must = (calls as f64 * share) as usize;
    if found < must {
        return Err(format!("the trace holds {found} of {must} calls"));
    }
    Ok(())
}
