/* sigaction_query.c: rt_sigaction gives back, byte for byte, what was set, for SIGSYS too.
 *
 * Hazard: the agent stands in front of handlers and owns SIGSYS; a query must show the program's
 * handler, flags, restorer and mask, and errors must come in the kernel's order.
 */
#include "check.h"

struct kernel_action {
    uint64_t handler, flags, restorer, mask;
};

static long call(int signo, const void *set, void *old, long size) {
    register long r10 __asm__("r10") = size;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(SYS_rt_sigaction), "D"((long)signo), "S"(set), "d"(old), "r"(r10)
                     : "rcx", "r11", "memory");
    return result;
}

int main(void) {
    begin("sigaction_query");
    struct kernel_action set, got;
    static const int signals[] = {SIGUSR1, SIGSYS, SIGSEGV, SIGCHLD, 33, 64};
    for (unsigned i = 0; i < sizeof signals / sizeof *signals; i++) {
        int signo = signals[i];
        memset(&got, 0x55, sizeof got);
        EXPECT_EQ(call(signo, NULL, &got, 8), 0, "query at the start");
        EXPECT_EQ(got.handler, 0, "handler at the start");
        EXPECT_EQ(got.flags, 0, "flags at the start");
        EXPECT_EQ(got.mask, 0, "mask at the start");
        static const uint64_t flags[] = {SA_RESTART, SA_SIGINFO | SA_ONSTACK | SA_NODEFER,
                                         SA_RESETHAND | SA_NOCLDSTOP | SA_NOCLDWAIT, 0};
        for (unsigned f = 0; f < 4; f++) {
            struct kernel_action before = got;
            if (f) memcpy(&before, &set, sizeof before);
            set = (struct kernel_action){0x123456789000 + f, flags[f] | 0x04000000,
                                         0x7777000 + f, ~0ULL};
            EXPECT_EQ(call(signo, &set, &got, 8), 0, "set");
            EXPECT_EQ(memcmp(&got, &before, sizeof got), 0, "the old action");
            set.mask &= ~(BIT(SIGKILL) | BIT(SIGSTOP));
            memset(&got, 0, sizeof got);
            EXPECT_EQ(call(signo, NULL, &got, 8), 0, "query");
            EXPECT_EQ(got.handler, set.handler, "handler");
            EXPECT_EQ(got.flags, set.flags, "flags");
            EXPECT_EQ(got.restorer, set.restorer, "restorer");
            EXPECT_EQ(got.mask, set.mask, "mask");
        }
        struct kernel_action ignore = {1, 0, 0, 0};
        EXPECT_EQ(call(signo, &ignore, NULL, 8), 0, "SIG_IGN");
        EXPECT_EQ(call(signo, NULL, &got, 8), 0, "query");
        EXPECT_EQ(memcmp(&got, &ignore, sizeof got), 0, "SIG_IGN is shown as it was set");
        struct kernel_action reset = {0, 0, 0, 0};
        EXPECT_EQ(call(signo, &reset, NULL, 8), 0, "SIG_DFL");
    }
    EXPECT_EQ(call(SIGKILL, NULL, &got, 8), 0, "SIGKILL may be looked at");
    EXPECT_EQ(call(SIGKILL, &set, NULL, 8), -EINVAL, "SIGKILL may not be set");
    EXPECT_EQ(call(SIGSTOP, &set, NULL, 8), -EINVAL, "SIGSTOP may not be set");
    EXPECT_EQ(call(0, NULL, &got, 8), -EINVAL, "signal 0");
    EXPECT_EQ(call(65, NULL, &got, 8), -EINVAL, "signal 65");
    EXPECT_EQ(call(SIGSYS, &set, NULL, 4), -EINVAL, "bad size");
    EXPECT_EQ(call(SIGSYS, (void *)8, NULL, 8), -EFAULT, "bad pointer");
    EXPECT_EQ(call(SIGSYS, NULL, (void *)8, 8), -EFAULT, "bad old pointer");
    struct kernel_action unsupported = {0x1000, 0x400 | 0x10000, 0, 0};
    EXPECT_EQ(call(SIGSYS, &unsupported, NULL, 8), 0, "flags the kernel does not know");
    EXPECT_EQ(call(SIGSYS, NULL, &got, 8), 0, "query");
    EXPECT_EQ(got.flags, 0, "unknown flags are dropped");
    EXPECT_EQ(RAW(SYS_getppid, 0, 0, 0), getppid(), "calls still work");
    return ok();
}
