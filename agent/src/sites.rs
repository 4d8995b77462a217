//! Sites: the call instructions of the program, which of them are patched and how.
//!
//! Owns: the table of sites, the decision for each, writing to the program's code, and
//! taking it all back. Never does: the bytes (`arch/x86_64/encode.rs`), the memory for
//! trampolines (`near.rs`).
//!
//! A site is tried in this order, the first that works stays:
//! 1. the `mov $nr, %eax` before it becomes a jump. The call instruction itself stays, so a
//!    thread blocked in it, or a jump straight to it, is still right;
//! 2. its own two bytes become a jump that borrows the next three as its displacement,
//!    into a page that we map there;
//! 3. one instruction of five bytes or more before it (in fast mode several) is moved into
//!    the trampoline;
//! 4. it stays and is caught at each call.

use core::cmp::Ordering;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use crossgate_wire::RequestKind;
use crossgate_wire::arena::{
    Mode, SITE_ENTERED, SITE_LOADS_NUMBER, SiteEntry, SiteKind, SiteReason,
};

use crate::arch::x86_64::encode::{
    self, JUMP_LEN, STUB_TAIL, SYSCALL, SYSCALL_LEN, Stub, TRAMPOLINE,
};
use crate::arch::x86_64::entry;
use crate::arch::x86_64::frame::Context;
use crate::near::{self, Near, PAGE, Target, Window};
use crate::process::PROCESS;
use crate::sync::{Guard, Lock};
use crate::sys::{self, nr};
use crate::thread::Thread;
use crate::{dispatch, host, request, signals, uaccess};

/// What is known of a site.
#[derive(Clone, Copy)]
struct Site {
    /// Address after the call instruction; zero for an unused entry.
    after: u64,
    /// Where its patch leads, when patched: to a trampoline, or straight to its stub.
    trampoline: u64,
    /// Its stub, where it has one.
    stub: u64,
    /// The bytes that the patch replaced, from `patch` on.
    original: [u8; JUMP_LEN],
    /// Distance from the patch to `after`.
    before: u8,
    /// How many bytes the patch replaced.
    len: u8,
    /// Length of the trampoline.
    trampoline_len: u8,
    /// Distance from the start of the stub to its call instruction.
    stub_call: u8,
    /// `None` while undecided.
    kind: Option<SiteKind>,
    reason: SiteReason,
    /// Times it was caught while undecided.
    hits: u16,
    /// The number that a [`SiteKind::Mov`] site loads.
    nr: u32,
}

impl Site {
    const UNUSED: Self = Self {
        after: 0,
        trampoline: 0,
        stub: 0,
        original: [0; JUMP_LEN],
        before: 0,
        len: 0,
        trampoline_len: 0,
        stub_call: 0,
        kind: None,
        reason: SiteReason::None,
        hits: 0,
        nr: 0,
    };

    /// The same place without a patch. Its stub stays: a task may be in the middle of it,
    /// and a new patch may use it again.
    fn unpatched(&self) -> Self {
        let Self { after, stub, stub_call, .. } = *self;
        Self { after, stub, stub_call, ..Self::UNUSED }
    }

    fn patch(&self) -> u64 {
        self.after - u64::from(self.before)
    }

    /// The program's own bytes before the call that a trampoline or stub starts with.
    fn moved(&self) -> u64 {
        u64::from(self.before).saturating_sub(SYSCALL_LEN as u64)
    }

    /// Whether `address` lies in its trampoline.
    fn in_trampoline(&self, address: u64) -> bool {
        address.wrapping_sub(self.trampoline) < u64::from(self.trampoline_len)
    }

    /// Whether `address` lies in its stub.
    fn in_stub(&self, address: u64) -> bool {
        let len = u64::from(self.stub_call) + STUB_TAIL as u64;
        self.stub != 0 && address.wrapping_sub(self.stub) < len
    }

    fn is_patched(&self) -> bool {
        matches!(self.kind, Some(SiteKind::Mov | SiteKind::Pun | SiteKind::Relocated))
    }
}

/// Bytes of the next instruction that the displacement of a [`SiteKind::Pun`] consists of.
const BORROWED: u64 = 3;
const SITES: usize = 8192;
/// Up to so many sites are searched one by one.
const FEW: usize = 64;
/// Twice as many, for short probes.
const INDEX: usize = 2 * SITES;
/// Ranges that must not be patched (shared mappings of files).
const NEVER: usize = 32;

