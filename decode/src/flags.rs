//! Named values: flags, enumerations, and how strace joins them.
//!
//! Owns: one list of names for each set of the system call table, in the order in which
//! strace shows them. Never does: hold a layout. Where the data goes next: the argument
//! printers. Where a list gives no number, it is libc's for the architecture this is
//! compiled for.

use crossgate_syscalls::Set;

use crate::bytes::octal;
use crate::put;

/// A list of names.
pub struct Names {
    /// What strace says of a value without a name.
    pub unknown: &'static str,
    /// Values and names, in the order in which they are shown.
    pub values: &'static [(u64, &'static str)],
}

/// `names! { "X_???": X_A, X_B = 4 }`: names of libc, or with a value.
macro_rules! names {
    (@value $name:ident) => { libc::$name as u32 as u64 };
    (@value $name:ident $value:expr) => { $value };
    ($unknown:literal: $($name:ident $(= $value:expr)?),* $(,)?) => {
        $crate::flags::Names {
            unknown: $unknown,
            values: &[$(($crate::flags::names!(@value $name $($value)?), stringify!($name))),*],
        }
    };
}
pub(crate) use names;

/// The name of exactly this value.
pub fn name(names: &Names, value: u64) -> Option<&'static str> {
    names.values.iter().find(|(v, _)| *v == value).map(|(_, name)| *name)
}

/// Appends the name of a value, or `0x2a /* X_??? */`.
pub fn one(out: &mut String, names: &Names, value: u64) {
    match name(names, value) {
        Some(name) => out.push_str(name),
        None => unknown(out, names, value),
    }
}

fn unknown(out: &mut String, names: &Names, value: u64) {
    crate::bytes::hex(out, value);
    if !names.unknown.is_empty() {
        put!(out, " /* {} */", names.unknown);
    }
}

/// Appends the names of the bits of a value; bits without a name in hexadecimal at the end.
pub fn bits(out: &mut String, names: &Names, value: u64) {
    if let Some(name) = name(names, value) {
        return out.push_str(name);
    }
    if value == 0 {
        return out.push('0');
    }
    let mut rest = value;
    let mut first = true;
    for (bits, name) in names.values {
        if *bits != 0 && rest & bits == *bits {
            put!(out, "{}{name}", if first { "" } else { "|" });
            first = false;
            rest &= !bits;
        }
    }
    if first {
        unknown(out, names, value);
    } else if rest != 0 {
        put!(out, "|{rest:#x}");
    }
}

/// Whether `open` looks at its mode argument.
pub fn creates(flags: u64) -> bool {
    let tmpfile = libc::O_TMPFILE as u64 & !(libc::O_DIRECTORY as u64);
    flags & libc::O_CREAT as u64 != 0 || flags & tmpfile != 0
}

/// Flags of `open`: the access mode is a number, the rest are bits.
pub fn open(out: &mut String, flags: u64) {
    out.push_str(match flags & 3 {
        0 => "O_RDONLY",
        1 => "O_WRONLY",
        2 => "O_RDWR",
        _ => "O_ACCMODE",
    });
    if flags & !3 != 0 {
        out.push('|');
        bits(out, &OPEN, flags & !3);
    }
}

/// Flags of `pipe2`, `dup3` and other calls that take some of `open`'s but open nothing.
pub fn open_bits(out: &mut String, flags: u64) {
    bits(out, &OPEN, flags);
}

/// Flags of `clone`: the low byte is a signal.
pub fn clone(out: &mut String, flags: u64) {
    let signal = flags & 0xff;
    if flags & !0xff != 0 {
        bits(out, &CLONE, flags & !0xff);
        if signal != 0 {
            out.push('|');
        }
    }
    if signal != 0 || flags == 0 {
        crate::signals::name(out, signal as i64);
    }
}

/// Type and flags of a socket.
pub fn socket_type(out: &mut String, value: u64) {
    one(out, &SOCKET_TYPE, value & 0xf);
    if value & !0xf != 0 {
        out.push('|');
        bits(out, &SOCKET_FLAGS, value & !0xf);
    }
}

/// Flags of `statx`: how it synchronizes is a number among them.
pub fn statx(out: &mut String, flags: u64) {
    one(out, &STATX_SYNC, flags & 0x6000);
    if flags & !0x6000 != 0 {
        out.push('|');
        bits(out, &AT, flags & !0x6000);
    }
}

/// Permission bits with flags before them (`shmget` and its like).
pub fn ipc(out: &mut String, value: u64) {
    if value & !0o777 != 0 {
        bits(out, &IPC_GET, value & !0o777);
        out.push('|');
    }
    octal(out, value as u32 & 0o777);
}

/// Appends a value of a set of flags in the set's own way.
pub fn flags(out: &mut String, of: Set, value: u64) {
    match of {
        Set::Open => open(out, value),
        Set::Clone => clone(out, value),
        Set::SocketType => socket_type(out, value),
        Set::AtStatx => statx(out, value),
        Set::IpcGet => ipc(out, value),
        Set::Map => map(out, value),
        Set::FanotifyInit => {
            one(out, &FANOTIFY_CLASS, value & 0xc);
            if value & !0xc != 0 {
                out.push('|');
                bits(out, &FANOTIFY_INIT, value & !0xc);
            }
        }
        _ => bits(out, set(of), value),
    }
}

/// Flags of `mmap`: the kind of sharing is a number, so is a huge page's size.
fn map(out: &mut String, flags: u64) {
    one(out, &MAP_TYPE, flags & 0xf);
    let huge = flags >> 26 & 0x3f;
    let rest = flags & !0xf & !(0x3f << 26);
    if rest != 0 {
        out.push('|');
        bits(out, &MAP, rest);
    }
    if huge != 0 {
        put!(out, "|{huge}<<MAP_HUGE_SHIFT");
    }
}

