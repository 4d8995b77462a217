//! Hook libraries: the user's own code in the process.
//!
//! Owns: mapping libraries, calling them in order, the functions that they may call
//! (`crossgate.h`), and what happens when one fails. A library sees the calls that it subscribed to,
//! with the program's signals held back. One that needs no libc makes no calls of its own and runs
//! on the agent's stack of the calling task; the others live in the host (`host.rs`).

use core::ffi::{CStr, c_char};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use crossgate_hook::{Action, Call, Hook};
use crossgate_wire::RequestKind;
use crossgate_wire::arena::{CALLS, Mode};
use crossgate_wire::hooks::{
    ANSWER, CHANGE, CONTINUE, FOR_SVC_HOOK, FUNCTIONS, HookImage, Hooks, ITSELF, MOST_HOOKS,
    MOST_PARTS, NO_FUNCTION, PROCESS_BEGINS, Relocation, TASK_BEGINS, TASK_ENDS, TASK_STATE, WATCH,
};

use crate::arch::x86_64::entry;
use crate::arch::x86_64::frame::Context;
use crate::arch::x86_64::library::{self as arch, Convention, failed_address};
use crate::process::PROCESS;
use crate::sys::{self, errno, nr};
use crate::thread::{HOOK_STATE_SIZE, Thread};
use crate::{dispatch, host, image, request, signals, trace, uaccess};

/// Exit status of a program that is ended because a library failed.
const ENDED: u64 = 125;

/// What of a library is needed at each call.
struct Loaded {
    enter: AtomicU64,
    exit: AtomicU64,
    task: AtomicU64,
    vectors: AtomicU32,
    /// Where it lies.
    base: AtomicU64,
    /// It lives in the host.
    hosted: AtomicBool,
    /// It was written for zpoline or svc-hook: `enter` is its function of seven arguments, and
    /// calls the next one where it wants the call made.
    foreign: AtomicBool,
    /// It failed, and is left out.
    failed: AtomicBool,
    /// A bit for each call that it subscribed to.
    calls: [AtomicU64; CALLS / 64],
}

static LOADED: [Loaded; MOST_HOOKS] = [const {
    Loaded {
        enter: AtomicU64::new(NO_FUNCTION),
        exit: AtomicU64::new(NO_FUNCTION),
        task: AtomicU64::new(NO_FUNCTION),
        vectors: AtomicU32::new(0),
        base: AtomicU64::new(0),
        hosted: AtomicBool::new(false),
        foreign: AtomicBool::new(false),
        failed: AtomicBool::new(false),
        calls: [const { AtomicU64::new(0) }; CALLS / 64],
    }
}; MOST_HOOKS];

/// `crossgate_hook_enter` of a library that can be asked without Rust: see [`is_simple`].
pub static FIRST: AtomicU64 = AtomicU64::new(0);

/// Whether there is one library alone, which keeps the vector registers and whose failure is
/// the program's end: `cg_hook` may ask it.
pub fn is_simple() -> bool {
    FIRST.load(Ordering::Relaxed) != 0
}

/// The library whose `crossgate_hook_init` is running; [`MOST_HOOKS`] for none.
static BEGINNING: AtomicU32 = AtomicU32::new(MOST_HOOKS as u32);

fn hooks() -> &'static Hooks {
    &PROCESS.control().hooks
}

/// Those of this process, in order.
fn loaded() -> impl DoubleEndedIterator<Item = (usize, &'static Loaded)> + ExactSizeIterator {
    LOADED[..(hooks().count as usize).min(MOST_HOOKS)].iter().enumerate()
}

/// Maps the libraries, which lie behind the arena in its file, open as `fd`. Gives 0 or
/// `-errno`.
pub fn map(fd: u32) -> i64 {
    if hooks().host != 0 {
        let result = host::map(fd);
        if result < 0 {
            return result;
        }
    }
    for (index, library) in loaded() {
        let image = &hooks().images[index];
        library.vectors.store(image.vectors, Ordering::Relaxed);
        if image.needs_libc != 0 {
            library.hosted.store(true, Ordering::Relaxed);
            continue;
        }
        let result = map_one(fd, index, image);
        if result < 0 {
            return result;
        }
    }
    0
}

