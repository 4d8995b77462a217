//! New tasks and new programs: clone, clone3, fork, vfork, execve, execveat, exit.
//!
//! Owns: giving each new task a block, handlers and dispatch of its own before it runs a
//! single instruction of the program; asking the supervisor to follow an exec. The kernel
//! gets the program's own number and arguments: filters and results are those of a native
//! run. A child starts in `cg_task` (arch/x86_64/entry.rs) with its block in a register.

use core::sync::atomic::Ordering;

use crossgate_wire::RequestKind;
use crossgate_wire::arena::UNTRACED_RIGHTS;

use crate::arch::x86_64::entry;
use crate::arch::x86_64::frame::{Regs, SignalStack};
use crate::arch::x86_64::segment;
use crate::process::PROCESS;
use crate::signals::{self, Action, bit, number::SIGSYS};
use crate::sys::{self, errno::*, nr};
use crate::thread::{Birth, Phase, SS_DISABLE, Thread};
use crate::{host, image, inject, library, request, sites, trace, uaccess};

const CLONE_VM: u64 = 0x100;
const CLONE_SIGHAND: u64 = 0x800;
const CLONE_VFORK: u64 = 0x4000;
const CLONE_THREAD: u64 = 0x10000;
const CLONE_FILES: u64 = 0x400;
const CLONE_NEWPID: u64 = 0x2000_0000;
const CLONE_CLEAR_SIGHAND: u64 = 1 << 32;

/// What a call that creates a task asks for.
struct Wanted {
    flags: u64,
    /// Stack pointer of the child, zero for its maker's.
    stack: u64,
}

/// Reads the flags and the stack out of the arguments; `None` when the kernel will refuse
/// the call anyway.
fn wanted(t: &Thread) -> Option<Wanted> {
    let args = t.args.get();
    Some(match t.nr.get() {
        nr::FORK => Wanted { flags: 0, stack: 0 },
        nr::VFORK => Wanted { flags: CLONE_VM | CLONE_VFORK, stack: 0 },
        nr::CLONE => Wanted { flags: args[0] & 0xffff_ffff, stack: args[1] },
        _ => {
            // struct clone_args: flags is word 0, stack word 5, stack_size word 6
            // (include/uapi/linux/sched.h); at least 64 bytes.
            if args[1] < 64 {
                return None;
            }
            let flags = uaccess::get::<u64>(t, args[0]).ok()?;
            let [stack, size] = uaccess::get::<[u64; 2]>(t, args[0] + 40).ok()?;
            Wanted { flags, stack: if stack == 0 { 0 } else { stack.wrapping_add(size) } }
        }
    })
}

/// Makes a task. `mask` is the program's signal mask, with which the child starts.
pub fn create(t: &'static Thread, regs: &Regs, mask: u64) -> i64 {
    let Some(Wanted { flags, stack }) = wanted(t) else {
        return sys::on_behalf(t.nr.get(), t.args.get());
    };
    let shares_memory = flags & CLONE_VM != 0;
    let waits = flags & CLONE_VFORK != 0;
    if flags & CLONE_NEWPID != 0 {
        PROCESS.control().foreign.store(1, Ordering::Relaxed);
    }
    let Some(child) = Thread::new(t.pid.get()) else { return EAGAIN };
    let cleared = flags & CLONE_CLEAR_SIGHAND != 0;
    let actions = if !shares_memory {
        // It will have its own copy of the same table.
        Some(t.actions.get())
    } else if flags & CLONE_SIGHAND != 0 {
        Some(t.actions.get().share())
    } else {
        t.actions.get().copy()
    };
    let Some(actions) = actions else {
        child.free();
        return EAGAIN;
    };
    child.actions.set(actions);
    // A task that shares memory but did not come from vfork has no signal stack yet
    // (copy_process, kernel/fork.c).
    child.stack.set(if shares_memory && !waits {
        SignalStack { flags: SS_DISABLE, ..SignalStack::default() }
    } else {
        t.stack.get()
    });
    child.sigsys_blocked.set(t.sigsys_blocked.get());
    child.bare.set(t.bare.get());
    child.start_mask.set(mask);
    child.birth.set(Birth {
        own_memory: !shares_memory,
        process: flags & CLONE_THREAD == 0,
        cleared_handlers: cleared,
        parent: t.outer_tid.get(),
        maker: t.index.get(),
        outer_pid: t.outer_pid.get(),
        silent: t.silent.get(),
        waited_for: waits,
    });
    let mut saved = *regs;
    saved.rax = 0;
    if stack != 0 {
        saved.rsp = stack;
    }
    child.saved().set(saved);
    child.set_phase(Phase::Agent);
    inject::prepare_child(t, child);
    if !library::prepare_child(t, child, !shares_memory) {
        if shares_memory {
            actions.drop_user();
        }
        child.free();
        return EAGAIN;
    }

    let [a, b, c, d, e, f] = t.args.get();
    let call = [t.nr.get(), a, b, c, d, e, f];
    if flags & CLONE_FILES != 0 && flags & CLONE_THREAD == 0 {
        PROCESS.set_shares_files();
    }
    let result = if shares_memory {
        // The maker of a vfork child waits: there is one task more, but none more at work.
        if !waits {
            PROCESS.set_threads(true);
        }
        entry::make_task(&call, child)
    } else {
        // A child must not inherit a half-written patch or a lock that another thread holds. Who
        // is in the host may need one of ours.
        let host = host::Fork::new(t);
        let locks = PROCESS
            .has_threads()
            .then(|| (sites::lock_for_fork(), PROCESS.lock_for_fork(), actions.table.lock()));
        let result = entry::make_task(&call, child);
        drop(locks);
        drop(host);
        result
    };
    if result < 0 || !shares_memory || waits {
        // It does not exist, has its own copy of this memory, or is gone from it.
        if shares_memory {
            actions.drop_user();
        }
        child.free();
    }
    if result > 0 {
        inject::child_made(t);
        if flags & CLONE_THREAD == 0 && PROCESS.control().follow != 0 && !t.silent.get() {
            // Before anybody can see the end of this process: the supervisor must know of
            // the child by then.
            request::leave_word(t, RequestKind::Child, [result as u64, 0, 0, 0]);
        }
        PROCESS.counters().tasks.fetch_add(1, Ordering::Relaxed);
    }
    result
}