/// All sites of an address space.
pub struct Sites {
    /// In the order they were found, so that few pages are touched.
    sites: [Site; SITES],
    count: usize,
    /// Hash of `after` → index plus one.
    index: [u16; INDEX],
    near: Near,
    /// Program code that is writable for the moment.
    window: Window,
    never: [(u64, u64); NEVER],
    never_count: usize,
}

static TABLE: Lock<Sites> = Lock::new(Sites {
    sites: [Site::UNUSED; SITES],
    count: 0,
    index: [0; INDEX],
    near: Near::none(),
    window: Window::closed(),
    never: [(0, 0); NEVER],
    never_count: 0,
});

/// How many sites are patched, to be read without the lock.
static PATCHED: AtomicU64 = AtomicU64::new(0);

/// Some trampoline holds moved instructions, in the middle of which a signal may arrive.
static MOVED_SEVERAL: AtomicBool = AtomicBool::new(false);

impl Sites {
    /// The entry of the site, or a new one; `None` when the table is full.
    fn find(&mut self, after: u64) -> Option<usize> {
        // Most programs have few sites: a short search touches less memory than a hash.
        if self.count <= FEW {
            if let Some(index) = self.known().iter().position(|s| s.after == after) {
                return Some(index);
            }
        } else {
            let slot = self.slot(after);
            if self.index[slot] != 0 {
                return Some(self.index[slot] as usize - 1);
            }
        }
        if self.count == SITES {
            return None;
        }
        self.sites[self.count] = Site { after, ..Site::UNUSED };
        self.count += 1;
        let unindexed = match self.count.cmp(&(FEW + 1)) {
            Ordering::Less => return Some(self.count - 1),
            Ordering::Equal => 0,
            Ordering::Greater => self.count - 1,
        };
        for i in unindexed..self.count {
            let slot = self.slot(self.sites[i].after);
            self.index[slot] = i as u16 + 1;
        }
        Some(self.count - 1)
    }

    /// Where the index has `after`, or would have it.
    fn slot(&self, after: u64) -> usize {
        let mut at = (after.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 50) as usize % INDEX;
        while self.index[at] != 0 && self.sites[self.index[at] as usize - 1].after != after {
            at = (at + 1) % INDEX;
        }
        at
    }

    fn known(&self) -> &[Site] {
        &self.sites[..self.count]
    }

    /// Replaces bytes of the program's code, which other tasks may be executing. The pages
    /// stay writable until [`Self::seal`].
    fn write_code(&mut self, at: u64, bytes: &[u8]) -> Result<(), SiteReason> {
        if !self.window.open(at, bytes.len() as u64) {
            return Err(SiteReason::Protected);
        }
        // SAFETY: the pages are mapped and writable; what is written is a whole instruction
        // in place of a whole instruction, and nobody can see half of it (see `store`).
        unsafe { store(at, bytes) }
    }

    /// After the last of some patches.
    fn seal(&mut self) {
        self.window.close();
        self.near.seal();
    }

    /// Whether a patched site relies on the bytes in `[start, end)`: those it replaced, and
    /// those its jump borrows. `index` is the site that asks.
    fn relied_on(&self, index: usize, start: u64, end: u64) -> bool {
        self.known().iter().enumerate().any(|(i, s)| {
            let borrowed = if s.kind == Some(SiteKind::Pun) { BORROWED } else { 0 };
            let relied = s.patch() + u64::from(s.len) + borrowed;
            i != index && s.is_patched() && start < relied && end > s.patch()
        })
    }
}

/// Holds the table still while the process forks.
pub fn lock_for_fork() -> Guard<'static, Sites> {
    TABLE.lock()
}

/// In the child of a fork: the lock that [`lock_for_fork`] took is the parent's to release.
pub fn unlock_after_fork() {
    TABLE.force_unlock();
}