/// The names of a set.
pub fn set(of: Set) -> &'static Names {
    match of {
        Set::Access => &ACCESS,
        Set::ArchPrctl => &ARCH_PRCTL,
        Set::At | Set::AtStatx => &AT,
        Set::AtAccess => &AT_ACCESS,
        Set::AtRemove => &AT_REMOVE,
        Set::Bpf => &BPF,
        Set::Clock => &CLOCK,
        Set::Clone => &CLONE,
        Set::CloseRange => &CLOSE_RANGE,
        Set::EpollCreate => &EPOLL_CREATE,
        Set::EpollOp => &EPOLL_OP,
        Set::Eventfd => &EVENTFD,
        Set::Fadvise => &FADVISE,
        Set::Fallocate => &FALLOCATE,
        Set::FanotifyInit => &FANOTIFY_INIT,
        Set::FanotifyMark => &FANOTIFY_MARK,
        Set::FanotifyMask => &FANOTIFY_MASK,
        Set::Fcntl => &FCNTL,
        Set::Flock => &FLOCK,
        Set::Fsconfig => &FSCONFIG,
        Set::Fsmount => &FSMOUNT,
        Set::Fsopen => &FSOPEN,
        Set::Fspick => &FSPICK,
        Set::Futex2 => &FUTEX2,
        Set::FutexOp => &FUTEX_OP,
        Set::GetMempolicy => &GET_MEMPOLICY,
        Set::Getrandom => &GETRANDOM,
        Set::Inotify => &INOTIFY,
        Set::InotifyInit => &INOTIFY_INIT,
        Set::IoUringEnter => &IO_URING_ENTER,
        Set::IoUringRegister => &IO_URING_REGISTER,
        // Request and option names depend on more than the number: `ioctl.rs`, `net.rs`.
        Set::Ioctl | Set::SocketOption => &NOTHING,
        Set::IoprioWhich => &IOPRIO_WHICH,
        Set::IpcControl => &IPC_CONTROL,
        Set::IpcGet => &IPC_GET,
        Set::IpcMessage => &IPC_MESSAGE,
        Set::Itimer => &ITIMER,
        Set::Kcmp => &KCMP,
        Set::LandlockCreate => &LANDLOCK_CREATE,
        Set::LandlockRule => &LANDLOCK_RULE,
        Set::Madvise => &MADVISE,
        Set::Map => &MAP,
        Set::Mbind => &MBIND,
        Set::Membarrier => &MEMBARRIER,
        Set::MemfdCreate => &MEMFD_CREATE,
        Set::Mempolicy => &MEMPOLICY,
        Set::Mlock2 => &MLOCK2,
        Set::Mlockall => &MLOCKALL,
        Set::Mount => &MOUNT,
        Set::MountAttr => &MOUNT_ATTR,
        Set::MoveMount => &MOVE_MOUNT,
        Set::Mremap => &MREMAP,
        Set::Msg => &MSG,
        Set::Msync => &MSYNC,
        Set::Open => &OPEN,
        Set::OpenTree => &OPEN_TREE,
        Set::PerfEventOpen => &PERF_EVENT_OPEN,
        Set::Personality => &PERSONALITY,
        Set::PidfdOpen => &PIDFD_OPEN,
        Set::PkeyRights => &PKEY_RIGHTS,
        Set::Prctl => &PRCTL,
        Set::PriorityWhich => &PRIORITY_WHICH,
        Set::Prot => &PROT,
        Set::Ptrace => &PTRACE,
        Set::Rename => &RENAME,
        Set::Rlimit => &RLIMIT,
        Set::Rseq => &RSEQ,
        Set::RusageWho => &RUSAGE_WHO,
        Set::Rwf => &RWF,
        Set::SchedPolicy => &SCHED_POLICY,
        Set::Seccomp => &SECCOMP,
        Set::Shmat => &SHMAT,
        Set::ShutdownHow => &SHUTDOWN_HOW,
        Set::Signalfd => &SIGNALFD,
        Set::SigprocmaskHow => &SIGPROCMASK_HOW,
        Set::SocketDomain => &SOCKET_DOMAIN,
        Set::SocketFlags => &SOCKET_FLAGS,
        Set::SocketLevel => &SOCKET_LEVEL,
        Set::SocketProtocol => &SOCKET_PROTOCOL,
        Set::SocketType => &SOCKET_TYPE,
        Set::Splice => &SPLICE,
        Set::Statx => &STATX,
        Set::SyncFileRange => &SYNC_FILE_RANGE,
        Set::Syslog => &SYSLOG,
        Set::Timer => &TIMER,
        Set::Timerfd => &TIMERFD,
        Set::TimerfdCreate => &TIMERFD_CREATE,
        Set::Umount => &UMOUNT,
        Set::Wait => &WAIT,
        Set::WaitId => &WAIT_ID,
        Set::Whence => &WHENCE,
        Set::Xattr => &XATTR,
    }
}