/// The first Rust code of a new task, on its own agent stack. Gives the registers it goes
/// to the program with.
///
/// # Safety
/// Called by the entry code with the block that [`create`] prepared for this task.
pub unsafe extern "C" fn child_start(t: *const Thread) -> *const Regs {
    // SAFETY: see above; blocks live as long as the address space.
    let t: &'static Thread = unsafe { &*t };
    let birth = t.birth.get();
    t.tid.set(sys::call2(nr::GETTID, 0, 0) as i32);
    if birth.process {
        t.pid.set(sys::call2(nr::GETPID, 0, 0) as i32);
    }
    if birth.own_memory {
        let had_threads = PROCESS.has_threads();
        if had_threads {
            sites::unlock_after_fork();
            PROCESS.unlock_after_fork();
            PROCESS.set_threads(false);
        }
        signals::only_user(t.actions.get(), had_threads);
        t.forget_others();
    }
    if birth.cleared_handlers {
        t.actions.get().clear_handlers();
    }
    signals::adopt(t, birth.cleared_handlers);
    t.outer_pid.set(if birth.process { t.pid.get() } else { birth.outer_pid });
    t.outer_tid.set(t.tid.get());
    let control = PROCESS.control();
    t.silent.set(birth.silent || birth.process && control.follow == 0);
    // Where ids are the same everywhere, the maker tells (see `create`).
    if control.foreign.load(Ordering::Relaxed) != 0 && !t.silent.get() {
        introduce(t, &birth);
    }
    host::adopt(t, birth.own_memory.then(|| Thread::of_index(birth.maker)));
    trace::task_started(t, birth.parent);
    library::task_begins(t, birth.own_memory);
    t.set_phase(Phase::Boundary);
    signals::release_held(t, t.start_mask.get());
    t.saved().as_ptr()
}

/// Tells the supervisor of a new task, and learns what ids it has there.
fn introduce(t: &Thread, birth: &Birth) {
    let mut random = 0u64;
    sys::call4(nr::GETRANDOM, (&raw mut random) as u64, 8, 0, 0);
    t.nonce.set(random ^ u64::from(t.tid.get() as u32) << 48);
    let maker = (birth.outer_pid as u64) << 32 | u64::from(birth.parent as u32);
    let proof = [t.nonce.as_ptr() as u64, t.nonce.get()];
    let answer = request::ask(t, RequestKind::Task, [maker, proof[0], proof[1], 0]);
    if answer > 0 {
        t.outer_pid.set((answer >> 32) as i32);
        t.outer_tid.set(answer as i32);
    }
}

/// Makes %gs lead to this task's block.
pub fn point_gs_here(t: &'static Thread) {
    // SAFETY: the block is what the entry code expects at %gs.
    unsafe { segment::set_gs_base(core::ptr::from_ref(t) as u64) };
}

