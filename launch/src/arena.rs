//! Making the arena: the memfd, its first contents, the supervisor's own mapping; and the file
//! of the agent's image beside it.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::process::id;
use std::ptr;
use std::sync::atomic::Ordering;

use crossgate_wire::arena::{CONTROL_SIZE, Geometry, MAGIC, SCRATCH_SIZE};
use crossgate_wire::hooks::HookImage;
use crossgate_wire::host::HostObject;
use crossgate_wire::{Arena, Control, Rules};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::stat::fstat;
use nix::unistd::ftruncate;

use crate::error::{Error, Result, reason};
use crate::image;
use crate::library::Library;
use crate::supervise::Options;

/// The arena of a tree, mapped here, and the descriptor that each new image receives.
pub struct OwnArena {
    arena: Arena,
    fd: OwnedFd,
    image: Option<OwnedFd>,
    geometry: Geometry,
    identity: String,
}

impl OwnArena {
    /// An arena for `options`.
    pub fn new(options: &Options) -> Result<Self> {
        let own = |what: &str, e: nix::errno::Errno| {
            Error::own(format!("cannot {what} the shared memory: {}", reason(e)))
        };
        let geometry = options.geometry;
        let fd = memfd_create("crossgate", MFdFlags::MFD_CLOEXEC).map_err(|e| own("create", e))?;
        ftruncate(&fd, geometry.size() as i64).map_err(|e| own("size", e))?;
        let (images, host) = write_libraries(&fd, geometry.size() as u64, &options.libraries)
            .map_err(|e| Error::own(format!("cannot write the hooks: {e}")))?;
        // SAFETY: a new shared mapping at an address of the kernel's choice.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                geometry.size(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_NORESERVE,
                fd.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(own("map", nix::errno::Errno::last()));
        }
        let image = image::file();
        let reachable = image.is_some()
            && fs::read_link("/proc/self")
                .is_ok_and(|p| p.as_os_str() == id().to_string().as_str());
        let control = base.cast::<Control>();
        // SAFETY: the mapping is new, zero, writable, and nobody else has it; zero is a
        // valid value of every field.
        unsafe {
            (*control).geometry = geometry;
            (*control).mode = options.mode as u32;
            (*control).hook = options.hook as u32;
            (*control).follow = u32::from(options.follow);
            (*control).privileged = u32::from(nix::unistd::geteuid().is_root());
            (*control).string_limit = options.string_limit;
            (*control).patch_after = options.patch_after;
            (*control).report_sites = u32::from(options.report_sites);
            (*control).interest = options.interest.map(u8::from);
            (*control).strict = u32::from(options.strict);
            (*control).hide_vdso = u32::from(options.hide_vdso);
            (*control).reachable = u32::from(reachable);
            (*control).arena_descriptor = fd.as_raw_fd() as u32;
            (*control).image_descriptor = image.as_ref().map_or(0, |i| i.as_raw_fd() as u32);
            (*control).hooks.count = images.len() as u32;
            (*control).hooks.goes_on = u32::from(options.goes_on);
            (*control).hooks.host = host;
            (&mut (*control).hooks.images)[..images.len()].copy_from_slice(&images);
            (*control).magic = MAGIC;
            if let Some(rules) = &options.rules {
                let at = base.cast::<u8>().add(CONTROL_SIZE + SCRATCH_SIZE);
                at.cast::<Rules>().copy_from_nonoverlapping(&raw const **rules, 1);
            }
        }
        // SAFETY: mapped above, and for as long as this value lives (see `Drop`).
        let arena = unsafe { Arena::new(base.cast()) };
        let control = arena.control();
        control.supervisor.store(id() as i32, Ordering::Relaxed);
        let stat = fstat(&fd).map_err(|e| own("look at", e))?;
        let (major, minor) = (libc::major(stat.st_dev), libc::minor(stat.st_dev));
        let identity = format!("{major:02x}:{minor:02x} {}", stat.st_ino);
        Ok(Self { arena, fd, image, geometry, identity })
    }

    /// The mapping.
    pub fn get(&self) -> Arena {
        self.arena
    }

    /// The control page.
    pub fn control(&self) -> &Control {
        self.arena.control()
    }

    /// The descriptor.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// The agent's image as a file, where there can be one.
    pub fn image(&self) -> Option<BorrowedFd<'_>> {
        self.image.as_ref().map(OwnedFd::as_fd)
    }

    /// Device and inode of the memory, as `/proc/PID/maps` shows them.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// The sizes that this side relies on; the copy in the control page is only a promise
    /// to the agents, who can write to it.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }
}

/// Writes libraries into the file behind the arena, from `end` on; no program has that mapped
/// for writing. Gives where they are, and where the object is that opens those with a libc.
fn write_libraries(
    fd: &OwnedFd,
    end: u64,
    libraries: &[Library],
) -> io::Result<(Vec<HookImage>, u64)> {
    const PAGE: u64 = 4096;
    let file = File::from(fd.try_clone()?);
    let mut at = end.next_multiple_of(PAGE);
    let mut images = Vec::new();
    for library in libraries {
        let mut image = library.image;
        image.offset = at;
        file.write_all_at(&library.bytes, at)?;
        image.relocations = at + image.size;
        let words = library.relocations.iter().flat_map(|r| [r.at, r.addend, r.to]);
        let bytes: Vec<u8> = words.flat_map(u64::to_ne_bytes).collect();
        file.write_all_at(&bytes, image.relocations)?;
        at = (image.relocations + bytes.len() as u64).next_multiple_of(PAGE);
        // What is mapped must be there to its last page.
        file.set_len(at)?;
        images.push(image);
    }
    let mut object = HostObject::EMPTY;
    for (library, to) in libraries.iter().zip(&mut object.paths) {
        if let Some(path) = &library.path {
            let path = path.as_os_str().as_bytes();
            to[..path.len()].copy_from_slice(path);
        }
    }
    if libraries.iter().all(|library| library.path.is_none()) {
        return Ok((images, 0));
    }
    file.write_all_at(object.bytes(), at)?;
    file.set_len((at + object.bytes().len() as u64).next_multiple_of(PAGE))?;
    Ok((images, at))
}

impl Drop for OwnArena {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this size; nothing borrowed outlives this value.
        unsafe { libc::munmap(self.arena.base().cast(), self.geometry.size()) };
    }
}
