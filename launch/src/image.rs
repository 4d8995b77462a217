//! The agent's image, built into this program by `build.rs`: the same bytes wherever it lies,
//! for it relocates itself.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use crossgate_wire::arena::STUBS_SIZE;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::unistd::ftruncate;

include!(concat!(env!("OUT_DIR"), "/agent.rs"));

/// The image.
pub static BYTES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/agent.image"));

/// What is mapped in one piece: stubs and image.
pub const WHOLE: u64 = STUBS_SIZE + SIZE;

/// Stubs and image as a file that nobody can change, for processes to map: they share what
/// they do not write to. `None` where the kernel makes no executable memory of that kind
/// (the sysctl vm.memfd_noexec).
pub fn file() -> Option<OwnedFd> {
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    // MFD_EXEC (include/uapi/linux/memfd.h). Linux before 6.3 does not know it, and needs none.
    let executable = MFdFlags::from_bits_retain(0x10);
    let fd = memfd_create("crossgate-agent", flags | executable)
        .or_else(|_| memfd_create("crossgate-agent", flags))
        .ok()?;
    ftruncate(&fd, WHOLE as i64).ok()?;
    let file = File::from(fd);
    file.write_all_at(BYTES, STUBS_SIZE).ok()?;
    let all = SealFlag::F_SEAL_WRITE
        | SealFlag::F_SEAL_SHRINK
        | SealFlag::F_SEAL_GROW
        | SealFlag::F_SEAL_SEAL;
    fcntl(&file, FcntlArg::F_ADD_SEALS(all)).ok()?;
    Some(file.into())
}
