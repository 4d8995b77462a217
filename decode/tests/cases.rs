//! Calls, signals and ends built by hand, with the text that strace 6.1 prints for them.

#![cfg(target_arch = "x86_64")]

use crossgate_decode::{Call, Exit, Options, ended, signal, signal_name};
use crossgate_syscalls::x86_64 as nr;
use crossgate_wire::record::{BlobKind, Blobs, Kind, Record, Writer};

/// A blob to be: argument, kind, bytes.
type Piece<'a> = (u8, BlobKind, &'a [u8]);

fn record(kind: Kind, words: &[u64], pieces: &[Piece<'_>]) -> Vec<u8> {
    let mut buffer = vec![0; 4096];
    let mut writer = Writer::new(&mut buffer, kind, 0);
    words.iter().for_each(|word| writer.word(*word));
    for (arg, kind, bytes) in pieces {
        writer.begin_blob().unwrap()[..bytes.len()].copy_from_slice(bytes);
        writer.end_blob(*arg, *kind, bytes.len(), false, false);
    }
    let len = writer.finish();
    buffer.truncate(len);
    buffer
}

fn blobs(record: &[u8]) -> Blobs<'_> {
    match Record::parse(record) {
        Some((Record::Enter { blobs, .. } | Record::Exit { blobs, .. }, _)) => blobs,
        other => panic!("{other:?}"),
    }
}

