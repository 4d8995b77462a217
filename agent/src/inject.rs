//! The built-in hook that gives calls other results, signals and delays, as the rules in the
//! arena say (`wire/src/inject.rs`).
//!
//! Owns: deciding, and what a task has counted for that. Every decision depends only on the
//! rules, on the task's place in the tree and on the calls it has made, so that the same run
//! can be had again. Never does: formatting; what was injected is told by records of
//! `trace.rs`.

use core::sync::atomic::{AtomicU64, Ordering};

use crossgate_hook::{Action, Call, Hook};
use crossgate_wire::Rules;
use crossgate_wire::inject::{
    ALWAYS, COUNTED, Carried, Condition, Counts, DELAY_ENTER, DELAY_EXIT, Effect, Lineage,
    MOST_REPEATS, MOST_RULES, Operands, RESULT, Repeat, Rule, SIGNAL, dice, fits, normalise,
};

use crate::process::PROCESS;
use crate::signals::number::SIGKILL;
use crate::sys::{self, errno, nr};
use crate::thread::Thread;
use crate::trace::{self, Trace};
use crate::uaccess;

/// What a task knows, in the last page of its block.
#[repr(C)]
pub struct State {
    counts: Counts,
    /// The call under way: its number in `counts`, and a bit for each rule that fitted.
    counted: usize,
    fitted: u64,
    /// What is injected into it.
    hit: Option<Hit>,
    /// The program has made a call from outside of its dynamic loader: from here on chance
    /// may strike. What a program does without its libraries is known: it does not start.
    started: bool,
}

#[derive(Clone, Copy)]
struct Hit {
    rule: usize,
    /// Index of the result among those of the rule.
    result: usize,
    occurrence: u32,
}

/// The injecting hook.
pub struct Inject;

fn rules() -> &'static Rules {
    let arena = PROCESS.arena();
    // SAFETY: the arena stays mapped for as long as the process lives.
    unsafe { &*core::ptr::from_ref(arena.rules()) }
}

/// Looks at the task's own state. `look` does not come here again.
fn with<R>(t: &Thread, look: impl FnOnce(&mut State) -> R) -> R {
    const { assert!(size_of::<State>() <= crate::thread::HOOK_STATE_SIZE) };
    // SAFETY: the page is mapped with the block and written before it is used. Only its own
    // task has a reference (its maker had, before it ran), and in one place at a time: what
    // happens in a handler of the agent's does not look at it while a hook has the call.
    look(unsafe { &mut *t.hook_state().cast() })
}

fn set_state(t: &Thread, counts: Counts, started: bool) {
    let new = State { counts, counted: 0, fitted: 0, hit: None, started };
    // SAFETY: the page is mapped with the block, and nobody has a reference to it yet.
    unsafe { t.hook_state().cast::<State>().write(new) };
}

/// Where the program's dynamic loader lies; zero where it has none.
static LOADER: AtomicU64 = AtomicU64::new(0);
/// No loader is longer.
const LONGEST_LOADER: u64 = 4 << 20;

/// The first task of a program: it goes on with what the one before it has counted. `loader`
/// is where the program's dynamic loader lies, or zero.
pub fn start(t: &Thread, loader: u64) {
    if !PROCESS.injects() {
        return;
    }
    LOADER.store(loader, Ordering::Relaxed);
    let started = loader == 0;
    let pid = t.outer_pid.get();
    for slot in &rules().carried {
        if slot.pid.load(Ordering::Acquire) == pid {
            // SAFETY: written by this process before it executed the program.
            set_state(t, unsafe { *slot.counts.get() }, started);
            slot.pid.store(0, Ordering::Release);
            return;
        }
    }
    set_state(t, Counts::new(Lineage::FIRST), started);
}

/// The task is about to execute a program, which is to go on counting.
pub fn carry(t: &Thread) -> Option<&'static Carried> {
    const WRITING: i32 = -1;
    if !PROCESS.injects() {
        return None;
    }
    // Where all slots are taken the new program counts from the start.
    rules().carried.iter().find(|slot| {
        let taken = slot.pid.compare_exchange(0, WRITING, Ordering::Acquire, Ordering::Relaxed);
        if taken.is_ok() {
            // SAFETY: taken just now, so that nobody else touches it.
            unsafe { with(t, |state| slot.counts.get().write(state.counts)) };
            slot.pid.store(t.outer_pid.get(), Ordering::Release);
        }
        taken.is_ok()
    })
}

