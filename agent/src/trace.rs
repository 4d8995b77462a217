//! The built-in hook that turns every call into records for the supervisor.
//!
//! Owns: the producer's side of a ring, and copying what arguments point to, as the capture
//! plan of the call says (`crossgate-syscalls`). Never does: formatting. While there is
//! room in the ring nothing here enters the kernel, except where `uaccess.rs` must to copy the
//! program's memory; a full ring waits for the supervisor, nothing is dropped. Where the data
//! goes next: `launch/src/drain.rs`.

use core::arch::x86_64::_rdtsc;
use core::sync::atomic::{AtomicU64, Ordering};

use crossgate_hook::{Action, Call, Hook};
use crossgate_syscalls::{Capture, Len, What, When, fcntl_takes_pointer, plan};
use crossgate_wire::record::write_pad;
use crossgate_wire::{BlobKind, Kind, RequestKind, RingHeader, Writer, ring};

use crate::arch::x86_64::frame::SignalInfo;
use crate::process::PROCESS;
use crate::request;
use crate::sys::errno;
use crate::thread::Thread;
use crate::uaccess;

/// Header, number, site, six arguments.
const ENTER_BYTES: usize = 80;
/// Header and result.
const EXIT_BYTES: usize = 24;
/// PATH_MAX.
const LONGEST_PATH: usize = 4096;
/// Most strings of a vector, elements of an array or buffers of an iovec that are copied.
const MOST_ELEMENTS: usize = 32;
/// Most bytes of a struct or an array.
const MOST_BYTES: usize = 2048;
/// Blob header and padding.
const BLOB_EXTRA: usize = 24;

/// The tracing hook. Its state is the task's ring, in the thread block.
pub struct Trace;

impl Hook<Thread> for Trace {
    fn enter(&self, t: &Thread, call: &mut Call) -> Action {
        let captures = plan::capture(call.nr);
        let room = ENTER_BYTES + room_for(captures, false);
        record(t, Kind::Enter, room, |w| {
            w.word(call.nr);
            w.word(call.site);
            for arg in call.args {
                w.word(arg);
            }
            for capture in captures.iter().filter(|c| c.when == When::Enter) {
                copy(t, w, call, 0, capture);
            }
        });
        Action::Continue
    }

    fn exit(&self, t: &Thread, call: &Call, result: i64) -> i64 {
        let captures = plan::capture(call.nr);
        let failed = (-4095..0).contains(&result);
        let wanted = |c: &&Capture| {
            c.when == When::Exit && !(-516..=-512).contains(&result)
                || c.when == When::ExitIfOk && !failed
        };
        record(t, Kind::Exit, EXIT_BYTES + room_for(captures, true), |w| {
            w.word(result as u64);
            for capture in captures.iter().filter(wanted) {
                copy(t, w, call, result, capture);
            }
        });
        result
    }

    fn cancelled(&self, t: &Thread) {
        record(t, Kind::Cancel, EXIT_BYTES, |_| {});
    }
}

/// A signal is delivered, and ends the process if `fatal`.
pub fn signal(t: &Thread, info: &SignalInfo, fatal: bool) {
    if PROCESS.traces() && !t.silent.get() {
        record(t, Kind::Signal, EXIT_BYTES + 136, |w| {
            w.bytes(info.bytes());
            w.word(u64::from(fatal));
        });
    }
}

/// Something is injected into the call that was recorded last.
pub fn injected(t: &Thread, fill: impl FnOnce(&mut Writer)) {
    const BYTES: usize = 16 + 64;
    record(t, Kind::Inject, EXIT_BYTES + BYTES, fill);
}

/// A hook library has something to say.
pub fn log(t: &Thread, hook: u32, text: &[u8]) {
    let text = &text[..text.len().min(MOST_BYTES)];
    record(t, Kind::Log, EXIT_BYTES + text.len().next_multiple_of(8), |w| {
        w.word(u64::from(hook) | (text.len() as u64) << 32);
        let (words, rest) = text.as_chunks::<8>();
        w.bytes(words.as_flattened());
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        w.bytes(&last);
    });
}

