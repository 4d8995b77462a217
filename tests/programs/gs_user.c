/* gs_user.c: a program that uses %gs itself, in every thread.
 *
 * Hazard: the agent finds its state per thread through %gs; a program may set the base by
 * arch_prctl or, where the CPU lets it, by wrgsbase without any call at all.
 */
#include <asm/prctl.h>
#include <sys/auxv.h>
#include "check.h"

static long load(void) {
    long value;
    __asm__ volatile("mov %%gs:0,%0" : "=r"(value));
    return value;
}

static void use(long mark, int instruction) {
    long block[4] = {mark, mark + 1, 0, 0};
    unsigned long base = 0;
    if (instruction) __asm__ volatile("wrgsbase %0" : : "r"(block));
    else EXPECT_EQ(RAW(SYS_arch_prctl, ARCH_SET_GS, block, 0), 0, "ARCH_SET_GS");
    for (int i = 0; i < 50; i++) {
        EXPECT_EQ(load(), mark, "%gs:0");
        EXPECT_EQ(syscall(SYS_getpid), getpid(), "getpid");
        if (i % 16 == 0) sched_yield();
    }
    EXPECT_EQ(syscall(SYS_arch_prctl, ARCH_GET_GS, &base), 0, "ARCH_GET_GS");
    EXPECT_EQ(base, (unsigned long)block, "base from ARCH_GET_GS");
    if (instruction) {
        __asm__ volatile("rdgsbase %0" : "=r"(base));
        EXPECT_EQ(base, (unsigned long)block, "base from rdgsbase");
    }
}

static int have_instruction;
static void on_signal(int signo, siginfo_t *info, void *mark) {
    (void)signo, (void)info, (void)mark;
    RAW(SYS_getppid, 0, 0, 0);
}

static void *body(void *argument) {
    long mark = (long)argument;
    use(mark, 0);
    raise(SIGUSR1);
    if (have_instruction) use(mark + 1000, 1);
    return NULL;
}

int main(void) {
    begin("gs_user");
    have_instruction = (getauxval(AT_HWCAP2) & 2) != 0; /* HWCAP2_FSGSBASE */
    unsigned long base = 7;
    EXPECT_EQ(syscall(SYS_arch_prctl, ARCH_GET_GS, &base), 0, "ARCH_GET_GS");
    EXPECT_EQ(base, 0, "the base at the start");
    handle(SIGUSR1, on_signal, 0);
    pthread_t threads[4];
    for (long i = 0; i < 4; i++)
        EXPECT_EQ(pthread_create(&threads[i], NULL, body, (void *)(i + 100)), 0, "pthread_create");
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    body((void *)55L);
    long block[1] = {66};
    EXPECT_EQ(syscall(SYS_arch_prctl, ARCH_SET_GS, block), 0, "ARCH_SET_GS");
    pid_t child = CALL(fork());
    if (child == 0) _exit(load() == 66 && syscall(SYS_getppid) == getppid() ? 0 : 1);
    expect_exit(child, 0, "a child inherits the base");
    EXPECT_EQ(load(), 66, "%gs:0 after fork");
    return ok();
}