/// A call was caught at the site that ends at `after`: count it, and patch the site when it
/// is worth it.
pub fn caught(t: &Thread, after: u64, nr: u64) {
    let mut table = TABLE.lock();
    let Some(index) = table.find(after) else { return };
    let site = &mut table.sites[index];
    if site.is_patched() {
        if still_patched(t, site) {
            // Somebody came straight to the call instruction: by a jump, to begin a call
            // again, or because the patch was being written.
            return;
        }
        // The program has put other code there.
        *site = site.unpatched();
        PATCHED.fetch_sub(1, Relaxed);
    }
    if site.kind.is_some() || PROCESS.patches_ended() {
        return;
    }
    site.hits += 1;
    if u32::from(site.hits) < PROCESS.control().patch_after {
        return;
    }
    decide(t, &mut table, index, Some(nr), Movable::Ask);
    table.seal();
}

/// Whether the jump that we wrote is still there.
fn still_patched(t: &Thread, site: &Site) -> bool {
    let len = site.len as usize;
    let mut now = [0; JUMP_LEN];
    uaccess::read(t, site.patch(), &mut now[..len]) == len
        && encode::jump(site.patch(), site.trampoline).is_some_and(|j| j[..len] == now[..len])
}

/// Decides about a site and reports it. `nr` is the number that is in rax at the call,
/// where that is known.
fn decide(t: &Thread, table: &mut Sites, index: usize, nr: Option<u64>, movable: Movable) {
    let reason = match patch(t, table, index, nr, movable) {
        Ok(kind) => {
            table.sites[index].kind = Some(kind);
            PATCHED.fetch_add(1, Relaxed);
            let counters = PROCESS.counters();
            match kind {
                SiteKind::Mov => &counters.patched_mov,
                SiteKind::Pun => &counters.patched_pun,
                SiteKind::Relocated => &counters.patched_relocated,
                SiteKind::Signal => &counters.unpatched,
            }
            .fetch_add(1, Relaxed);
            SiteReason::None
        }
        Err(reason) => {
            table.sites[index].kind = Some(SiteKind::Signal);
            PROCESS.counters().unpatched.fetch_add(1, Relaxed);
            reason
        }
    };
    table.sites[index].reason = reason;
    report(t, &table.sites[index], nr);
}

fn report(t: &Thread, site: &Site, nr: Option<u64>) {
    if PROCESS.control().report_sites == 0 {
        return;
    }
    let kind = site.kind.unwrap_or(SiteKind::Signal);
    let args = [site.after, kind as u64, site.reason as u64, nr.unwrap_or(u64::MAX)];
    request::ask(t, RequestKind::Site, args);
}

/// How many bytes before a site matter: what a trampoline can hold of moved instructions.
const BEFORE: usize = TRAMPOLINE - encode::RETURN_LEN;

/// The bytes around a site.
struct Around {
    before: [u8; BEFORE],
    /// How many of `before` could be read (its last ones).
    before_len: usize,
    /// The three bytes after it, if they could be read.
    next: Option<[u8; 3]>,
}

fn look_around(t: &Thread, after: u64) -> Option<Around> {
    const NEXT: usize = BORROWED as usize;
    let site = after - SYSCALL_LEN as u64;
    let mut around = Around { before: [0; BEFORE], before_len: BEFORE, next: None };
    let mut all = [0; BEFORE + SYSCALL_LEN + NEXT];
    if uaccess::read_code(t, site - BEFORE as u64, &mut all) == all.len() {
        let (before, rest) = all.split_at(BEFORE);
        let (call, next) = rest.split_at(SYSCALL_LEN);
        around.before.copy_from_slice(before);
        around.next = next.try_into().ok();
        return (call == SYSCALL).then_some(around);
    }
    // A page beside the site's own cannot be read: only what lies on this one counts.
    if uaccess::read(t, site - BEFORE as u64, &mut around.before) != BEFORE {
        around.before_len = BEFORE.min((site % PAGE) as usize);
        let from = BEFORE - around.before_len;
        let at = site - around.before_len as u64;
        if uaccess::read(t, at, &mut around.before[from..]) != around.before_len {
            return None;
        }
    }
    let mut call = [0; SYSCALL_LEN];
    if uaccess::read(t, site, &mut call) != SYSCALL_LEN || call != SYSCALL {
        return None;
    }
    let mut next = [0; 3];
    if uaccess::read(t, after, &mut next) == 3 {
        around.next = Some(next);
    }
    Some(around)
}

/// The number that the instruction before a site loads, which is one that does.
fn number_before(around: &Around) -> Option<u64> {
    let before = &around.before[BEFORE - around.before_len..];
    let last = |len| before.len().checked_sub(len).map(|at| &before[at..]);
    let long = last(7).and_then(encode::any_number_load);
    long.or_else(|| last(5).and_then(encode::any_number_load))
}

