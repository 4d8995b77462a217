//! The faults that a program can meet in ordinary life: what `--rate` injects when nobody
//! says otherwise.

/// Calls, and the errors that each of them may give.
pub const ORDINARY: &[&str] = &[
    "inject=read,readv,pread64,preadv,preadv2,getdents64:error=EIO|EINTR",
    "inject=write,writev,pwrite64,pwritev,pwritev2:error=ENOSPC|EIO|EINTR",
    "inject=fsync,fdatasync,sync_file_range,msync:error=EIO|ENOSPC",
    "inject=ftruncate,truncate,fallocate:error=ENOSPC|EIO",
    "inject=open,openat,openat2,creat:error=EMFILE|ENFILE|EACCES|ENOENT|EINTR",
    "inject=stat,lstat,newfstatat,statx,access,faccessat,faccessat2,readlink,readlinkat:\
     error=EACCES|ENOENT|EIO",
    "inject=mkdir,mkdirat,rename,renameat,renameat2,link,linkat,symlink,symlinkat:\
     error=ENOSPC|EACCES|EROFS",
    "inject=unlink,unlinkat,rmdir:error=EACCES|EBUSY|EROFS",
    // Not brk: its failure is no error number, and C libraries take one for an address.
    "inject=mmap,mremap:error=ENOMEM",
    "inject=socket,socketpair,pipe,pipe2,dup,eventfd2,epoll_create1:error=EMFILE|ENFILE|ENOMEM",
    "inject=connect:error=ECONNREFUSED|ETIMEDOUT|ENETUNREACH|EINTR",
    "inject=accept,accept4:error=ECONNABORTED|EMFILE|EINTR",
    "inject=recvfrom,recvmsg,recvmmsg:error=ECONNRESET|EINTR|ETIMEDOUT",
    "inject=sendto,sendmsg,sendmmsg,sendfile:error=ECONNRESET|EPIPE|EINTR",
    "inject=poll,ppoll,select,pselect6,epoll_wait,epoll_pwait:error=EINTR",
    "inject=fork,vfork,clone,clone3:error=EAGAIN|ENOMEM",
    "inject=wait4,waitid,nanosleep,clock_nanosleep:error=EINTR",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inject::grammar;

    #[test]
    fn every_line_is_a_rule() {
        for line in ORDINARY {
            grammar::rule(line).unwrap();
        }
    }
}
