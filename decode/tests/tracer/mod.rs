//! A small tracer on ptrace: makes the records that the agent makes, from the same capture
//! plan, for one process whose children run free.
//!
//! Owns: the plain, slow way to obey a plan, which is the reference for the agent's fast
//! one. Never does: follow children, or serve anything but tests. Where the data goes next:
//! the tests of this crate decode it and compare with strace.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::{io, mem, ptr};

use crossgate_decode::{Call, Exit, Options, ended, signal};
use crossgate_syscalls::{Len, What, When, fcntl_takes_pointer, plan};
use crossgate_wire::record::{BlobKind, Blobs, Kind, Record, Writer};

/// Bytes that are copied of a string or a buffer.
const LIMIT: usize = 4096;
/// Set in a length of a `StrVec` or `Iovec` blob when there was more.
const MORE: u32 = 1 << 31;

/// Memory of another process.
struct Memory(libc::pid_t);

impl Memory {
    /// Reads up to `len` bytes at `address`, page by page so that the readable part of a
    /// range is read.
    fn read(&self, address: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0u8; len];
        let mut done = 0;
        while done < len {
            let at = address.wrapping_add(done as u64);
            let piece = (len - done).min(4096 - (at % 4096) as usize);
            let local = libc::iovec { iov_base: bytes[done..].as_mut_ptr().cast(), iov_len: piece };
            let remote = libc::iovec { iov_base: at as *mut _, iov_len: piece };
            // SAFETY: `local` lies within `bytes`, `remote` is checked by the kernel.
            let read = unsafe { libc::process_vm_readv(self.0, &local, 1, &remote, 1, 0) };
            if read != piece as isize {
                break;
            }
            done += piece;
        }
        bytes.truncate(done);
        bytes
    }

    fn word(&self, address: u64) -> Option<u64> {
        Some(u64::from_ne_bytes(self.read(address, 8).try_into().ok()?))
    }

    /// A C string: its bytes, whether it goes on, whether it could be read.
    fn string(&self, address: u64) -> (Vec<u8>, bool, bool) {
        let mut bytes = self.read(address, LIMIT);
        match bytes.iter().position(|byte| *byte == 0) {
            Some(end) => {
                bytes.truncate(end);
                (bytes, false, false)
            }
            None => {
                let truncated = bytes.len() == LIMIT;
                (bytes, truncated, !truncated)
            }
        }
    }
}

/// One call while its plan is obeyed.
struct Copier<'a> {
    memory: &'a Memory,
    args: [u64; 6],
    result: i64,
    writer: Writer<'a>,
}