/// Where a site whose number may vary goes.
fn target_of_any(site: u64) -> Target {
    if host::holds(site) {
        Target::Host
    } else if dispatch::hook_wants_all() {
        Target::Enter
    } else {
        Target::EnterAny
    }
}

fn patch(
    t: &Thread,
    table: &mut Sites,
    index: usize,
    nr: Option<u64>,
    movable: Movable,
) -> Result<SiteKind, SiteReason> {
    let after = table.sites[index].after;
    let site = after - SYSCALL_LEN as u64;
    if nr == Some(nr::RT_SIGRETURN) && PROCESS.mode() == Mode::Exhaustive {
        return Err(SiteReason::SignalReturn);
    }
    let around = look_around(t, after).ok_or(SiteReason::Protected)?;
    if table.never[..table.never_count].iter().any(|&(from, to)| site >= from && site < to) {
        return Err(SiteReason::Shared);
    }
    if !table.window.holds(site) && is_writable(site) {
        return Err(SiteReason::Writable);
    }
    let before = &around.before[BEFORE - around.before_len..];

    // 1. mov → jmp
    let nr = match movable {
        Movable::Ask => nr,
        // The disassembler has said what the last instruction is, and whether the call has
        // another way in, on which it would not be caught.
        Movable::Known(entry) if entry.flags == SITE_LOADS_NUMBER => number_before(&around),
        Movable::Known(_) => None,
    };
    if let Some(nr) = nr
        && let Some(load) = encode::number_load(before, nr)
    {
        let target = match nr {
            nr if host::holds(site) && host::must_see(nr) => Target::Host,
            _ if host::holds(site) => Target::Pass,
            nr if dispatch::only_library_wants(nr) => Target::Hook,
            nr if dispatch::rust_wants(nr) => Target::Enter,
            _ => Target::Pass,
        };
        let start = site - load.len as u64;
        let moved = &before[before.len() - load.len..];
        let done = redirect(table, index, start, moved, target);
        match done {
            Ok(()) => {
                table.sites[index].nr = load.nr;
                return Ok(SiteKind::Mov);
            }
            Err(SiteReason::Protected) => return Err(SiteReason::Protected),
            Err(_) => {}
        }
    }
    // 2. pun
    let usual = nr.or_else(|| encode::likely_number(before).map(u64::from));
    let mut reason = match pun(table, index, around.next, usual) {
        Ok(()) => return Ok(SiteKind::Pun),
        Err(reason) => reason,
    };
    // 3. relocate
    if reason != SiteReason::Protected {
        match relocate(t, table, index, before, movable) {
            Ok(()) => return Ok(SiteKind::Relocated),
            Err(SiteReason::NotMovable) => {}
            Err(why) => reason = why,
        }
    }
    Err(reason)
}

/// Replaces the instruction at `start`, whose bytes are `moved`, by a jump to code that
/// executes `moved` and goes on to `target`.
fn redirect(
    table: &mut Sites,
    index: usize,
    start: u64,
    moved: &[u8],
    target: Target,
) -> Result<(), SiteReason> {
    let after = table.sites[index].after;
    if table.relied_on(index, start, start + JUMP_LEN as u64) {
        return Err(SiteReason::Overlaps);
    }
    if !table.window.holds(start) && is_writable(start) {
        return Err(SiteReason::Writable);
    }
    let stub_at = |at| match target {
        Target::Pass => encode::passing_stub(at, moved, after),
        Target::Hook => encode::hooking_stub(at, moved, entry::hook(), after),
        Target::Enter | Target::EnterAny | Target::Host => None,
    };
    let by_stub = write_stub(table, index, stub_at);
    let at = match by_stub {
        Some(stub) => stub,
        None => {
            let at = table.near.take_near(start).ok_or(SiteReason::NoRoom)?;
            let mut code = [0; TRAMPOLINE];
            let target = if target == Target::Hook { Target::Enter } else { target };
            let len = encode::trampoline(&mut code, at, moved, after, near::pointer(at, target))
                .ok_or(SiteReason::NoRoom)?;
            if !table.near.write(at, &code[..len]) {
                return Err(SiteReason::Protected);
            }
            table.sites[index].trampoline_len = len as u8;
            at
        }
    };
    let jump = encode::jump(start, at).ok_or(SiteReason::NoRoom)?;
    let site = &mut table.sites[index];
    site.trampoline = at;
    site.before = (after - start) as u8;
    site.len = JUMP_LEN as u8;
    site.original.copy_from_slice(&moved[..JUMP_LEN]);
    table.write_code(start, &jump)
}

