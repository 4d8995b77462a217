//! The consumer's side of the rings: copies records out, in the order of their time stamps.
//!
//! Owns: reading, releasing room, freeing rings of tasks that are gone. The arena is
//! writable by the traced programs, so nothing in it is believed: lengths and positions are
//! checked, records are copied before they are looked at, and a ring that holds nonsense is
//! abandoned.

use std::sync::atomic::{AtomicU32, Ordering};

use crossgate_wire::arena::Geometry;
use crossgate_wire::{Arena, Record, RingHeader, ring};

use crate::supervise::{Task, now};

/// Reads all rings of an arena.
pub struct Drain {
    arena: Arena,
    geometry: Geometry,
    /// By ring.
    queues: Vec<Queue>,
}

/// What was copied out of one ring and not yet handed on.
struct Queue {
    task: Task,
    bytes: Vec<u8>,
    /// Where in `bytes` the next record is.
    at: usize,
    /// Its time, or [`NONE`]. A ring's own order is kept whatever its time stamps say (cores
    /// may differ by a little): no record is earlier than the one before it.
    next: u64,
    /// Time of the record handed on last.
    last: u64,
    /// No time stamp is later: a time to come would hold everything back that follows.
    read_at: u64,
    /// Nothing more comes.
    retired: bool,
    /// It was not read because there was enough of it here.
    left: bool,
}

/// Time of the next record where there is none.
const NONE: u64 = u64::MAX;

impl Queue {
    const fn empty() -> Self {
        let task = Task { pid: 0, tid: 0 };
        Self {
            task,
            bytes: Vec::new(),
            at: 0,
            next: NONE,
            last: 0,
            read_at: 0,
            retired: false,
            left: false,
        }
    }

    /// Takes in what was in the ring at `read_at`.
    fn take(&mut self, parts: [&[u8]; 2], read_at: u64) {
        self.bytes.drain(..self.at);
        self.at = 0;
        for part in parts {
            self.bytes.extend_from_slice(part);
        }
        self.read_at = read_at;
        if self.next == NONE {
            self.look();
        }
    }

    /// The next record, and its length.
    fn record(&self) -> Option<(Record<'_>, usize)> {
        Record::parse(self.bytes.get(self.at..)?)
    }

    /// Finds the next record's time. Bytes that are none end the queue.
    fn look(&mut self) {
        self.next = loop {
            let found = self.record().map(|(record, len)| (time_of(&record), len));
            match found {
                Some((Some(time), _)) => break time.min(self.read_at).max(self.last),
                // Fills the end of the ring.
                Some((None, len)) => self.at += len,
                None => {
                    self.bytes.clear();
                    self.at = 0;
                    break NONE;
                }
            }
        };
    }

    /// Hands on the records up to time `end`.
    fn hand_on(&mut self, end: u64, each: &mut impl FnMut(Task, &Record, &[u8])) {
        while self.next <= end && self.next != NONE {
            let Some((record, len)) = self.record() else { break };
            each(self.task, &record, &self.bytes[self.at..self.at + len]);
            self.last = self.next;
            self.at += len;
            self.look();
        }
    }
}

impl Drain {
    /// For the arena mapped here, whose true sizes are `geometry`.
    pub fn new(arena: Arena, geometry: Geometry) -> Self {
        Self { arena, geometry, queues: Vec::new() }
    }

    /// Empties all rings; hands on every record up to time `horizon`. Records of a retired
    /// ring are followed by `gone` for its task.
    pub fn run(
        &mut self,
        horizon: u64,
        mut each: impl FnMut(Task, &Record, &[u8]),
        mut gone: impl FnMut(Task),
    ) {
        let used = self.arena.control().rings_used.load(Ordering::Acquire);
        let used = used.min(self.geometry.rings);
        self.queues.resize_with(self.queues.len().max(used as usize), Queue::empty);
        loop {
            for index in 0..used {
                self.read(index);
            }
            self.hand_on(horizon, &mut each);
            if !self.queues.iter().any(|queue| queue.left && queue.next == NONE) {
                break;
            }
        }
        self.free_retired(used, &mut gone);
    }

