//! A file system in memory at a path that need not exist, for unmodified programs: no mount, no root.
//!
//! `crossgate run --hook ./libmemory_files.so:/memory -- sh -c 'echo hello > /memory/a; cat /memory/a'`
//!
//! Names are this hook's, contents the kernel's: what a call names under the path becomes a name in
//! a folder of the kernel's memory file system, so that descriptors, mappings, locks and sizes are
//! the real ones, and several processes share the files. Names that the kernel gives back (the
//! working directory, links in /proc) are translated, too. The folder is /dev/shm/memory_files-UID, or
//! what follows the path after `=`; it stays until it is removed.
//!
//! Not seen: symbolic links from outside to the inside, `..` from the top, and the path itself in a
//! listing of the folder above it.

use std::cell::RefCell;
use std::ffi::{CString, OsStr};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use crossgate_hook::library::{Argument, Call, Calls, Decision, Errno, Library, Task, library};

/// Longest path with its NUL (PATH_MAX, include/uapi/linux/limits.h).
const PATH_MAX: usize = 4096;

/// Calls that take paths, and in which arguments.
const PATHS: &[(i64, &[usize])] = &[
    (libc::SYS_access, &[0]),
    (libc::SYS_chdir, &[0]),
    (libc::SYS_chmod, &[0]),
    (libc::SYS_chown, &[0]),
    (libc::SYS_creat, &[0]),
    (libc::SYS_execve, &[0]),
    (libc::SYS_execveat, &[1]),
    (libc::SYS_faccessat, &[1]),
    (libc::SYS_faccessat2, &[1]),
    (libc::SYS_fchmodat, &[1]),
    (libc::SYS_fchownat, &[1]),
    (libc::SYS_futimesat, &[1]),
    (libc::SYS_getxattr, &[0]),
    (libc::SYS_inotify_add_watch, &[1]),
    (libc::SYS_lchown, &[0]),
    (libc::SYS_lgetxattr, &[0]),
    (libc::SYS_link, &[0, 1]),
    (libc::SYS_linkat, &[1, 3]),
    (libc::SYS_listxattr, &[0]),
    (libc::SYS_llistxattr, &[0]),
    (libc::SYS_lremovexattr, &[0]),
    (libc::SYS_lsetxattr, &[0]),
    (libc::SYS_lstat, &[0]),
    (libc::SYS_mkdir, &[0]),
    (libc::SYS_mkdirat, &[1]),
    (libc::SYS_mknod, &[0]),
    (libc::SYS_mknodat, &[1]),
    (libc::SYS_newfstatat, &[1]),
    (libc::SYS_open, &[0]),
    (libc::SYS_openat, &[1]),
    (libc::SYS_openat2, &[1]),
    (libc::SYS_readlink, &[0]),
    (libc::SYS_readlinkat, &[1]),
    (libc::SYS_removexattr, &[0]),
    (libc::SYS_rename, &[0, 1]),
    (libc::SYS_renameat, &[1, 3]),
    (libc::SYS_renameat2, &[1, 3]),
    (libc::SYS_rmdir, &[0]),
    (libc::SYS_setxattr, &[0]),
    (libc::SYS_stat, &[0]),
    (libc::SYS_statfs, &[0]),
    (libc::SYS_statx, &[1]),
    (libc::SYS_symlink, &[1]),
    (libc::SYS_symlinkat, &[2]),
    (libc::SYS_truncate, &[0]),
    (libc::SYS_unlink, &[0]),
    (libc::SYS_unlinkat, &[1]),
    (libc::SYS_utime, &[0]),
    (libc::SYS_utimensat, &[1]),
    (libc::SYS_utimes, &[0]),
];

struct MemoryFiles {
    /// Where the program believes the files to be.
    shown: PathBuf,
    /// Where they are.
    real: PathBuf,
}

thread_local! {
    /// The paths that the kernel gets in the call under way.
    static GIVEN: RefCell<[CString; 2]> = RefCell::default();
}