impl Copier<'_> {
    fn blob(&mut self, arg: u8, kind: BlobKind, bytes: &[u8], truncated: bool, fault: bool) {
        let Some(space) = self.writer.begin_blob() else { return };
        let len = bytes.len().min(space.len());
        space[..len].copy_from_slice(&bytes[..len]);
        self.writer.end_blob(arg, kind, len, truncated || len < bytes.len(), fault);
    }

    fn len(&self, len: Len) -> usize {
        let result = self.result.max(0) as u64;
        let value = match len {
            Len::Fixed(bytes) => u64::from(bytes),
            Len::Arg { index, scale } => {
                self.args[usize::from(index)].saturating_mul(u64::from(scale))
            }
            Len::Result { scale } => result.saturating_mul(u64::from(scale)),
            Len::Pointee { arg } => {
                let bytes = self.memory.read(self.args[usize::from(arg)], 4);
                bytes.try_into().map_or(0, u32::from_ne_bytes).into()
            }
            Len::Bits { index } => {
                let bits = (self.args[usize::from(index)] as i32).max(0) as u64;
                bits.div_ceil(64) * 8
            }
            Len::Pages { index } => self.args[usize::from(index)].div_ceil(4096),
            Len::Fcntl { index, size } => {
                let takes = fcntl_takes_pointer(self.args[usize::from(index)] as u32);
                if takes { size.into() } else { 0 }
            }
            Len::All => u64::MAX,
        };
        usize::try_from(value).unwrap_or(usize::MAX)
    }

    fn bytes(&mut self, arg: u8, address: u64, len: usize) {
        let wanted = len.min(LIMIT);
        let bytes = self.memory.read(address, wanted);
        self.blob(arg, BlobKind::Bytes, &bytes, len > LIMIT, bytes.len() < wanted);
    }

    fn iovec(&mut self, arg: u8, address: u64, count: usize, mut total: usize) {
        let mut out = Vec::new();
        let mut fault = false;
        for index in 0..count.min(64) {
            let entry = address.wrapping_add(index as u64 * 16);
            let (Some(base), Some(len)) =
                (self.memory.word(entry), self.memory.word(entry.wrapping_add(8)))
            else {
                fault = index == 0;
                break;
            };
            let wanted = usize::try_from(len).unwrap_or(usize::MAX).min(total);
            total -= wanted;
            let bytes = self.memory.read(base, wanted.min(256));
            let more = if wanted > bytes.len() { MORE } else { 0 };
            out.extend_from_slice(&(bytes.len() as u32 | more).to_ne_bytes());
            out.extend_from_slice(&[0; 4]);
            out.extend_from_slice(&base.to_ne_bytes());
            out.extend_from_slice(&len.to_ne_bytes());
            out.extend_from_slice(&bytes);
        }
        self.blob(arg, BlobKind::Iovec, &out, count > 64, fault);
    }

    fn message(&mut self, arg: u8, address: u64, size: usize, total: usize) {
        let header = self.memory.read(address, size);
        let word = |at: usize| {
            header.get(at..at + 8).map_or(0, |b| u64::from_ne_bytes(b.try_into().unwrap()))
        };
        self.blob(arg, BlobKind::Bytes, &header, false, header.len() < size);
        let length = if word(0) == 0 { 0 } else { word(8) as u32 as usize };
        self.bytes(arg, word(0), length);
        self.iovec(arg, word(16), word(24) as usize, total);
        let length = if word(32) == 0 { 0 } else { word(40) as usize };
        self.bytes(arg, word(32), length);
    }

    fn copy(&mut self, arg: u8, what: What) {
        let address = self.args[usize::from(arg)];
        if address < 4096 && !matches!(what, What::Bytes(_)) || address == 0 {
            return;
        }
        match what {
            What::Str => {
                let (bytes, truncated, fault) = self.memory.string(address);
                self.blob(arg, BlobKind::Str, &bytes, truncated, fault);
            }
            What::StrVec | What::Count => {
                let mut out = Vec::new();
                let mut count = 0u64;
                let mut fault = false;
                loop {
                    match self.memory.word(address.wrapping_add(count * 8)) {
                        Some(0) => break,
                        None => {
                            fault = true;
                            break;
                        }
                        Some(string) => {
                            let (bytes, truncated, _) = self.memory.string(string);
                            let more = if truncated { MORE } else { 0 };
                            out.extend_from_slice(&(bytes.len() as u32 | more).to_ne_bytes());
                            out.extend_from_slice(&bytes);
                            count += 1;
                        }
                    }
                }
                match what {
                    What::Count => {
                        self.blob(arg, BlobKind::Count, &count.to_ne_bytes(), false, fault);
                    }
                    _ => self.blob(arg, BlobKind::StrVec, &out, false, fault),
                }
            }
            What::Bytes(len) => {
                let len = self.len(len);
                self.bytes(arg, address, len);
            }
            What::Iovec { count_arg, total } => {
                let total = self.len(total);
                self.iovec(arg, address, self.args[usize::from(count_arg)] as usize, total);
            }
            What::Message { total } => {
                let total = self.len(total);
                self.message(arg, address, 56, total);
            }
            What::Messages { count } => {
                for index in 0..self.len(count).min(16) {
                    let at = address.wrapping_add(index as u64 * 64);
                    // The bytes received stand at the end of each element.
                    let total = match self.result {
                        i64::MIN => usize::MAX,
                        _ => self.memory.word(at.wrapping_add(56)).unwrap_or(0) as u32 as usize,
                    };
                    self.message(arg, at, 64, total);
                }
            }
            What::SignalMask => {
                self.bytes(arg, address, 16);
                if let Some(set @ 1..) = self.memory.word(address) {
                    self.bytes(arg, set, 8);
                }
            }
            What::Entries => {
                let bytes = self.memory.read(address, self.result.max(0) as usize);
                let (mut at, mut count) = (0, 0u64);
                while let Some(len) = bytes.get(at + 16..at + 18) {
                    at += usize::from(u16::from_ne_bytes(len.try_into().unwrap())).max(1);
                    count += 1;
                }
                self.blob(arg, BlobKind::Count, &count.to_ne_bytes(), false, false);
            }
        }
    }
}

/// A record of one half of a call; `result` is `i64::MIN` at entry.
fn record(memory: &Memory, nr: u64, args: [u64; 6], result: i64) -> Vec<u8> {
    let mut buffer = vec![0u8; 1 << 20];
    let entry = result == i64::MIN;
    let mut writer = Writer::new(&mut buffer, if entry { Kind::Enter } else { Kind::Exit }, 0);
    if entry {
        writer.word(nr);
        writer.word(0);
        args.into_iter().for_each(|arg| writer.word(arg));
    } else {
        writer.word(result as u64);
    }
    let mut copier = Copier { memory, args, result, writer };
    for capture in plan::capture(nr) {
        let now = match capture.when {
            When::Enter => entry,
            When::Exit => !entry,
            When::ExitIfOk => !entry && !(-4095..0).contains(&result),
        };
        if now {
            copier.copy(capture.arg, capture.what);
        }
    }
    let len = copier.writer.finish();
    buffer.truncate(len);
    buffer
}

