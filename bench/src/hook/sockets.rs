//! Requests between redis-benchmark and redis-server over the kernel's TCP, and past it: by the
//! example hook that gives both a local socket in place of a TCP one. What is timed is the whole load,
//! by the wall clock; both ends run the same way.

use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::{Bench, FAST, behind, program};
use crate::exec::{self, Running};
use crate::report::{Goal, Unit, Work};
use crate::series::{Sample, interleave};
use crate::variant::Variant;

const LIMIT: Duration = Duration::from_secs(120);
const HOOKED: &str = "run --mode fast, local_sockets";
const UNIX: &str = "a local socket, natively";

/// Clients at a time: one plays ping-pong, many keep the server busy.
const CLIENTS: [u32; 2] = [1, 50];

pub(super) fn measure(bench: &Bench) -> Vec<Work> {
    let mut variants = vec![Variant::native(), Variant::native_again(), Variant::named(UNIX)];
    if let Some(fast) = bench.crossgate.iter().find(|variant| variant.name == FAST) {
        variants.push(fast.clone());
        variants.push(Variant::hook(HOOKED, fast, &bench.bed.scratch.file("local_sockets")));
    }
    let mut works = Vec::new();
    for clients in CLIENTS {
        let name = format!("sockets: redis, {clients} clients, per request");
        if !bench.wants(&name) {
            continue;
        }
        let outcomes =
            interleave(bench.rounds(11), &variants, |variant| sample(bench, clients, variant));
        let goals = [(HOOKED, Goal::Ratio(1.0))];
        works.push(Work::new(name, Unit::Microseconds, &variants, outcomes, &goals));
    }
    works
}

fn sample(bench: &Bench, clients: u32, variant: &Variant) -> Result<Sample, String> {
    let port = super::servers::free_port().map_err(|error| format!("no free port: {error}"))?;
    let port = port.to_string();
    let path = bench.bed.scratch.file("socket");
    let _ = std::fs::remove_file(&path);
    let run = |command: &Command| behind(variant, &bench.trace_file(), command);

    let mut server = program("redis-server")?;
    server.args(["--port", &port, "--save", "", "--loglevel", "warning", "--unixsocket"]);
    server.arg(&path).args(["--bind", "127.0.0.1", "--dir"]).arg(bench.bed.scratch.path());
    if let Some((measured, _)) = bench.bed.processors {
        server.args(["--server_cpulist", &measured.to_string()]);
    }
    let mut running = Running::start(&mut run(&server), &bench.bed.scratch, Stdio::null())?;
    let reach = |command: &mut Command| {
        if variant.name == UNIX {
            command.arg("-s").arg(&path);
        } else {
            command.args(["-h", "127.0.0.1", "-p", &port]);
        }
    };
    let mut cli = program("redis-cli")?;
    reach(&mut cli);
    cli.arg("ping");
    let end = Instant::now() + Duration::from_secs(30);
    while !exec::output(&mut run(&cli), &bench.bed.scratch, LIMIT).is_ok_and(|t| t == "PONG\n") {
        if Instant::now() > end {
            return Err("did not answer within 30 s".into());
        }
        thread::sleep(Duration::from_millis(20));
    }

    let requests = if bench.options.quick { 20_000 } else { 50_000 } * clients.min(2);
    let mut load = program("redis-benchmark")?;
    reach(&mut load);
    load.args(["-c", &clients.to_string(), "-n", &requests.to_string(), "-t", "get", "--csv"]);
    let output = exec::output(&mut run(&load), &bench.bed.scratch, LIMIT)?;

    let mut stop = program("redis-cli")?;
    reach(&mut stop);
    stop.args(["shutdown", "nosave"]);
    exec::run(&mut run(&stop), &bench.bed.scratch, LIMIT, &[0])?;
    running.wait(Duration::from_secs(20))?;
    let rate = rate(&output).ok_or("redis-benchmark's output is unreadable")?;
    Ok(Sample { value: 1e6 / rate, besides: vec![("requests/s", rate)] })
}

/// Requests a second, the second column of redis-benchmark's table.
fn rate(output: &str) -> Option<f64> {
    let line = output.lines().find(|line| line.starts_with("\"GET\","))?;
    line.split(',').nth(1)?.trim_matches('"').parse().ok().filter(|&rate| rate > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_redis_benchmark() {
        assert_eq!(rate("\"test\",\"rps\"\n\"GET\",\"36010.08\",\"0.02\"\n"), Some(36010.08));
        assert_eq!(rate("\"test\",\"rps\"\n"), None);
    }
}
