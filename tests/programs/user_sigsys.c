/* user_sigsys.c: the program's own use of SIGSYS: handlers, ignoring it, dying of it.
 *
 * Hazard: SIGSYS is the signal Syscall User Dispatch traps with. One that the program sends
 * itself must reach the program's handler (with sender and value), the traps must not, and
 * new sites must still be found while a handler, SIG_IGN or SIG_DFL is installed.
 */
#include "check.h"

static volatile int runs, code, value;
static volatile pid_t sender;
static void on_sigsys(int signo, siginfo_t *info, void *context) {
    (void)context;
    EXPECT_EQ(signo, SIGSYS, "signal number");
    runs++;
    code = info->si_code;
    sender = info->si_pid;
    value = info->si_value.sival_int;
    RAW(SYS_getppid, 0, 0, 0); /* a new site inside a SIGSYS handler */
}

int main(void) {
    begin("user_sigsys");
    struct sigaction old;
    CALL(sigaction(SIGSYS, NULL, &old));
    EXPECT(old.sa_handler == SIG_DFL, "SIGSYS is SIG_DFL at the start");
    handle(SIGSYS, on_sigsys, 0);
    EXPECT_EQ(RAW(SYS_getppid, 0, 0, 0), getppid(), "a new site with a handler installed");
    EXPECT_EQ(runs, 0, "no trap reached the handler");
    raise(SIGSYS);
    EXPECT_EQ(runs, 1, "handler runs after raise");
    EXPECT_EQ(code, SI_TKILL, "si_code after raise");
    EXPECT_EQ(sender, getpid(), "si_pid after raise");
    CALL(kill(getpid(), SIGSYS));
    EXPECT_EQ(runs, 2, "handler runs after kill");
    EXPECT_EQ(code, SI_USER, "si_code after kill");
    CALL(sigqueue(getpid(), SIGSYS, (union sigval){.sival_int = 4711}));
    EXPECT_EQ(runs, 3, "handler runs after sigqueue");
    EXPECT_EQ(code, SI_QUEUE, "si_code after sigqueue");
    EXPECT_EQ(value, 4711, "value of sigqueue");
    CALL(sigaction(SIGSYS, NULL, &old));
    EXPECT(old.sa_sigaction == on_sigsys, "the query names the handler");

    signal(SIGSYS, SIG_IGN);
    raise(SIGSYS);
    EXPECT_EQ(RAW(SYS_getppid, 0, 0, 0), getppid(), "a new site with SIGSYS ignored");
    EXPECT_EQ(runs, 3, "ignored");
    signal(SIGSYS, SIG_DFL);
    EXPECT_EQ(RAW(SYS_getppid, 0, 0, 0), getppid(), "a new site with SIGSYS at its default");
    pid_t child = CALL(fork());
    if (child == 0) {
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        raise(SIGSYS);
        _exit(0);
    }
    expect_signal(child, SIGSYS, "the default action");
    return ok();
}
