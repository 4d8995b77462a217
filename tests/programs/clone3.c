/* clone3.c: clone3 with CLONE_CLEAR_SIGHAND, CLONE_PIDFD, tid pointers and a stack.
 *
 * Hazard: CLONE_CLEAR_SIGHAND also drops the agent's SIGSYS handler in the child, whose next new
 * site would then kill it; a pidfd is a descriptor the agent must neither lose nor leak.
 */
#include <linux/sched.h>
#include <sys/syscall.h>
#include "check.h"

#ifndef P_PIDFD
#define P_PIDFD 3
#endif

static void nothing(int signo, siginfo_t *info, void *context) {
    (void)signo, (void)info, (void)context;
}

int main(void) {
    begin("clone3");
    handle(SIGUSR1, nothing, 0);
    handle(SIGSYS, nothing, 0);
    signal(SIGUSR2, SIG_IGN);
    for (int round = 0; round < 5; round++) {
        int pidfd = -1;
        pid_t parent_tid = 0, child_tid = 0;
        struct clone_args arguments = {
            .flags = CLONE_CLEAR_SIGHAND | CLONE_PIDFD | CLONE_PARENT_SETTID | CLONE_CHILD_SETTID,
            .pidfd = (uint64_t)(uintptr_t)&pidfd,
            .parent_tid = (uint64_t)(uintptr_t)&parent_tid,
            .child_tid = (uint64_t)(uintptr_t)&child_tid,
            .exit_signal = SIGCHLD,
        };
        pid_t child = (pid_t)RAW(SYS_clone3, &arguments, sizeof arguments, 0);
        if (child == 0) {
            struct sigaction action;
            sigaction(SIGUSR1, NULL, &action);
            if (action.sa_handler != SIG_DFL) RAW(SYS_exit_group, 1, 0, 0);
            sigaction(SIGSYS, NULL, &action);
            if (action.sa_handler != SIG_DFL) RAW(SYS_exit_group, 2, 0, 0);
            sigaction(SIGUSR2, NULL, &action);
            if (action.sa_handler != SIG_IGN) RAW(SYS_exit_group, 3, 0, 0);
            if (child_tid != RAW(SYS_gettid, 0, 0, 0)) RAW(SYS_exit_group, 4, 0, 0);
            RAW(SYS_exit_group, 42, 0, 0);
        }
        EXPECT(child > 0, "clone3");
        EXPECT_EQ(parent_tid, child, "parent_tid");
        EXPECT(pidfd >= 3, "pidfd");
        siginfo_t info;
        memset(&info, 0, sizeof info);
        CALL(waitid((idtype_t)P_PIDFD, (id_t)pidfd, &info, WEXITED));
        EXPECT_EQ(info.si_status, 42, "the child's checks (1 USR1, 2 SYS, 3 USR2, 4 tid)");
        EXPECT_EQ(info.si_pid, child, "pid of the pidfd");
        close(pidfd);
        struct sigaction action;
        sigaction(SIGUSR1, NULL, &action);
        EXPECT(action.sa_sigaction == nothing, "the parent keeps its handler");
    }
    struct clone_args bad = {.flags = CLONE_SIGHAND, .exit_signal = SIGCHLD};
    EXPECT_EQ(RAW(SYS_clone3, &bad, sizeof bad, 0), -EINVAL, "CLONE_SIGHAND without CLONE_VM");
    EXPECT_EQ(RAW(SYS_clone3, &bad, 8, 0), -EINVAL, "a size that is too small");
    EXPECT_EQ(RAW(SYS_clone3, 8, sizeof bad, 0), -EFAULT, "a bad pointer");
    return ok();
}