/// A task runs for the first time.
pub fn task_started(t: &Thread, parent: i32) {
    if PROCESS.traces() && !t.silent.get() {
        record(t, Kind::TaskStart, EXIT_BYTES, |w| w.word(parent as u64));
    }
}

/// A task makes its last call: its ring is the supervisor's to empty.
pub fn task_leaves(t: &Thread) {
    if let Some(ring) = t.ring.take() {
        ring.state.store(ring::RETIRED, Ordering::Release);
    }
}

fn string_limit() -> usize {
    PROCESS.control().string_limit as usize
}

/// Bytes that the blobs of a call may need.
fn room_for(captures: &[Capture], at_exit: bool) -> usize {
    let limit = string_limit();
    captures
        .iter()
        .filter(|c| (c.when != When::Enter) == at_exit)
        .map(|c| match c.what {
            What::Str => LONGEST_PATH + BLOB_EXTRA,
            What::StrVec => MOST_ELEMENTS * (limit + 4) + BLOB_EXTRA,
            What::Count | What::Entries => 8 + BLOB_EXTRA,
            What::SignalMask => 24 + 2 * BLOB_EXTRA,
            What::Bytes(Len::Fixed(n)) => usize::from(n).min(MOST_BYTES) + BLOB_EXTRA,
            What::Bytes(len) => bytes_limit(len) + BLOB_EXTRA,
            What::Iovec { .. } => MOST_ELEMENTS * 24 + limit + BLOB_EXTRA,
            What::Message { .. } | What::Messages { .. } => {
                MOST_ELEMENTS * 24 + 3 * (limit + MOST_BYTES) + 4 * BLOB_EXTRA
            }
        })
        .sum()
}

/// How much of a buffer is copied: a string's worth of bytes, some elements of an array.
fn bytes_limit(len: Len) -> usize {
    match len {
        Len::Arg { scale, .. } | Len::Result { scale } if scale > 1 => {
            (usize::from(scale) * MOST_ELEMENTS).min(MOST_BYTES)
        }
        Len::Fixed(_) | Len::Pointee { .. } | Len::Bits { .. } | Len::Fcntl { .. } => MOST_BYTES,
        _ => string_limit(),
    }
}

/// The task's ring; takes one the first time. `None` when the supervisor is gone.
fn ring_of(t: &Thread) -> Option<&'static RingHeader> {
    if let Some(ring) = t.ring.get() {
        return Some(ring);
    }
    let arena = PROCESS.arena();
    loop {
        for index in 0..PROCESS.control().geometry.rings {
            // SAFETY: the arena stays mapped for as long as the process lives.
            let ring: &'static RingHeader = unsafe { &*core::ptr::from_ref(arena.ring(index)) };
            let (free, active) = (ring::FREE, ring::ACTIVE);
            if ring
                .state
                .compare_exchange(free, active, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
            {
                if !PROCESS.map_ring(index) {
                    // Its address space is full: it cannot be shown, which is said.
                    ring.state.store(ring::FREE, Ordering::Release);
                    t.silent.set(true);
                    let why = errno::ENOMEM as u64;
                    request::tell(t, RequestKind::Untraced, [why, 0, 0, 0]);
                    return None;
                }
                PROCESS.control().rings_used.fetch_max(index + 1, Ordering::Release);
                ring.pid.store(t.outer_pid.get(), Ordering::Relaxed);
                ring.tid.store(t.outer_tid.get(), Ordering::Relaxed);
                t.ring.set(Some(ring));
                t.ring_index.set(index);
                t.ring_limit.set(0);
                return Some(ring);
            }
        }
        // All taken: the supervisor frees those of tasks that are gone.
        if request::supervisor_gone() {
            return None;
        }
        let beat = &PROCESS.control().heartbeat;
        let now = beat.load(Ordering::Relaxed);
        request::ring_doorbell();
        if !request::wait_for_supervisor(beat, now) {
            return None;
        }
    }
}