/// Writes a stub for a site, where one can be reached from there: gives its address.
fn write_stub(
    table: &mut Sites,
    index: usize,
    stub_at: impl Fn(u64) -> Option<Stub>,
) -> Option<u64> {
    let site = &table.sites[index];
    if site.stub != 0 {
        // One from before. Where it is not the same, a task may be in the middle of it.
        let same = stub_at(site.stub).is_some_and(|stub| table.near.has(site.stub, &stub));
        return same.then_some(site.stub);
    }
    let at = table.near.next_stub(site.after)?;
    let stub = stub_at(at)?;
    if !table.near.write_stub(&stub) {
        return None;
    }
    let site = &mut table.sites[index];
    site.stub = at;
    site.stub_call = stub.call as u8;
    Some(at)
}

/// `usual` is a guess at the call's number.
fn pun(
    table: &mut Sites,
    index: usize,
    next: Option<[u8; 3]>,
    usual: Option<u64>,
) -> Result<(), SiteReason> {
    let after = table.sites[index].after;
    let site = after - SYSCALL_LEN as u64;
    if table.relied_on(index, site, after + BORROWED) {
        return Err(SiteReason::Overlaps);
    }
    if site / PAGE != (after + BORROWED - 1) / PAGE {
        // The next page may be another mapping, with a life of its own.
        return Err(SiteReason::NoRoom);
    }
    let window = encode::pun_window(after, next.ok_or(SiteReason::NoRoom)?);
    // Where the second byte stays what it is, one byte changes, which is always seen whole.
    let exact = window.wrapping_add(u64::from(SYSCALL[1]));
    let at = match table.near.take_exact(exact, encode::RETURN_LEN as u64) {
        Some(at) => at,
        None if PROCESS.has_threads() && crosses_line(site, SYSCALL_LEN) => {
            return Err(SiteReason::Straddles);
        }
        None => table.near.take_pun(window, encode::RETURN_LEN as u64).ok_or(SiteReason::NoRoom)?,
    };
    let target = target_of_any(site);
    let usual = usual.filter(|&nr| !dispatch::rust_wants(nr)).and_then(|nr| nr.try_into().ok());
    let choose = |stub| {
        encode::jump(at, stub)?;
        encode::choosing_stub(stub, usual, Thread::INTEREST, entry::enter(), after)
    };
    let choosing = (target == Target::EnterAny).then(|| write_stub(table, index, choose)).flatten();
    let mut code = [0; TRAMPOLINE];
    let len = match choosing.and_then(|stub| encode::jump(at, stub)) {
        Some(jump) => {
            code[..JUMP_LEN].copy_from_slice(&jump);
            Some(JUMP_LEN)
        }
        None => encode::trampoline(&mut code, at, &[], after, near::pointer(at, target)),
    }
    .ok_or(SiteReason::NoRoom)?;
    let jump = encode::jump(site, at).ok_or(SiteReason::NoRoom)?;
    if !table.near.write(at, &code[..len]) {
        return Err(SiteReason::Protected);
    }
    let entry = &mut table.sites[index];
    entry.trampoline = at;
    entry.trampoline_len = len as u8;
    entry.before = SYSCALL_LEN as u8;
    entry.len = SYSCALL_LEN as u8;
    entry.original[..SYSCALL_LEN].copy_from_slice(&SYSCALL);
    table.write_code(site, &jump[..SYSCALL_LEN])
}

/// How to find out what can be moved.
#[derive(Clone, Copy)]
enum Movable {
    /// The supervisor, which has a disassembler, knows.
    Ask,
    /// What a scan has found out, while no task can be in the middle of it.
    Known(SiteEntry),
}

