/* vfork_shared.c: a vfork child runs on its parent's stack and in its memory.
 *
 * Hazard: the child returns from the same call site before the parent does; a return address or
 * registers kept on the stack, or in state per thread, are overwritten by the time the parent
 * goes on. Also: what the child writes must be seen by the parent, and the parent must wait.
 */
#include "check.h"

static volatile int shared;

__attribute__((always_inline)) static inline long raw_vfork(void) {
    long result;
    /* In line, so that no return address of ours lies on the shared stack. */
    __asm__ volatile("mov $58,%%eax\n syscall"
                     : "=a"(result) : : "rcx", "r11", "memory", "cc");
    return result;
}

int main(int argc, char **argv) {
    if (argc > 1) return 5;
    begin("vfork_shared");
    for (volatile int round = 0; round < 20; round++) {
        volatile int local = 1;
        shared = 0;
        pid_t child = vfork();
        if (child == 0) {
            shared = round + 1;
            local = 2;
            for (int i = 0; i < 5; i++) RAW(SYS_getppid, 0, 0, 0);
            _exit(7);
        }
        CALL(child);
        EXPECT_EQ(shared, round + 1, "memory written by the vfork child");
        EXPECT_EQ(local, 2, "stack written by the vfork child");
        expect_exit(child, 7, "vfork child");

        child = (pid_t)raw_vfork();
        if (child == 0) {
            local = 3;
            RAW(SYS_getpid, 0, 0, 0);
            RAW(SYS_exit_group, 8, 0, 0);
        }
        CALL(child);
        EXPECT_EQ(local, 3, "stack written by the child of a raw vfork");
        expect_exit(child, 8, "child of a raw vfork");

        child = vfork();
        if (child == 0) {
            char *arguments[] = {argv[0], "child", NULL};
            execv("/nonexistent/program", arguments);
            shared = errno;
            execv("/proc/self/exe", arguments);
            _exit(9);
        }
        EXPECT_EQ(shared, ENOENT, "errno of the failed exec");
        expect_exit(child, 5, "vfork and exec");
    }
    return ok();
}