/// Writes one record of at most `room` bytes.
fn record(t: &Thread, kind: Kind, room: usize, fill: impl FnOnce(&mut Writer)) {
    let Some(ring) = ring_of(t) else { return };
    let size = PROCESS.control().geometry.ring_size as usize;
    let room = room.next_multiple_of(8).min(size / 4);
    let mut head = ring.head.load(Ordering::Relaxed);
    let mut offset = head as usize & (size - 1);
    let skip = if offset + room > size { size - offset } else { 0 };
    if !wait_for_room(t, ring, head + (skip + room) as u64, size as u64) {
        return;
    }
    let data = PROCESS.arena().ring_data(PROCESS.control().geometry, t.ring_index.get());
    if skip > 0 {
        // SAFETY: `skip` bytes from `offset` on are the end of this ring's data, and free.
        write_pad(unsafe { core::slice::from_raw_parts_mut(data.add(offset), skip) }, skip);
        head += skip as u64;
        offset = 0;
    }
    // SAFETY: `room` bytes from `offset` on lie in this ring's data and are free: the
    // consumer has read them, and this task is the only producer.
    let space = unsafe { core::slice::from_raw_parts_mut(data.add(offset), room) };
    let mut writer = Writer::new(space, kind, time());
    fill(&mut writer);
    let len = writer.finish() as u64;
    ring.head.store(head + len, Ordering::Release);
    // Twice per lap, so that the supervisor is at work before the ring is full.
    if (head ^ (head + len)) & (size as u64 / 2) != 0 {
        request::ring_doorbell();
    }
}

/// The last time that could be read, when the program has forbidden to read it.
static LAST_TIME: AtomicU64 = AtomicU64::new(0);

/// The time stamp counter; where that is forbidden, one more than the last time.
fn time() -> u64 {
    if LAST_TIME.load(Ordering::Relaxed) != 0 {
        return LAST_TIME.fetch_add(1, Ordering::Relaxed);
    }
    // SAFETY: every x86-64 processor has it, and the program has not forbidden it.
    unsafe { _rdtsc() }
}

/// The program forbids reading the time stamp counter (PR_SET_TSC): the agent must not.
pub fn forbid_time() {
    LAST_TIME.store(time(), Ordering::Relaxed);
}

/// Waits until the ring is free up to position `end`.
fn wait_for_room(t: &Thread, ring: &RingHeader, end: u64, size: u64) -> bool {
    while end > t.ring_limit.get() {
        t.ring_limit.set(ring.tail.load(Ordering::Acquire) + size);
        if end <= t.ring_limit.get() {
            break;
        }
        ring.waiting.store(1, Ordering::SeqCst);
        if end <= ring.tail.load(Ordering::SeqCst) + size {
            ring.waiting.store(0, Ordering::Relaxed);
            continue;
        }
        request::ring_doorbell();
        if !request::wait_for_supervisor(&ring.waiting, 1) {
            return false;
        }
    }
    true
}

fn length(t: &Thread, call: &Call, result: i64, len: Len) -> usize {
    let scaled = |value: u64, scale: u16| {
        usize::try_from(value).unwrap_or(usize::MAX).saturating_mul(usize::from(scale))
    };
    match len {
        Len::Fixed(n) => usize::from(n),
        Len::Arg { index, scale } => scaled(call.args[usize::from(index)], scale),
        Len::Result { scale } => scaled(result.max(0) as u64, scale),
        Len::Pointee { arg } => {
            let address = call.args[usize::from(arg)];
            if address == 0 { 0 } else { uaccess::get::<u32>(t, address).unwrap_or(0) as usize }
        }
        Len::Bits { index } => {
            let bits = (call.args[usize::from(index)] as i32).max(0) as usize;
            bits.div_ceil(64) * 8
        }
        Len::Pages { index } => scaled(call.args[usize::from(index)].div_ceil(4096), 1),
        Len::Fcntl { index, size } => {
            if fcntl_takes_pointer(call.args[usize::from(index)] as u32) {
                usize::from(size)
            } else {
                0
            }
        }
        Len::All => usize::MAX,
    }
}