const NOTHING: Names = names! { "": };
const ACCESS: Names = names! { "?_OK": F_OK, R_OK, W_OK, X_OK };
const ARCH_PRCTL: Names = names! { "ARCH_???":
    ARCH_SET_GS = 0x1001, ARCH_SET_FS = 0x1002, ARCH_GET_FS = 0x1003, ARCH_GET_GS = 0x1004,
    ARCH_GET_CPUID = 0x1011, ARCH_SET_CPUID = 0x1012, ARCH_GET_XCOMP_SUPP = 0x1021,
    ARCH_GET_XCOMP_PERM = 0x1022, ARCH_REQ_XCOMP_PERM = 0x1023, ARCH_MAP_VDSO_X32 = 0x2001,
    ARCH_MAP_VDSO_32 = 0x2002, ARCH_MAP_VDSO_64 = 0x2003,
};
/// `seccomp_data.arch` and `siginfo.si_arch` (`linux/audit.h`).
pub const AUDIT_ARCH: Names = names! { "AUDIT_ARCH_???":
    AUDIT_ARCH_X86_64 = 0xc000_003e, AUDIT_ARCH_I386 = 0x4000_0003,
    AUDIT_ARCH_AARCH64 = 0xc000_00b7,
};
const AT: Names = names! { "AT_???":
    AT_SYMLINK_NOFOLLOW, AT_REMOVEDIR, AT_SYMLINK_FOLLOW, AT_NO_AUTOMOUNT, AT_EMPTY_PATH,
    AT_RECURSIVE,
};
const AT_ACCESS: Names = names! { "AT_???": AT_SYMLINK_NOFOLLOW, AT_EACCESS, AT_EMPTY_PATH };
const AT_REMOVE: Names = names! { "AT_???": AT_REMOVEDIR };
const BPF: Names = names! { "BPF_???":
    BPF_MAP_CREATE = 0, BPF_MAP_LOOKUP_ELEM = 1, BPF_MAP_UPDATE_ELEM = 2,
    BPF_MAP_DELETE_ELEM = 3, BPF_MAP_GET_NEXT_KEY = 4, BPF_PROG_LOAD = 5, BPF_OBJ_PIN = 6,
    BPF_OBJ_GET = 7, BPF_PROG_ATTACH = 8, BPF_PROG_DETACH = 9, BPF_PROG_TEST_RUN = 10,
    BPF_PROG_GET_NEXT_ID = 11, BPF_MAP_GET_NEXT_ID = 12, BPF_PROG_GET_FD_BY_ID = 13,
    BPF_MAP_GET_FD_BY_ID = 14, BPF_OBJ_GET_INFO_BY_FD = 15, BPF_PROG_QUERY = 16,
    BPF_RAW_TRACEPOINT_OPEN = 17, BPF_BTF_LOAD = 18, BPF_BTF_GET_FD_BY_ID = 19,
    BPF_TASK_FD_QUERY = 20, BPF_MAP_LOOKUP_AND_DELETE_ELEM = 21, BPF_MAP_FREEZE = 22,
    BPF_BTF_GET_NEXT_ID = 23, BPF_MAP_LOOKUP_BATCH = 24,
    BPF_MAP_LOOKUP_AND_DELETE_BATCH = 25, BPF_MAP_UPDATE_BATCH = 26,
    BPF_MAP_DELETE_BATCH = 27, BPF_LINK_CREATE = 28, BPF_LINK_UPDATE = 29,
    BPF_LINK_GET_FD_BY_ID = 30, BPF_LINK_GET_NEXT_ID = 31, BPF_ENABLE_STATS = 32,
    BPF_ITER_CREATE = 33, BPF_LINK_DETACH = 34, BPF_PROG_BIND_MAP = 35,
};
const CLOCK: Names = names! { "CLOCK_???":
    CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID,
    CLOCK_MONOTONIC_RAW, CLOCK_REALTIME_COARSE, CLOCK_MONOTONIC_COARSE, CLOCK_BOOTTIME,
    CLOCK_REALTIME_ALARM, CLOCK_BOOTTIME_ALARM, CLOCK_SGI_CYCLE = 10, CLOCK_TAI,
};
const CLONE: Names = names! { "CLONE_???":
    CLONE_VM, CLONE_FS, CLONE_FILES, CLONE_SIGHAND, CLONE_PIDFD = 0x1000, CLONE_PTRACE,
    CLONE_VFORK, CLONE_PARENT, CLONE_THREAD, CLONE_NEWNS, CLONE_SYSVSEM, CLONE_SETTLS,
    CLONE_PARENT_SETTID, CLONE_CHILD_CLEARTID, CLONE_DETACHED, CLONE_UNTRACED,
    CLONE_CHILD_SETTID, CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWUSER,
    CLONE_NEWPID, CLONE_NEWNET, CLONE_IO, CLONE_CLEAR_SIGHAND = 0x1_0000_0000,
    CLONE_INTO_CGROUP = 0x2_0000_0000, CLONE_NEWTIME = 0x80,
};
const CLOSE_RANGE: Names =
    names! { "CLOSE_RANGE_???": CLOSE_RANGE_UNSHARE = 2, CLOSE_RANGE_CLOEXEC = 4 };
/// Flags of a descriptor, F_SETFD and F_GETFD.
pub const DESCRIPTOR: Names = names! { "FD_???": FD_CLOEXEC };
const EPOLL_CREATE: Names = names! { "EPOLL_???": EPOLL_CLOEXEC };
const EPOLL_OP: Names = names! { "EPOLL_CTL_???": EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD };
const EVENTFD: Names = names! { "EFD_???": EFD_SEMAPHORE, EFD_CLOEXEC, EFD_NONBLOCK };
const FADVISE: Names = names! { "POSIX_FADV_???":
    POSIX_FADV_NORMAL, POSIX_FADV_RANDOM, POSIX_FADV_SEQUENTIAL, POSIX_FADV_WILLNEED,
    POSIX_FADV_DONTNEED, POSIX_FADV_NOREUSE,
};
const FALLOCATE: Names = names! { "FALLOC_FL_???":
    FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE, FALLOC_FL_NO_HIDE_STALE = 4,
    FALLOC_FL_COLLAPSE_RANGE, FALLOC_FL_ZERO_RANGE, FALLOC_FL_INSERT_RANGE,
    FALLOC_FL_UNSHARE_RANGE,
};
const FANOTIFY_CLASS: Names =
    names! { "FAN_CLASS_???": FAN_CLASS_NOTIF, FAN_CLASS_CONTENT, FAN_CLASS_PRE_CONTENT };
