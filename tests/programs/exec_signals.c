/* exec_signals.c: ignored signals stay ignored, blocked ones blocked and pending ones pending
 * through exec; handlers are reset. SIGSYS is one of them.
 *
 * Hazard: the agent keeps SIGSYS open and handled in the kernel, so what the program set for it
 * must be carried over the exec by other means.
 */
#include "check.h"

static void handler(int signo, siginfo_t *info, void *context) {
    (void)signo, (void)info, (void)context;
}

static int child(int kind) {
    struct sigaction action;
    sigset_t mask, pending;
    uint64_t want_mask = kind == 0 ? 0 : kind == 1 ? BIT(SIGSYS) : BIT(SIGSYS) | BIT(SIGUSR1);
    sigprocmask(SIG_BLOCK, NULL, &mask);
    if (bits_of(&mask) != want_mask) return 2;
    sigaction(SIGSYS, NULL, &action);
    if (action.sa_handler != (kind == 0 ? SIG_IGN : SIG_DFL)) return 3;
    if (action.sa_flags & ~0x04000000) return 4;
    sigaction(SIGUSR2, NULL, &action);
    if (action.sa_handler != SIG_IGN) return 5;
    sigaction(SIGHUP, NULL, &action);
    if (action.sa_handler != SIG_DFL) return 6;
    if (RAW(SYS_getppid, 0, 0, 0) != getppid()) return 7;
    sigpending(&pending);
    if (bits_of(&pending) != (kind == 2 ? BIT(SIGUSR1) | BIT(SIGSYS) : 0)) return 8;
    stack_t stack;
    sigaltstack(NULL, &stack);
    if (stack.ss_flags != SS_DISABLE) return 9;
    if (kind == 0) raise(SIGSYS); /* ignored */
    return 30 + kind;
}

int main(int argc, char **argv) {
    if (argc > 1) return child(atoi(argv[1]));
    begin("exec_signals");
    static char stack[65536];
    for (int kind = 0; kind < 3; kind++) {
        pid_t pid = CALL(fork());
        if (pid == 0) {
            sigset_t mask = set_of(SIGSYS, kind == 2 ? SIGUSR1 : 0, 0);
            stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
            char number[2] = {(char)('0' + kind), 0};
            handle(SIGHUP, handler, SA_RESTART);
            signal(SIGUSR2, SIG_IGN);
            CALL(sigaltstack(&alternate, NULL));
            if (kind == 0) signal(SIGSYS, SIG_IGN);
            else handle(SIGSYS, handler, SA_ONSTACK);
            if (kind) CALL(sigprocmask(SIG_SETMASK, &mask, NULL));
            if (kind == 2) raise(SIGUSR1), raise(SIGSYS);
            execl("/proc/self/exe", argv[0], number, (char *)NULL);
            _exit(1);
        }
        expect_exit(pid, 30 + kind,
                    kind == 0   ? "ignored (2 mask, 3 SIGSYS, 4 flags, 8 pending, 9 altstack)"
                    : kind == 1 ? "blocked (2 mask, 3 SIGSYS, 4 flags, 8 pending, 9 altstack)"
                                : "pending (2 mask, 3 SIGSYS, 4 flags, 8 pending, 9 altstack)");
    }
    return ok();
}
