// Makes one call after another with arguments worth printing. `real.rs` runs it under strace
// and under its own tracer and compares the lines. Errors are part of the show: nothing is
// checked. Everything happens in a directory that the test made.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/futex.h>
#include <linux/netlink.h>
#include <linux/openat2.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/times.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#define S(name, ...) syscall(SYS_##name, ##__VA_ARGS__)

static void handler(int sig, siginfo_t *info, void *context) {
    (void)sig, (void)info, (void)context;
}

static void files(void) {
    int fd = S(openat, AT_FDCWD, "file", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);
    S(open, "file", O_WRONLY | O_APPEND | O_NONBLOCK, 0);
    S(open, "missing", O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    S(open, (char *)1, O_RDONLY | O_SYNC);
    S(open, ".", O_TMPFILE | O_RDWR, 0600);
    S(creat, "other", 0755);
    S(write, fd, "a \"quoted\"\n\t\\ \x01\x80\xff line\0with\0001 all\r", 39);
    S(write, fd, "0123456789012345678901234567890123456789", 40);
    S(write, fd, "exactly thirty-two characters...", 32);
    S(write, 99, "bad", 3);
    S(write, fd, NULL, 0);
    S(write, fd, (void *)1, 5);
    char buf[256];
    S(pread64, fd, buf, 20, 0L);
    S(pread64, fd, buf, 0, 0L);
    S(pwrite64, fd, "abc", 3, 1L << 33);
    S(lseek, fd, -10L, SEEK_END);
    S(lseek, fd, 0L, SEEK_SET);
    S(lseek, fd, 0L, 42);
    S(read, fd, buf, 256);
    S(read, 99, buf, 256);
    struct iovec iov[3] = {{"hello ", 6}, {"world", 5}, {NULL, 0}};
    S(writev, fd, iov, 3);
    S(pwritev, fd, iov, 2, 100L, 0L);
    S(pwritev2, fd, iov, 2, 100L, 0L, 2);
    char a[4], b[100];
    struct iovec in[2] = {{a, 4}, {b, 100}};
    S(preadv, fd, in, 2, 0L, 0L);
    S(preadv2, fd, in, 2, 3L, 0L, 0);
    S(lseek, fd, 0L, SEEK_SET);
    S(readv, fd, in, 2);
    S(readv, 99, in, 2);
    S(writev, 99, in, -1L);
    struct stat st;
    S(stat, "missing", &st);
    S(stat, "/dev/null", &st);
    S(lstat, "/proc/self", &st);
    S(fstat, 0, &st);
    S(newfstatat, AT_FDCWD, "/", &st, AT_SYMLINK_NOFOLLOW);
    struct statx stx;
    S(statx, AT_FDCWD, "/dev/null", AT_STATX_DONT_SYNC, STATX_BASIC_STATS | STATX_BTIME, &stx);
    S(statx, AT_FDCWD, "missing", 0, STATX_ALL, &stx);
    S(access, "/", R_OK | W_OK | X_OK);
    S(access, "/", F_OK);
    S(faccessat, AT_FDCWD, "/", R_OK);
    S(faccessat2, AT_FDCWD, "/", X_OK, AT_EACCESS);
    S(symlink, "target", "link");
    S(symlinkat, "target", AT_FDCWD, "link2");
    S(readlink, "link", buf, 256);
    S(readlinkat, AT_FDCWD, "link2", buf, 3);
    S(readlink, "missing", buf, 256);
    S(link, "file", "hard");
    S(linkat, AT_FDCWD, "link", AT_FDCWD, "hard2", AT_SYMLINK_FOLLOW);
    S(rename, "hard", "hard3");
    S(renameat, AT_FDCWD, "hard3", AT_FDCWD, "hard4");
    S(renameat2, AT_FDCWD, "hard4", AT_FDCWD, "file", RENAME_NOREPLACE);
    S(mkdir, "dir", 0700);
    S(mkdirat, AT_FDCWD, "dir2", 01777);
    S(rmdir, "dir2");
    S(unlink, "hard4");
    S(unlinkat, AT_FDCWD, "dir", AT_REMOVEDIR);
    S(chmod, "file", 04755);
    S(fchmod, fd, 0);
    S(fchmodat, AT_FDCWD, "file", 0644);
    S(chown, "missing", 1, -1);
    S(fchown, fd, -1, -1);
    S(lchown, "missing", 0, 0);
    S(fchownat, AT_FDCWD, "", 1, 2, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW);
    S(umask, 022);
    S(umask, 0);
    struct timespec times[2] = {{1, 2}, {0, UTIME_OMIT}};
    S(utimensat, AT_FDCWD, "file", times, 0);
    times[0].tv_nsec = UTIME_NOW;
    S(utimensat, AT_FDCWD, "file", times, AT_SYMLINK_NOFOLLOW);
    S(utimensat, fd, NULL, NULL, 0);
    S(getcwd, buf, 256);
    S(getcwd, buf, 1);
    S(chdir, "missing");
    S(fchdir, 99);
    S(chroot, "missing");
    S(mount, "none", "missing", "tmpfs", MS_NOSUID | MS_NODEV, "size=1m");
    S(mount, NULL, "missing", NULL, MS_REC | MS_PRIVATE, NULL);
    S(umount2, "missing", MNT_DETACH);
    struct statfs fs;
    S(statfs, "/proc", &fs);
    S(fstatfs, 99, &fs);
    S(getxattr, "file", "user.none", buf, 10);
    S(lgetxattr, "file", "user.none", buf, 10);
    S(fgetxattr, fd, "user.none", buf, 10);
    S(setxattr, "missing", "user.name", "value", 5, XATTR_CREATE);
    S(setxattr, "file", "user.name", "value", 5, 0);
    S(getxattr, "file", "user.name", buf, 10);
    S(listxattr, "file", buf, 100);
    S(fallocate, fd, FALLOC_FL_KEEP_SIZE, 0L, 100L);
    S(ftruncate, fd, 50L);
    S(truncate, "missing", -1L);
    S(fsync, fd);
    S(fdatasync, fd);
    S(sync_file_range, fd, 0L, 10L, 7);
    S(flock, fd, LOCK_EX | LOCK_NB);
    S(dup, fd);
    S(dup2, fd, 50);
    S(dup3, fd, 51, O_CLOEXEC);
    S(close_range, 50, 51, 0);
    S(close_range, 60, -1, 4);
    S(fcntl, fd, F_GETFD);
    S(fcntl, fd, F_SETFD, FD_CLOEXEC);
    S(fcntl, fd, F_GETFL);
    S(fcntl, fd, F_SETFL, O_RDWR | O_NONBLOCK);
    S(fcntl, fd, F_DUPFD, 70);
    S(fcntl, fd, F_DUPFD_CLOEXEC, 71);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 1, .l_len = 2};
    S(fcntl, fd, F_SETLK, &lock);
    S(fcntl, fd, F_GETLK, &lock);
    S(fcntl, fd, F_SETOWN, 1);
    S(fcntl, fd, F_GETOWN);
    S(fcntl, fd, F_SETPIPE_SZ, 4096);
    S(fcntl, fd, 9999, 5);
    int dir = S(open, ".", O_RDONLY | O_DIRECTORY);
    char entries[4096];
    S(getdents64, dir, entries, 4096);
    S(getdents64, 99, entries, 4096);
    struct open_how how = {.flags = O_RDONLY | O_CLOEXEC, .resolve = RESOLVE_BENEATH};
    S(openat2, dir, "file", &how, sizeof how);
    int pair[2];
    S(pipe, pair);
    S(pipe2, pair, O_CLOEXEC | O_NONBLOCK);
    S(sendfile, pair[1], fd, NULL, 10);
    off_t offset = 5;
    S(sendfile, pair[1], fd, &offset, 10);
    S(splice, pair[0], NULL, 99, NULL, 10, SPLICE_F_MOVE);
    S(tee, pair[0], 99, 10, SPLICE_F_NONBLOCK);
    S(vmsplice, pair[1], iov, 2, 0);
    S(copy_file_range, fd, &offset, fd, NULL, 1, 0);
    S(memfd_create, "name", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    S(inotify_init1, IN_CLOEXEC);
    S(inotify_add_watch, 99, "file", IN_MODIFY | IN_CREATE);
    S(inotify_rm_watch, 99, 1);
    S(fanotify_init, 0, O_RDONLY);
    S(close, fd);
    S(close, -1);
    S(mknodat, AT_FDCWD, "fifo", S_IFIFO | 0600, 0);
}

static void memory(void) {
    void *p = (void *)S(mmap, NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0L);
    S(mmap, NULL, 0, PROT_NONE, MAP_SHARED | MAP_FIXED, 99, 0x1000L);
    S(mmap, p, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED_NOREPLACE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_POPULATE, -1, 0L);
    S(mmap, NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_GROWSDOWN, -1, 0L);
    S(mprotect, p, 4096, PROT_NONE);
    S(mprotect, p, 4096, PROT_READ | PROT_WRITE | PROT_GROWSDOWN);
    p = (void *)S(mremap, p, 8192, 16384, MREMAP_MAYMOVE);
    S(mremap, p, 16384, 4096, 0);
    S(mremap, p, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, p);
    S(madvise, p, 4096, MADV_DONTNEED);
    S(madvise, p, 4096, MADV_HUGEPAGE);
    S(madvise, p, 4096, 999);
    S(msync, p, 4096, MS_SYNC | MS_INVALIDATE);
    S(mlock, p, 4096);
    S(mlock2, p, 4096, 1);
    unsigned char vec[4];
    S(mincore, p, 4096, vec);
    S(munmap, p, 4096);
    S(brk, NULL);
    S(membarrier, 0, 0, 0);
}

static void waiting(void) {
    int pair[2];
    if (pipe2(pair, 0)) return;
    struct pollfd fds[3] = {{pair[0], POLLIN | POLLPRI, 0}, {pair[1], POLLOUT, 0}, {-1, POLLIN, 0}};
    S(poll, fds, 1, 1);
    S(poll, fds, 3, -1);
    S(poll, NULL, 0, 1);
    struct timespec ts = {0, 1000};
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGRTMIN);
    S(ppoll, fds, 1, &ts, &set, 8);
    S(ppoll, fds, 2, &ts, NULL, 8);
    fd_set r, w;
    FD_ZERO(&r);
    FD_ZERO(&w);
    FD_SET(pair[0], &r);
    FD_SET(pair[1], &w);
    struct timeval tv = {1, 500};
    S(select, pair[1] + 1, &r, &w, NULL, &tv);
    FD_SET(pair[0], &r);
    tv.tv_sec = 0;
    S(select, pair[0] + 1, &r, NULL, NULL, &tv);
    S(select, 0, NULL, NULL, NULL, &tv);
    struct { sigset_t *p; size_t n; } arg = {&set, 8};
    FD_SET(pair[1], &w);
    S(pselect6, pair[1] + 1, NULL, &w, NULL, &ts, &arg);
    S(pselect6, 0, NULL, NULL, NULL, &ts, NULL);
    int ep = S(epoll_create1, EPOLL_CLOEXEC);
    struct epoll_event ev = {EPOLLIN | EPOLLET, {.u64 = 0x123456789aULL}};
    S(epoll_ctl, ep, EPOLL_CTL_ADD, pair[0], &ev);
    ev.events = EPOLLOUT | EPOLLRDHUP;
    ev.data.u64 = 7;
    S(epoll_ctl, ep, EPOLL_CTL_ADD, pair[1], &ev);
    S(epoll_ctl, ep, EPOLL_CTL_DEL, pair[0], NULL);
    S(epoll_ctl, ep, EPOLL_CTL_DEL, pair[0], &ev);
    struct epoll_event evs[4];
    S(epoll_wait, ep, evs, 4, 1);
    S(epoll_pwait, ep, evs, 4, 1, &set, 8);
    S(epoll_pwait2, ep, evs, 4, &ts, NULL, 0);
    S(epoll_ctl, ep, EPOLL_CTL_DEL, pair[1], NULL);
    S(epoll_wait, ep, evs, 4, 0);
    S(eventfd2, 5, EFD_NONBLOCK | EFD_SEMAPHORE);
    S(signalfd4, -1, &set, 8, SFD_CLOEXEC);
    int tfd = S(timerfd_create, CLOCK_MONOTONIC, TFD_NONBLOCK);
    struct itimerspec its = {{0, 0}, {100, 500}}, old;
    S(timerfd_settime, tfd, TFD_TIMER_ABSTIME, &its, NULL);
    its.it_value.tv_sec = 0;
    its.it_value.tv_nsec = 0;
    S(timerfd_settime, tfd, 0, &its, NULL);
    S(timerfd_gettime, tfd, &old);
    S(nanosleep, &ts, NULL);
    ts.tv_nsec = 1000000000;
    S(nanosleep, &ts, NULL);
    ts.tv_nsec = 1000;
    S(clock_nanosleep, CLOCK_REALTIME, 0, &ts, NULL);
    S(clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
    S(clock_getres, CLOCK_MONOTONIC, &ts);
    S(clock_gettime, 77, &ts);
    S(gettimeofday, NULL, NULL);
    S(time, NULL);
    struct itimerval itv = {{0, 0}, {50, 0}}, oldv;
    S(setitimer, ITIMER_REAL, &itv, NULL);
    S(alarm, 0);
    S(getitimer, ITIMER_VIRTUAL, &oldv);
    timer_t timer;
    struct sigevent sev = {.sigev_notify = SIGEV_NONE};
    int id;
    S(timer_create, CLOCK_MONOTONIC, &sev, &id);
    S(timer_settime, id, 0, &its, &old);
    S(timer_delete, id);
    (void)timer;
    uint32_t word = 1;
    S(futex, &word, FUTEX_WAIT, 2, NULL);
    S(futex, &word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 1, &ts);
    S(futex, &word, FUTEX_WAKE, 1);
    S(futex, &word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, INT32_MAX);
    S(futex, &word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME, 1, &ts, NULL, FUTEX_BITSET_MATCH_ANY);
    S(futex, &word, FUTEX_REQUEUE, 1, 2L, &word);
    S(futex, &word, FUTEX_CMP_REQUEUE_PRIVATE, 1, 2L, &word, 7);
    S(futex, &word, FUTEX_UNLOCK_PI_PRIVATE);
    S(futex, &word, FUTEX_WAKE_OP, 1, 1L, &word, 0x4000001);
}

static void network(void) {
    int pair[2];
    S(socketpair, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair);
    int udp = S(socket, AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, IPPROTO_IP);
    int tcp = S(socket, AF_INET, SOCK_STREAM, IPPROTO_TCP);
    S(socket, AF_INET6, SOCK_STREAM, IPPROTO_IP);
    S(socket, AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    S(socket, 99, 3, 7);
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    S(bind, tcp, &in, sizeof in);
    S(listen, tcp, 128);
    socklen_t len = 0;
    S(getsockname, tcp, NULL, NULL);
    len = sizeof in;
    in.sin_port = htons(9);
    S(connect, udp, &in, sizeof in);
    S(getpeername, udp, &in, &len);
    len = 4;
    S(getpeername, udp, &in, &len);
    len = sizeof in;
    S(getpeername, 99, &in, &len);
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(80), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    S(bind, 99, &in6, sizeof in6);
    struct sockaddr_un un = {.sun_family = AF_UNIX, .sun_path = "sock"};
    int us = S(socket, AF_UNIX, SOCK_STREAM, 0);
    S(bind, us, &un, sizeof un);
    S(bind, us, &un, 2 + 4);
    memcpy(un.sun_path, "\0abstract", 9);
    S(connect, us, &un, 2 + 9);
    S(connect, us, &un, 2);
    S(connect, us, NULL, 0);
    struct sockaddr_nl nl = {.nl_family = AF_NETLINK};
    S(bind, 99, &nl, sizeof nl);
    struct sockaddr_storage any;
    len = sizeof any;
    S(accept, 99, &any, &len);
    S(accept4, us, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    S(sendto, pair[0], "hello", 5, MSG_NOSIGNAL | MSG_DONTWAIT, NULL, 0);
    S(sendto, udp, "hello", 5, 0, &in, sizeof in);
    char buf[64];
    S(recvfrom, pair[1], buf, 64, 0, NULL, NULL);
    len = sizeof any;
    S(recvfrom, pair[1], buf, 64, MSG_DONTWAIT, &any, &len);
    struct iovec iov[2] = {{"one", 3}, {"two", 3}};
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};
    S(sendmsg, pair[0], &msg, MSG_NOSIGNAL);
    union {
        char bytes[CMSG_SPACE(sizeof(int) * 2)];
        struct cmsghdr align;
    } control = {0};
    msg.msg_control = control.bytes;
    msg.msg_controllen = CMSG_SPACE(sizeof(int));
    struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &udp, sizeof(int));
    S(sendmsg, pair[0], &msg, 0);
    msg.msg_control = NULL;
    msg.msg_controllen = 0;
    struct iovec riov[1] = {{buf, 6}};
    struct msghdr rmsg = {.msg_iov = riov, .msg_iovlen = 1};
    S(recvmsg, pair[1], &rmsg, 0);
    rmsg.msg_control = control.bytes;
    rmsg.msg_controllen = sizeof control.bytes;
    S(recvmsg, pair[1], &rmsg, MSG_CMSG_CLOEXEC);
    S(recvmsg, pair[1], &rmsg, MSG_DONTWAIT);
    struct mmsghdr mm[2] = {{.msg_hdr = {.msg_iov = iov, .msg_iovlen = 1}}, {.msg_hdr = {.msg_iov = iov, .msg_iovlen = 2}}};
    S(sendmmsg, pair[0], mm, 2, MSG_NOSIGNAL);
    struct mmsghdr rm[2] = {{.msg_hdr = {.msg_iov = riov, .msg_iovlen = 1}}, {.msg_hdr = {.msg_iov = riov, .msg_iovlen = 1}}};
    S(recvmmsg, pair[1], rm, 2, MSG_DONTWAIT, NULL);
    int one = 1;
    S(setsockopt, tcp, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    S(setsockopt, tcp, SOL_TCP, TCP_NODELAY, &one, sizeof one);
    S(setsockopt, tcp, SOL_IP, IP_TOS, &one, sizeof one);
    S(setsockopt, 99, SOL_IPV6, IPV6_V6ONLY, &one, sizeof one);
    struct linger lin = {1, 5};
    S(setsockopt, tcp, SOL_SOCKET, SO_LINGER, &lin, sizeof lin);
    struct timeval tv = {1, 0};
    S(setsockopt, tcp, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv);
    len = sizeof one;
    S(getsockopt, tcp, SOL_SOCKET, SO_ERROR, &one, &len);
    S(getsockopt, tcp, SOL_SOCKET, SO_TYPE, &one, &len);
    S(getsockopt, 99, SOL_TCP, TCP_INFO, &one, &len);
    S(shutdown, pair[0], SHUT_WR);
    S(shutdown, 99, SHUT_RDWR);
    S(ioctl, pair[0], FIONREAD, &one);
    S(ioctl, pair[0], FIONBIO, &one);
    struct winsize ws;
    S(ioctl, 99, TIOCGWINSZ, &ws);
    struct termios tio;
    S(ioctl, 99, TCGETS, &tio);
}

static void processes(void) {
    struct rlimit lim;
    S(getrlimit, RLIMIT_NOFILE, &lim);
    lim = (struct rlimit){0, RLIM_INFINITY};
    S(setrlimit, RLIMIT_CORE, &lim);
    S(prlimit64, 0, RLIMIT_CORE, &lim, NULL);
    S(prlimit64, 0, RLIMIT_STACK, NULL, &lim);
    S(getpriority, PRIO_PROCESS, 0);
    S(setpriority, PRIO_PROCESS, 0, 1);
    S(sched_yield);
    unsigned long mask[16] = {1};
    S(sched_getaffinity, 0, sizeof mask, mask);
    S(sched_setaffinity, 0, sizeof mask, mask);
    struct sched_param sp = {1};
    S(sched_setscheduler, 0, SCHED_RR, &sp);
    S(getcpu, NULL, NULL, NULL);
    struct utsname uts;
    S(uname, &uts);
    S(getuid);
    S(setuid, 0);
    S(setgid, 0);
    S(setreuid, -1, 0);
    S(setresuid, -1, -1, -1);
    uid_t u[3];
    S(getresuid, &u[0], &u[1], &u[2]);
    gid_t groups[64];
    S(getgroups, 0, NULL);
    S(getgroups, 64, groups);
    groups[0] = 0;
    S(setgroups, 1, groups);
    struct __user_cap_header_struct hdr = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2];
    S(capget, &hdr, data);
    hdr.pid = 99999999;
    S(capget, &hdr, NULL);
    S(prctl, PR_SET_NAME, "calls");
    char name[16];
    S(prctl, PR_GET_NAME, name);
    S(prctl, PR_SET_DUMPABLE, 1);
    S(prctl, PR_GET_DUMPABLE);
    S(prctl, PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0);
    S(prctl, PR_GET_PDEATHSIG, u);
    S(prctl, PR_SET_PDEATHSIG, SIGTERM);
    S(prctl, PR_CAPBSET_READ, CAP_SYS_ADMIN);
    S(arch_prctl, 0x1003, u);
    S(personality, 0xffffffff);
    S(getpgid, 0);
    S(setpgid, 0, 0);
    S(getsid, 0);
    S(set_tid_address, NULL);
    struct sigaction sa = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaddset(&sa.sa_mask, SIGTERM);
    sigaction(SIGUSR1, &sa, NULL);
    sigaction(SIGUSR1, NULL, &sa);
    sa.sa_handler = SIG_IGN;
    sa.sa_flags = SA_NODEFER | SA_NOCLDSTOP;
    sigaction(SIGRTMIN, &sa, NULL);
    S(rt_sigaction, 77, NULL, NULL, 8);
    sigset_t set, old;
    sigfillset(&set);
    S(rt_sigprocmask, SIG_BLOCK, NULL, &old, 8);
    S(rt_sigprocmask, SIG_SETMASK, &set, &old, 8);
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    S(rt_sigprocmask, SIG_SETMASK, &set, NULL, 8);
    S(rt_sigprocmask, SIG_UNBLOCK, &set, &old, 8);
    S(rt_sigpending, &set, 8);
    struct timespec ts = {0, 1};
    siginfo_t info;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    S(rt_sigtimedwait, &set, &info, &ts, 8);
    S(kill, 0, 0);
    S(kill, 99999999, SIGTERM);
    S(tgkill, 99999999, 99999999, SIGUSR1);
    S(tkill, 99999999, SIGRTMIN + 2);
    stack_t ss = {.ss_sp = malloc(8192), .ss_size = 8192}, oss;
    S(sigaltstack, &ss, &oss);
    ss.ss_flags = SS_DISABLE;
    S(sigaltstack, &ss, NULL);
    int status;
    struct rusage ru;
    S(wait4, -1, &status, WNOHANG, NULL);
    pid_t child = fork();
    if (!child) S(exit_group, 3);
    S(wait4, child, &status, 0, &ru);
    child = fork();
    if (!child) { signal(SIGTERM, SIG_DFL); S(kill, getpid(), SIGTERM); for (;;) pause(); }
    S(wait4, child, &status, WUNTRACED, NULL);
    S(waitid, P_ALL, 0, &info, WEXITED | WNOHANG, NULL);
    child = fork();
    if (!child) { char *argv[] = {"sh", "-c", "exit 0", NULL}; char *env[] = {"A=1", "B=2", NULL}; S(execve, "/bin/sh", argv, env); }
    S(waitid, P_PID, child, &info, WEXITED, NULL);
    char *none[] = {NULL};
    S(execve, "missing", none, NULL);
    char *many[40];
    for (int i = 0; i < 39; i++) many[i] = "x";
    many[39] = NULL;
    S(execve, "missing", many, many);
    S(execveat, AT_FDCWD, "missing", many + 37, none, AT_SYMLINK_NOFOLLOW);
    S(getrandom, name, 16, GRND_NONBLOCK);
    S(pidfd_open, 99999999, 0);
    S(pidfd_send_signal, 99, SIGINT, NULL, 0);
    struct tms tms;
    S(times, NULL);
    (void)tms;
    S(seccomp, 2, 0, u);
    syscall(9999, 1, 2, 3, 4, 5, 6);
}

static void others(void) {
    struct rusage ru;
    S(getrusage, RUSAGE_CHILDREN, NULL);
    S(getrusage, RUSAGE_SELF, &ru);
    struct { uint64_t w[15]; } params = {0};
    S(io_uring_setup, 0, &params);
    S(io_uring_enter, 99, 1, 2, 1, NULL, 8);
    S(io_uring_register, 99, 2, NULL, 3);
    uint64_t attr[16] = {0};
    S(bpf, 0, attr, 0);
    S(perf_event_open, NULL, 0, -1, -1, 8);
    S(ptrace, 0x7777, 0, 0, 0);
    char a[8] = "abcdefg", b[8];
    struct iovec local = {b, 8}, remote = {a, 8};
    S(process_vm_readv, getpid(), &local, 1, &remote, 1, 0);
    S(process_vm_writev, 99999999, &local, 1, &remote, 1, 0);
    S(landlock_create_ruleset, NULL, 0, 1);
    uint64_t access[1] = {3};
    S(landlock_create_ruleset, access, 8L, 0);
    struct { uint64_t value, address; uint32_t flags, reserved; } wait = {1, 0x1000, 2, 0};
    struct timespec ts = {1, 0};
    S(futex_waitv, &wait, 1, 0, &ts, CLOCK_MONOTONIC);
    S(io_uring_setup, 4, &params);
    siginfo_t info = {.si_signo = SIGUSR1, .si_code = SI_QUEUE};
    S(rt_sigqueueinfo, 99999999, SIGUSR1, &info);
    S(futex_waitv, NULL, 0, 0, NULL, 0);
    S(rt_sigqueueinfo, 99999999, SIGUSR1, NULL);
    S(rt_sigsuspend, NULL, 8);
    S(sched_getparam, 0, b);
    S(sched_get_priority_max, SCHED_FIFO);
    S(sched_getscheduler, 0);
    S(settimeofday, NULL, NULL);
    S(utimes, "missing", NULL);
    S(mlockall, 8);
    S(munlockall);
    S(fadvise64, 99, 0L, 0L, 3);
    S(readahead, 99, 0L, 10L);
    S(shmget, 0x1234, 4096L, 0600);
    S(shmat, 99, NULL, 0);
    S(semget, 0, 99999999, 0);
    S(msgget, 5, 0);
    S(getxattr, "/missing", "user.a", NULL, 0L);
    S(setsockopt, 99, 999, 3, a, 4);
    S(setsockopt, 99, SOL_SOCKET, SO_KEEPALIVE, NULL, 4);
    S(setsockopt, 99, SOL_SOCKET, SO_RCVBUF, a, 2);
    S(sendto, 99, "x", 1L, MSG_MORE, NULL, 0);
    S(ioctl, 99, 0xc0047a01, 5);
    S(ioctl, 99, FIOCLEX);
    S(ioctl, 99, TIOCGPGRP, &ru);
    S(unshare, CLONE_NEWUSER | CLONE_THREAD);
    S(setns, 99, CLONE_NEWNET);
    S(pidfd_getfd, 99, 1, 0);
    S(kcmp, 99999999, 1, 0, 0L, 0L);
    S(get_robust_list, 99999999, NULL, NULL);
    S(statx, AT_FDCWD, "missing", AT_SYMLINK_NOFOLLOW | AT_STATX_FORCE_SYNC, 0x7ff, NULL);
    S(mq_open, "missing", O_RDONLY);
    S(mq_unlink, "missing");
    S(name_to_handle_at, AT_FDCWD, "missing", NULL, NULL, 0);
    S(swapon, "missing", 0);
    S(pivot_root, "missing", "missing");
    S(umount2, "missing", MNT_FORCE | UMOUNT_NOFOLLOW);
    S(inotify_add_watch, 99, "x", IN_ALL_EVENTS | IN_ONESHOT);
    S(timerfd_create, CLOCK_BOOTTIME, TFD_CLOEXEC);
    S(timer_create, CLOCK_MONOTONIC, NULL, NULL);
    S(select, 0, NULL, NULL, NULL, (void *)1);
    S(epoll_create, 0);
    S(inotify_init1, 1);
    S(eventfd2, 0, 1);
    S(setpriority, PRIO_USER, 99999999, 5);
    S(setfsuid, -1);
    S(getcpu, NULL, NULL, NULL);
    S(acct, "missing");
    S(mknod, "missing/x", S_IFCHR | 0600, 0x103);
    S(socket, AF_INET, SOCK_RAW, 255);
    S(socketpair, AF_INET, SOCK_STREAM, 0, b);
    S(fallocate, 99, 3, 0L, 1L);
    S(memfd_create, NULL, 0);
    S(renameat2, AT_FDCWD, "a", 99, "b", 3);
    S(madvise, NULL, 0L, MADV_FREE);
    S(prctl, PR_GET_KEEPCAPS);
    S(prctl, PR_SET_KEEPCAPS, 1L);
    S(prctl, PR_GET_SECUREBITS);
    S(prctl, PR_SET_VMA, 0L, 0L, 0L, 0L);
    S(prctl, 9999, 1L, 2L, 3L, 4L);
    S(fcntl, 99, F_SETLEASE, F_RDLCK);
    S(fcntl, 99, F_ADD_SEALS, 1);
    S(fcntl, 99, F_GET_SEALS);
    S(fcntl, 99, F_SETSIG, SIGIO);
    S(fcntl, 99, F_OFD_SETLK, NULL);
    S(setrlimit, 77, NULL);
    S(clock_settime, CLOCK_MONOTONIC, NULL);
    S(close_range, 5, 4, 0);
    S(openat2, 99, "x", NULL, 24L);
    S(faccessat2, 99, "x", 7, 0);
    S(execve, NULL, NULL, NULL);
    S(copy_file_range, 99, NULL, 98, NULL, 1L, 0);
    S(sync);
    S(vmsplice, 99, NULL, 0L, SPLICE_F_GIFT);
    S(io_setup, 0, NULL);
    S(io_destroy, 0L);
}

int main(void) {
    files();
    memory();
    waiting();
    network();
    processes();
    others();
    S(exit_group, 7);
}