fn map_one(fd: u32, index: usize, library: &HookImage) -> i64 {
    let base = image::library(index);
    let place = |offset: u64, len: u64, protection: u64, from: u64| {
        let flags = sys::MAP_PRIVATE | sys::MAP_FIXED_NOREPLACE;
        let at = base + offset;
        let got = sys::call(nr::MMAP, [at, len, protection, flags, u64::from(fd), from]);
        if got == at as i64 { 0 } else { got.min(errno::ENOMEM) }
    };
    for part in &library.parts[..(library.part_count as usize).min(MOST_PARTS)] {
        let from = library.offset + part.offset;
        let result = place(part.offset, part.len, part.protection, from);
        if result < 0 {
            return result;
        }
    }
    let count = library.relocation_count as usize;
    if count > 0 {
        let len = (count * size_of::<Relocation>()) as u64;
        let result = place(library.size, len, sys::READ, library.relocations);
        if result < 0 {
            return result;
        }
        // SAFETY: mapped just now, readable, a multiple of pages from the start of the slot; the
        // launcher has written that many.
        let table = unsafe {
            core::slice::from_raw_parts((base + library.size) as *const Relocation, count)
        };
        for relocation in table {
            let to = function_address(relocation.to).unwrap_or(base);
            // SAFETY: the launcher has seen that the word lies in a writable part.
            unsafe {
                ((base + relocation.at) as *mut u64).write_unaligned(to + relocation.addend);
            }
        }
        sys::call2(nr::MUNMAP, base + library.size, len);
    }
    let address = |offset: u64| if offset == NO_FUNCTION { NO_FUNCTION } else { base + offset };
    let loaded = &LOADED[index];
    loaded.enter.store(address(library.enter), Ordering::Relaxed);
    loaded.exit.store(address(library.exit), Ordering::Relaxed);
    loaded.task.store(address(library.task), Ordering::Relaxed);
    loaded.base.store(base, Ordering::Relaxed);
    if hooks().count == 1 && hooks().goes_on == 0 && library.vectors == 0 {
        FIRST.store(address(library.enter), Ordering::Relaxed);
    }
    0
}

/// Starts the libraries in a new program, whose stack pointer is `program`.
///
/// # Safety
/// `program` is the stack pointer at a program's entry point.
pub unsafe fn start(t: &'static Thread, program: *const u64) {
    if !PROCESS.has_libraries() {
        return;
    }
    clear_state(t);
    STARTING.store(core::ptr::from_ref(t).cast_mut(), Ordering::Relaxed);
    let fast = PROCESS.mode() == Mode::Fast;
    if let Some((index, first)) = loaded().find(|(_, library)| library.is_hosted()) {
        if fast {
            // The host's calls come by signals until its sites are patched.
            signals::arm(Mode::Exhaustive);
        }
        t.library.set(index as u32 + 1);
        let vectors = first.vectors.load(Ordering::Relaxed);
        // SAFETY: as the caller says.
        let started = unsafe { host::start(t, program, vectors) };
        t.library.set(0);
        t.library_rsp.set(0);
        if let Err(errno) = started {
            refuse(t, index, c"", errno);
            loaded().filter(|(_, library)| library.is_hosted()).for_each(|(_, library)| {
                library.failed.store(true, Ordering::Relaxed);
            });
        }
    }
    for (index, library) in loaded() {
        if library.failed.load(Ordering::Relaxed) {
            continue;
        }
        BEGINNING.store(index as u32, Ordering::Relaxed);
        let refused = if library.is_hosted() {
            start_hosted(t, index, library)
        } else {
            let init = image::library(index) + hooks().images[index].init;
            initialize(t, index, init)
        };
        BEGINNING.store(MOST_HOOKS as u32, Ordering::Relaxed);
        if let Some(refused @ ..0) = refused {
            fail(t, index, i64::from(refused) as u64, 0);
        }
    }
    tell(t, TASK_BEGINS);
    if fast && host::exists() {
        signals::disarm();
    }
    STARTING.store(core::ptr::null_mut(), Ordering::Relaxed);
}

/// Calls `crossgate_hook_init`; gives what it says.
fn initialize(t: &Thread, index: usize, init: u64) -> Option<i32> {
    let argument = hooks().images[index].argument.as_ptr() as u64;
    // An `int`, of which the upper half of the register may hold anything.
    call(t, index, init, [core::ptr::from_ref(t) as u64, argument, 0]).map(|result| result as i32)
}