/// Moves instructions before the site into a trampoline.
fn relocate(
    t: &Thread,
    table: &mut Sites,
    index: usize,
    before: &[u8],
    movable: Movable,
) -> Result<(), SiteReason> {
    let after = table.sites[index].after;
    let site = after - SYSCALL_LEN as u64;
    let len = match movable {
        Movable::Known(entry) if entry.flags & SITE_ENTERED != 0 => 0,
        Movable::Known(entry) => entry.movable as usize,
        Movable::Ask => {
            let mut moved = [0u8; 16];
            let len = request::ask_with(t, RequestKind::Relocate, [site, 0, 0, 0], |slot| {
                for (bytes, word) in moved.chunks_mut(8).zip(&slot.data) {
                    bytes.copy_from_slice(&word.load(Relaxed).to_le_bytes());
                }
            });
            let len = usize::try_from(len).unwrap_or(0).min(moved.len());
            // What it looked at must be what is there.
            if !before.ends_with(&moved[..len]) {
                return Err(SiteReason::NotMovable);
            }
            len
        }
    };
    if len < JUMP_LEN || len > before.len() {
        return Err(SiteReason::NotMovable);
    }
    let moved = &before[before.len() - len..];
    redirect(table, index, site - len as u64, moved, target_of_any(site))?;
    if len > JUMP_LEN {
        MOVED_SEVERAL.store(true, Relaxed);
    }
    Ok(())
}

/// Whether the page of `address` is writable now (so that the program may be changing it).
fn is_writable(address: u64) -> bool {
    // MADV_POPULATE_WRITE fails on memory that cannot be written, and changes none
    // (mm/madvise.c, since Linux 5.14).
    const MADV_POPULATE_WRITE: u64 = 23;
    sys::call4(nr::MADVISE, address & !(PAGE - 1), PAGE, MADV_POPULATE_WRITE, 0) == 0
}

/// Bytes of a cache line: a store within one is seen whole (Intel SDM vol. 3, 9.1.1).
const LINE: u64 = 64;

fn crosses_line(at: u64, len: usize) -> bool {
    at / LINE != (at + len as u64 - 1) / LINE
}

/// # Safety
/// `at .. at + bytes.len()` is writable code; `bytes` is two or five bytes long.
unsafe fn store(at: u64, bytes: &[u8]) -> Result<(), SiteReason> {
    if !PROCESS.has_threads() {
        // SAFETY: as required; no other task runs this code.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), at as *mut u8, bytes.len()) };
        return Ok(());
    }
    // SAFETY: as required: these bytes are mapped code.
    let last_stays = unsafe { (at as *const u8).add(1).read() } == bytes[1];
    if bytes.len() == SYSCALL_LEN && last_stays {
        // SAFETY: as required; a single byte.
        unsafe { (at as *mut u8).write_volatile(bytes[0]) };
        return Ok(());
    }
    if !crosses_line(at, bytes.len()) {
        // SAFETY: as required.
        unsafe { store_in_line(at, bytes) };
        return Ok(());
    }
    // Five bytes across two lines: park the others on a jump to itself while the rest
    // changes. Each core is made to forget what it has decoded in between.
    const SPIN: [u8; 2] = [0xeb, 0xfe];
    if crosses_line(at, SPIN.len()) || !synchronize_cores() {
        return Err(SiteReason::Straddles);
    }
    // SAFETY: as required; the first two bytes lie in one line, the last three are only
    // run by tasks that were past the first instruction before, of which there are none
    // after the cores were synchronized: it is one instruction.
    unsafe {
        store_in_line(at, &SPIN);
        synchronize_cores();
        core::ptr::copy_nonoverlapping(bytes[2..].as_ptr(), (at + 2) as *mut u8, bytes.len() - 2);
        synchronize_cores();
        store_in_line(at, &bytes[..2]);
    }
    Ok(())
}

/// # Safety
/// The bytes lie in one cache line of writable memory.
unsafe fn store_in_line(at: u64, bytes: &[u8]) {
    // An eight-byte window in the line that holds them all.
    let window = at.min((at / LINE + 1) * LINE - 8);
    let offset = (at - window) as usize;
    let mut value = [0u8; 8];
    // SAFETY: the window lies in the line. One unaligned store within a line is atomic;
    // the neighbouring bytes are code that only this lock's holder writes.
    unsafe {
        core::ptr::copy_nonoverlapping(window as *const u8, value.as_mut_ptr(), 8);
        value[offset..offset + bytes.len()].copy_from_slice(bytes);
        core::arch::asm!("mov [{}], {}", in(reg) window, in(reg) u64::from_le_bytes(value), options(nostack, preserves_flags));
    }
}