fn blobs(record: &[u8]) -> Blobs<'_> {
    match Record::parse(record) {
        Some((Record::Enter { blobs, .. } | Record::Exit { blobs, .. }, _)) => blobs,
        other => panic!("{other:?}"),
    }
}

fn ptrace(request: libc::c_uint, pid: libc::pid_t, data: usize) -> io::Result<()> {
    // SAFETY: the requests used here take a number, or the address of a live struct that the
    // caller owns, as their last argument.
    match unsafe { libc::ptrace(request, pid, ptr::null_mut::<libc::c_void>(), data) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Runs `program` in `directory` without address randomization and gives its lines, as
/// `strace -o` writes them.
pub fn trace(program: &Path, directory: &Path) -> Vec<String> {
    let path = CString::new(program.as_os_str().as_bytes()).unwrap();
    let directory = CString::new(directory.as_os_str().as_bytes()).unwrap();
    let argv = [path.as_ptr(), ptr::null()];
    let environment = [ptr::null()];
    // SAFETY: the child makes only async-signal-safe calls, on memory made before the fork.
    let pid = unsafe {
        let pid = libc::fork();
        if pid == 0 {
            libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0);
            libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong);
            libc::chdir(directory.as_ptr());
            let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
            for fd in 0..3 {
                libc::dup2(null, fd);
            }
            libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0);
            libc::raise(libc::SIGSTOP);
            libc::execve(path.as_ptr(), argv.as_ptr(), environment.as_ptr());
            libc::_exit(127);
        }
        pid
    };
    assert!(pid > 0);
    let memory = Memory(pid);
    let options = Options::default();
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut entry: Option<(u64, [u64; 6], Vec<u8>)> = None;
    let mut started = false;
    let mut deliver = 0;
    loop {
        let mut status = 0;
        // SAFETY: `status` is a live int.
        assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
        if !libc::WIFSTOPPED(status) {
            if let Some((nr, args, record)) = entry.take() {
                let call = Call { nr, args, blobs: blobs(&record) };
                let column = line.chars().count();
                options.no_exit(&mut line, column, &call);
                lines.push(mem::take(&mut line));
            }
            ended(&mut line, status);
            lines.push(line);
            return lines;
        }
        let stop = libc::WSTOPSIG(status);
        if !started {
            started = true;
            ptrace(libc::PTRACE_SETOPTIONS, pid, libc::PTRACE_O_TRACESYSGOOD as usize).unwrap();
        } else if stop == libc::SIGTRAP | 0x80 {
            // SAFETY: all bits zero are a valid `user_regs_struct`.
            let mut regs: libc::user_regs_struct = unsafe { mem::zeroed() };
            ptrace(libc::PTRACE_GETREGS, pid, &raw mut regs as usize).unwrap();
            match entry.take() {
                None => {
                    let nr = regs.orig_rax;
                    let args = [regs.rdi, regs.rsi, regs.rdx, regs.r10, regs.r8, regs.r9];
                    let record = record(&memory, nr, args, i64::MIN);
                    let call = Call { nr, args, blobs: blobs(&record) };
                    options.enter(&mut line, &call);
                    entry = Some((nr, args, record));
                }
                Some((nr, args, before)) => {
                    let result = regs.rax as i64;
                    let after = record(&memory, nr, args, result);
                    let call = Call { nr, args, blobs: blobs(&before) };
                    let exit = Exit { result, blobs: blobs(&after) };
                    let column = line.chars().count();
                    options.exit(&mut line, column, &call, &exit);
                    lines.push(mem::take(&mut line));
                }
            }
        } else if stop != libc::SIGTRAP {
            // SAFETY: all bits zero are a valid `siginfo_t`.
            let mut info: libc::siginfo_t = unsafe { mem::zeroed() };
            ptrace(libc::PTRACE_GETSIGINFO, pid, &raw mut info as usize).unwrap();
            // SAFETY: `siginfo_t` is 128 bytes of plain data, zeroed before the kernel
            // filled a part.
            let bytes = unsafe { &*(&raw const info).cast::<[u8; 128]>() };
            let mut text = String::new();
            signal(&mut text, bytes);
            lines.push(text);
            deliver = stop;
        }
        ptrace(libc::PTRACE_SYSCALL, pid, mem::take(&mut deliver) as usize).unwrap();
    }
}