const FANOTIFY_INIT: Names = names! { "FAN_???":
    FAN_CLOEXEC, FAN_NONBLOCK, FAN_UNLIMITED_QUEUE, FAN_UNLIMITED_MARKS,
    FAN_ENABLE_AUDIT = 0x40, FAN_REPORT_TID = 0x100, FAN_REPORT_FID = 0x200,
    FAN_REPORT_DIR_FID = 0x400, FAN_REPORT_NAME = 0x800,
};
const FANOTIFY_MARK: Names = names! { "FAN_MARK_???":
    FAN_MARK_ADD = 1, FAN_MARK_REMOVE = 2, FAN_MARK_DONT_FOLLOW = 4, FAN_MARK_ONLYDIR = 8,
    FAN_MARK_MOUNT = 0x10, FAN_MARK_IGNORED_MASK = 0x20,
    FAN_MARK_IGNORED_SURV_MODIFY = 0x40, FAN_MARK_FLUSH = 0x80, FAN_MARK_FILESYSTEM = 0x100,
};
const FANOTIFY_MASK: Names = names! { "FAN_???":
    FAN_ACCESS = 1, FAN_MODIFY = 2, FAN_ATTRIB = 4, FAN_CLOSE_WRITE = 8,
    FAN_CLOSE_NOWRITE = 0x10, FAN_OPEN = 0x20, FAN_MOVED_FROM = 0x40, FAN_MOVED_TO = 0x80,
    FAN_CREATE = 0x100, FAN_DELETE = 0x200, FAN_DELETE_SELF = 0x400, FAN_MOVE_SELF = 0x800,
    FAN_OPEN_EXEC = 0x1000, FAN_Q_OVERFLOW = 0x4000, FAN_OPEN_PERM = 0x10000,
    FAN_ACCESS_PERM = 0x20000, FAN_OPEN_EXEC_PERM = 0x40000,
    FAN_EVENT_ON_CHILD = 0x0800_0000, FAN_ONDIR = 0x4000_0000,
};
const FCNTL: Names = names! { "F_???":
    F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_GETLK, F_SETLK, F_SETLKW, F_SETOWN,
    F_GETOWN, F_SETSIG = 10, F_GETSIG = 11, F_SETOWN_EX = 15, F_GETOWN_EX = 16, F_OFD_GETLK,
    F_OFD_SETLK, F_OFD_SETLKW, F_SETLEASE, F_GETLEASE, F_NOTIFY, F_DUPFD_CLOEXEC,
    F_SETPIPE_SZ, F_GETPIPE_SZ, F_ADD_SEALS, F_GET_SEALS, F_GET_RW_HINT = 1035,
    F_SET_RW_HINT = 1036,
};
const FLOCK: Names = names! { "LOCK_???":
    LOCK_MAND = 32, LOCK_RW = 192, LOCK_READ = 64, LOCK_WRITE = 128, LOCK_SH, LOCK_EX, LOCK_UN,
    LOCK_NB,
};
const FSCONFIG: Names = names! { "FSCONFIG_???":
    FSCONFIG_SET_FLAG = 0, FSCONFIG_SET_STRING = 1, FSCONFIG_SET_BINARY = 2,
    FSCONFIG_SET_PATH = 3, FSCONFIG_SET_PATH_EMPTY = 4, FSCONFIG_SET_FD = 5,
    FSCONFIG_CMD_CREATE = 6, FSCONFIG_CMD_RECONFIGURE = 7,
};
const FSMOUNT: Names = names! { "FSMOUNT_???": FSMOUNT_CLOEXEC = 1 };
const FSOPEN: Names = names! { "FSOPEN_???": FSOPEN_CLOEXEC = 1 };
const FSPICK: Names = names! { "FSPICK_???":
    FSPICK_CLOEXEC = 1, FSPICK_SYMLINK_NOFOLLOW = 2, FSPICK_NO_AUTOMOUNT = 4,
    FSPICK_EMPTY_PATH = 8,
};
const FUTEX2: Names = names! { "FUTEX2_???":
    FUTEX2_SIZE_U32 = 2, FUTEX2_NUMA = 4, FUTEX2_PRIVATE = 128,
};
const FUTEX_OP: Names = names! { "FUTEX_???":
    FUTEX_WAIT = 0, FUTEX_WAKE = 1, FUTEX_FD = 2, FUTEX_REQUEUE = 3, FUTEX_CMP_REQUEUE = 4,
    FUTEX_WAKE_OP = 5, FUTEX_LOCK_PI = 6, FUTEX_UNLOCK_PI = 7, FUTEX_TRYLOCK_PI = 8,
    FUTEX_WAIT_BITSET = 9, FUTEX_WAKE_BITSET = 10, FUTEX_WAIT_REQUEUE_PI = 11,
    FUTEX_CMP_REQUEUE_PI = 12, FUTEX_LOCK_PI2 = 13,
};
const GET_MEMPOLICY: Names =
    names! { "MPOL_F_???": MPOL_F_NODE = 1, MPOL_F_ADDR = 2, MPOL_F_MEMS_ALLOWED = 4 };
const GETRANDOM: Names = names! { "GRND_???": GRND_NONBLOCK, GRND_RANDOM, GRND_INSECURE };
const INOTIFY: Names = names! { "IN_???":
    IN_ACCESS, IN_MODIFY, IN_ATTRIB, IN_CLOSE_WRITE, IN_CLOSE_NOWRITE, IN_OPEN,
    IN_MOVED_FROM, IN_MOVED_TO, IN_CREATE, IN_DELETE, IN_DELETE_SELF, IN_MOVE_SELF,
    IN_UNMOUNT, IN_Q_OVERFLOW, IN_IGNORED, IN_ONLYDIR, IN_DONT_FOLLOW, IN_EXCL_UNLINK,
    IN_MASK_CREATE, IN_MASK_ADD, IN_ISDIR, IN_ONESHOT,
};
const INOTIFY_INIT: Names = names! { "IN_???": IN_NONBLOCK, IN_CLOEXEC };
const IO_URING_ENTER: Names = names! { "IORING_ENTER_???":
    IORING_ENTER_GETEVENTS = 1, IORING_ENTER_SQ_WAKEUP = 2, IORING_ENTER_SQ_WAIT = 4,
    IORING_ENTER_EXT_ARG = 8, IORING_ENTER_REGISTERED_RING = 16,
};
const IO_URING_REGISTER: Names = names! { "IORING_REGISTER_???":
    IORING_REGISTER_BUFFERS = 0, IORING_UNREGISTER_BUFFERS = 1, IORING_REGISTER_FILES = 2,
    IORING_UNREGISTER_FILES = 3, IORING_REGISTER_EVENTFD = 4, IORING_UNREGISTER_EVENTFD = 5,
    IORING_REGISTER_FILES_UPDATE = 6, IORING_REGISTER_EVENTFD_ASYNC = 7,
    IORING_REGISTER_PROBE = 8, IORING_REGISTER_PERSONALITY = 9,
    IORING_UNREGISTER_PERSONALITY = 10, IORING_REGISTER_RESTRICTIONS = 11,
    IORING_REGISTER_ENABLE_RINGS = 12, IORING_REGISTER_FILES2 = 13,
    IORING_REGISTER_FILES_UPDATE2 = 14, IORING_REGISTER_BUFFERS2 = 15,
    IORING_REGISTER_BUFFERS_UPDATE = 16, IORING_REGISTER_IOWQ_AFF = 17,
    IORING_UNREGISTER_IOWQ_AFF = 18, IORING_REGISTER_IOWQ_MAX_WORKERS = 19,
    IORING_REGISTER_RING_FDS = 20, IORING_UNREGISTER_RING_FDS = 21,
    IORING_REGISTER_PBUF_RING = 22, IORING_UNREGISTER_PBUF_RING = 23,
};
const IOPRIO_WHICH: Names = names! { "IOPRIO_WHO_???":
    IOPRIO_WHO_PROCESS = 1, IOPRIO_WHO_PGRP = 2, IOPRIO_WHO_USER = 3,
};
const IPC_CONTROL: Names = names! { "IPC_???":
    IPC_RMID, IPC_SET, IPC_STAT, IPC_INFO = 3, MSG_STAT = 11, MSG_INFO = 12, SHM_STAT = 13,
    SHM_INFO = 14,
};
const IPC_GET: Names = names! { "IPC_???": IPC_CREAT, IPC_EXCL, IPC_NOWAIT };
const IPC_MESSAGE: Names =
    names! { "MSG_???": MSG_NOERROR = 0o10000, MSG_EXCEPT = 0o20000, IPC_NOWAIT };