    /// Hands on what was read, up to time `horizon`, in the order of time.
    fn hand_on(&mut self, horizon: u64, each: &mut impl FnMut(Task, &Record, &[u8])) {
        // The earliest record's queue goes on until another one has an earlier.
        loop {
            let (mut first, mut earliest, mut other) = (0, NONE, NONE);
            for (index, queue) in self.queues.iter().enumerate() {
                if queue.next < earliest {
                    (first, other, earliest) = (index, earliest, queue.next);
                } else {
                    other = other.min(queue.next);
                }
            }
            if earliest == NONE || earliest > horizon {
                break;
            }
            self.queues[first].hand_on(other.min(horizon), each);
        }
    }

    /// Frees the rings of tasks that are gone and of which everything was handed on.
    fn free_retired(&mut self, used: u32, gone: &mut impl FnMut(Task)) {
        for index in 0..used {
            let queue = &mut self.queues[index as usize];
            if !queue.retired || queue.next != NONE || queue.left {
                // Its last records may be younger than the horizon: it is freed next time.
                continue;
            }
            let task = queue.task;
            *queue = Queue::empty();
            let ring = self.arena.ring(index);
            ring.head.store(0, Ordering::Relaxed);
            ring.tail.store(0, Ordering::Relaxed);
            // Whoever takes it next must not be found under the old id.
            ring.pid.store(0, Ordering::Relaxed);
            ring.state.store(ring::FREE, Ordering::Release);
            gone(task);
        }
    }

    /// Copies what is in ring `index`.
    fn read(&mut self, index: u32) {
        let ring: &RingHeader = self.arena.ring(index);
        let state = ring.state.load(Ordering::Acquire);
        if state == ring::FREE {
            return;
        }
        let queue = &mut self.queues[index as usize];
        let size = self.geometry.ring_size as usize;
        // What bears times to come is not handed on: it must not pile up here.
        queue.left = queue.bytes.len() - queue.at >= size;
        if queue.left {
            return;
        }
        queue.retired = state == ring::RETIRED;
        let read_at = now();
        let head = ring.head.load(Ordering::Acquire);
        queue.task =
            Task { pid: ring.pid.load(Ordering::Relaxed), tid: ring.tid.load(Ordering::Relaxed) };
        let tail = ring.tail.load(Ordering::Relaxed);
        let len = head.wrapping_sub(tail);
        // More than fits is not something our agent wrote.
        if len != 0 && len <= size as u64 {
            // SAFETY: the data of this ring lies in the mapping. The producer writes only
            // what lies outside [tail, head); a program that writes there itself can only
            // change bytes that are copied here before they are looked at.
            let data = unsafe {
                std::slice::from_raw_parts(self.arena.ring_data(self.geometry, index), size)
            };
            let from = tail as usize & (size - 1);
            let first = (len as usize).min(size - from);
            let parts = [&data[from..from + first], &data[..len as usize - first]];
            queue.take(parts, read_at);
        }
        ring.tail.store(head, Ordering::Release);
        if ring.waiting.swap(0, Ordering::SeqCst) != 0 {
            wake(&ring.waiting);
        }
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
        | Record::TaskStart { tsc, .. }
        | Record::Inject { tsc, .. }
        | Record::Log { tsc, .. } => Some(*tsc),
    }
}

/// Wakes everyone who waits for a word of the arena.
pub fn wake(word: &AtomicU32) {
    // SAFETY: a futex wake reads nothing and writes nothing here.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
}

#[cfg(test)]
mod tests {
    use std::alloc::{Layout, alloc_zeroed, dealloc};

    use crossgate_wire::{Kind, Writer};

    use super::*;

    const GEOMETRY: Geometry = Geometry { rings: 2, ring_size: 4096 };

    /// An arena whose only program is the test.
    struct Rings(*mut u8);

    impl Rings {
        fn layout() -> Layout {
            Layout::from_size_align(GEOMETRY.size(), 4096).unwrap()
        }