/// Has the host's dynamic linker open library `index`, and starts that; gives what it says.
fn start_hosted(t: &Thread, index: usize, library: &Loaded) -> Option<i32> {
    const RTLD_NOW: u64 = 2;
    let path = host::path(index);
    let opened = call(t, index, host::needed(host::Needed::Open), [path, RTLD_NOW, 0])?;
    if opened == 0 {
        let text = call(t, index, host::needed(host::Needed::Error), [0; 3])?;
        // SAFETY: a string of the libc's.
        refuse(t, index, unsafe { CStr::from_ptr(text as *const c_char) }, 0);
        return None;
    }
    // SAFETY: `struct link_map` begins with the address at which the library lies (link.h).
    let base = unsafe { (opened as *const u64).read() };
    library.base.store(base, Ordering::Relaxed);
    let find = |name: &CStr| {
        let arguments = [opened as u64, name.as_ptr() as u64, 0];
        let found = call(t, index, host::needed(host::Needed::Symbol), arguments);
        found.filter(|&address| address != 0).map_or(NO_FUNCTION, |address| address as u64)
    };
    let init = find(c"crossgate_hook_init");
    if init == NO_FUNCTION {
        return start_foreign(t, index, library, find(c"__hook_init"));
    }
    library.exit.store(find(c"crossgate_hook_exit"), Ordering::Relaxed);
    library.task.store(find(c"crossgate_hook_task"), Ordering::Relaxed);
    library.enter.store(find(c"crossgate_hook_enter"), Ordering::Relaxed);
    initialize(t, index, init)
}

/// How library `index`, which was written for zpoline or svc-hook, wants to be called.
fn convention(index: usize) -> Convention {
    let argument = &hooks().images[index].argument;
    if argument.starts_with(FOR_SVC_HOOK) {
        Convention::NumberLater
    } else {
        Convention::NumberFirst
    }
}

/// For each library, the function that it may replace: see [`start_foreign`].
static NEXT: [AtomicU64; MOST_HOOKS] = [const { AtomicU64::new(0) }; MOST_HOOKS];

/// Starts a library that was written for zpoline or svc-hook: `int __hook_init(long, syscall_fn_t
/// *)` finds at the pointer the function that makes calls, and puts its own there.
fn start_foreign(t: &Thread, index: usize, library: &Loaded, init: u64) -> Option<i32> {
    let next = arch::next_call(convention(index));
    NEXT[index].store(next, Ordering::Relaxed);
    let result = call(t, index, init, [0, NEXT[index].as_ptr() as u64, 0])?;
    let function = NEXT[index].load(Ordering::Relaxed);
    if result as i32 != 0 {
        return Some(errno::EINVAL as i32);
    }
    if function != next {
        library.enter.store(function, Ordering::Relaxed);
        library.foreign.store(true, Ordering::Relaxed);
        subscribe(-1);
    }
    Some(0)
}

/// Library `index` cannot be loaded: why, or `-errno` of the dynamic linker's.
fn refuse(t: &Thread, index: usize, why: &CStr, errno: i64) {
    LOADED[index].failed.store(true, Ordering::Relaxed);
    let (at, len) = (why.as_ptr() as u64, why.count_bytes() as u64);
    request::ask(t, RequestKind::HookRefused, [index as u64, at, len, errno as u64]);
    if hooks().goes_on == 0 {
        sys::exit_process(ENDED);
    }
}

impl Loaded {
    fn is_hosted(&self) -> bool {
        self.hosted.load(Ordering::Relaxed)
    }
}

/// What libraries keep of a task begins with zeros.
fn clear_state(t: &Thread) {
    // SAFETY: the page is mapped with the block, and no library has seen it yet.
    unsafe { t.hook_state().write_bytes(0, HOOK_STATE_SIZE) };
}

/// `t` is about to make `child`; false when that needs memory which there is not.
pub fn prepare_child(t: &Thread, child: &Thread, own_memory: bool) -> bool {
    if !PROCESS.has_libraries() {
        return true;
    }
    clear_state(child);
    if !host::exists() {
        return true;
    }
    // What allocates for the child is the host's, and nobody's hook.
    t.library.set(1);
    let prepared = host::prepare(t, child, own_memory);
    t.library.set(0);
    t.library_rsp.set(0);
    prepared
}

/// A new task runs for the first time.
pub fn task_begins(t: &Thread, own_memory: bool) {
    if PROCESS.has_libraries() {
        tell(t, if own_memory { PROCESS_BEGINS } else { TASK_BEGINS });
    }
}