const ITIMER: Names = names! { "ITIMER_???": ITIMER_REAL = 0, ITIMER_VIRTUAL = 1, ITIMER_PROF = 2 };
const KCMP: Names = names! { "KCMP_???":
    KCMP_FILE = 0, KCMP_VM = 1, KCMP_FILES = 2, KCMP_FS = 3, KCMP_SIGHAND = 4, KCMP_IO = 5,
    KCMP_SYSVSEM = 6, KCMP_EPOLL_TFD = 7,
};
const LANDLOCK_CREATE: Names =
    names! { "LANDLOCK_CREATE_RULESET_???": LANDLOCK_CREATE_RULESET_VERSION = 1 };
const LANDLOCK_RULE: Names = names! { "LANDLOCK_RULE_???":
    LANDLOCK_RULE_PATH_BENEATH = 1, LANDLOCK_RULE_NET_PORT = 2,
};
const MADVISE: Names = names! { "MADV_???":
    MADV_NORMAL, MADV_RANDOM, MADV_SEQUENTIAL, MADV_WILLNEED, MADV_DONTNEED, MADV_FREE,
    MADV_REMOVE, MADV_DONTFORK, MADV_DOFORK, MADV_MERGEABLE, MADV_UNMERGEABLE, MADV_HUGEPAGE,
    MADV_NOHUGEPAGE, MADV_DONTDUMP, MADV_DODUMP, MADV_WIPEONFORK = 18, MADV_KEEPONFORK = 19,
    MADV_COLD = 20, MADV_PAGEOUT = 21, MADV_POPULATE_READ = 22, MADV_POPULATE_WRITE = 23,
    MADV_DONTNEED_LOCKED = 24, MADV_COLLAPSE = 25, MADV_HWPOISON, MADV_SOFT_OFFLINE = 101,
    MADV_GUARD_INSTALL = 102, MADV_GUARD_REMOVE = 103,
};
const MAP_TYPE: Names = names! { "MAP_???":
    MAP_FILE = 0, MAP_SHARED, MAP_PRIVATE, MAP_SHARED_VALIDATE,
};
const MAP: Names = names! { "MAP_???":
    MAP_FIXED, MAP_ANONYMOUS, MAP_32BIT = 0x40, MAP_NORESERVE, MAP_POPULATE, MAP_NONBLOCK,
    MAP_GROWSDOWN, MAP_DENYWRITE, MAP_EXECUTABLE, MAP_LOCKED, MAP_STACK, MAP_HUGETLB,
    MAP_SYNC = 0x80000, MAP_FIXED_NOREPLACE = 0x10_0000,
};
const MBIND: Names = names! { "MPOL_MF_???":
    MPOL_MF_STRICT = 1, MPOL_MF_MOVE = 2, MPOL_MF_MOVE_ALL = 4,
};
const MEMBARRIER: Names = names! { "MEMBARRIER_CMD_???":
    MEMBARRIER_CMD_QUERY = 0, MEMBARRIER_CMD_GLOBAL = 1,
    MEMBARRIER_CMD_GLOBAL_EXPEDITED = 2, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED = 4,
    MEMBARRIER_CMD_PRIVATE_EXPEDITED = 8, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED = 16,
    MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE = 32,
    MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE = 64,
    MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ = 128,
    MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ = 256,
};
const MEMFD_CREATE: Names = names! { "MFD_???":
    MFD_CLOEXEC, MFD_ALLOW_SEALING, MFD_HUGETLB, MFD_NOEXEC_SEAL = 8, MFD_EXEC = 16,
};
const MEMPOLICY: Names = names! { "MPOL_???":
    MPOL_DEFAULT = 0, MPOL_PREFERRED = 1, MPOL_BIND = 2, MPOL_INTERLEAVE = 3, MPOL_LOCAL = 4,
    MPOL_PREFERRED_MANY = 5,
};
const MLOCK2: Names = names! { "MLOCK_???": MLOCK_ONFAULT = 1 };
const MLOCKALL: Names = names! { "MCL_???": MCL_CURRENT, MCL_FUTURE, MCL_ONFAULT };
const MOUNT: Names = names! { "MS_???":
    MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_SYNCHRONOUS, MS_REMOUNT, MS_MANDLOCK,
    MS_DIRSYNC, MS_NOSYMFOLLOW = 0x100, MS_NOATIME, MS_NODIRATIME, MS_BIND, MS_MOVE, MS_REC,
    MS_SILENT, MS_POSIXACL, MS_UNBINDABLE, MS_PRIVATE, MS_SLAVE, MS_SHARED, MS_RELATIME,
    MS_KERNMOUNT, MS_I_VERSION, MS_STRICTATIME, MS_LAZYTIME = 0x200_0000,
};
const MOUNT_ATTR: Names = names! { "MOUNT_ATTR_???":
    MOUNT_ATTR_RDONLY = 1, MOUNT_ATTR_NOSUID = 2, MOUNT_ATTR_NODEV = 4,
    MOUNT_ATTR_NOEXEC = 8, MOUNT_ATTR_NOATIME = 0x10, MOUNT_ATTR_STRICTATIME = 0x20,
    MOUNT_ATTR_NODIRATIME = 0x80, MOUNT_ATTR_IDMAP = 0x10_0000,
    MOUNT_ATTR_NOSYMFOLLOW = 0x20_0000,
};
const MOVE_MOUNT: Names = names! { "MOVE_MOUNT_???":
    MOVE_MOUNT_F_SYMLINKS = 1, MOVE_MOUNT_F_AUTOMOUNTS = 2, MOVE_MOUNT_F_EMPTY_PATH = 4,
    MOVE_MOUNT_T_SYMLINKS = 0x10, MOVE_MOUNT_T_AUTOMOUNTS = 0x20,
    MOVE_MOUNT_T_EMPTY_PATH = 0x40, MOVE_MOUNT_SET_GROUP = 0x100,
};
const MREMAP: Names = names! { "MREMAP_???": MREMAP_MAYMOVE, MREMAP_FIXED, MREMAP_DONTUNMAP = 4 };
const MSG: Names = names! { "MSG_???":
    MSG_OOB, MSG_PEEK, MSG_DONTROUTE, MSG_CTRUNC, MSG_PROBE = 0x10, MSG_TRUNC, MSG_DONTWAIT,
    MSG_EOR, MSG_WAITALL, MSG_FIN, MSG_SYN, MSG_CONFIRM, MSG_RST, MSG_ERRQUEUE, MSG_NOSIGNAL,
    MSG_MORE, MSG_WAITFORONE, MSG_BATCH = 0x40000, MSG_ZEROCOPY = 0x400_0000, MSG_FASTOPEN,
    MSG_CMSG_CLOEXEC,
};
const MSYNC: Names = names! { "MS_???": MS_SYNC, MS_ASYNC, MS_INVALIDATE };
const OPEN: Names = names! { "O_???":
    O_CREAT, O_EXCL, O_NOCTTY, O_TRUNC, O_APPEND, O_NONBLOCK, O_SYNC, O_DSYNC, O_ASYNC,
    O_DIRECT, O_LARGEFILE = LARGEFILE, O_NOFOLLOW, O_NOATIME, O_CLOEXEC, O_PATH, O_TMPFILE,
    O_DIRECTORY,
};
/// Zero in libc for 64-bit programs; the kernel sets it all the same.
const LARGEFILE: u64 = if cfg!(target_arch = "aarch64") { 0o400000 } else { 0o100000 };
const OPEN_TREE: Names = names! { "OPEN_TREE_???":
    OPEN_TREE_CLONE = 1, OPEN_TREE_CLOEXEC = 0o2000000, AT_SYMLINK_NOFOLLOW, AT_NO_AUTOMOUNT,
    AT_EMPTY_PATH, AT_RECURSIVE,
};
const PERF_EVENT_OPEN: Names = names! { "PERF_FLAG_???":
    PERF_FLAG_FD_NO_GROUP = 1, PERF_FLAG_FD_OUTPUT = 2, PERF_FLAG_PID_CGROUP = 4,
    PERF_FLAG_FD_CLOEXEC = 8,
};
/// Bits above the kind of personality.
pub const PERSONALITY: Names = names! { "PER_???":
    UNAME26 = 0x2_0000, ADDR_NO_RANDOMIZE, FDPIC_FUNCPTRS = 0x8_0000, MMAP_PAGE_ZERO,
    ADDR_COMPAT_LAYOUT, READ_IMPLIES_EXEC, ADDR_LIMIT_32BIT, SHORT_INODE, WHOLE_SECONDS,
    STICKY_TIMEOUTS, ADDR_LIMIT_3GB,
};
const PIDFD_OPEN: Names = names! { "PIDFD_???": PIDFD_NONBLOCK = libc::O_NONBLOCK as u64 };
const PKEY_RIGHTS: Names = names! { "PKEY_???": PKEY_DISABLE_ACCESS = 1, PKEY_DISABLE_WRITE = 2 };
const PRCTL: Names = names! { "PR_???":
    PR_SET_PDEATHSIG, PR_GET_PDEATHSIG, PR_GET_DUMPABLE, PR_SET_DUMPABLE, PR_GET_UNALIGN,
    PR_SET_UNALIGN, PR_GET_KEEPCAPS, PR_SET_KEEPCAPS, PR_GET_FPEMU, PR_SET_FPEMU,
    PR_GET_FPEXC, PR_SET_FPEXC, PR_GET_TIMING, PR_SET_TIMING, PR_SET_NAME, PR_GET_NAME,
    PR_GET_ENDIAN, PR_SET_ENDIAN, PR_GET_SECCOMP, PR_SET_SECCOMP, PR_CAPBSET_READ,
    PR_CAPBSET_DROP, PR_GET_TSC, PR_SET_TSC, PR_GET_SECUREBITS, PR_SET_SECUREBITS,
    PR_SET_TIMERSLACK, PR_GET_TIMERSLACK, PR_TASK_PERF_EVENTS_DISABLE,
    PR_TASK_PERF_EVENTS_ENABLE, PR_MCE_KILL, PR_MCE_KILL_GET, PR_SET_MM,
    PR_SET_CHILD_SUBREAPER, PR_GET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS,
    PR_GET_NO_NEW_PRIVS, PR_GET_TID_ADDRESS, PR_SET_THP_DISABLE, PR_GET_THP_DISABLE,
    PR_SET_FP_MODE, PR_GET_FP_MODE, PR_CAP_AMBIENT, PR_SVE_SET_VL = 50, PR_SVE_GET_VL = 51,
    PR_GET_SPECULATION_CTRL = 52, PR_SET_SPECULATION_CTRL = 53, PR_PAC_RESET_KEYS = 54,
    PR_SET_TAGGED_ADDR_CTRL = 55, PR_GET_TAGGED_ADDR_CTRL = 56, PR_SET_IO_FLUSHER = 57,
    PR_GET_IO_FLUSHER = 58, PR_SET_SYSCALL_USER_DISPATCH = 59, PR_SCHED_CORE = 62,
    PR_SET_MDWE = 65, PR_GET_MDWE = 66, PR_SET_VMA = 0x5356_4d41, PR_SET_PTRACER,
};
const PRIORITY_WHICH: Names = names! { "PRIO_???": PRIO_PROCESS, PRIO_PGRP, PRIO_USER };
const PROT: Names = names! { "PROT_???":
    PROT_NONE, PROT_READ, PROT_WRITE, PROT_EXEC, PROT_SEM = 8, PROT_GROWSDOWN, PROT_GROWSUP,
};
const PTRACE: Names = names! { "PTRACE_???":
    PTRACE_TRACEME, PTRACE_PEEKTEXT, PTRACE_PEEKDATA, PTRACE_PEEKUSER, PTRACE_POKETEXT,
    PTRACE_POKEDATA, PTRACE_POKEUSER, PTRACE_CONT, PTRACE_KILL, PTRACE_SINGLESTEP,
    PTRACE_GETREGS = 12, PTRACE_SETREGS = 13, PTRACE_GETFPREGS = 14, PTRACE_SETFPREGS = 15,
    PTRACE_ATTACH, PTRACE_DETACH, PTRACE_SYSCALL, PTRACE_SETOPTIONS, PTRACE_GETEVENTMSG,
    PTRACE_GETSIGINFO, PTRACE_SETSIGINFO, PTRACE_GETREGSET, PTRACE_SETREGSET, PTRACE_SEIZE,
    PTRACE_INTERRUPT, PTRACE_LISTEN, PTRACE_PEEKSIGINFO, PTRACE_GETSIGMASK = 0x420a,
    PTRACE_SETSIGMASK = 0x420b, PTRACE_SECCOMP_GET_FILTER = 0x420c,
    PTRACE_GET_SYSCALL_INFO = 0x420e, PTRACE_ARCH_PRCTL = 30,
};
/// Seals of a memfd, F_ADD_SEALS and F_GET_SEALS.
pub const SEALS: Names = names! { "F_SEAL_???":
    F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_WRITE, F_SEAL_FUTURE_WRITE,
    F_SEAL_EXEC = 0x20,
};
/// PR_SET_SECUREBITS and PR_GET_SECUREBITS (`linux/securebits.h`).
pub const SECURE: Names = names! { "SECBIT_???":
    SECBIT_NOROOT = 1, SECBIT_NOROOT_LOCKED = 2, SECBIT_NO_SETUID_FIXUP = 4,
    SECBIT_NO_SETUID_FIXUP_LOCKED = 8, SECBIT_KEEP_CAPS = 0x10,
    SECBIT_KEEP_CAPS_LOCKED = 0x20, SECBIT_NO_CAP_AMBIENT_RAISE = 0x40,
    SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED = 0x80,
};
/// The size bits of a futex2 word; the private bit is FUTEX_PRIVATE_FLAG.
pub const WAITV: Names = names! { "FUTEX_???": FUTEX_32 = 2, FUTEX_PRIVATE_FLAG = 128 };
/// What a ruleset handles (`linux/landlock.h`).
pub const LANDLOCK_ACCESS: Names = names! { "LANDLOCK_ACCESS_FS_???":
    LANDLOCK_ACCESS_FS_EXECUTE = 1, LANDLOCK_ACCESS_FS_WRITE_FILE = 2,
    LANDLOCK_ACCESS_FS_READ_FILE = 4, LANDLOCK_ACCESS_FS_READ_DIR = 8,
    LANDLOCK_ACCESS_FS_REMOVE_DIR = 0x10, LANDLOCK_ACCESS_FS_REMOVE_FILE = 0x20,
    LANDLOCK_ACCESS_FS_MAKE_CHAR = 0x40, LANDLOCK_ACCESS_FS_MAKE_DIR = 0x80,
    LANDLOCK_ACCESS_FS_MAKE_REG = 0x100, LANDLOCK_ACCESS_FS_MAKE_SOCK = 0x200,
    LANDLOCK_ACCESS_FS_MAKE_FIFO = 0x400, LANDLOCK_ACCESS_FS_MAKE_BLOCK = 0x800,
    LANDLOCK_ACCESS_FS_MAKE_SYM = 0x1000, LANDLOCK_ACCESS_FS_REFER = 0x2000,
};
const RENAME: Names = names! { "RENAME_???": RENAME_NOREPLACE, RENAME_EXCHANGE, RENAME_WHITEOUT };
const RLIMIT: Names = names! { "RLIMIT_???":
    RLIMIT_CPU, RLIMIT_FSIZE, RLIMIT_DATA, RLIMIT_STACK, RLIMIT_CORE, RLIMIT_RSS,
    RLIMIT_NPROC, RLIMIT_NOFILE, RLIMIT_MEMLOCK, RLIMIT_AS, RLIMIT_LOCKS, RLIMIT_SIGPENDING,
    RLIMIT_MSGQUEUE, RLIMIT_NICE, RLIMIT_RTPRIO, RLIMIT_RTTIME,
};
const RSEQ: Names = names! { "RSEQ_FLAG_???": RSEQ_FLAG_UNREGISTER = 1 };
const RUSAGE_WHO: Names =
    names! { "RUSAGE_???": RUSAGE_SELF, RUSAGE_CHILDREN, RUSAGE_BOTH = 0xffff_fffe, RUSAGE_THREAD };
