/* exec_failure_then.c: an exec that fails, and at once the end of the process, or a vfork.
 *
 * Hazard: for the exec the supervisor attached, and now it has to let go. It must not wait for
 * that: the task may be gone, or asleep until its vfork child has executed a program, for which
 * the child needs the supervisor.
 */
#include <spawn.h>
#include "check.h"
extern char **environ;

#define NOWHERE "/nonexistent/program"
#define MOST_MS 5000

int main(int argc, char **argv) {
    (void)argv;
    if (argc > 1) return 4;
    begin("exec_failure_then");
    char *arguments[] = {"exec_failure_then", "child", NULL};
    for (int round = 0; round < 30; round++) {
        long start = now_ms();
        pid_t pid = CALL(fork());
        if (pid == 0) {
            execv(NOWHERE, arguments);
            _exit(3);
        }
        expect_exit(pid, 3, "an exec that fails, then exit");
        execv(NOWHERE, arguments);
        EXPECT_EQ(errno, ENOENT, "execv");
        EXPECT_EQ(posix_spawn(&pid, "/proc/self/exe", NULL, NULL, arguments, environ), 0, "spawn");
        expect_exit(pid, 4, "an exec that fails, then posix_spawn");
        EXPECT(now_ms() - start < MOST_MS, "time of a round");
    }
    return ok();
}