/// The task is about to make its last call.
pub fn task_ends(t: &Thread) {
    if PROCESS.has_libraries() {
        tell(t, TASK_ENDS);
    }
}

fn tell(t: &Thread, event: i64) {
    if t.silent.get() {
        return;
    }
    for (index, library) in loaded() {
        let function = library.task.load(Ordering::Relaxed);
        if function != NO_FUNCTION && !library.failed.load(Ordering::Relaxed) {
            call(t, index, function, [core::ptr::from_ref(t) as u64, event as u64, 0]);
        }
    }
}

/// Calls a function of library `index`; `None` when it failed and the program goes on.
fn call(t: &Thread, index: usize, function: u64, arguments: [u64; 3]) -> Option<i64> {
    let vectors = LOADED[index].vectors.load(Ordering::Relaxed);
    t.library.set(index as u32 + 1);
    let inside = LOADED[index].is_hosted().then(|| host::enter(t));
    // SAFETY: the function was found in the library, or its libc, by its name, and the arguments
    // are what that says.
    let result = unsafe { arch::call(t, function, arguments, vectors) };
    if let Some(inside) = inside {
        host::leave(t, inside);
    }
    t.library.set(0);
    t.library_rsp.set(0);
    if result.is_none() {
        let (signal, address) = t.library_fault.take();
        fail(t, index, signal, address);
    }
    result
}

/// Library `index` has failed: by a signal at an address, by giving itself up (zero), or by
/// refusing to start (`-errno`).
fn fail(t: &Thread, index: usize, why: u64, address: u64) {
    let offset = address.wrapping_sub(LOADED[index].base.load(Ordering::Relaxed));
    for (other, library) in loaded() {
        // What one library leaves behind of their libc, nobody can rely on.
        if other == index || library.is_hosted() && LOADED[index].is_hosted() {
            library.failed.store(true, Ordering::Relaxed);
        }
    }
    request::tell(t, RequestKind::HookFailed, [index as u64, why, offset, t.nr.get()]);
    if hooks().goes_on == 0 {
        sys::exit_process(ENDED);
    }
}

/// A fault came while a library was running: what it interrupted goes on where the library is
/// given up. False when no library was.
pub fn faulted(t: &Thread, signal: i32, c: &mut Context) -> bool {
    if t.library.get() == 0 {
        return false;
    }
    t.library_fault.set((signal as u64, c.rip));
    c.rbx = core::ptr::from_ref(t) as u64;
    c.rip = if t.library_rsp.get() == 0 { entry::hook_failed() } else { failed_address() };
    true
}

/// The library has failed that `cg_hook` asked.
pub extern "C" fn failed_at_once(t: &Thread) -> ! {
    t.library.set(0);
    t.nr.set(u64::from(t.saved().get().rax as u32));
    let (signal, address) = t.library_fault.take();
    fail(t, 0, signal, address);
    sys::exit_process(ENDED)
}

/// The hook that asks the libraries.
pub struct Libraries;

impl Hook<Thread> for Libraries {
    fn enter(&self, t: &Thread, call_seen: &mut Call) -> Action {
        t.watchers.set(0);
        if host::exists() {
            host::begin(t);
        }
        let mut result = 0i64;
        for (index, library) in loaded() {
            let nr = call_seen.nr as usize;
            let word = library.calls[nr.min(CALLS - 1) / 64].load(Ordering::Relaxed);
            if word & 1 << (nr.min(CALLS - 1) % 64) == 0 || library.failed.load(Ordering::Relaxed) {
                continue;
            }
            let enter = library.enter.load(Ordering::Relaxed);
            if library.foreign.load(Ordering::Relaxed) {
                match Self::ask_foreign(t, index, enter, call_seen) {
                    Some(answer) => return Action::Answer(answer),
                    None => continue,
                }
            }
            let mut changed = *call_seen;
            let arguments = [
                core::ptr::from_ref(t) as u64,
                (&raw mut changed) as u64,
                (&raw mut result) as u64,
            ];
            let action = call(t, index, enter, arguments).map(|action| i64::from(action as i32));
            match Self::decided(t, index, action.unwrap_or(CONTINUE), result) {
                Some(Action::Continue) => *call_seen = changed,
                Some(answer) => return answer,
                None => {}
            }
        }
        Action::Continue
    }