/// `exit` of a task. Comes back only when a filter of the program's refuses it.
pub fn exit(t: &Thread) -> i64 {
    library::task_ends(t);
    trace::task_leaves(t);
    end(t)
}

/// `exit_group`. The memory of the process goes with it, unless it is a process that shares
/// the memory of another: then its block and table are free again.
pub fn exit_group(t: &Thread) -> i64 {
    library::task_ends(t);
    let birth = t.birth.get();
    if birth.process && !birth.own_memory {
        end(t)
    } else {
        sys::on_behalf(t.nr.get(), t.args.get())
    }
}

/// Gives the task's block and table back and makes its last call. A vfork child's are given
/// back by its maker.
fn end(t: &Thread) -> i64 {
    if !t.birth.get().waited_for && t.leave() {
        t.actions.get().drop_user();
    }
    let refused = sys::on_behalf(t.nr.get(), t.args.get());
    stay(t);
    refused
}

/// A filter refused the last call: its block and its table are in use again.
pub fn stay(t: &Thread) {
    if t.stay() && !t.birth.get().waited_for {
        t.actions.get().share();
    }
}

const PR_GET_DUMPABLE: u64 = 3;
const PR_SET_DUMPABLE: u64 = 4;
/// `prctl` of the Yama security module (Documentation/admin-guide/LSM/Yama.rst).
const PR_SET_PTRACER: u64 = 0x5961_6d61;

/// Whether the program about to be executed runs with rights that its caller has not: the
/// kernel grants them only to a program that nobody without CAP_SYS_PTRACE is attached to
/// (`begin_new_exec`, `cap_bprm_creds_from_file`).
fn gains_rights(t: &Thread) -> bool {
    const SET_UID: u32 = 0o4000;
    const SET_GID: u32 = 0o2010;
    let [a, b, _, _, flags, _] = t.args.get();
    let by_descriptor = t.nr.get() == nr::EXECVEAT;
    let (folder, path, flags) = if by_descriptor { (a, b, flags) } else { (AT_FDCWD, a, 0) };
    // struct stat: st_mode, st_uid and st_gid are the 32-bit words 6, 7 and 8.
    let mut stat = [0u32; 36];
    if sys::call4(nr::NEWFSTATAT, folder, path, stat.as_mut_ptr() as u64, flags) < 0 {
        return false;
    }
    let [mode, owner, group] = [stat[6], stat[7], stat[8]];
    let user = sys::call2(nr::GETEUID, 0, 0) as u32;
    let own_group = sys::call2(nr::GETEGID, 0, 0) as u32;
    let by_mode =
        mode & SET_UID != 0 && owner != user || mode & SET_GID == SET_GID && group != own_group;
    let attribute = c"security.capability".as_ptr() as u64;
    let by_capability =
        !by_descriptor && user != 0 && sys::call4(nr::GETXATTR, path, attribute, 0, 0) > 0;
    by_mode || by_capability
}

/// Descriptors of arena and image that a new program inherits for its agent, which closes
/// them before the program's first instruction. One more than the number; zero for none.
#[derive(Clone, Copy)]
struct Descriptors {
    arena: u32,
    image: u32,
}

impl Descriptors {
    const NONE: Self = Self { arena: 0, image: 0 };

    /// Opens them by way of the supervisor's, where no other task can see or inherit them
    /// and the supervisor's name in /proc is the one it told. Without them the new image is
    /// written and receives the arena through a socket: slower.
    fn open(t: &Thread) -> Self {
        let control = PROCESS.control();
        let alone = !PROCESS.has_threads() || t.birth.get().waited_for;
        let named = control.reachable != 0 && control.foreign.load(Ordering::Relaxed) == 0;
        if !alone || !named || PROCESS.shares_files() {
            return Self::NONE;
        }
        let arena = open_of_supervisor(control.arena_descriptor, O_RDWR);
        let image = open_of_supervisor(control.image_descriptor, O_RDONLY);
        let both = Self { arena, image };
        if arena == 0 || image == 0 {
            both.close();
            return Self::NONE;
        }
        both
    }

    fn packed(self) -> u64 {
        u64::from(self.arena) | u64::from(self.image) << 32
    }

    fn close(self) {
        for descriptor in [self.arena, self.image].into_iter().filter(|&d| d > 0) {
            sys::call2(nr::CLOSE, u64::from(descriptor - 1), 0);
        }
    }
}

const AT_FDCWD: u64 = -100i64 as u64;
const O_RDONLY: u64 = 0;
const O_RDWR: u64 = 2;