/// `child` is about to be made.
pub fn prepare_child(t: &Thread, child: &Thread) {
    if PROCESS.injects() {
        let (lineage, started) =
            with(t, |state| (state.counts.lineage.child(state.counts.children + 1), state.started));
        set_state(child, Counts::new(lineage), started);
    }
}

/// It has been made.
pub fn child_made(t: &Thread) {
    if PROCESS.injects() {
        with(t, |state| state.counts.children += 1);
    }
}

impl Hook<Thread> for Inject {
    fn enter(&self, t: &Thread, call: &mut Call) -> Action {
        let (hit, lineage) = with(t, |state| {
            state.hit = decide(t, call, state).filter(|&hit| effect_of(hit).what != 0);
            (state.hit, state.counts.lineage)
        });
        let Some(hit) = hit else { return Action::Continue };
        Trace.enter(t, call);
        trace::injected(t, |w| {
            w.word(hit.rule as u64 | (hit.result as u64) << 32);
            w.word(u64::from(hit.occurrence) | u64::from(lineage.len) << 32);
            w.bytes(&lineage.text);
        });
        let effect = effect_of(hit);
        if effect.what & SIGNAL != 0 && effect.signal == SIGKILL as u32 {
            send(t, effect.signal);
        }
        if effect.what & DELAY_ENTER != 0 {
            sleep(effect.delay_enter);
        }
        if effect.what & RESULT != 0 {
            return Action::Answer(effect.result(hit.result as u64));
        }
        Action::Continue
    }

    fn exit(&self, t: &Thread, call: &Call, result: i64) -> i64 {
        if (-516..=-512).contains(&result) {
            with(t, undo);
        }
        let Some(hit) = with(t, |state| state.hit.take()) else { return result };
        let effect = effect_of(hit);
        if effect.what & DELAY_EXIT != 0 {
            sleep(effect.delay_exit);
        }
        Trace.exit(t, call, result);
        if effect.what & SIGNAL != 0 {
            send(t, effect.signal);
        }
        result
    }

    fn cancelled(&self, t: &Thread) {
        with(t, undo);
        if with(t, |state| state.hit.take()).is_some() {
            Trace.cancelled(t);
        }
    }
}

/// The call will begin again, and must count as one.
fn undo(state: &mut State) {
    state.counts.calls[state.counted] -= 1;
    for (rule, fitted) in state.counts.fitted.iter_mut().enumerate() {
        *fitted -= u32::from(state.fitted & 1 << rule != 0);
    }
    state.fitted = 0;
}

fn effect_of(hit: Hit) -> &'static Effect {
    // The index comes out of the arena, where the program may write.
    &rules().rules[hit.rule.min(MOST_RULES - 1)].effect
}

/// Counts the call, and decides what becomes of it.
fn decide(t: &Thread, call: &Call, state: &mut State) -> Option<Hit> {
    let rules = rules();
    let number = (call.nr as usize).min(COUNTED - 1);
    let occurrence = state.counts.calls[number].wrapping_add(1);
    state.counts.calls[number] = occurrence;
    state.counted = number;
    state.fitted = 0;
    let loader = LOADER.load(Ordering::Relaxed);
    state.started |= call.site.wrapping_sub(loader) >= LONGEST_LOADER;
    let task = state.counts.lineage.hash;
    let nr = call.nr as u32;

    let repeats = &rules.repeats[..(rules.repeat_count as usize).min(MOST_REPEATS)];
    let key = |repeat: &Repeat| (repeat.task, repeat.nr, repeat.occurrence);
    if let Ok(at) = repeats.binary_search_by_key(&(task, nr, occurrence), key) {
        let Repeat { rule, result, .. } = repeats[at];
        return Some(Hit { rule: rule as usize, result: result as usize, occurrence });
    }
    let mut hit = None;
    let used = &rules.rules[..(rules.count as usize).min(MOST_RULES)];
    for (index, rule) in used.iter().enumerate() {
        if !rule.names(call.nr as usize) || !holds(t, call, rule, &rules.operands[number]) {
            continue;
        }
        let fitted = state.counts.fitted[index].wrapping_add(1);
        state.counts.fitted[index] = fitted;
        state.fitted |= 1 << index;
        if hit.is_some() || !rule.when(fitted) {
            continue;
        }
        let dice = dice(rules.seed, task, nr, occurrence, index as u32);
        if rule.rate < ALWAYS && (!state.started || dice >> 32 >= rule.rate) {
            continue;
        }
        let result = dice as u32 as usize % (rule.effect.result_count as usize).max(1);
        hit = Some(Hit { rule: index, result, occurrence });
    }
    hit
}