/// Makes every core that runs this program serialize. False where the kernel cannot.
fn synchronize_cores() -> bool {
    const REGISTER: u64 = 1 << 6;
    const SYNC_CORE: u64 = 1 << 5;
    if sys::call2(nr::MEMBARRIER, SYNC_CORE, 0) == 0 {
        return true;
    }
    sys::call2(nr::MEMBARRIER, REGISTER, 0) == 0 && sys::call2(nr::MEMBARRIER, SYNC_CORE, 0) == 0
}

/// Gives the trampolines' memory back, when no site leads to one any more.
pub fn unmap_trampolines() {
    TABLE.lock().near.unmap();
}

/// Puts the program's own bytes back in `[start, start + len)`; whether none of all patches is left.
pub fn revert(start: u64, len: u64) -> bool {
    if PATCHED.load(Relaxed) == 0 {
        return true;
    }
    let end = start.saturating_add(len);
    let mut table = TABLE.lock();
    for index in 0..table.count {
        let site = table.sites[index];
        if site.is_patched() && site.patch() < end && site.after > start && unchanged(&site) {
            // A page that can no longer be written keeps its trampolines, which stay valid.
            let original = &site.original[..site.len as usize];
            if table.write_code(site.patch(), original).is_ok() {
                table.sites[index] = site.unpatched();
                PATCHED.fetch_sub(1, Relaxed);
            }
        }
    }
    table.seal();
    PATCHED.load(Relaxed) == 0
}

/// Whether the jump that we wrote is still there, in memory that is mapped.
fn unchanged(site: &Site) -> bool {
    let len = site.len as usize;
    // SAFETY: the code of a patched site is mapped until `forget` is told otherwise.
    let now = unsafe { core::slice::from_raw_parts(site.patch() as *const u8, len) };
    encode::jump(site.patch(), site.trampoline).is_some_and(|jump| jump[..len] == *now)
}

/// The code in `[start, start + len)` is about to be unmapped or replaced.
pub fn forget(start: u64, len: u64) {
    if PATCHED.load(Relaxed) == 0 {
        return;
    }
    let end = start.saturating_add(len);
    let mut table = TABLE.lock();
    let count = table.count;
    for site in &mut table.sites[..count] {
        if site.after > start && site.patch() < end {
            if site.is_patched() {
                PATCHED.fetch_sub(1, Relaxed);
            }
            *site = site.unpatched();
        }
    }
}

/// The range is a shared mapping of a file: a patch would change the file.
pub fn never(start: u64, len: u64) {
    let mut table = TABLE.lock();
    let count = table.never_count;
    if count < NEVER {
        table.never[count] = (start, start.saturating_add(len));
        table.never_count += 1;
    } else {
        PROCESS.end_patches();
    }
}

/// Notes a 32-bit call, for the report.
pub fn note_compat(t: &Thread, after: u64) {
    note(t, after, SiteReason::Compat, None);
}

/// Notes a return from a signal, for the report.
pub fn note_signal_return(t: &Thread, after: u64) {
    note(t, after, SiteReason::SignalReturn, Some(nr::RT_SIGRETURN));
}

fn note(t: &Thread, after: u64, reason: SiteReason, nr: Option<u64>) {
    if PROCESS.control().report_sites == 0 {
        return;
    }
    let mut table = TABLE.lock();
    if let Some(index) = table.find(after)
        && table.sites[index].kind.is_none()
    {
        table.sites[index].kind = Some(SiteKind::Signal);
        table.sites[index].reason = reason;
        report(t, &table.sites[index], nr);
    }
}

/// Where a call that has to begin again begins: at its call instruction, where the kernel
/// would have put the program. In fast mode that would not be caught behind a `mov`, so the
/// jump in its place is taken again.
pub fn restart_address(after: u64, rax: u64) -> u64 {
    let site = after - SYSCALL_LEN as u64;
    if PROCESS.mode() == Mode::Exhaustive {
        return site;
    }
    let mut table = TABLE.lock();
    match table.find(after).map(|index| table.sites[index]) {
        Some(s) if s.kind == Some(SiteKind::Mov) && u64::from(s.nr) == rax => s.patch(),
        _ => site,
    }
}