/// Opens a descriptor of the supervisor's again; one more than its number here, or zero.
fn open_of_supervisor(descriptor: u32, flags: u64) -> u32 {
    let supervisor = PROCESS.control().supervisor.load(Ordering::Relaxed) as u32;
    let mut path = [0u8; 40];
    let mut len = 0;
    let mut add = |text: &[u8]| {
        path[len..len + text.len()].copy_from_slice(text);
        len += text.len();
    };
    let mut digits = [0; 10];
    add(b"/proc/");
    add(sys::decimal(supervisor, &mut digits));
    add(b"/fd/");
    add(sys::decimal(descriptor, &mut digits));
    let fd = sys::call4(nr::OPENAT, AT_FDCWD, path.as_ptr() as u64, flags, 0);
    u32::try_from(fd + 1).unwrap_or(0)
}

/// Executes a program. The supervisor attaches first, so that the new image gets the agent
/// before its first instruction; it lets go right afterwards.
/// `None` when a signal came meanwhile whose handler has to run before.
pub fn execute(t: &Thread, mask: u64) -> Option<i64> {
    let control = PROCESS.control();
    let mut dumpable_before = None;
    let mut attached = false;
    let mut descriptors = Descriptors::NONE;
    // What an exec inherits must be what the program set: the mask with its SIGSYS bit, and
    // an ignored SIGSYS.
    let sigsys = if t.sigsys_blocked.get() { bit(SIGSYS) } else { 0 };
    let inherited = mask | sigsys;
    let generation = t.execs.get() + 1;
    t.execs.set(generation);
    let bound = if PROCESS.is_bound() { image::base() } else { 0 };
    let follows = control.follow != 0 && !t.silent.get() && !request::supervisor_gone();
    if follows && control.privileged == 0 && gains_rights(t) {
        request::tell(t, RequestKind::Untraced, [UNTRACED_RIGHTS, 0, 0, 0]);
    } else if follows {
        descriptors = Descriptors::open(t);
        let request = [inherited, generation, bound, descriptors.packed()];
        let mut answer = request::ask(t, RequestKind::Exec, request);
        if answer == EPERM {
            // Two reasons that we may lift ourselves: Yama's rule that only ancestors
            // attach, and a program that has made itself undumpable.
            let supervisor = control.supervisor.load(Ordering::Relaxed);
            sys::call2(nr::PRCTL, PR_SET_PTRACER, supervisor as u64);
            let dumpable = sys::call2(nr::PRCTL, PR_GET_DUMPABLE, 0);
            if dumpable != 1 && sys::call2(nr::PRCTL, PR_SET_DUMPABLE, 1) == 0 {
                dumpable_before = Some(dumpable as u64);
            }
            answer = request::ask(t, RequestKind::Exec, request);
        }
        attached = answer == 0;
        if !attached {
            descriptors.close();
            descriptors = Descriptors::NONE;
            request::tell(t, RequestKind::Untraced, [answer as u64, 0, 0, 0]);
        }
    }
    let carried = if attached { inject::carry(t) } else { None };
    let alone = !PROCESS.has_threads() && t.actions.get().has_one_user();
    let ignored = alone && signals::action_of(t, SIGSYS).handler == 1;
    if ignored {
        signals::set_kernel_action(
            t,
            SIGSYS,
            Some(&Action { handler: 1, ..Action::DEFAULT }),
            None,
        );
    }
    // A pending signal is inherited; blocked as it is, it waits in the kernel.
    if let Some(info) = t.sigsys_pending.take() {
        sys::set_mask(t, signals::ALL);
        signals::send_to_self(t, &info);
    }
    // Signals that came meanwhile belong to this program, if it has not blocked them.
    let mut pending = 0u64;
    sys::call2(nr::RT_SIGPENDING, (&raw mut pending) as u64, 8);
    let result = if t.held.get().is_some() || pending & !inherited != 0 {
        None
    } else {
        // The supervisor gives the new program its mask; without it we must.
        sys::set_mask(t, if attached { signals::ALL } else { inherited });
        Some(sys::on_behalf(t.nr.get(), t.args.get()))
    };
    sys::set_mask(t, if t.held.get().is_some() { signals::ALL } else { signals::closed() });
    if ignored {
        signals::take_sigsys(t);
    }
    descriptors.close();
    if let Some(slot) = carried {
        slot.pid.store(0, Ordering::Release);
    }
    if attached {
        request::tell(t, RequestKind::ExecFailed, [0, generation, 0, 0]);
    }
    if let Some(before) = dumpable_before {
        sys::call2(nr::PRCTL, PR_SET_DUMPABLE, before);
    }
    result
}
