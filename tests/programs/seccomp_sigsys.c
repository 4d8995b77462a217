/* seccomp_sigsys.c: a filter that lets everything pass but one call, and a handler for SIGSYS.
 *
 * Hazard: with a filter in place, both the filter and Syscall User Dispatch raise SIGSYS. The
 * handler must run for what the filter traps, with the call's number and result, and never for
 * a call instruction that the agent sees for the first time.
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include "check.h"

static volatile int runs, number;
static void on_sigsys(int signo, siginfo_t *info, void *pointer) {
    (void)signo;
    ucontext_t *context = pointer;
    runs++;
    number = info->si_syscall;
    context->uc_mcontext.gregs[REG_RAX] = 4711;
}

int main(void) {
    begin("seccomp_sigsys");
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getpgrp, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof code / sizeof *code, code};
    CALL(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    CALL(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0));
    handle(SIGSYS, on_sigsys, 0);
    for (int round = 0; round < 10; round++) {
        EXPECT_EQ(RAW(SYS_getuid, 0, 0, 0), getuid(), "a new site");
        EXPECT_EQ(RAW(SYS_getgid, 0, 0, 0), getgid(), "another new site");
        EXPECT_EQ(runs, round, "runs of the handler for calls that are allowed");
        EXPECT_EQ(RAW(SYS_getpgrp, 0, 0, 0), 4711, "a call that is trapped");
        EXPECT_EQ(number, SYS_getpgrp, "its number");
        EXPECT_EQ(runs, round + 1, "runs of the handler");
    }
    return ok();
}