/// If `c` was interrupted in a trampoline, moves it back to the site.
pub fn settle(c: &mut Context) {
    if PATCHED.load(Relaxed) == 0 {
        return;
    }
    let (ip, rax) = (c.rip, c.rax);
    let table = TABLE.lock();
    if !table.near.contains(ip) {
        return;
    }
    let found = table.known().iter().copied().find(|s| s.in_trampoline(ip) || s.in_stub(ip));
    drop(table);
    let Some(site) = found else { return };
    if site.in_stub(ip) {
        let call = site.stub + u64::from(site.stub_call);
        if ip >= call {
            // The call is made, or is to begin again.
            c.rip = if ip > call { site.after } else { restart_address(site.after, rax) };
            c.rcx = site.after;
            return;
        }
        if !site.is_patched() {
            // The way to the stub is gone; stubs never are, and this one goes on right.
            return;
        }
    }
    // The moved instructions are copies, so an address among them has its counterpart at the
    // site; behind them only the call is left.
    let offset = ip.wrapping_sub(site.trampoline);
    let moved = offset < site.moved();
    c.rip = if moved { site.patch() + offset } else { restart_address(site.after, rax) };
}

/// Where a task that is to go on at `address` must go on (the counterpart of [`settle`]):
/// among instructions that a jump has replaced, in their copies; in fast mode also at the
/// call instruction behind them, which nothing would catch.
pub fn resume_address(address: u64) -> u64 {
    let fast = PROCESS.mode() == Mode::Fast;
    if !fast && !MOVED_SEVERAL.load(Relaxed) {
        return address;
    }
    let table = TABLE.lock();
    let inside = |s: &&Site| {
        let call = s.after - SYSCALL_LEN as u64;
        let moved = s.kind == Some(SiteKind::Relocated) && address > s.patch() && address < call;
        let behind = matches!(s.kind, Some(SiteKind::Mov | SiteKind::Relocated));
        moved || fast && behind && address == call
    };
    let found = table.known().iter().find(inside);
    found.map_or(address, |s| s.trampoline + (address - s.patch()))
}

/// A site of the host's, in fast mode: patched if its calls must be seen, or may have to be.
fn patch_host(t: &Thread, table: &mut Sites, entry: SiteEntry) {
    let after = entry.address + SYSCALL_LEN as u64;
    let loads = entry.flags & SITE_LOADS_NUMBER != 0;
    let number = look_around(t, after).filter(|_| loads).and_then(|around| number_before(&around));
    if number.is_none_or(host::must_see)
        && let Some(index) = table.find(after)
        && table.sites[index].kind.is_none()
    {
        decide(t, table, index, None, Movable::Known(entry));
    }
}

/// Fast mode: finds and patches the sites in a range that has become executable. Where that
/// cannot be done for all of them, the program goes on in exhaustive mode from here.
pub fn scan(t: &Thread, start: u64, len: u64) {
    let mut blind = false;
    let found = request::ask_with(t, RequestKind::Scan, [start, len, 0, 0], |slot| {
        blind = slot.data[0].load(Relaxed) != 0;
    });
    let scratch = PROCESS.arena().scratch().cast::<SiteEntry>();
    let mut table = TABLE.lock();
    // One mapping, and the sites all over it: its protection is changed once.
    if len < u64::MAX && found > FEW as i64 && !is_writable(start) {
        table.window.open(start, len);
    }
    for i in 0..usize::try_from(found).unwrap_or(0) {
        // SAFETY: the supervisor wrote `found` entries into the scratch area, which is ours
        // until `ScanDone`.
        let entry = unsafe { scratch.add(i).read() };
        let after = entry.address + SYSCALL_LEN as u64;
        if host::holds(entry.address) {
            // The kernel gets what nobody must see.
            patch_host(t, &mut table, entry);
            continue;
        }
        let Some(index) = table.find(after) else {
            blind = true;
            break;
        };
        if table.sites[index].kind.is_none() {
            decide(t, &mut table, index, None, Movable::Known(entry));
        }
        blind |= !table.sites[index].is_patched();
    }
    table.seal();
    drop(table);
    if found >= 0 {
        request::tell(t, RequestKind::ScanDone, [0; 4]);
    }
    if blind || found < 0 {
        PROCESS.set_exhaustive();
        signals::arm_all(t);
    }
}
