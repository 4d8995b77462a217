/* sigmask.c: rt_sigprocmask: set arithmetic, old values, errors, inheritance.
 *
 * Hazard: the agent edits masks (it keeps SIGSYS open), so every path that reads one back, the
 * errors included, can leak or lose a bit.
 */
#include "check.h"

static uint64_t current(void) {
    sigset_t mask;
    CALL(pthread_sigmask(SIG_BLOCK, NULL, &mask));
    return bits_of(&mask);
}

static void *in_thread(void *want) {
    EXPECT_EQ(current(), *(uint64_t *)want, "mask of a new thread");
    sigset_t none;
    sigemptyset(&none);
    EXPECT_EQ(pthread_sigmask(SIG_SETMASK, &none, NULL), 0, "pthread_sigmask");
    EXPECT_EQ(current(), 0, "mask of the thread");
    return NULL;
}

static long call(int how, const void *set, void *old, long size) {
    register long r10 __asm__("r10") = size;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(SYS_rt_sigprocmask), "D"((long)how), "S"(set), "d"(old), "r"(r10)
                     : "rcx", "r11", "memory");
    return result;
}

int main(void) {
    begin("sigmask");
    uint64_t old = 1, set;
    EXPECT_EQ(current(), 0, "mask at the start");
    set = BIT(SIGUSR1) | BIT(SIGSYS) | BIT(SIGKILL) | BIT(SIGSTOP) | BIT(40);
    EXPECT_EQ(call(SIG_BLOCK, &set, &old, 8), 0, "block");
    EXPECT_EQ(old, 0, "old after the first block");
    set &= ~(BIT(SIGKILL) | BIT(SIGSTOP));
    EXPECT_EQ(current(), set, "SIGKILL and SIGSTOP are dropped, SIGSYS is not");
    uint64_t more = BIT(SIGUSR2) | BIT(SIGSYS);
    EXPECT_EQ(call(SIG_BLOCK, &more, &old, 8), 0, "block more");
    EXPECT_EQ(old, set, "old after the second block");
    EXPECT_EQ(current(), set | more, "both sets");
    uint64_t part = BIT(SIGSYS);
    EXPECT_EQ(call(SIG_UNBLOCK, &part, &old, 8), 0, "unblock SIGSYS");
    EXPECT_EQ(old, set | more, "old after unblocking");
    EXPECT_EQ(current(), (set | more) & ~part, "SIGSYS gone");
    EXPECT_EQ(call(SIG_UNBLOCK, &part, NULL, 8), 0, "unblock it again");
    EXPECT_EQ(call(SIG_SETMASK, &more, &more, 8), 0, "set and old in one place");
    EXPECT_EQ(more, BIT(SIGUSR1) | BIT(SIGUSR2) | BIT(40), "old in the same place");
    EXPECT_EQ(current(), BIT(SIGUSR2) | BIT(SIGSYS), "mask set");
    EXPECT_EQ(call(7, NULL, &old, 8), 0, "`how` does not matter without a set");
    EXPECT_EQ(call(7, &set, NULL, 8), -EINVAL, "bad how");
    EXPECT_EQ(call(SIG_BLOCK, &set, NULL, 16), -EINVAL, "bad size");
    EXPECT_EQ(call(SIG_BLOCK, (void *)8, NULL, 8), -EFAULT, "bad set pointer");
    EXPECT_EQ(current(), BIT(SIGUSR2) | BIT(SIGSYS), "mask after errors");
    EXPECT_EQ(call(SIG_SETMASK, &set, (void *)8, 8), -EFAULT, "bad old pointer");
    EXPECT_EQ(current(), set, "the mask is set before the old one is copied");

    uint64_t want = current();
    pthread_t thread;
    EXPECT_EQ(pthread_create(&thread, NULL, in_thread, &want), 0, "pthread_create");
    pthread_join(thread, NULL);
    EXPECT_EQ(current(), want, "the other thread's mask is its own");
    pid_t child = CALL(fork());
    if (child == 0) _exit(current() == want ? 0 : 1);
    expect_exit(child, 0, "a child inherits the mask");
    return ok();
}
