//! Holds the table against an independent list of call numbers, and its plans against calls
//! whose copies are known.

use std::collections::BTreeSet;

use crossgate_syscalls::{
    Behaviour, Capture, Classes, Len, Syscall, Type, What, When, aarch64, x86_64,
};

/// Calls whose arguments and results `decode` must print as strace does.
const MUST: &str = "
    read write open openat openat2 close creat stat fstat lstat newfstatat statx access faccessat faccessat2 readlink readlinkat
    lseek mmap munmap mprotect mremap madvise brk msync mlock mlock2 mincore memfd_create
    pread64 pwrite64 readv writev preadv pwritev preadv2 pwritev2 sendfile splice tee vmsplice copy_file_range fallocate ftruncate truncate
    dup dup2 dup3 fcntl flock fsync fdatasync sync_file_range pipe pipe2 close_range
    rename renameat renameat2 mkdir mkdirat rmdir unlink unlinkat link linkat symlink symlinkat chmod fchmod fchmodat chown fchown lchown fchownat umask utimensat
    getdents64 getcwd chdir fchdir chroot mount umount2 statfs fstatfs getxattr lgetxattr fgetxattr setxattr listxattr
    poll ppoll select pselect6 epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2 eventfd2 signalfd4 timerfd_create timerfd_settime timerfd_gettime inotify_init1 inotify_add_watch inotify_rm_watch fanotify_init
    socket socketpair bind listen accept accept4 connect getsockname getpeername sendto recvfrom sendmsg recvmsg sendmmsg recvmmsg shutdown getsockopt setsockopt
    clone clone3 fork vfork execve execveat exit exit_group wait4 waitid kill tkill tgkill pidfd_open pidfd_send_signal getpid getppid gettid getpgid setpgid getsid setsid set_tid_address set_robust_list rseq
    rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigsuspend rt_sigtimedwait rt_sigqueueinfo sigaltstack pause alarm setitimer getitimer
    futex futex_waitv nanosleep clock_nanosleep clock_gettime clock_getres gettimeofday time times getrusage timer_create timer_settime timer_delete
    getuid geteuid getgid getegid setuid setgid setreuid setresuid getresuid getgroups setgroups capget capset prctl arch_prctl seccomp personality
    getrlimit setrlimit prlimit64 sched_yield sched_getaffinity sched_setaffinity sched_setscheduler getpriority setpriority getcpu
    uname sysinfo getrandom ioctl io_uring_setup io_uring_enter io_uring_register bpf perf_event_open ptrace process_vm_readv membarrier landlock_create_ruleset
";

#[test]
fn the_numbers_of_x86_64_are_those_of_an_independent_list() {
    let mut ours: BTreeSet<&str> = BTreeSet::new();
    for call in (0..600).filter_map(syscalls::x86_64::Sysno::new) {
        assert_eq!(x86_64::by_name(call.name()), Some(call.id() as u64), "{}", call.name());
        ours.insert(call.name());
    }
    let extra: Vec<_> =
        x86_64::TABLE.iter().flatten().map(|c| c.name).filter(|n| !ours.contains(n)).collect();
    // Newer than that list.
    assert_eq!(extra, ["listns"]);
}

#[test]
fn the_numbers_of_aarch64_are_those_of_an_independent_list() {
    let mut ours: BTreeSet<&str> = BTreeSet::new();
    for call in (0..600).filter_map(syscalls::aarch64::Sysno::new) {
        // Calls of 32-bit architectures with 64-bit times, which arm64 does not have.
        if (403..=423).contains(&call.id()) {
            continue;
        }
        // That list spells the file status call of asm-generic by its kernel name.
        let name = if call.name() == "fstatat" { "newfstatat" } else { call.name() };
        assert_eq!(aarch64::by_name(name), Some(call.id() as u64), "{name}");
        ours.insert(name);
    }
    let extra: Vec<_> =
        aarch64::TABLE.iter().flatten().map(|c| c.name).filter(|n| !ours.contains(n)).collect();
    assert_eq!(extra, ["listns"]);
}

#[test]
fn a_call_is_found_by_its_number_and_by_its_name() {
    for (table, by_name) in [
        (&x86_64::TABLE[..], x86_64::by_name as fn(&str) -> Option<u64>),
        (&aarch64::TABLE[..], aarch64::by_name),
    ] {
        for (nr, call) in table.iter().enumerate() {
            let Some(call) = call else { continue };
            assert_eq!(by_name(call.name), Some(nr as u64));
        }
    }
    assert!(x86_64::by_name("no_such_call").is_none());
    assert!(x86_64::lookup(u64::MAX).is_none());
    assert!(x86_64::lookup(400).is_none());
    assert_eq!(x86_64::OPENAT, 257);
    assert_eq!(aarch64::OPENAT, 56);
}

#[test]
fn every_call_that_decode_must_print_is_present() {
    for name in MUST.split_whitespace() {
        assert!(x86_64::by_name(name).is_some(), "{name}");
    }
}

#[test]
fn numbers_beyond_the_table_have_no_plan() {
    for nr in [336, 337, 400, 471, 1 << 32, u64::MAX] {
        assert!(x86_64::plan::capture(nr).is_empty());
        assert_eq!(x86_64::plan::behaviour(nr), Behaviour::NONE);
    }
}