    fn exit(&self, t: &Thread, seen: &Call, mut result: i64) -> i64 {
        let watchers = t.watchers.take();
        if watchers == 0 {
            return result;
        }
        for (index, library) in loaded().rev() {
            if watchers & 1 << index == 0 || library.failed.load(Ordering::Relaxed) {
                continue;
            }
            if library.foreign.load(Ordering::Relaxed) {
                let arguments = [result as u64, t.suspended.get()[index], 0];
                result = call(t, index, arch::resume(), arguments).unwrap_or(result);
                continue;
            }
            let exit = library.exit.load(Ordering::Relaxed);
            let arguments =
                [core::ptr::from_ref(t) as u64, core::ptr::from_ref(seen) as u64, result as u64];
            result = call(t, index, exit, arguments).unwrap_or(result);
        }
        result
    }

    fn cancelled(&self, t: &Thread) {
        // Whoever watches a call sees its end, also when it will begin again.
        const ERESTARTSYS: i64 = -512;
        let seen = Call { nr: t.nr.get(), args: t.args.get(), site: t.return_to.get() - 2 };
        self.exit(t, &seen, ERESTARTSYS);
    }
}

impl Libraries {
    /// The turn of a library that was written for zpoline: its answer; or `None` when it is in the
    /// middle of its work and wants the call made as it is now.
    fn ask_foreign(t: &Thread, index: usize, enter: u64, seen: &mut Call) -> Option<i64> {
        t.may_suspend.set(true);
        let arguments = [enter, core::ptr::from_ref(seen) as u64, 0];
        let answer = call(t, index, arch::call_foreign(convention(index)), arguments);
        t.may_suspend.set(false);
        let at = t.suspended.get()[index];
        if at == 0 {
            return answer;
        }
        // SAFETY: `next_call` was given a call there, on the stack that the library waits on.
        let wanted = unsafe { *(at as *const Call) };
        *seen = Call { site: seen.site, ..wanted };
        t.watchers.set(t.watchers.get() | 1 << index);
        None
    }

    /// What `action` of library `index` means: an answer, the call as the library has left it,
    /// or (`None`) as it was.
    fn decided(t: &Thread, index: usize, action: i64, result: i64) -> Option<Action> {
        match action {
            ANSWER => Some(Action::Answer(result)),
            CHANGE => Some(Action::Continue),
            WATCH => {
                if LOADED[index].exit.load(Ordering::Relaxed) != NO_FUNCTION {
                    t.watchers.set(t.watchers.get() | 1 << index);
                }
                Some(Action::Continue)
            }
            _ => None,
        }
    }

    /// The same for the library that `cg_hook` has asked.
    pub fn first_decided(t: &Thread, action: i64, result: i64) -> Option<Action> {
        t.watchers.set(0);
        Self::decided(t, 0, action, result)
    }
}

/// A library that was written for zpoline wants a call made. The first time, the agent makes it
/// when the library has been left in the middle of its work: its thread, which goes on there. Any
/// other time it is made here: null, with the result in `site`.
///
/// # Safety
/// Called by the entry code on a stack of the host's, with a call that lies there.
pub unsafe extern "C" fn next_call(wanted: *mut Call) -> *const Thread {
    // SAFETY: as the caller says.
    let (t, wanted) = unsafe { (host::current(), &mut *wanted) };
    if t.may_suspend.take() {
        let mut suspended = t.suspended.get();
        suspended[t.library.get() as usize - 1] = core::ptr::from_ref(wanted) as u64;
        t.suspended.set(suspended);
        // Below that, the stack is free.
        t.host_top.set(core::ptr::from_ref(wanted) as u64);
        return t;
    }
    let result = if dispatch::is_agents(wanted.nr) {
        errno::EPERM
    } else {
        host::waiting(t, || sys::on_behalf(wanted.nr, wanted.args))
    };
    wanted.site = result as u64;
    core::ptr::null()
}

/// The address of a function in the order of [`FUNCTIONS`]; `None` for the library itself.
pub fn function_address(index: u64) -> Option<u64> {
    unsafe extern "C" {
        fn memcpy();
        fn memmove();
        fn memset();
        fn memcmp();
        fn bcmp();
        fn strlen();
    }
    const { assert!(FUNCTIONS.len() == 16) };
    if index == ITSELF {
        return None;
    }
    let functions: [*const (); 16] = [
        subscribe as *const (),
        read as *const (),
        read_string as *const (),
        write as *const (),
        make_call as *const (),
        pid as *const (),
        tid as *const (),
        task_state as *const (),
        log as *const (),
        give_up as *const (),
        memcpy as *const (),
        memmove as *const (),
        memset as *const (),
        memcmp as *const (),
        bcmp as *const (),
        strlen as *const (),
    ];
    functions.get(index as usize).map(|&function| function as u64)
}

