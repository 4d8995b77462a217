/* altstack.c: sigaltstack behaves as documented and shows the program only its own stack.
 *
 * Hazard: the agent needs an alternate stack for SIGSYS, so the program's is kept by the agent:
 * query, SS_ONSTACK, EPERM while on it, SS_AUTODISARM, nesting, threads and fork must all still
 * be what the kernel does.
 */
#include "check.h"

#ifndef SS_AUTODISARM
#define SS_AUTODISARM (1u << 31)
#endif

static char *low, *nested_at, *first_at;
static size_t size = 128 * 1024;
static volatile int runs;

static int inside(void *address) { return (char *)address >= low && (char *)address < low + size; }

static void nested(int signo, siginfo_t *info, void *context) {
    (void)signo, (void)info, (void)context;
    char local;
    nested_at = &local;
    runs++;
}

static void on_stack(int signo, siginfo_t *info, void *pointer) {
    ucontext_t *context = pointer;
    (void)signo, (void)info;
    char local;
    stack_t now, other = {0};
    runs++;
    first_at = &local;
    EXPECT(inside(&local), "the handler runs on the alternate stack");
    EXPECT((char *)pointer >= low && (char *)pointer < low + size, "its frame lies there too");
    CALL(sigaltstack(NULL, &now));
    EXPECT_EQ(now.ss_flags, SS_ONSTACK, "flags on the stack");
    EXPECT_EQ((long)now.ss_sp, (long)low, "ss_sp on the stack");
    EXPECT_EQ(now.ss_size, size, "ss_size on the stack");
    EXPECT_EQ((long)context->uc_stack.ss_sp, (long)low, "uc_stack.ss_sp");
    EXPECT_EQ(context->uc_stack.ss_size, size, "uc_stack.ss_size");
    other.ss_flags = SS_DISABLE;
    EXPECT_ERRNO(sigaltstack(&other, NULL), EPERM);
    raise(SIGUSR2);
    EXPECT(inside(nested_at), "the nested handler is on the alternate stack");
    EXPECT(nested_at < first_at, "the nested handler is below the first one");
}

static void autodisarm(int signo, siginfo_t *info, void *context) {
    (void)signo, (void)info, (void)context;
    char local;
    stack_t now, same;
    runs++;
    EXPECT(inside(&local), "the handler runs on the alternate stack");
    CALL(sigaltstack(NULL, &now));
    EXPECT_EQ(now.ss_flags, SS_DISABLE, "flags while disarmed");
    EXPECT_EQ((long)now.ss_sp, 0, "ss_sp while disarmed");
    memset(&same, 0, sizeof same);
    same.ss_sp = low + size, same.ss_size = size;
    CALL(sigaltstack(&same, NULL)); /* allowed here, undone by sigreturn */
}

static void off_stack(int signo, siginfo_t *info, void *context) {
    (void)signo, (void)info, (void)context;
    char local;
    EXPECT(!inside(&local), "without SA_ONSTACK the ordinary stack is used");
    runs++;
}

static void *in_thread(void *argument) {
    stack_t now;
    CALL(sigaltstack(NULL, &now));
    EXPECT_EQ(now.ss_flags, SS_DISABLE, "a new thread has no alternate stack");
    return argument;
}

int main(void) {
    begin("altstack");
    stack_t now, want = {0}, old;
    low = mmap(NULL, 2 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(low != MAP_FAILED, "mmap");
    memset(&now, 0x55, sizeof now);
    CALL(sigaltstack(NULL, &now));
    EXPECT_EQ(now.ss_flags, SS_DISABLE, "flags at the start");
    EXPECT_EQ((long)now.ss_sp, 0, "ss_sp at the start");
    EXPECT_EQ(now.ss_size, 0, "ss_size at the start");
    want.ss_sp = low, want.ss_size = 1024;
    EXPECT_ERRNO(sigaltstack(&want, NULL), ENOMEM);
    want.ss_size = size, want.ss_flags = 0x40;
    EXPECT_ERRNO(sigaltstack(&want, NULL), EINVAL);
    EXPECT_EQ(RAW(SYS_sigaltstack, 8, 0, 0), -EFAULT, "a bad new pointer");
    EXPECT_EQ(RAW(SYS_sigaltstack, 0, 8, 0), -EFAULT, "a bad old pointer");
    want.ss_flags = 0;
    CALL(sigaltstack(&want, &old));
    EXPECT_EQ(old.ss_flags, SS_DISABLE, "old flags");
    CALL(sigaltstack(NULL, &now));
    EXPECT_EQ(now.ss_flags, 0, "flags once set");
    EXPECT_EQ((long)now.ss_sp, (long)low, "ss_sp once set");
    EXPECT_EQ(now.ss_size, size, "ss_size once set");

    handle(SIGUSR1, on_stack, SA_ONSTACK);
    handle(SIGUSR2, nested, SA_ONSTACK);
    for (int i = 0; i < 3; i++) raise(SIGUSR1);
    EXPECT_EQ(runs, 6, "handler runs on the stack");
    handle(SIGUSR1, off_stack, 0);
    raise(SIGUSR1);
    EXPECT_EQ(runs, 7, "handler runs off the stack");

    pthread_t thread;
    EXPECT_EQ(pthread_create(&thread, NULL, in_thread, NULL), 0, "pthread_create");
    pthread_join(thread, NULL);
    pid_t child = CALL(fork());
    if (child == 0) {
        CALL(sigaltstack(NULL, &now));
        _exit(now.ss_sp == low && now.ss_size == size && now.ss_flags == 0 ? 0 : 1);
    }
    expect_exit(child, 0, "a forked child keeps the alternate stack");

    want.ss_flags = (int)SS_AUTODISARM;
    CALL(sigaltstack(&want, NULL));
    CALL(sigaltstack(NULL, &now));
    EXPECT_EQ(now.ss_flags, (int)SS_AUTODISARM, "flags with SS_AUTODISARM");
    handle(SIGUSR1, autodisarm, SA_ONSTACK);
    for (int i = 0; i < 3; i++) {
        raise(SIGUSR1);
        CALL(sigaltstack(NULL, &now));
        EXPECT_EQ(now.ss_flags, (int)SS_AUTODISARM, "flags after the handler");
        EXPECT_EQ((long)now.ss_sp, (long)low, "ss_sp after the handler");
    }
    EXPECT_EQ(runs, 10, "handler runs with SS_AUTODISARM");
    want.ss_flags = SS_DISABLE;
    CALL(sigaltstack(&want, &old));
    EXPECT_EQ(old.ss_flags, (int)SS_AUTODISARM, "old flags when disabled");
    CALL(sigaltstack(NULL, &now));
    EXPECT_EQ(now.ss_flags, SS_DISABLE, "flags once disabled");
    return ok();
}