/// Makes the blobs of one capture.
fn copy(t: &Thread, w: &mut Writer, call: &Call, result: i64, capture: &Capture) {
    let arg = capture.arg;
    let address = call.args[usize::from(arg)];
    if address == 0 {
        return;
    }
    match capture.what {
        What::Str => copy_string(t, w, arg, address),
        What::StrVec => copy_strings(t, w, arg, address),
        What::Count => copy_count(t, w, arg, address),
        What::Bytes(len) => {
            copy_bytes(t, w, arg, address, length(t, call, result, len), bytes_limit(len));
        }
        What::Iovec { count_arg, total } => {
            let count = call.args[usize::from(count_arg)];
            let total = length(t, call, result, total);
            copy_iovec(t, w, arg, address, count, total);
        }
        What::Message { total } => {
            copy_message(t, w, arg, address, 56, length(t, call, result, total));
        }
        What::Messages { count } => {
            const EACH: u64 = 64;
            let count = length(t, call, result, count).min(MOST_ELEMENTS) as u64;
            for i in 0..count {
                copy_message(t, w, arg, address + i * EACH, EACH as usize, usize::MAX);
            }
        }
        What::SignalMask => {
            copy_bytes(t, w, arg, address, 16, 16);
            if let Ok([set, _]) = uaccess::get::<[u64; 2]>(t, address)
                && set != 0
            {
                copy_bytes(t, w, arg, set, 8, 8);
            }
        }
        What::Entries => count_entries(t, w, arg, address, result.max(0) as u64),
    }
}

fn copy_bytes(t: &Thread, w: &mut Writer, arg: u8, address: u64, len: usize, limit: usize) {
    let Some(space) = w.begin_blob() else { return };
    let want = len.min(limit).min(space.len());
    let got = uaccess::read(t, address, &mut space[..want]);
    w.end_blob(arg, BlobKind::Bytes, got, len > want, got < want);
}

fn copy_string(t: &Thread, w: &mut Writer, arg: u8, address: u64) {
    let Some(space) = w.begin_blob() else { return };
    let most = space.len().min(LONGEST_PATH);
    let (len, truncated, fault) = uaccess::read_string(t, address, &mut space[..most]);
    w.end_blob(arg, BlobKind::Str, len, truncated, fault);
}

const MORE: u32 = 1 << 31;

fn copy_strings(t: &Thread, w: &mut Writer, arg: u8, address: u64) {
    let limit = string_limit();
    let Some(space) = w.begin_blob() else { return };
    let (mut used, mut fault, mut truncated) = (0, false, false);
    for i in 0..=MOST_ELEMENTS {
        let Ok(pointer) = uaccess::get::<u64>(t, address + i as u64 * 8) else {
            fault = true;
            break;
        };
        if pointer == 0 {
            break;
        }
        if i == MOST_ELEMENTS || used + 4 >= space.len() {
            truncated = true;
            break;
        }
        let most = limit.min(space.len() - used - 4);
        let (len, more, bad) =
            uaccess::read_string(t, pointer, &mut space[used + 4..used + 4 + most]);
        let word = len as u32 | if more { MORE } else { 0 };
        space[used..used + 4].copy_from_slice(&word.to_ne_bytes());
        used += 4 + len;
        if bad {
            fault = true;
            break;
        }
    }
    w.end_blob(arg, BlobKind::StrVec, used, truncated, fault);
}

