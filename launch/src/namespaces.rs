//! Finding a task that knows itself by other ids than we do: one in a PID namespace of its
//! own. It has put a number into its memory; the task that has this number at that address,
//! and knows itself by the ids it told, is the one.

use std::fs;
use std::os::unix::fs::FileExt;

use crate::supervise::Task;

/// Finds the task that sees itself as `seen` and whose maker is process `maker` (as we see
/// it). Looks at the maker's threads and at every process.
pub fn find(maker: i32, seen: Task, proof_at: u64, proof: u64) -> Option<Task> {
    let is_it =
        |pid: i32, tid: i32| inner_id(pid, tid) == Some(seen.tid) && holds(tid, proof_at, proof);
    if seen.pid != seen.tid {
        let tid = ids(&format!("/proc/{maker}/task")).find(|&tid| is_it(maker, tid))?;
        return Some(Task { pid: maker, tid });
    }
    let pid = ids("/proc").find(|&pid| is_it(pid, pid))?;
    Some(Task { pid, tid: pid })
}

fn ids(folder: &str) -> impl Iterator<Item = i32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The id by which a task knows itself: the last of the `NSpid` line (proc(5)).
fn inner_id(pid: i32, tid: i32) -> Option<i32> {
    let status = fs::read_to_string(format!("/proc/{pid}/task/{tid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    line.split_whitespace().last()?.parse().ok()
}

fn holds(tid: i32, at: u64, value: u64) -> bool {
    let mut bytes = [0; 8];
    fs::File::open(format!("/proc/{tid}/mem"))
        .and_then(|memory| memory.read_exact_at(&mut bytes, at))
        .is_ok_and(|()| u64::from_ne_bytes(bytes) == value)
}