        fn new() -> Self {
            // SAFETY: the size is not zero, and zero is a valid value of all that is in it.
            let rings = Self(unsafe { alloc_zeroed(Self::layout()) });
            rings.arena().control().rings_used.store(GEOMETRY.rings, Ordering::Relaxed);
            let arena = rings.arena();
            for index in 0..GEOMETRY.rings {
                let ring = arena.ring(index);
                ring.pid.store(100, Ordering::Relaxed);
                ring.tid.store(100 + index as i32, Ordering::Relaxed);
                ring.state.store(ring::ACTIVE, Ordering::Relaxed);
            }
            rings
        }

        fn arena(&self) -> Arena {
            // SAFETY: as long as the memory, which outlives every use in a test.
            unsafe { Arena::new(self.0) }
        }

        /// Writes as many cancellations at `time` as there is room for, at most `most`.
        fn write(&self, index: u32, time: u64, most: usize) -> usize {
            let arena = self.arena();
            let ring = arena.ring(index);
            for written in 0..most {
                let head = ring.head.load(Ordering::Relaxed);
                let mut buffer = [0; 192];
                let len = Writer::new(&mut buffer, Kind::Cancel, time).finish();
                if head + len as u64 - ring.tail.load(Ordering::Relaxed) > 4096 {
                    return written;
                }
                let at = head as usize & 4095;
                // SAFETY: records of 16 bytes fill the ring without a rest.
                unsafe {
                    let data = arena.ring_data(GEOMETRY, index).add(at);
                    data.copy_from_nonoverlapping(buffer.as_ptr(), len);
                }
                ring.head.store(head + len as u64, Ordering::Relaxed);
            }
            most
        }
    }

    impl Drop for Rings {
        fn drop(&mut self) {
            // SAFETY: allocated in `new` with this layout.
            unsafe { dealloc(self.0, Self::layout()) };
        }
    }

    /// The thread ids of the records handed on up to `horizon`.
    fn handed_on(drain: &mut Drain, horizon: u64) -> Vec<i32> {
        let mut tasks = Vec::new();
        drain.run(horizon, |task, _, _| tasks.push(task.tid), |_| {});
        tasks
    }

    #[test]
    fn records_of_two_rings_come_in_the_order_of_time() {
        let rings = Rings::new();
        let mut drain = Drain::new(rings.arena(), GEOMETRY);
        for (index, time) in [(0, 10), (0, 30), (1, 20), (1, 40)] {
            rings.write(index, time, 1);
        }
        assert_eq!(handed_on(&mut drain, 30), [100, 101, 100]);
        assert_eq!(handed_on(&mut drain, u64::MAX), [101]);
    }

    #[test]
    fn a_time_to_come_holds_nothing_back() {
        let rings = Rings::new();
        let mut drain = Drain::new(rings.arena(), GEOMETRY);
        rings.write(0, u64::MAX - 1, 1);
        rings.write(0, 10, 1);
        rings.write(1, 20, 1);
        assert_eq!(handed_on(&mut drain, 0), []);
        let all = handed_on(&mut drain, now() + (1 << 40));
        assert_eq!(all.len(), 3);
    }

    #[test]
    fn a_ring_that_is_not_handed_on_fills_up_and_loses_nothing() {
        let rings = Rings::new();
        let mut drain = Drain::new(rings.arena(), GEOMETRY);
        let mut written = 0;
        for _ in 0..100 {
            written += rings.write(0, u64::MAX - 1, usize::MAX);
            assert_eq!(handed_on(&mut drain, 0), []);
        }
        // One ring's worth in the queue and one in the ring: then its writer waits.
        assert!(written * 16 <= 2 * 4096 + 4096, "{written} records were taken in");
        assert_eq!(handed_on(&mut drain, now() + (1 << 40)).len(), written);
    }

    #[test]
    fn nonsense_is_dropped_and_the_ring_goes_on() {
        let rings = Rings::new();
        let mut drain = Drain::new(rings.arena(), GEOMETRY);
        let arena = rings.arena();
        let ring = arena.ring(0);
        ring.head.store(1 << 40, Ordering::Relaxed);
        assert_eq!(handed_on(&mut drain, u64::MAX), []);
        ring.head.store((1 << 40) + 64, Ordering::Relaxed);
        assert_eq!(handed_on(&mut drain, u64::MAX), []);
        rings.write(0, 10, 1);
        assert_eq!(handed_on(&mut drain, u64::MAX), [100]);
    }
}
