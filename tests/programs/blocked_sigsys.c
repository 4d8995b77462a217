/* blocked_sigsys.c: a program may block SIGSYS, wait for it and look at it pending.
 *
 * Hazard: when SIGSYS is really blocked, a Syscall User Dispatch trap kills the process. So the
 * agent keeps it open and must give the program the picture it asked for: in the mask, pending,
 * delivered upon unblocking, taken by sigwaitinfo, sigtimedwait and signalfd.
 */
#include <sys/signalfd.h>
#include "check.h"

static volatile int runs, value;
static void on_sigsys(int signo, siginfo_t *info, void *context) {
    (void)signo, (void)context;
    runs++;
    value = info->si_value.sival_int;
}

int main(int argc, char **argv) {
    (void)argv;
    begin("blocked_sigsys");
    sigset_t sys = set_of(SIGSYS, 0), all, mask, pending;
    siginfo_t info;
    handle(SIGSYS, on_sigsys, 0);
    CALL(sigprocmask(SIG_BLOCK, &sys, NULL));
    CALL(sigprocmask(SIG_BLOCK, NULL, &mask));
    EXPECT_EQ(bits_of(&mask), BIT(SIGSYS), "mask");
    EXPECT_EQ(RAW(SYS_getppid, 0, 0, 0), getppid(), "a new site while SIGSYS is blocked");
    CALL(sigpending(&pending));
    EXPECT_EQ(bits_of(&pending), 0, "nothing pending");
    raise(SIGSYS);
    raise(SIGSYS);
    EXPECT_EQ(runs, 0, "blocked");
    CALL(sigpending(&pending));
    EXPECT_EQ(bits_of(&pending), BIT(SIGSYS), "pending");
    EXPECT_EQ(RAW(SYS_getppid, 0, 0, 0), getppid(), "a new site while SIGSYS is pending");
    CALL(sigprocmask(SIG_UNBLOCK, &sys, &mask));
    EXPECT_EQ(runs, 1, "delivered once upon unblocking");
    EXPECT_EQ(bits_of(&mask), BIT(SIGSYS), "old mask");
    CALL(sigpending(&pending));
    EXPECT_EQ(bits_of(&pending), 0, "nothing pending any more");

    CALL(sigprocmask(SIG_BLOCK, &sys, NULL));
    CALL(sigqueue(getpid(), SIGSYS, (union sigval){.sival_int = 31}));
    EXPECT_EQ(sigwaitinfo(&sys, &info), SIGSYS, "sigwaitinfo");
    EXPECT_EQ(info.si_value.sival_int, 31, "value from sigwaitinfo");
    EXPECT_EQ(info.si_code, SI_QUEUE, "code from sigwaitinfo");
    struct timespec zero = {0, 0};
    EXPECT_ERRNO(sigtimedwait(&sys, &info, &zero), EAGAIN);
    if (argc > 1) {
        int fd = CALL(signalfd(-1, &sys, SFD_NONBLOCK));
        struct signalfd_siginfo record;
        EXPECT_ERRNO(read(fd, &record, sizeof record), EAGAIN);
        CALL(sigqueue(getpid(), SIGSYS, (union sigval){.sival_int = 32}));
        EXPECT_EQ(read(fd, &record, sizeof record), sizeof record, "signalfd");
        EXPECT_EQ(record.ssi_signo, SIGSYS, "signal from signalfd");
        EXPECT_EQ(record.ssi_int, 32, "value from signalfd");
        EXPECT_EQ(runs, 1, "the handler did not run");
    }

    sigfillset(&all);
    CALL(sigprocmask(SIG_SETMASK, &all, NULL));
    EXPECT_EQ(RAW(SYS_getppid, 0, 0, 0), getppid(), "a new site while everything is blocked");
    pid_t child = CALL(fork());
    if (child == 0) _exit(RAW(SYS_getppid, 0, 0, 0) == getppid() ? 3 : 1);
    expect_exit(child, 3, "a child that inherits a full mask");
    sigemptyset(&all);
    CALL(sigqueue(getpid(), SIGSYS, (union sigval){.sival_int = 33}));
    EXPECT_EQ(runs, 1, "still blocked");
    CALL(sigprocmask(SIG_SETMASK, &all, NULL));
    EXPECT_EQ(runs, 2, "delivered");
    EXPECT_EQ(value, 33, "value delivered upon unblocking");
    return ok();
}