fn copy_count(t: &Thread, w: &mut Writer, arg: u8, address: u64) {
    let mut count = 0u64;
    let mut fault = false;
    loop {
        // The vector may end where the memory does.
        let pointers = match uaccess::get::<[u64; 2]>(t, address + count * 8) {
            Ok(pair) => pair,
            Err(_) => match uaccess::get::<u64>(t, address + count * 8) {
                Ok(last) => [last, 0],
                Err(_) => {
                    fault = true;
                    break;
                }
            },
        };
        if pointers[0] == 0 {
            break;
        }
        count += 1;
        if pointers[1] == 0 {
            break;
        }
        count += 1;
    }
    write_count(w, arg, count, fault);
}

fn write_count(w: &mut Writer, arg: u8, count: u64, fault: bool) {
    if let Some(space) = w.begin_blob()
        && let Some(first) = space.get_mut(..8)
    {
        first.copy_from_slice(&count.to_ne_bytes());
        w.end_blob(arg, BlobKind::Count, 8, false, fault);
    }
}

fn copy_iovec(t: &Thread, w: &mut Writer, arg: u8, address: u64, count: u64, total: usize) {
    let Some(space) = w.begin_blob() else { return };
    let (mut used, mut fault) = (0, false);
    let mut left = total;
    let mut budget = string_limit();
    for i in 0..count.min(MOST_ELEMENTS as u64) {
        const HEAD: usize = 24;
        let Some(room) = space.len().checked_sub(used + HEAD) else { break };
        let Ok([base, len]) = uaccess::get::<[u64; 2]>(t, address + i * 16) else {
            fault = true;
            break;
        };
        let here = usize::try_from(len).unwrap_or(usize::MAX).min(left);
        let want = here.min(budget).min(room);
        let got = uaccess::read(t, base, &mut space[used + HEAD..used + HEAD + want]);
        let word = got as u32 | if here > got { MORE } else { 0 };
        space[used..used + 4].copy_from_slice(&word.to_ne_bytes());
        space[used + 4..used + 8].fill(0);
        space[used + 8..used + 16].copy_from_slice(&base.to_ne_bytes());
        space[used + 16..used + 24].copy_from_slice(&len.to_ne_bytes());
        used += HEAD + got;
        left -= here;
        budget -= got;
    }
    w.end_blob(arg, BlobKind::Iovec, used, count > MOST_ELEMENTS as u64, fault);
}

/// `struct user_msghdr`: name, name length, iovec, iovec count, control, control length,
/// flags (include/linux/socket.h).
fn copy_message(t: &Thread, w: &mut Writer, arg: u8, address: u64, head: usize, total: usize) {
    copy_bytes(t, w, arg, address, head, head);
    let Ok([name, name_len]) = uaccess::get::<[u64; 2]>(t, address) else { return };
    let Ok([iov, iov_count, control, control_len]) = uaccess::get::<[u64; 4]>(t, address + 16)
    else {
        return;
    };
    let name_len = if name == 0 { 0 } else { name_len as u32 as usize };
    let control_len = if control == 0 { 0 } else { control_len as usize };
    copy_bytes(t, w, arg, name, name_len, 128);
    copy_iovec(t, w, arg, iov, if iov == 0 { 0 } else { iov_count }, total);
    copy_bytes(t, w, arg, control, control_len, MOST_BYTES);
}

/// Counts `struct linux_dirent64` (or the older one): the length is the `u16` at offset 16.
fn count_entries(t: &Thread, w: &mut Writer, arg: u8, address: u64, len: u64) {
    let mut bytes = [0u8; 8192];
    let (mut at, mut count, mut have, mut start) = (0u64, 0u64, 0usize, 0u64);
    while at < len {
        let mut offset = (at - start) as usize;
        if have == 0 || offset + 18 > have {
            start = at;
            offset = 0;
            let want = bytes.len().min((len - at) as usize);
            have = uaccess::read(t, address + at, &mut bytes[..want]);
            if have < 18 {
                break;
            }
        }
        let step = u16::from_ne_bytes([bytes[offset + 16], bytes[offset + 17]]);
        if step == 0 {
            break;
        }
        count += 1;
        at += u64::from(step);
    }
    write_count(w, arg, count, at < len);
}