#[test]
fn plans_of_known_calls() {
    use crossgate_syscalls::x86_64::*;
    let one = |arg, when, what| Capture { arg, when, what };
    assert_eq!(
        plan::capture(READ),
        [one(1, When::ExitIfOk, What::Bytes(Len::Result { scale: 1 }))]
    );
    assert_eq!(
        plan::capture(EXECVE),
        [
            one(0, When::Enter, What::Str),
            one(1, When::Enter, What::StrVec),
            one(2, When::Enter, What::Count)
        ]
    );
    assert_eq!(
        plan::capture(POLL),
        [
            one(0, When::Enter, What::Bytes(Len::Arg { index: 1, scale: 8 })),
            one(0, When::ExitIfOk, What::Bytes(Len::Arg { index: 1, scale: 8 }))
        ]
    );
    assert_eq!(
        plan::capture(EPOLL_WAIT),
        [one(1, When::ExitIfOk, What::Bytes(Len::Result { scale: 12 }))]
    );
    assert_eq!(
        crossgate_syscalls::aarch64::plan::capture(aarch64::EPOLL_PWAIT)[0],
        one(1, When::ExitIfOk, What::Bytes(Len::Result { scale: 16 }))
    );
    assert_eq!(
        plan::capture(ACCEPT),
        [
            one(1, When::ExitIfOk, What::Bytes(Len::Pointee { arg: 2 })),
            one(2, When::Enter, What::Bytes(Len::Fixed(4))),
            one(2, When::ExitIfOk, What::Bytes(Len::Fixed(4)))
        ]
    );
    assert_eq!(
        plan::capture(READV),
        [one(1, When::Exit, What::Iovec { count_arg: 2, total: Len::Result { scale: 1 } })]
    );
    assert_eq!(plan::capture(NANOSLEEP)[1], one(1, When::Exit, What::Bytes(Len::Fixed(16))));
}

#[test]
fn behaviour_of_known_calls() {
    use crossgate_syscalls::x86_64::*;
    assert!(plan::behaviour(CLONE3).has(Behaviour::CREATES_TASK));
    assert!(plan::behaviour(VFORK).has(Behaviour::CREATES_TASK.with(Behaviour::BLOCKS)));
    assert!(!plan::behaviour(GETPID).has_any(Behaviour::BLOCKS));
    assert_eq!(plan::behaviour(GETPID), Behaviour::NONE);
    for (nr, word, arg) in [
        (RT_SIGSUSPEND, Behaviour::MASK_ARGUMENT, 0),
        (PPOLL, Behaviour::MASK_ARGUMENT, 3),
        (EPOLL_PWAIT, Behaviour::MASK_ARGUMENT, 4),
        (EPOLL_PWAIT2, Behaviour::MASK_ARGUMENT, 4),
        (IO_URING_ENTER, Behaviour::MASK_ARGUMENT, 4),
        (PSELECT6, Behaviour::MASK_STRUCT, 5),
        (IO_PGETEVENTS, Behaviour::MASK_STRUCT, 5),
        (RT_SIGTIMEDWAIT, Behaviour::WAITS_SIGNAL, 0),
        (SIGNALFD, Behaviour::WAITS_SIGNAL, 1),
        (SIGNALFD4, Behaviour::WAITS_SIGNAL, 1),
    ] {
        assert!(plan::behaviour(nr).has(word), "{nr}");
        assert_eq!(plan::behaviour(nr).argument(), Some(arg), "{nr}");
        assert_eq!(lookup(nr).unwrap().behaviour, plan::behaviour(nr));
    }
    assert_eq!(plan::behaviour(CLONE3).argument(), None);
}

#[test]
fn classes_follow_from_the_arguments() {
    let classes = |name: &str| -> &'static Syscall {
        x86_64::lookup(x86_64::by_name(name).unwrap()).unwrap()
    };
    assert!(classes("openat").classes.has_any(Classes::FILE));
    assert!(classes("openat").classes.has_any(Classes::DESC));
    assert!(!classes("connect").classes.has_any(Classes::DESC));
    assert!(classes("sendfile").classes.has_any(Classes::DESC));
    assert!(classes("mmap").classes.has_any(Classes::MEMORY));
    assert_eq!(Classes::by_name("network"), Some(Classes::NETWORK));
    assert_eq!(Classes::by_name("%network"), None);
    assert!(!classes("getpid").classes.has_any(Classes::FILE.with(Classes::DESC)));
}

#[test]
fn every_capture_is_about_an_argument_that_exists() {
    for nr in 0..x86_64::TABLE.len() as u64 {
        let captures = x86_64::plan::capture(nr);
        let args = x86_64::lookup(nr).map_or(0, |call| call.args.len());
        for capture in captures {
            assert!(usize::from(capture.arg) < args, "{nr}");
            let (What::Bytes(len) | What::Iovec { total: len, .. }) = capture.what else {
                continue;
            };
            if let Len::Arg { index, scale } = len {
                assert!(usize::from(index) < args && scale > 0, "{nr}");
            }
        }
    }
    assert_ne!(Type::Stat, Type::Statx);
}
