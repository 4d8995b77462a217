/* bad_pointers.c: a call with a bad pointer fails with EFAULT and raises no signal, whatever the
 * program does with SIGSEGV and SIGBUS.
 *
 * Hazard: a tracer that looks at arguments reads the program's memory. Where it does so by plain
 * loads, a fault of its own must neither reach the program's handlers nor kill the program, which
 * the kernel does when the signal is blocked or ignored at that moment. So every kind of bad
 * pointer is tried in every state of handlers and masks. With the argument `storm` signals come
 * all the time meanwhile, and `int80` changes the state by 32-bit calls, which the agent does not
 * see; `child` and `ignoring` are what the program executes.
 */
#include "check.h"
#include <sys/uio.h>

#define PAGE 4096

/* Each thread has its own. */
static __thread char *bad[11];
static __thread int bads;
static __thread char *edge;      /* the last byte before a page that cannot be read */
static __thread char *file_edge; /* the same, before a page that a mapped file no longer has */
static __thread int ends[2];
static volatile int faults, runs;

static void make_pointers(void) {
    char *pages = CALL(mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    CALL(mprotect(pages + PAGE, PAGE, PROT_NONE));
    edge = pages + PAGE - 1;
    memset(pages, 'x', PAGE);
    int file = CALL(memfd_create("bad_pointers", 0));
    CALL(ftruncate(file, 2 * PAGE));
    char *mapped = CALL(mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    memset(mapped, 'x', 2 * PAGE);
    CALL(ftruncate(file, PAGE));
    CALL(close(file));
    file_edge = mapped + PAGE - 1;
    uintptr_t all[] = {8,
                       PAGE - 1,
                       (uintptr_t)pages + PAGE,
                       (uintptr_t)pages + PAGE + 5,
                       (uintptr_t)mapped + PAGE + 1,
                       0x10000001,
                       0x7ffffffff000,
                       0x800000000000,
                       0xffff7fffffffffff,
                       0xffffffff81000000,
                       0xfffffffffffffffd};
    for (bads = 0; bads < (int)(sizeof all / sizeof all[0]); bads++) bad[bads] = (char *)all[bads];
    CALL(pipe(ends));
}

/* A struct that starts `before` bytes before a page that cannot be read. */
static void *straddling(char *last, int before) { return last + 1 - before; }

static void check_pointers(const char *when) {
    struct iovec good = {edge - 7, 8};
    for (int i = 0; i < bads; i++) {
        char *p = bad[i];
        EXPECT_ERRNO(syscall(SYS_access, p, F_OK), EFAULT);
        EXPECT_ERRNO(syscall(SYS_openat, AT_FDCWD, p, O_RDONLY, 0), EFAULT);
        EXPECT_ERRNO(syscall(SYS_write, ends[1], p, 5), EFAULT);
        EXPECT_ERRNO(syscall(SYS_writev, ends[1], p, 1), EFAULT);
        struct iovec parts[] = {{p, 40}, good};
        EXPECT_ERRNO(syscall(SYS_writev, ends[1], parts, 2), EFAULT);
        EXPECT_ERRNO(syscall(SYS_nanosleep, p, NULL), EFAULT);
        EXPECT_ERRNO(syscall(SYS_rt_sigprocmask, SIG_BLOCK, p, NULL, 8), EFAULT);
    }
    EXPECT_ERRNO(syscall(SYS_access, NULL, F_OK), EFAULT);
    EXPECT_ERRNO(syscall(SYS_execve, "/proc/self/exe", bad[2], NULL), EFAULT);
    for (int side = 0; side < 2; side++) {
        char *last = side ? file_edge : edge;
        for (int before = 1; before < 40; before += 3) {
            EXPECT_ERRNO(syscall(SYS_access, straddling(last, before), F_OK), EFAULT);
            if (before < 16)
                EXPECT_ERRNO(syscall(SYS_nanosleep, straddling(last, before), NULL), EFAULT);
        }
        EXPECT_ERRNO(syscall(SYS_access, last - 3000, F_OK), EFAULT);
        /* The same strings, ended at the last byte there is. */
        *last = 0;
        for (int before = 1; before < 40; before += 3)
            EXPECT_ERRNO(syscall(SYS_access, straddling(last, before), F_OK), ENOENT);
        *last = 'x';
        EXPECT_EQ(syscall(SYS_write, ends[1], straddling(last, 21), 21), 21, when);
        char text[32];
        EXPECT_EQ(syscall(SYS_read, ends[0], text, sizeof text), 21, when);
    }
    EXPECT_EQ(faults, 0, when);
}

static void set_mask(int how, int first, int second) {
    sigset_t mask = first ? set_of(first, second, 0) : set_of(0);
    CALL(sigprocmask(how, &mask, NULL));
}

static void count_fault(int signo, siginfo_t *info, void *context) {
    (void)signo, (void)info, (void)context;
    faults++;
}

static void check_in_handler(int signo, siginfo_t *info, void *context) {
    (void)signo, (void)info, (void)context;
    check_pointers("in a handler");
    runs++;
}

static void handle_masked(int signo, int flags, int masked) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = check_in_handler;
    action.sa_flags = flags | SA_SIGINFO;
    action.sa_mask = masked ? set_of(masked, 0) : set_of(0);
    CALL(sigaction(signo, &action, NULL));
}

static sigjmp_buf back;
static int blocks_on_return;
static void at_fault(int signo, siginfo_t *info, void *pointer) {
    (void)signo, (void)info;
    ucontext_t *context = pointer;
    check_pointers("in the handler of a fault");
    runs++;
    if (!blocks_on_return) siglongjmp(back, 1);
    sigaddset(&context->uc_sigmask, SIGSEGV);
    sigaddset(&context->uc_sigmask, SIGBUS);
    context->uc_mcontext.gregs[REG_RIP] += 2; /* over `movb (%rax), %al` */
}

static void fault_at(const char *pointer) {
    long byte;
    __asm__ volatile("movb (%%rax), %%al" : "=a"(byte) : "a"(pointer) : "memory");
}

static void own_handlers(void) {
    static const int flags[] = {0, SA_NODEFER, SA_ONSTACK | SA_RESTART};
    handle(SIGSEGV, count_fault, 0);
    handle(SIGBUS, count_fault, SA_NODEFER);
    check_pointers("with handlers");
    for (int kind = 0; kind < 3; kind++) {
        handle_masked(SIGUSR1, flags[kind], kind ? SIGSEGV : SIGBUS);
        raise(SIGUSR1);
        check_pointers("after a handler with a mask");
    }
    EXPECT_EQ(runs, 3, "handlers that ran");
    runs = 0;
    for (volatile int kind = 0; kind < 2; kind++) {
        handle(SIGSEGV, at_fault, flags[kind]);
        handle(SIGBUS, at_fault, flags[kind]);
        if (sigsetjmp(back, kind) == 0) fault_at(bad[0]);
        check_pointers("after a jump out of a handler");
        if (sigsetjmp(back, kind) == 0) fault_at(file_edge + 1);
        check_pointers("after a second one");
        set_mask(SIG_SETMASK, 0, 0);
    }
    blocks_on_return = 1;
    fault_at(bad[2]);
    check_pointers("after a handler that changed the mask to return to");
    set_mask(SIG_SETMASK, 0, 0);
    check_pointers("with that mask changed again");
    EXPECT_EQ(runs, 5, "faults that were handled");
    signal(SIGSEGV, SIG_DFL);
    signal(SIGBUS, SIG_DFL);
}

static void temporary_masks(void) {
    handle_masked(SIGUSR1, 0, 0);
    runs = 0;
    for (int blocked = 0; blocked < 2; blocked++)
        for (int kind = 0; kind < 2; kind++) {
            sigset_t before = set_of(SIGUSR1, blocked ? SIGSEGV : SIGHUP, SIGBUS, 0);
            sigset_t during = set_of(blocked ? SIGHUP : SIGSEGV, 0);
            struct timespec limit = {20, 0};
            CALL(sigprocmask(SIG_SETMASK, &before, NULL));
            raise(SIGUSR1);
            EXPECT_ERRNO(kind ? ppoll(NULL, 0, &limit, &during) : sigsuspend(&during), EINTR);
            check_pointers("after a call with a mask of its own");
        }
    EXPECT_EQ(runs, 4, "handlers that ran during those calls");
    set_mask(SIG_SETMASK, 0, 0);
}

static void *in_thread(void *blocked) {
    sigset_t mask = set_of(blocked ? SIGSEGV : SIGHUP, SIGBUS, 0);
    make_pointers();
    EXPECT_EQ(pthread_sigmask(SIG_BLOCK, &mask, NULL), 0, "pthread_sigmask");
    check_pointers("in a thread");
    EXPECT_EQ(pthread_sigmask(SIG_UNBLOCK, &mask, NULL), 0, "pthread_sigmask");
    check_pointers("in a thread with everything open");
    return NULL;
}

static void *probing(void *pointer) {
    for (int i = 0; i < 2000; i++) EXPECT_ERRNO(syscall(SYS_access, pointer, F_OK), EFAULT);
    return NULL;
}

static void children(char *self) {
    for (volatile int kind = 0; kind < 6; kind++) {
        if (kind & 1) set_mask(SIG_BLOCK, SIGSEGV, SIGBUS);
        char *arguments[] = {self, "child", NULL};
        pid_t pid = CALL(kind < 2 ? vfork() : fork());
        if (pid == 0) {
            check_pointers("in a child");
            if (kind >= 4) {
                if (kind == 5) signal(SIGSEGV, SIG_IGN), arguments[1] = "ignoring";
                execv("/proc/self/exe", arguments);
                _exit(1);
            }
            _exit(70 + kind);
        }
        expect_exit(pid, 70 + kind, "a child");
        check_pointers("after a child");
        set_mask(SIG_SETMASK, 0, 0);
    }
}

/* Ends what the agent may take for granted, so it is the last. */
static void ignoring(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        EXPECT_EQ(pthread_create(&threads[i], NULL, probing, bad[2]), 0, "pthread_create");
    sleep_ms(2);
    signal(SIGBUS, SIG_IGN);
    signal(SIGSEGV, SIG_IGN);
    check_pointers("with both ignored");
    set_mask(SIG_BLOCK, SIGSEGV, SIGBUS);
    check_pointers("with both ignored and blocked");
    set_mask(SIG_SETMASK, 0, 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    signal(SIGSEGV, SIG_DFL);
    signal(SIGBUS, SIG_DFL);
    check_pointers("with both back at the default");
}

static void on_tick(int signo, siginfo_t *info, void *context) {
    (void)signo, (void)info, (void)context;
    runs++;
}

static void storm(void) {
    struct itimerval tick = {{0, 200}, {0, 200}}, none = {{0, 0}, {0, 0}};
    handle(SIGPROF, on_tick, SA_RESTART);
    CALL(setitimer(ITIMER_PROF, &tick, NULL));
    for (int i = 0; i < 60; i++) check_pointers("in a storm");
    CALL(setitimer(ITIMER_PROF, &none, NULL));
}

static long call32(long number, long a, long b) {
    long result;
    __asm__ volatile("int $0x80"
                     : "=a"(result)
                     : "a"(number), "b"(a), "c"(b)
                     : "r8", "r9", "r10", "r11", "memory");
    return result;
}

static void by_32_bit_calls(void) {
    enum { SIGNAL = 48, SSETMASK = 69 }; /* arch/x86/entry/syscalls/syscall_32.tbl */
    if (call32(SSETMASK, BIT(SIGSEGV) | BIT(SIGBUS), 0) != 0) skip("no 32-bit ssetmask");
    check_pointers("blocked by a 32-bit call");
    EXPECT_EQ(call32(SSETMASK, 0, 0), BIT(SIGSEGV) | BIT(SIGBUS), "the mask before");
    check_pointers("open again");
    EXPECT_EQ(call32(SIGNAL, SIGSEGV, (long)SIG_IGN) < 0, 0, "the 32-bit signal");
    EXPECT_EQ(call32(SIGNAL, SIGBUS, (long)SIG_IGN) < 0, 0, "the 32-bit signal");
    check_pointers("ignored by a 32-bit call");
}

int main(int argc, char **argv) {
    begin("bad_pointers");
    make_pointers();
    check_pointers("at the start");
    if (argc > 1 && !strcmp(argv[1], "child")) return 74;
    if (argc > 1 && !strcmp(argv[1], "ignoring")) return 75;
    if (argc > 1 && !strcmp(argv[1], "storm")) {
        storm();
        return ok();
    }
    if (argc > 1) {
        by_32_bit_calls();
        return ok();
    }
    set_mask(SIG_BLOCK, SIGSEGV, SIGBUS);
    check_pointers("with both blocked");
    set_mask(SIG_UNBLOCK, SIGBUS, 0);
    check_pointers("with one blocked");
    set_mask(SIG_SETMASK, 0, 0);
    own_handlers();
    temporary_masks();
    for (int blocked = 0; blocked < 2; blocked++) {
        pthread_t thread;
        EXPECT_EQ(pthread_create(&thread, NULL, in_thread, blocked ? "" : NULL), 0, "a thread");
        check_pointers("beside a thread");
        pthread_join(thread, NULL);
    }
    children(argv[0]);
    ignoring();
    return ok();
}
