//! Processor time per request of servers. Each measurement starts the server anew, loads it
//! over the loopback interface from another processor, and ends it. What the first requests
//! cost more disappears among tens of thousands.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{Bench, RUN, behind, program};
use crate::exec::{self, Process, Running};
use crate::report::{Goal, Unit, Work};
use crate::series::{Sample, interleave};
use crate::variant::{TRACE_FILE, Variant};

/// How long a load may take beyond what it is told to.
const LIMIT: Duration = Duration::from_secs(120);

/// A server and what loads it.
trait Server {
    /// Name of the server's processes, as `/proc` shows it.
    fn process(&self) -> &'static str;
    /// A request to which a server that is ready answers.
    fn greeting(&self) -> &'static [u8];
    /// What it must reach under `crossgate run`.
    fn goal(&self) -> Option<Goal>;
    /// The command that serves on `port` in the foreground.
    fn command(&self, bench: &Bench, port: u16) -> Result<Command, String>;
    /// Loads the server, less if `slow`; returns the number of requests.
    fn load(&self, bench: &Bench, port: u16, slow: bool) -> Result<f64, String>;
}

pub(super) fn measure(bench: &Bench) -> Vec<Work> {
    let servers: [&dyn Server; 2] = [&Nginx, &Redis];
    // A trace to a file is left out: a server under full load outruns any reader, so it
    // would measure the disk.
    let mut variants = bench.variants(if bench.options.quick { 1 } else { 3 });
    variants.retain(|variant| variant.name != TRACE_FILE);
    let mut works = Vec::new();
    for server in servers {
        let name = format!("server: {}, per request", server.process());
        if !bench.wants(&name) {
            continue;
        }
        let outcomes =
            interleave(bench.rounds(21), &variants, |variant| sample(bench, server, variant));
        let goals: Vec<_> = server.goal().map(|goal| (RUN, goal)).into_iter().collect();
        works.push(Work::new(name, Unit::Microseconds, &variants, outcomes, &goals));
    }
    works
}

fn sample(bench: &Bench, server: &dyn Server, variant: &Variant) -> Result<Sample, String> {
    let port = free_port().map_err(|error| format!("no free port: {error}"))?;
    let command = server.command(bench, port)?;
    let mut whole = behind(variant, &bench.trace_file(), &command);
    let mut running = Running::start(&mut whole, &bench.bed.scratch, Stdio::null())?;
    wait_for(&mut running, port, server.greeting())?;
    let slow = variant.is_slow();

    let (processes, supervisor) = processes(&running, server)?;
    let cpu = |of: &[Process]| of.iter().map(Process::cpu_ns).sum::<Result<f64, String>>();
    let before = (cpu(&processes)?, cpu(&supervisor)?);
    let start = Instant::now();
    let requests = server.load(bench, port, slow)?;
    let seconds = start.elapsed().as_secs_f64();
    let after = (cpu(&processes)?, cpu(&supervisor)?);
    if self::processes(&running, server)?.0 != processes {
        return Err("its processes changed under load".into());
    }

    end(&processes, &mut running)?;
    let mut besides = vec![("requests/s", requests / seconds)];
    if variant.supervised {
        besides.push(("supervisor µs", (after.1 - before.1) / requests / 1e3));
    }
    Ok(Sample { value: (after.0 - before.0) / requests / 1e3, besides })
}

/// The processes of the server, and those of whatever runs it.
fn processes(
    running: &Running,
    server: &dyn Server,
) -> Result<(Vec<Process>, Vec<Process>), String> {
    let root = exec::process(running.id()).ok_or("it is gone")?;
    let (mut processes, supervisor): (Vec<Process>, Vec<Process>) = exec::descendants(running.id())
        .into_iter()
        .chain([root])
        .partition(|process| process.name == server.process());
    if processes.is_empty() {
        return Err(format!("no process is called {}", server.process()));
    }
    processes.sort_by_key(|process| process.id);
    Ok((processes, supervisor))
}

/// Asks the first of the server's processes to end, and waits for everything to be gone.
fn end(processes: &[Process], running: &mut Running) -> Result<(), String> {
    let first = processes
        .iter()
        .find(|process| processes.iter().all(|other| other.id != process.parent))
        .ok_or("no first process")?;
    kill(Pid::from_raw(first.id), Signal::SIGTERM)
        .map_err(|error| format!("cannot end it: {error}"))?;
    let status = running.wait(Duration::from_secs(20))?;
    if status.success() {
        return Ok(());
    }
    let complaint = running.complaint().unwrap_or_default();
    Err(format!("it ended with {status}: {complaint}"))
}

/// Waits for an answer, not for the port: the one that listens need not be the one that
/// serves, and that one may not be there yet.
fn wait_for(running: &mut Running, port: u16, greeting: &[u8]) -> Result<(), String> {
    let end = Instant::now() + Duration::from_secs(30);
    while Instant::now() < end {
        if answers(port, greeting).is_ok() {
            return Ok(());
        }
        if let Ok(status) = running.wait(Duration::ZERO) {
            let complaint = running.complaint().unwrap_or_default();
            return Err(format!("did not start: {status}: {complaint}"));
        }
        thread::sleep(Duration::from_millis(10));
    }
    Err("did not answer within 30 s".into())
}

fn answers(port: u16, greeting: &[u8]) -> io::Result<()> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.write_all(greeting)?;
    stream.read_exact(&mut [0])
}

pub(super) fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