/// The two halves of a call's text.
fn halves(
    nr: u64,
    args: &[u64],
    enter: &[Piece<'_>],
    result: i64,
    exit: &[Piece<'_>],
) -> (String, String) {
    let mut six = [0; 6];
    six[..args.len()].copy_from_slice(args);
    let before =
        record(Kind::Enter, &[nr, 0, six[0], six[1], six[2], six[3], six[4], six[5]], enter);
    let after = record(Kind::Exit, &[result as u64], exit);
    let options = Options::default();
    let call = Call { nr, args: six, blobs: blobs(&before) };
    let (mut first, mut second) = (String::new(), String::new());
    options.enter(&mut first, &call);
    let column = first.chars().count();
    options.exit(&mut second, column, &call, &Exit { result, blobs: blobs(&after) });
    (first, second)
}

fn line(nr: u64, args: &[u64], enter: &[Piece<'_>], result: i64, exit: &[Piece<'_>]) -> String {
    let (first, second) = halves(nr, args, enter, result, exit);
    first + &second
}

#[test]
fn the_first_half_ends_where_the_kernel_writes() {
    let data: &[Piece<'_>] = &[(1, BlobKind::Bytes, b"hi\n")];
    let (first, second) = halves(nr::READ, &[3, 0x1000, 512], &[], 3, data);
    assert_eq!(
        (first.as_str(), second.as_str()),
        ("read(3, ", "\"hi\\n\", 512)                    = 3")
    );
    let (first, second) = halves(nr::CLOSE, &[3], &[], 0, &[]);
    assert_eq!(
        (first.as_str(), second.as_str()),
        ("close(3", ")                                = 0")
    );
    let (first, _) = halves(nr::UNAME, &[0x1000], &[], -14, &[]);
    assert_eq!(first, "uname(");
    let flags = (libc::CLONE_CHILD_SETTID | libc::CLONE_CHILD_CLEARTID | libc::SIGCHLD) as u64;
    let (first, second) = halves(nr::CLONE, &[flags, 0, 0, 0x7f00], &[], 77, &[]);
    assert_eq!(
        first,
        "clone(child_stack=NULL, flags=CLONE_CHILD_CLEARTID|CLONE_CHILD_SETTID|SIGCHLD"
    );
    assert_eq!(second, ", child_tidptr=0x7f00) = 77");
}

#[test]
fn interrupted_calls_say_how_they_begin_again() {
    for (code, text) in [
        (512, "ERESTARTSYS (To be restarted if SA_RESTART is set)"),
        (513, "ERESTARTNOINTR (To be restarted)"),
        (514, "ERESTARTNOHAND (To be restarted if no handler)"),
        (516, "ERESTART_RESTARTBLOCK (Interrupted by signal)"),
    ] {
        assert_eq!(
            line(nr::PAUSE, &[], &[], -code, &[]),
            format!("pause()                                 = ? {text}")
        );
    }
    assert_eq!(
        line(nr::PAUSE, &[], &[], -600, &[]),
        "pause()                                 = -1 (errno 600)"
    );
}

#[test]
fn an_interrupted_sleep_shows_the_time_left() {
    let half = [1u64.to_ne_bytes(), 5u64.to_ne_bytes()].concat();
    let enter: &[Piece<'_>] = &[(0, BlobKind::Bytes, &half)];
    let exit: &[Piece<'_>] = &[(1, BlobKind::Bytes, &half)];
    assert_eq!(
        line(nr::NANOSLEEP, &[0x1000, 0x2000], enter, -516, exit),
        "nanosleep({tv_sec=1, tv_nsec=5}, {tv_sec=1, tv_nsec=5}) = ? ERESTART_RESTARTBLOCK \
         (Interrupted by signal)"
    );
    assert_eq!(
        line(nr::NANOSLEEP, &[0x1000, 0x2000], enter, 0, exit),
        "nanosleep({tv_sec=1, tv_nsec=5}, 0x2000) = 0"
    );
}

#[test]
fn a_thread_is_made() {
    let flags = libc::CLONE_VM | libc::CLONE_THREAD | libc::CLONE_PARENT_SETTID;
    let mut arguments = vec![0; 88];
    arguments[..8].copy_from_slice(&(flags as u64).to_ne_bytes());
    arguments[24..32].copy_from_slice(&0x7000u64.to_ne_bytes());
    arguments[40..48].copy_from_slice(&0x6000u64.to_ne_bytes());
    arguments[48..56].copy_from_slice(&0x7fff80u64.to_ne_bytes());
    let enter: &[Piece<'_>] = &[(0, BlobKind::Bytes, &arguments)];
    assert_eq!(
        line(nr::CLONE3, &[0x1000, 88], enter, 2286, &[]),
        "clone3({flags=CLONE_VM|CLONE_THREAD|CLONE_PARENT_SETTID, parent_tid=0x7000, \
         exit_signal=0, stack=0x6000, stack_size=0x7fff80} => {parent_tid=[2286]}, 88) = 2286"
    );
}

#[test]
fn a_call_that_never_returns() {
    let before = record(Kind::Enter, &[nr::EXIT_GROUP, 0, 3, 0, 0, 0, 0, 0], &[]);
    let call = Call { nr: nr::EXIT_GROUP, args: [3, 0, 0, 0, 0, 0], blobs: blobs(&before) };
    let mut out = String::new();
    Options::default().enter(&mut out, &call);
    let column = out.len();
    Options::default().no_exit(&mut out, column, &call);
    assert_eq!(out, "exit_group(3)                           = ?");
}

#[test]
fn unknown_calls_and_unreadable_memory() {
    assert_eq!(
        line(9999, &[1, 2, 3, 4, 5, 0], &[], -38, &[]),
        "syscall_0x270f(0x1, 0x2, 0x3, 0x4, 0x5, 0) = -1 ENOSYS (Function not implemented)"
    );
    assert_eq!(
        line(nr::CHDIR, &[1], &[], -14, &[]),
        "chdir(0x1)                              = -1 EFAULT (Bad address)"
    );
}

#[test]
fn strings_are_escaped_and_cut() {
    let write = |bytes: &[u8]| {
        let enter: &[Piece<'_>] = &[(1, BlobKind::Bytes, bytes)];
        let (first, _) = halves(nr::WRITE, &[1, 0x1000, bytes.len() as u64], enter, 0, &[]);
        first
    };
    assert_eq!(write(b"\"\\\t\n\x0b\x0c\r"), r#"write(1, "\"\\\t\n\v\f\r", 7"#);
    assert_eq!(write(b"\x001\x018\x7f\xff"), r#"write(1, "\0001\0018\177\377", 6"#);
    assert_eq!(write(&[b'a'; 33]), format!("write(1, \"{}\"..., 33", "a".repeat(32)));
    assert_eq!(write(&[b'a'; 32]), format!("write(1, \"{}\", 32", "a".repeat(32)));
}

/// A `siginfo_t` from words of 32 bits.
fn info(words: &[i32]) -> Vec<u8> {
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    bytes.resize(128, 0);
    bytes
}

#[test]
fn delivered_signals() {
    for (words, text) in [
        (&[14, 0, 128][..], "--- SIGALRM {si_signo=SIGALRM, si_code=SI_KERNEL} ---"),
        (
            &[15, 0, 0, 0, 2593, 1000],
            "--- SIGTERM {si_signo=SIGTERM, si_code=SI_USER, si_pid=2593, si_uid=1000} ---",
        ),
        (
            &[10, 0, -6, 0, 7, 0],
            "--- SIGUSR1 {si_signo=SIGUSR1, si_code=SI_TKILL, si_pid=7, si_uid=0} ---",
        ),
        (
            &[17, 0, 1, 0, 2592, 0, 3],
            "--- SIGCHLD {si_signo=SIGCHLD, si_code=CLD_EXITED, si_pid=2592, si_uid=0, \
             si_status=3, si_utime=0, si_stime=0} ---",
        ),
        (
            &[17, 0, 2, 0, 2593, 0, 15],
            "--- SIGCHLD {si_signo=SIGCHLD, si_code=CLD_KILLED, si_pid=2593, si_uid=0, \
             si_status=SIGTERM, si_utime=0, si_stime=0} ---",
        ),
        (
            &[11, 0, 1, 0, 0, 0],
            "--- SIGSEGV {si_signo=SIGSEGV, si_code=SEGV_MAPERR, si_addr=NULL} ---",
        ),
        (
            &[11, 0, 2, 0, 0x1000, 0],
            "--- SIGSEGV {si_signo=SIGSEGV, si_code=SEGV_ACCERR, si_addr=0x1000} ---",
        ),
        (&[11, 0, 128], "--- SIGSEGV {si_signo=SIGSEGV, si_code=SI_KERNEL, si_addr=NULL} ---"),
        (
            &[34, 0, -1, 0, 5, 6, 7, 0],
            "--- SIGRT_2 {si_signo=SIGRT_2, si_code=SI_QUEUE, si_pid=5, si_uid=6, si_int=7, \
             si_ptr=0x7} ---",
        ),
    ] {
        let mut out = String::new();
        signal(&mut out, &info(words));
        assert_eq!(out, text);
    }
}

#[test]
fn ends_of_processes() {
    for (status, text) in [
        (0, "+++ exited with 0 +++"),
        (0x100, "+++ exited with 1 +++"),
        (0xff00, "+++ exited with 255 +++"),
        (9, "+++ killed by SIGKILL +++"),
        (11 | 0x80, "+++ killed by SIGSEGV (core dumped) +++"),
    ] {
        let mut out = String::new();
        ended(&mut out, status);
        assert_eq!(out, text);
    }
}

#[test]
fn names_of_signals() {
    for (number, text) in [
        (1, "SIGHUP"),
        (29, "SIGIO"),
        (31, "SIGSYS"),
        (32, "SIGRTMIN"),
        (33, "SIGRT_1"),
        (64, "SIGRT_32"),
        (65, "65"),
        (0, "0"),
        (-1, "-1"),
    ] {
        let mut out = String::new();
        signal_name(&mut out, number);
        assert_eq!(out, text);
    }
}

#[test]
fn wait_statuses() {
    for (status, text) in [
        (0x0300u32, "WIFEXITED(s) && WEXITSTATUS(s) == 3"),
        (15, "WIFSIGNALED(s) && WTERMSIG(s) == SIGTERM"),
        (0x8b, "WIFSIGNALED(s) && WTERMSIG(s) == SIGSEGV && WCOREDUMP(s)"),
        (0x137f, "WIFSTOPPED(s) && WSTOPSIG(s) == SIGSTOP"),
        (0xffff, "WIFCONTINUED(s)"),
    ] {
        let exit: &[Piece<'_>] = &[(1, BlobKind::Bytes, &status.to_ne_bytes())];
        assert_eq!(
            line(nr::WAIT4, &[u64::MAX, 0x1000, 0, 0], &[], 9, exit),
            format!("wait4(-1, [{{{text}}}], 0, NULL) = 9")
        );
    }
}