/// Whether the rule's condition holds of the call.
fn holds(t: &Thread, call: &Call, rule: &Rule, operands: &Operands) -> bool {
    let Condition { path_len, peer, .. } = &rule.condition;
    let argument = |index: u8| call.args[usize::from(index.saturating_sub(1)).min(5)];
    if *path_len != 0 && !names_path(t, rule.condition.path(), operands, argument) {
        return false;
    }
    if peer.family == 0 {
        return true;
    }
    let mut bytes = [0; 128];
    let mut len = 0;
    if operands.address != 0 {
        let want = (argument(operands.address_len) as u32 as usize).min(bytes.len());
        let address = argument(operands.address);
        len = if address == 0 { 0 } else { uaccess::read(t, address, &mut bytes[..want]) };
    }
    if len == 0 && operands.descriptor != 0 {
        let mut size = bytes.len() as u32;
        let at = bytes.as_mut_ptr() as u64;
        let fd = argument(operands.descriptor);
        if sys::call4(nr::GETPEERNAME, fd, at, (&raw mut size) as u64, 0) == 0 {
            len = (size as usize).min(bytes.len());
        }
    }
    peer.is(&bytes[..len])
}

/// Whether one of the call's paths, or the file of its descriptor, fits `pattern`.
fn names_path(
    t: &Thread,
    pattern: &[u8],
    operands: &Operands,
    argument: impl Fn(u8) -> u64,
) -> bool {
    let mut path = [0; 4096];
    for (index, folder) in operands.paths.into_iter().zip(operands.folders) {
        if index == 0 || argument(index) == 0 {
            continue;
        }
        let mut name = [0; 4096];
        let (name_len, ..) = uaccess::read_string(t, argument(index), &mut name);
        let name = &name[..name_len];
        let mut len = 0;
        if name.first() != Some(&b'/') {
            const AT_FDCWD: i32 = -100;
            let from = if folder == 0 { AT_FDCWD } else { argument(folder) as i32 };
            len = if from == AT_FDCWD {
                read_link(b"/proc/self/cwd\0", &mut path)
            } else {
                file_of(from as u32, &mut path)
            };
            path[len] = b'/';
            len += 1;
        }
        let take = name.len().min(path.len() - len);
        path[len..len + take].copy_from_slice(&name[..take]);
        let len = normalise(&mut path[..len + take]);
        if fits(pattern, &path[..len]) {
            return true;
        }
    }
    if operands.descriptor == 0 {
        return false;
    }
    let len = file_of(argument(operands.descriptor) as u32, &mut path);
    len > 0 && fits(pattern, &path[..len])
}

/// The path of an open file; zero bytes where there is none.
fn file_of(fd: u32, into: &mut [u8; 4096]) -> usize {
    const FOLDER: &[u8] = b"/proc/self/fd/";
    let mut link = [0; 32];
    let mut digits = [0; 10];
    let digits = sys::decimal(fd, &mut digits);
    link[..FOLDER.len()].copy_from_slice(FOLDER);
    link[FOLDER.len()..FOLDER.len() + digits.len()].copy_from_slice(digits);
    read_link(&link, into)
}

/// What a symbolic link says, with room for one byte more; `link` ends with a NUL.
fn read_link(link: &[u8], into: &mut [u8; 4096]) -> usize {
    let room = into.len() as u64 - 1;
    let got = sys::call4(nr::READLINK, link.as_ptr() as u64, into.as_mut_ptr() as u64, room, 0);
    usize::try_from(got).unwrap_or(0)
}

/// Sleeps for so many nanoseconds, whatever signals come.
fn sleep(nanoseconds: u64) {
    const SECOND: u64 = 1_000_000_000;
    let mut left = [nanoseconds / SECOND, nanoseconds % SECOND];
    let at = left.as_mut_ptr() as u64;
    while sys::call2(nr::NANOSLEEP, at, at) == errno::EINTR {}
}

/// Sends the task a signal, as `tgkill` does.
fn send(t: &Thread, signal: u32) {
    let (pid, tid) = (t.pid.get() as u64, t.tid.get() as u64);
    sys::call4(nr::TGKILL, pid, tid, u64::from(signal), 0);
}
