//! The consumer's side of the rings: copies records out, in the order of their time stamps.
//!
//! Owns: reading, releasing room, freeing rings of tasks that are gone. The arena is
//! writable by the traced programs, so nothing in it is believed: lengths and positions are
//! checked, records are copied before they are looked at, and a ring that holds nonsense is
//! abandoned.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU32, Ordering};

use crossgate_wire::arena::Geometry;
use crossgate_wire::{Arena, Record, ring};

use crate::supervise::{Task, now};

/// Reads all rings of an arena.
pub struct Drain {
    arena: Arena,
    geometry: Geometry,
    /// What was read and not yet handed on: by time stamp, then by order of reading.
    waiting: BTreeMap<(u64, u64), (Task, Vec<u8>)>,
    sequence: u64,
    /// The latest time stamp of each ring, so that a ring's own order is kept whatever its
    /// time stamps say (cores may differ by a little).
    latest: HashMap<u32, u64>,
}

impl Drain {
    /// For the arena mapped here, whose true sizes are `geometry`.
    pub fn new(arena: Arena, geometry: Geometry) -> Self {
        Self { arena, geometry, waiting: BTreeMap::new(), sequence: 0, latest: HashMap::new() }
    }

    /// Empties all rings; hands on every record up to time `horizon`. Records of a retired
    /// ring are followed by `gone` for its task.
    pub fn run(
        &mut self,
        horizon: u64,
        mut each: impl FnMut(Task, &Record, &[u8]),
        mut gone: impl FnMut(Task),
    ) {
        let mut retired = Vec::new();
        let used = self.arena.control().rings_used.load(Ordering::Acquire);
        for index in 0..used.min(self.geometry.rings) {
            if let Some(task) = self.read(index) {
                retired.push((index, task));
            }
        }
        while let Some(entry) = self.waiting.first_entry() {
            if entry.key().0 > horizon {
                break;
            }
            let (task, bytes) = entry.remove();
            if let Some((record, _)) = Record::parse(&bytes) {
                each(task, &record, &bytes);
            }
        }
        for (index, task) in retired {
            if self.waiting.values().any(|(t, _)| *t == task) {
                // Its last records are younger than the horizon: free it next time.
                continue;
            }
            let ring = self.arena.ring(index);
            ring.head.store(0, Ordering::Relaxed);
            ring.tail.store(0, Ordering::Relaxed);
            self.latest.remove(&index);
            // Whoever takes it next must not be found under the old id.
            ring.pid.store(0, Ordering::Relaxed);
            ring.state.store(ring::FREE, Ordering::Release);
            gone(task);
        }
    }

    /// Copies what is in ring `index`. Gives its task when it is retired.
    fn read(&mut self, index: u32) -> Option<Task> {
        let ring = self.arena.ring(index);
        let state = ring.state.load(Ordering::Acquire);
        if state == ring::FREE {
            return None;
        }
        let task =
            Task { pid: ring.pid.load(Ordering::Relaxed), tid: ring.tid.load(Ordering::Relaxed) };
        let now = now();
        let size = self.geometry.ring_size as usize;
        let head = ring.head.load(Ordering::Acquire);
        let mut tail = ring.tail.load(Ordering::Relaxed);
        if head.wrapping_sub(tail) > size as u64 {
            // Not something our agent wrote.
            tail = head;
        }
        // SAFETY: the data of this ring lies in the mapping. The producer writes only what
        // lies outside [tail, head); a program that writes there itself can only change
        // bytes that are copied below before they are used.
        let data =
            unsafe { std::slice::from_raw_parts(self.arena.ring_data(self.geometry, index), size) };
        while tail < head {
            let offset = tail as usize & (size - 1);
            let available = ((head - tail) as usize).min(size - offset);
            let bytes = data[offset..offset + available].get(..4).map(|len| {
                let len = u32::from_ne_bytes(len.try_into().unwrap_or_default()) as usize;
                data[offset..offset + available.min(len)].to_vec()
            });
            let Some(copy) = bytes else { break };
            let Some((record, len)) = Record::parse(&copy) else {
                tail = head;
                break;
            };
            if let Some(tsc) = time_of(&record) {
                // A time to come would hold everything back that this task writes.
                let tsc = tsc.min(now);
                let latest = self.latest.entry(index).or_default();
                *latest = tsc.max(*latest);
                self.waiting.insert((*latest, self.sequence), (task, copy));
                self.sequence += 1;
            }
            tail += len as u64;
        }
        ring.tail.store(tail, Ordering::Release);
        if ring.waiting.swap(0, Ordering::SeqCst) != 0 {
            wake(&ring.waiting);
        }
        (state == ring::RETIRED).then_some(task)
    }

    /// The process is gone: nobody writes to its rings any more.
    pub fn retire(&self, pid: i32) {
        let used = self.arena.control().rings_used.load(Ordering::Acquire);
        for index in 0..used.min(self.geometry.rings) {
            let ring = self.arena.ring(index);
            if ring.pid.load(Ordering::Relaxed) == pid {
                let (active, retired) = (ring::ACTIVE, ring::RETIRED);
                let _ = ring.state.compare_exchange(
                    active,
                    retired,
                    Ordering::AcqRel,
                    Ordering::Relaxed,
                );
            }
        }
    }
}

fn time_of(record: &Record) -> Option<u64> {
    match record {
        Record::Pad => None,
        Record::Enter { tsc, .. }
        | Record::Exit { tsc, .. }
        | Record::Cancel { tsc }
        | Record::Signal { tsc, .. }
        | Record::TaskStart { tsc, .. } => Some(*tsc),
    }
}

/// Wakes everyone who waits for a word of the arena.
pub fn wake(word: &AtomicU32) {
    // SAFETY: a futex wake reads nothing and writes nothing here.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
}
