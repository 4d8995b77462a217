//! The program to run: finding it as execvp(3) does, and refusing early, in words, what
//! could only fail late.

use std::env;
use std::ffi::{CString, OsStr, OsString};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access, geteuid};

use crate::error::{Error, Result};

/// A program that can be started.
#[derive(Debug, Clone)]
pub struct Program {
    /// The file.
    pub path: PathBuf,
    /// Its argument vector, the name it was called by first.
    pub args: Vec<OsString>,
}

const SET_UID: u32 = 0o4000;
const SET_GID: u32 = 0o2000;
/// e_machine of x86-64 (System V ABI, AMD64 supplement).
const EM_X86_64: u16 = 62;

impl Program {
    /// Finds `args[0]` and checks that it can run with the agent inside.
    pub fn find(args: &[OsString]) -> Result<Self> {
        let Some(name) = args.first() else {
            return Err(Error::own("no program given; write it after `--`"));
        };
        let path = locate(name)?;
        check(&path)?;
        Ok(Self { path, args: args.to_vec() })
    }

    /// The path and the arguments as the kernel wants them.
    pub fn c_strings(&self) -> Result<(CString, Vec<CString>)> {
        let convert = |s: &OsStr| {
            CString::new(s.as_bytes()).map_err(|_| {
                Error::cannot_run(format!("{}: contains a NUL byte", s.to_string_lossy()))
            })
        };
        let args = self.args.iter().map(|a| convert(a)).collect::<Result<_>>()?;
        Ok((convert(self.path.as_os_str())?, args))
    }
}

fn locate(name: &OsStr) -> Result<PathBuf> {
    let shown = name.to_string_lossy();
    if name.as_bytes().contains(&b'/') {
        return Ok(PathBuf::from(name));
    }
    let path = env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    let mut forbidden = None;
    for folder in env::split_paths(&path) {
        let candidate = if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder };
        let candidate = candidate.join(name);
        if access(&candidate, AccessFlags::X_OK).is_ok() && !candidate.is_dir() {
            return Ok(candidate);
        }
        if candidate.is_file() {
            forbidden = Some(candidate);
        }
    }
    match forbidden {
        Some(path) => Ok(path),
        None => Err(Error::not_found(format!(
            "{shown}: not found in PATH; give a path with a slash, or check the spelling"
        ))),
    }
}

fn check(path: &Path) -> Result<()> {
    let shown = path.display();
    let meta = fs::metadata(path).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => {
            Error::not_found(format!("{shown}: no such file; check the path"))
        }
        std::io::ErrorKind::PermissionDenied => Error::cannot_run(format!(
            "{shown}: permission denied on the way to it; check the folders' permissions"
        )),
        _ => Error::cannot_run(format!("{shown}: {}", text(&e))),
    })?;
    if meta.is_dir() {
        return Err(Error::cannot_run(format!("{shown}: is a directory; name a program in it")));
    }
    if access(path, AccessFlags::X_OK).is_err() {
        return Err(Error::cannot_run(format!(
            "{shown}: not executable; `chmod +x` it, or name its interpreter"
        )));
    }
    let mode = meta.permissions().mode();
    let changes_user = mode & SET_UID != 0 && meta.uid() != geteuid().as_raw();
    let changes_group = mode & SET_GID != 0 && mode & 0o010 != 0 && !in_group(meta.gid());
    if (changes_user || changes_group) && !geteuid().is_root() {
        return Err(Error::cannot_run(format!(
            "{shown}: runs as another user or group (set-uid or set-gid), which the kernel does \
             not do for a traced program; run crossgate as root, or run a copy without the bit"
        )));
    }
    check_format(path)
}

fn in_group(gid: u32) -> bool {
    nix::unistd::getegid().as_raw() == gid
        || nix::unistd::getgroups().is_ok_and(|all| all.iter().any(|g| g.as_raw() == gid))
}

/// Looks at the first bytes. An unreadable program is the kernel's to judge.
fn check_format(path: &Path) -> Result<()> {
    let shown = path.display();
    let mut head = [0u8; 64];
    let Ok(mut file) = File::open(path) else { return Ok(()) };
    let len = file.read(&mut head).unwrap_or(0);
    match head[..len] {
        [0x7f, b'E', b'L', b'F', class, ..] if len >= 20 => {
            let machine = u16::from_le_bytes([head[18], head[19]]);
            if class != 2 || machine != EM_X86_64 {
                let what = match (class, machine) {
                    (1, 3) => "a 32-bit x86 program".to_owned(),
                    (_, 183) => "an AArch64 program".to_owned(),
                    (_, EM_X86_64) => "an x32 program".to_owned(),
                    (_, machine) => {
                        format!("a program for another machine (ELF machine {machine})")
                    }
                };
                return Err(Error::cannot_run(format!(
                    "{shown}: {what}; crossgate runs 64-bit x86 programs only"
                )));
            }
            Ok(())
        }
        [b'#', b'!', ..] => {
            let line: &[u8] = head[2..len].split(|&b| b == b'\n').next().unwrap_or_default();
            let interpreter = line.trim_ascii().split(|b| b.is_ascii_whitespace()).next();
            let interpreter = Path::new(OsStr::from_bytes(interpreter.unwrap_or_default()));
            if interpreter.as_os_str().is_empty() || !interpreter.exists() {
                return Err(Error::cannot_run(format!(
                    "{shown}: its interpreter {} does not exist; mend the first line, or name an \
                     interpreter before it",
                    interpreter.display()
                )));
            }
            Ok(())
        }
        _ => Err(Error::cannot_run(format!(
            "{shown}: neither an ELF program nor a script with a #! line; name an interpreter \
             before it (`sh {shown}`)"
        ))),
    }
}

fn text(error: &std::io::Error) -> String {
    error
        .raw_os_error()
        .map_or_else(|| error.to_string(), |n| nix::errno::Errno::from_raw(n).desc().to_owned())
}
