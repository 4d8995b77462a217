/* siginfo.c: SA_RESETHAND, SA_NODEFER, sa_mask and the contents of siginfo.
 *
 * Hazard: when signals pass through the agent (to hide a trampoline's registers) it re-creates
 * what the kernel does at delivery; each rule here is one it could forget.
 */
#include "check.h"

static volatile int runs, depth, deepest, nest_left;
static siginfo_t last;
static volatile uint64_t mask_inside;
static sigjmp_buf back;

static void record(int signo, siginfo_t *info, void *context) {
    (void)signo, (void)context;
    sigset_t mask;
    runs++;
    last = *info;
    sigprocmask(SIG_BLOCK, NULL, &mask);
    mask_inside = bits_of(&mask);
}
static void record_and_leave(int signo, siginfo_t *info, void *context) {
    record(signo, info, context);
    siglongjmp(back, 1);
}
static void nest(int signo, siginfo_t *info, void *context) {
    (void)info, (void)context;
    if (++depth > deepest) deepest = depth;
    if (nest_left-- > 0) raise(signo);
    depth--;
}

#define FAULT(statement)                                                                     \
    do {                                                                                     \
        memset(&last, 0, sizeof last);                                                       \
        if (sigsetjmp(back, 1) == 0) {                                                       \
            statement;                                                                       \
            fail("no signal: %s", #statement);                                               \
        }                                                                                    \
    } while (0)

int main(void) {
    begin("siginfo");
    struct sigaction action, now;

    handle(SIGUSR1, record, SA_RESETHAND);
    raise(SIGUSR1);
    EXPECT_EQ(runs, 1, "SA_RESETHAND handler runs");
    CALL(sigaction(SIGUSR1, NULL, &now));
    EXPECT(now.sa_handler == SIG_DFL, "SA_RESETHAND resets the handler");
    handle(SIGSYS, record, SA_RESETHAND);
    raise(SIGSYS);
    EXPECT_EQ(runs, 2, "SA_RESETHAND SIGSYS handler runs");
    CALL(sigaction(SIGSYS, NULL, &now));
    EXPECT(now.sa_handler == SIG_DFL, "SA_RESETHAND resets SIGSYS");

    static const int nesting[] = {SIGUSR1, SIGSYS};
    for (int i = 0; i < 2; i++) {
        deepest = depth = 0, nest_left = 4;
        handle(nesting[i], nest, SA_NODEFER);
        raise(nesting[i]);
        EXPECT_EQ(deepest, 5, "SA_NODEFER nests");
        deepest = depth = 0, nest_left = 4;
        handle(nesting[i], nest, 0);
        raise(nesting[i]);
        EXPECT_EQ(deepest, 1, "without SA_NODEFER it does not nest");
    }

    memset(&action, 0, sizeof action);
    action.sa_sigaction = record;
    action.sa_flags = SA_SIGINFO;
    action.sa_mask = set_of(SIGHUP, SIGSYS, 40, 0);
    CALL(sigaction(SIGUSR2, &action, NULL));
    raise(SIGUSR2);
    EXPECT_EQ(mask_inside, BIT(SIGHUP) | BIT(SIGSYS) | BIT(40) | BIT(SIGUSR2), "sa_mask inside");
    action.sa_flags |= SA_NODEFER;
    CALL(sigaction(SIGUSR2, &action, NULL));
    raise(SIGUSR2);
    EXPECT_EQ(mask_inside, BIT(SIGHUP) | BIT(SIGSYS) | BIT(40), "sa_mask with SA_NODEFER");

    handle(SIGRTMIN, record, 0);
    CALL(sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_ptr = &back}));
    EXPECT_EQ(last.si_code, SI_QUEUE, "si_code of sigqueue");
    EXPECT_EQ(last.si_pid, getpid(), "si_pid of sigqueue");
    EXPECT_EQ(last.si_uid, getuid(), "si_uid of sigqueue");
    EXPECT_EQ((long)last.si_value.sival_ptr, (long)&back, "si_value of sigqueue");

    handle(SIGCHLD, record, 0);
    sigset_t child_set = set_of(SIGCHLD, 0);
    CALL(sigprocmask(SIG_BLOCK, &child_set, NULL));
    pid_t child = CALL(fork());
    if (child == 0) _exit(33);
    siginfo_t waited;
    CALL(waitid(P_PID, (id_t)child, &waited, WEXITED | WNOWAIT));
    CALL(sigprocmask(SIG_UNBLOCK, &child_set, NULL));
    EXPECT_EQ(last.si_signo, SIGCHLD, "SIGCHLD");
    EXPECT_EQ(last.si_pid, child, "si_pid of SIGCHLD");
    EXPECT_EQ(last.si_status, 33, "si_status of SIGCHLD");
    EXPECT_EQ(last.si_code, CLD_EXITED, "si_code of SIGCHLD");
    expect_exit(child, 33, "child");
    signal(SIGCHLD, SIG_DFL);

    static const int faults[] = {SIGSEGV, SIGFPE, SIGILL, SIGTRAP, SIGBUS};
    for (int i = 0; i < 5; i++) handle(faults[i], record_and_leave, 0);
    char *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(page != MAP_FAILED, "mmap");
    for (int round = 0; round < 2; round++) {
        FAULT(*(volatile char *)(page + 5) = 1);
        EXPECT_EQ(last.si_code, SEGV_ACCERR, "si_code of a write to read-only memory");
        EXPECT_EQ((long)last.si_addr, (long)page + 5, "si_addr of it");
        FAULT(*(volatile char *)0x10 = 1);
        EXPECT_EQ(last.si_code, SEGV_MAPERR, "si_code of a write to nowhere");
        EXPECT_EQ((long)last.si_addr, 0x10, "si_addr of it");
        FAULT(__asm__ volatile("xor %%ecx,%%ecx; xor %%edx,%%edx; div %%ecx" ::: "eax", "ecx",
                               "edx"));
        EXPECT_EQ(last.si_signo, SIGFPE, "division by zero");
        EXPECT_EQ(last.si_code, FPE_INTDIV, "si_code of a division by zero");
        FAULT(__asm__ volatile("ud2"));
        EXPECT_EQ(last.si_signo, SIGILL, "ud2");
        FAULT(__asm__ volatile("int3"));
        EXPECT_EQ(last.si_signo, SIGTRAP, "int3");
    }
    return ok();
}