const RWF: Names = names! { "RWF_???": RWF_HIPRI = 1, RWF_DSYNC = 2, RWF_SYNC = 4, RWF_NOWAIT = 8, RWF_APPEND = 16 };
const SCHED_POLICY: Names = names! { "SCHED_???":
    SCHED_OTHER, SCHED_FIFO, SCHED_RR, SCHED_BATCH, SCHED_ISO = 4, SCHED_IDLE,
    SCHED_DEADLINE = 6,
};
const SECCOMP: Names = names! { "SECCOMP_SET_MODE_???":
    SECCOMP_SET_MODE_STRICT = 0, SECCOMP_SET_MODE_FILTER = 1, SECCOMP_GET_ACTION_AVAIL = 2,
    SECCOMP_GET_NOTIF_SIZES = 3,
};
/// Flags of SECCOMP_SET_MODE_FILTER.
pub const SECCOMP_FILTER: Names = names! { "SECCOMP_FILTER_FLAG_???":
    SECCOMP_FILTER_FLAG_TSYNC = 1, SECCOMP_FILTER_FLAG_LOG = 2,
    SECCOMP_FILTER_FLAG_SPEC_ALLOW = 4, SECCOMP_FILTER_FLAG_NEW_LISTENER = 8,
    SECCOMP_FILTER_FLAG_TSYNC_ESRCH = 16, SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV = 32,
};
/// What a filter says about a call.
pub const SECCOMP_ACTION: Names = names! { "SECCOMP_RET_???":
    SECCOMP_RET_KILL_PROCESS = 0x8000_0000, SECCOMP_RET_KILL_THREAD = 0,
    SECCOMP_RET_TRAP = 0x3_0000, SECCOMP_RET_ERRNO = 0x5_0000,
    SECCOMP_RET_USER_NOTIF = 0x7fc0_0000, SECCOMP_RET_TRACE = 0x7ff0_0000,
    SECCOMP_RET_LOG = 0x7ffc_0000, SECCOMP_RET_ALLOW = 0x7fff_0000,
};
const SHMAT: Names = names! { "SHM_???":
    SHM_RDONLY, SHM_RND, SHM_REMAP, SHM_EXEC,
};
const SHUTDOWN_HOW: Names = names! { "SHUT_???": SHUT_RD, SHUT_WR, SHUT_RDWR };
const SIGNALFD: Names = names! { "SFD_???": SFD_CLOEXEC, SFD_NONBLOCK };
const SIGPROCMASK_HOW: Names = names! { "SIG_???": SIG_BLOCK, SIG_UNBLOCK, SIG_SETMASK };
const SOCKET_DOMAIN: Names = names! { "AF_???":
    AF_UNSPEC, AF_UNIX, AF_INET, AF_AX25, AF_IPX, AF_APPLETALK, AF_NETROM, AF_BRIDGE,
    AF_ATMPVC, AF_X25, AF_INET6, AF_ROSE, AF_DECnet, AF_NETBEUI, AF_SECURITY, AF_KEY,
    AF_NETLINK, AF_PACKET, AF_ASH, AF_ECONET, AF_ATMSVC, AF_RDS, AF_SNA, AF_IRDA, AF_PPPOX,
    AF_WANPIPE, AF_LLC, AF_IB = 27, AF_MPLS = 28, AF_CAN, AF_TIPC, AF_BLUETOOTH, AF_IUCV,
    AF_RXRPC, AF_ISDN, AF_PHONET, AF_IEEE802154, AF_CAIF, AF_ALG, AF_NFC = 39, AF_VSOCK = 40,
    AF_KCM = 41, AF_QIPCRTR = 42, AF_SMC = 43, AF_XDP = 44, AF_MCTP = 45,
};
const SOCKET_TYPE: Names = names! { "SOCK_???":
    SOCK_STREAM, SOCK_DGRAM, SOCK_RAW, SOCK_RDM, SOCK_SEQPACKET, SOCK_DCCP, SOCK_PACKET = 10,
};
const SOCKET_FLAGS: Names = names! { "SOCK_???": SOCK_CLOEXEC, SOCK_NONBLOCK };
const SOCKET_LEVEL: Names = names! { "SOL_??":
    SOL_IP, SOL_SOCKET, SOL_TCP, SOL_UDP, SOL_IPV6, SOL_ICMPV6 = 58, SOL_SCTP = 132,
    SOL_UDPLITE = 136, SOL_RAW, SOL_PACKET = 263, SOL_NETLINK, SOL_TLS = 282, SOL_ALG = 279,
    SOL_BLUETOOTH = 274, SOL_XDP = 283, SOL_MPTCP = 284,
};
const SOCKET_PROTOCOL: Names = names! { "IPPROTO_???":
    IPPROTO_IP, IPPROTO_ICMP, IPPROTO_IGMP, IPPROTO_IPIP, IPPROTO_TCP, IPPROTO_EGP,
    IPPROTO_PUP, IPPROTO_UDP, IPPROTO_IDP, IPPROTO_TP, IPPROTO_DCCP, IPPROTO_IPV6,
    IPPROTO_ROUTING, IPPROTO_FRAGMENT, IPPROTO_RSVP, IPPROTO_GRE, IPPROTO_ESP, IPPROTO_AH,
    IPPROTO_ICMPV6, IPPROTO_NONE, IPPROTO_DSTOPTS, IPPROTO_MTP, IPPROTO_BEETPH, IPPROTO_ENCAP,
    IPPROTO_PIM, IPPROTO_COMP, IPPROTO_SCTP, IPPROTO_MH, IPPROTO_UDPLITE, IPPROTO_MPLS,
    IPPROTO_ETHERNET = 143, IPPROTO_RAW, IPPROTO_MPTCP = 262,
};
const SPLICE: Names = names! { "SPLICE_F_???":
    SPLICE_F_MOVE, SPLICE_F_NONBLOCK, SPLICE_F_MORE, SPLICE_F_GIFT,
};
const STATX_SYNC: Names = names! { "AT_STATX_???":
    AT_STATX_SYNC_AS_STAT, AT_STATX_FORCE_SYNC, AT_STATX_DONT_SYNC,
};
const STATX: Names = names! { "STATX_???":
    STATX_ALL, STATX_BASIC_STATS, STATX_TYPE, STATX_MODE, STATX_NLINK, STATX_UID, STATX_GID,
    STATX_ATIME, STATX_MTIME, STATX_CTIME, STATX_INO, STATX_SIZE, STATX_BLOCKS, STATX_BTIME,
    STATX_MNT_ID = 0x1000, STATX_DIOALIGN = 0x2000,
};
const SYNC_FILE_RANGE: Names = names! { "SYNC_FILE_RANGE_???":
    SYNC_FILE_RANGE_WAIT_BEFORE, SYNC_FILE_RANGE_WRITE, SYNC_FILE_RANGE_WAIT_AFTER,
};
const SYSLOG: Names = names! { "SYSLOG_ACTION_???":
    SYSLOG_ACTION_CLOSE = 0, SYSLOG_ACTION_OPEN = 1, SYSLOG_ACTION_READ = 2,
    SYSLOG_ACTION_READ_ALL = 3, SYSLOG_ACTION_READ_CLEAR = 4, SYSLOG_ACTION_CLEAR = 5,
    SYSLOG_ACTION_CONSOLE_OFF = 6, SYSLOG_ACTION_CONSOLE_ON = 7,
    SYSLOG_ACTION_CONSOLE_LEVEL = 8, SYSLOG_ACTION_SIZE_UNREAD = 9,
    SYSLOG_ACTION_SIZE_BUFFER = 10,
};
const TIMER: Names = names! { "TIMER_???": TIMER_ABSTIME };
const TIMERFD: Names = names! { "TFD_TIMER_???": TFD_TIMER_ABSTIME, TFD_TIMER_CANCEL_ON_SET = 2 };
const TIMERFD_CREATE: Names = names! { "TFD_???": TFD_CLOEXEC, TFD_NONBLOCK };
const UMOUNT: Names = names! { "MNT_???": MNT_FORCE, MNT_DETACH, MNT_EXPIRE, UMOUNT_NOFOLLOW };
const WAIT: Names = names! { "W???":
    WNOHANG, WSTOPPED, WEXITED, WCONTINUED, WNOWAIT, __WCLONE, __WALL, __WNOTHREAD,
};
const WAIT_ID: Names = names! { "P_???": P_ALL, P_PID, P_PGID, P_PIDFD = 3 };
const WHENCE: Names = names! { "SEEK_???": SEEK_SET, SEEK_CUR, SEEK_END, SEEK_DATA, SEEK_HOLE };
const XATTR: Names = names! { "XATTR_???": XATTR_CREATE, XATTR_REPLACE };
