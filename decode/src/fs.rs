//! Files: modes, device numbers, `stat`, `statx`, `statfs`, locks, `open_how`.
//!
//! Owns: their layouts (`asm/stat.h`, `linux/stat.h`, `asm-generic/statfs.h`, `linux/fs.h`).
//! Never does: look at a file. Where the data goes next: the argument printers.

use crossgate_syscalls::Set;

use crate::bytes::{hex, i32_at, i64_at, octal, u16_at, u32_at, u64_at};
use crate::flags::{self, Names, names};
use crate::put;

/// Type and permissions of a file: `S_IFREG|0644`.
pub fn mode(out: &mut String, value: u32) {
    let kind = match value & libc::S_IFMT {
        libc::S_IFREG => "S_IFREG",
        libc::S_IFDIR => "S_IFDIR",
        libc::S_IFLNK => "S_IFLNK",
        libc::S_IFCHR => "S_IFCHR",
        libc::S_IFBLK => "S_IFBLK",
        libc::S_IFIFO => "S_IFIFO",
        libc::S_IFSOCK => "S_IFSOCK",
        0 => "",
        _ => return octal(out, value),
    };
    out.push_str(kind);
    let bits = [(libc::S_ISUID, "S_ISUID"), (libc::S_ISGID, "S_ISGID"), (libc::S_ISVTX, "S_ISVTX")];
    let mut first = kind.is_empty();
    for (bit, name) in bits {
        if value & bit != 0 {
            put!(out, "{}{name}", if first { "" } else { "|" });
            first = false;
        }
    }
    if !first {
        out.push('|');
    }
    octal(out, value & 0o777);
}

/// A device number, `dev_t` as user space has it: `makedev(0x1, 0x3)`.
pub fn device(out: &mut String, value: u64) {
    out.push_str("makedev(");
    hex(out, libc::major(value).into());
    out.push_str(", ");
    hex(out, libc::minor(value).into());
    out.push(')');
}

/// A `struct stat`, its first fields.
pub fn stat(out: &mut String, bytes: &[u8]) -> Option<()> {
    #[cfg(target_arch = "x86_64")]
    const MODE: usize = 24;
    #[cfg(target_arch = "x86_64")]
    const RDEV: usize = 40;
    #[cfg(not(target_arch = "x86_64"))]
    const MODE: usize = 16;
    #[cfg(not(target_arch = "x86_64"))]
    const RDEV: usize = 32;
    let file_mode = u32_at(bytes, MODE)?;
    out.push_str("{st_mode=");
    mode(out, file_mode);
    match file_mode & libc::S_IFMT {
        libc::S_IFCHR | libc::S_IFBLK => {
            out.push_str(", st_rdev=");
            device(out, u64_at(bytes, RDEV)?);
        }
        _ => put!(out, ", st_size={}", i64_at(bytes, 48)?),
    }
    out.push_str(", ...}");
    Some(())
}

const ATTRIBUTES: Names = names! { "STATX_ATTR_???":
    STATX_ATTR_COMPRESSED, STATX_ATTR_IMMUTABLE, STATX_ATTR_APPEND, STATX_ATTR_NODUMP,
    STATX_ATTR_ENCRYPTED, STATX_ATTR_AUTOMOUNT, STATX_ATTR_MOUNT_ROOT = 0x2000,
    STATX_ATTR_VERITY = 0x10_0000, STATX_ATTR_DAX = 0x20_0000,
};

/// A `struct statx`, its first fields.
pub fn statx(out: &mut String, bytes: &[u8]) -> Option<()> {
    out.push_str("{stx_mask=");
    flags::bits(out, flags::set(Set::Statx), u32_at(bytes, 0)?.into());
    out.push_str(", stx_attributes=");
    flags::bits(out, &ATTRIBUTES, u64_at(bytes, 8)?);
    out.push_str(", stx_mode=");
    mode(out, u16_at(bytes, 28)?.into());
    put!(out, ", stx_size={}, ...}}", u64_at(bytes, 40)?);
    Some(())
}