impl Library for MemoryFiles {
    fn start(_: &Task, argument: &Argument, calls: &mut Calls) -> Result<Self, Errno> {
        let words: Vec<&[u8]> = argument.to_bytes().splitn(2, |&byte| byte == b'=').collect();
        let shown = PathBuf::from(OsStr::from_bytes(words[0]));
        if shown.parent().is_none() || !shown.is_absolute() {
            return Err(Errno(libc::EINVAL as u16));
        }
        let real = match words.get(1) {
            Some(folder) => PathBuf::from(OsStr::from_bytes(folder)),
            // SAFETY: a query.
            None => format!("/dev/shm/memory_files-{}", unsafe { libc::geteuid() }).into(),
        };
        fs::create_dir_all(&real).map_err(errno)?;
        for (nr, _) in PATHS {
            calls.subscribe(*nr as u64)?;
        }
        calls.subscribe(libc::SYS_getcwd as u64)?;
        Ok(Self { shown, real })
    }

    fn enter(&self, task: &Task, call: &mut Call) -> Decision {
        let nr = call.nr as i64;
        let mut decision = Decision::Continue;
        let arguments = PATHS.iter().find(|(with, _)| *with == nr).map_or(&[][..], |found| found.1);
        for (which, &argument) in arguments.iter().enumerate() {
            let Some(path) = self.real_path(task, call.args[argument]) else { continue };
            call.args[argument] = GIVEN.with_borrow_mut(|given| {
                given[which] = path;
                given[which].as_ptr() as u64
            });
            decision = Decision::Change;
        }
        match nr {
            libc::SYS_getcwd | libc::SYS_readlink | libc::SYS_readlinkat => Decision::Watch,
            _ => decision,
        }
    }

    fn exit(&self, task: &Task, call: &Call, result: i64) -> i64 {
        let is_link = call.nr as i64 != libc::SYS_getcwd;
        let (to, size) = match call.nr as i64 {
            libc::SYS_readlinkat => (call.args[2], call.args[3]),
            libc::SYS_readlink => (call.args[1], call.args[2]),
            _ => (call.args[0], call.args[1]),
        };
        let Ok(len @ 1..=PATH_MAX) = usize::try_from(result) else { return result };
        let mut path = vec![0; len];
        if task.read(to, &mut path) != Ok(len) {
            return result;
        }
        let end = if is_link { len } else { len - 1 };
        let Ok(rest) = Path::new(OsStr::from_bytes(&path[..end])).strip_prefix(&self.real) else {
            return result;
        };
        let shown = if rest.as_os_str().is_empty() { self.shown.clone() } else { self.shown.join(rest) };
        let mut shown = shown.into_os_string().into_encoded_bytes();
        if is_link {
            shown.truncate(size as usize);
        } else {
            shown.push(0);
            if shown.len() > size as usize {
                return Errno(libc::ERANGE as u16).result();
            }
        }
        match task.write(to, &shown) {
            Ok(len) => len as i64,
            Err(errno) => errno.result(),
        }
    }
}

fn errno(error: std::io::Error) -> Errno {
    Errno(error.raw_os_error().unwrap_or(libc::EIO) as u16)
}

impl MemoryFiles {
    /// What the kernel is to get for the path at `address`; `None` for paths that are none of ours.
    fn real_path(&self, task: &Task, address: u64) -> Option<CString> {
        let mut buffer = [0; PATH_MAX];
        let path = task.read_string(address, &mut buffer).ok()?;
        if path.first() != Some(&b'/') {
            return None;
        }
        let named = Path::new(OsStr::from_bytes(path));
        // `..` is the kernel's business: it may follow a link.
        let plain: PathBuf = named.components().filter(|part| *part != Component::CurDir).collect();
        let rest = plain.strip_prefix(&self.shown).ok()?;
        let mut real = self.real.join(rest).into_os_string().into_encoded_bytes();
        // A slash at the end wants a folder.
        if path.ends_with(b"/") && !real.ends_with(b"/") {
            real.push(b'/');
        }
        CString::new(real).ok()
    }
}

library!(MemoryFiles);