/// A load generator, on a processor of its own.
fn generator(bench: &Bench, name: &str) -> Result<Command, String> {
    let mut command = Command::new(bench.bed.scratch.file("cputime"));
    command.arg("/dev/null").arg(bench.bed.load_processor()).arg("1");
    command.arg(program(name)?.get_program());
    Ok(command)
}

struct Nginx;

impl Server for Nginx {
    fn process(&self) -> &'static str {
        "nginx"
    }

    fn greeting(&self) -> &'static [u8] {
        b"GET /index.html HTTP/1.0\r\n\r\n"
    }

    fn goal(&self) -> Option<Goal> {
        Some(Goal::Ratio(1.03))
    }

    fn command(&self, bench: &Bench, port: u16) -> Result<Command, String> {
        let mut command = program("nginx")?;
        program("wrk")?;
        let scratch = &bench.bed.scratch;
        let root = scratch.file("www");
        let configuration = scratch.file("nginx.conf");
        let directory = scratch.path().display();
        // Its workers keep the user that started it, so that they can read the files.
        let is_root = fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
        let user = if is_root { "user root;" } else { "" };
        let affinity = bench.bed.processors.map_or(String::new(), |(measured, _)| {
            format!("worker_cpu_affinity 1{};", "0".repeat(measured))
        });
        let text = format!(
            "daemon off; {user} worker_processes 1; {affinity}\n\
             pid {directory}/nginx.pid; error_log stderr warn;\n\
             events {{ worker_connections 256; }}\n\
             http {{\n\
                 access_log off; sendfile on; keepalive_requests 1000000000;\n\
                 client_body_temp_path {directory}/n1; proxy_temp_path {directory}/n2;\n\
                 fastcgi_temp_path {directory}/n3; uwsgi_temp_path {directory}/n4;\n\
                 scgi_temp_path {directory}/n5;\n\
                 server {{ listen 127.0.0.1:{port}; root {root}; }}\n\
             }}\n",
            root = root.display(),
        );
        fs::create_dir_all(&root)
            .and_then(|()| fs::write(root.join("index.html"), "small static page\n"))
            .and_then(|()| fs::write(&configuration, text))
            .map_err(|error| format!("{directory}: {error}"))?;
        command.arg("-p").arg(scratch.path()).arg("-c").arg(&configuration);
        // Otherwise it opens the log that was compiled in, which only root may write.
        command.args(["-e", "stderr"]);
        Ok(command)
    }

    fn load(&self, bench: &Bench, port: u16, _: bool) -> Result<f64, String> {
        let mut command = generator(bench, "wrk")?;
        command.args(["-t", "1", "-c", "32", "-d", "1s"]);
        command.arg(format!("http://127.0.0.1:{port}/index.html"));
        wrk_requests(&exec::output(&mut command, &bench.bed.scratch, LIMIT)?)
    }
}

/// The number of requests that wrk says were answered rightly.
fn wrk_requests(output: &str) -> Result<f64, String> {
    for complaint in ["Socket errors", "Non-2xx"] {
        if let Some(line) = output.lines().find(|line| line.trim().starts_with(complaint)) {
            return Err(line.trim().to_owned());
        }
    }
    output
        .lines()
        .find_map(|line| line.split_once(" requests in ")?.0.trim().parse().ok())
        .ok_or_else(|| "wrk's output is unreadable".into())
}

struct Redis;

impl Server for Redis {
    fn process(&self) -> &'static str {
        "redis-server"
    }

    fn greeting(&self) -> &'static [u8] {
        b"PING\r\n"
    }

    fn goal(&self) -> Option<Goal> {
        None
    }

    fn command(&self, bench: &Bench, port: u16) -> Result<Command, String> {
        let mut command = program("redis-server")?;
        program("redis-benchmark")?;
        command
            .args(["--bind", "127.0.0.1", "--port", &port.to_string()])
            .args(["--save", "", "--appendonly", "no", "--daemonize", "no"])
            .arg("--dir")
            .arg(bench.bed.scratch.path());
        if let Some((measured, _)) = bench.bed.processors {
            command.args(["--server_cpulist", &measured.to_string()]);
        }
        // The kernel's memory settings, which it warns about, change nothing here.
        command.args(["--loglevel", "warning"]);
        Ok(command)
    }

    fn load(&self, bench: &Bench, port: u16, slow: bool) -> Result<f64, String> {
        let each = match (slow, bench.options.quick) {
            (true, _) => 5_000,
            (false, true) => 25_000,
            (false, false) => 50_000,
        };
        let tests = ["SET", "GET"];
        let mut command = generator(bench, "redis-benchmark")?;
        command.args(["-h", "127.0.0.1", "-p", &port.to_string(), "-c", "32", "--csv"]).args([
            "-n",
            &each.to_string(),
            "-t",
            "set,get",
        ]);
        let output = exec::output(&mut command, &bench.bed.scratch, LIMIT)?;
        match tests.iter().find(|test| !output.contains(&format!("\"{test}\","))) {
            Some(test) => Err(format!("redis-benchmark says nothing of {test}")),
            None => Ok(each as f64 * tests.len() as f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_wrk() {
        let good = "Running 1s test\n  12345 requests in 1.00s, 3MB read\nRequests/sec: 1\n";
        assert_eq!(wrk_requests(good), Ok(12345.0));
        let bad = format!("{good}  Socket errors: connect 0, read 3, write 0, timeout 0\n");
        assert!(wrk_requests(&bad).unwrap_err().contains("read 3"));
        assert!(wrk_requests("").is_err());
    }
}