const MAGIC: Names = names! { "???_MAGIC":
    ADFS_SUPER_MAGIC, AFFS_SUPER_MAGIC, ANON_INODE_FS_MAGIC = 0x0904_1934, AUTOFS_SUPER_MAGIC,
    BPF_FS_MAGIC, BTRFS_SUPER_MAGIC, CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC,
    CRAMFS_MAGIC, DEBUGFS_MAGIC, DEVPTS_SUPER_MAGIC, EFIVARFS_MAGIC = 0xde5e_81e4,
    EXT2_SUPER_MAGIC, F2FS_SUPER_MAGIC, FUSE_SUPER_MAGIC, HOSTFS_SUPER_MAGIC, HUGETLBFS_MAGIC,
    ISOFS_SUPER_MAGIC, MSDOS_SUPER_MAGIC, NFS_SUPER_MAGIC, NSFS_MAGIC, OVERLAYFS_SUPER_MAGIC,
    PIPEFS_MAGIC = 0x5049_5045, PROC_SUPER_MAGIC, PSTOREFS_MAGIC = 0x6165_676c,
    RAMFS_MAGIC = 0x8584_58f6, SECURITYFS_MAGIC, SELINUX_MAGIC, SMB_SUPER_MAGIC,
    SOCKFS_MAGIC = 0x534f_434b, SQUASHFS_MAGIC = 0x7371_7368, SYSFS_MAGIC, TMPFS_MAGIC,
    TRACEFS_MAGIC, V9FS_MAGIC = 0x0102_1997, XFS_SUPER_MAGIC,
};

const MOUNTED: Names = names! { "ST_???":
    ST_VALID = 0x20, ST_RDONLY = 1, ST_NOSUID = 2, ST_NODEV = 4, ST_NOEXEC = 8,
    ST_SYNCHRONOUS = 16, ST_MANDLOCK = 64, ST_NOATIME = 1024, ST_NODIRATIME = 2048,
    ST_RELATIME = 4096, ST_NOSYMFOLLOW = 8192,
};

/// A `struct statfs`.
pub fn statfs(out: &mut String, bytes: &[u8]) -> Option<()> {
    let word = |index: usize| u64_at(bytes, index * 8);
    out.push_str("{f_type=");
    flags::one(out, &MAGIC, word(0)?);
    put!(out, ", f_bsize={}, f_blocks={}, f_bfree={}", word(1)?, word(2)?, word(3)?);
    put!(out, ", f_bavail={}, f_files={}, f_ffree={}", word(4)?, word(5)?, word(6)?);
    out.push_str(", f_fsid={val=[");
    hex(out, u32_at(bytes, 56)?.into());
    out.push_str(", ");
    hex(out, u32_at(bytes, 60)?.into());
    put!(out, "]}}, f_namelen={}, f_frsize={}, f_flags=", word(8)?, word(9)?);
    flags::bits(out, &MOUNTED, word(10)?);
    out.push('}');
    Some(())
}

/// Kinds of locks and leases.
pub const LOCKS: Names = names! { "F_???": F_RDLCK, F_WRLCK, F_UNLCK };

/// A `struct flock`; the owner is set by F_GETLK only.
pub fn lock(out: &mut String, bytes: &[u8], owner: bool) -> Option<()> {
    out.push_str("{l_type=");
    flags::one(out, &LOCKS, u16_at(bytes, 0)?.into());
    out.push_str(", l_whence=");
    flags::one(out, flags::set(Set::Whence), u16_at(bytes, 2)?.into());
    put!(out, ", l_start={}, l_len={}", i64_at(bytes, 8)?, i64_at(bytes, 16)?);
    if owner {
        put!(out, ", l_pid={}", i32_at(bytes, 24)?);
    }
    out.push('}');
    Some(())
}

const RESOLVE: Names = names! { "RESOLVE_???":
    RESOLVE_NO_XDEV, RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS, RESOLVE_BENEATH,
    RESOLVE_IN_ROOT, RESOLVE_CACHED = 0x20,
};

/// A `struct open_how`.
pub fn open_how(out: &mut String, bytes: &[u8]) -> Option<()> {
    let how = u64_at(bytes, 0)?;
    out.push_str("{flags=");
    flags::open(out, how);
    if flags::creates(how) || u64_at(bytes, 8)? != 0 {
        out.push_str(", mode=");
        octal(out, u64_at(bytes, 8)? as u32);
    }
    out.push_str(", resolve=");
    flags::bits(out, &RESOLVE, u64_at(bytes, 16)?);
    out.push('}');
    Some(())
}