// The functions of `crossgate.h`; it says what they do. `t` is what the library was given.

extern "C" fn subscribe(number: i64) -> i64 {
    let Some(library) = LOADED.get(BEGINNING.load(Ordering::Relaxed) as usize) else {
        // Sites are patched by now for who does not want to know.
        return errno::EPERM;
    };
    let all = number < 0;
    let numbers = if all { 0..CALLS } else { number as usize..number as usize + 1 };
    for nr in numbers {
        let Some(word) = library.calls.get(nr / 64) else { return errno::EINVAL };
        word.fetch_or(1 << (nr % 64), Ordering::Relaxed);
        dispatch::subscribe(nr);
    }
    0
}

unsafe extern "C" fn read(t: &Thread, to: *mut u8, from: u64, len: usize) -> i64 {
    // SAFETY: the library says that it has so much room there.
    let into = unsafe { core::slice::from_raw_parts_mut(to, len) };
    let got = uaccess::read(t, from, into);
    if got == 0 && len > 0 { errno::EFAULT } else { got as i64 }
}

unsafe extern "C" fn read_string(t: &Thread, to: *mut u8, from: u64, size: usize) -> i64 {
    const ENAMETOOLONG: i64 = -36;
    if size == 0 {
        return ENAMETOOLONG;
    }
    // SAFETY: as above.
    let into = unsafe { core::slice::from_raw_parts_mut(to, size) };
    let (len, more, fault) = uaccess::read_string(t, from, into);
    if fault {
        return errno::EFAULT;
    }
    if more || len == size {
        return ENAMETOOLONG;
    }
    into[len] = 0;
    len as i64
}

unsafe extern "C" fn write(t: &Thread, to: u64, from: *const u8, len: usize) -> i64 {
    // SAFETY: the library says that so much is there.
    let bytes = unsafe { core::slice::from_raw_parts(from, len) };
    let done = uaccess::write(t, to, bytes);
    if done == 0 && len > 0 { errno::EFAULT } else { done as i64 }
}

unsafe extern "C" fn make_call(t: &Thread, call: &Call) -> i64 {
    host::waiting(t, || sys::call(call.nr, call.args))
}

extern "C" fn pid(t: &Thread) -> i32 {
    t.pid.get()
}

extern "C" fn tid(t: &Thread) -> i32 {
    t.tid.get()
}

extern "C" fn task_state(t: &Thread) -> *mut u8 {
    const { assert!(MOST_HOOKS * TASK_STATE <= HOOK_STATE_SIZE) };
    let index = (t.library.get() as usize).saturating_sub(1);
    t.hook_state().wrapping_add(index * TASK_STATE)
}

unsafe extern "C" fn log(t: Option<&'static Thread>, text: *const c_char, len: usize) {
    let t = t.unwrap_or_else(current);
    // SAFETY: the library says that so much is there.
    let text = unsafe { core::slice::from_raw_parts(text.cast::<u8>(), len) };
    trace::log(t, t.library.get().saturating_sub(1), text);
}

unsafe extern "C" fn give_up(t: Option<&'static Thread>, text: *const c_char, len: usize) -> ! {
    let t = t.unwrap_or_else(current);
    // SAFETY: a library is running, and said what is there.
    unsafe {
        log(Some(t), text, len);
        arch::give_up(t)
    }
}

/// The first task while its libraries start, on a stack that is in no block.
static STARTING: AtomicPtr<Thread> = AtomicPtr::new(core::ptr::null_mut());

/// The task whose library is running: where nobody says, as when it panics.
fn current() -> &'static Thread {
    let starting = STARTING.load(Ordering::Relaxed);
    if !starting.is_null() {
        // SAFETY: blocks stay mapped.
        return unsafe { &*starting };
    }
    let here = &raw const starting as u64;
    if here.wrapping_sub(image::blocks()) >= image::arena() - image::blocks() {
        // SAFETY: the stack is of no block.
        return unsafe { host::current() };
    }
    // SAFETY: libraries run on a stack of a block, or of the host's.
    unsafe { Thread::of_signal_stack(here) }
}
