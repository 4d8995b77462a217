/* exec_killed.c: a signal that ends a process meets it at any moment of an exec.
 *
 * Hazard: the agent blocks signals around an exec, and the supervisor is attached, sees the signal
 * first and has to pass it on, real-time ones as well. One that gets lost on the way leaves a
 * process that should be dead.
 */
#include "check.h"

#define ROUNDS 90
#define STEP_US 120

static void leave(int signo, siginfo_t *info, void *context) {
    (void)signo, (void)info, (void)context;
    _exit(7);
}

int main(int argc, char **argv) {
    if (argc > 1) {
        alarm(TIME_LIMIT);
        sleep(10);
        return 9;
    }
    begin("exec_killed");
    int ready[2];
    CALL(pipe2(ready, O_CLOEXEC));
    for (int round = 0; round < ROUNDS; round++) {
        int kind = round % 3, signo = kind == 2 ? SIGRTMIN + 1 : SIGTERM, status;
        pid_t pid = CALL(fork());
        if (pid == 0) {
            if (kind == 1) handle(SIGTERM, leave, 0);
            if (write(ready[1], "", 1) != 1) _exit(1);
            execl("/proc/self/exe", argv[0], "child", (char *)NULL);
            _exit(1);
        }
        char byte;
        EXPECT_EQ(read(ready[0], &byte, 1), 1, "the child is about to execute");
        struct timespec delay = {0, round / 3 * STEP_US * 3000L % 10000000};
        nanosleep(&delay, NULL);
        CALL(kill(pid, signo));
        EXPECT_EQ(CALL(waitpid(pid, &status, 0)), pid, "waitpid");
        int killed = WIFSIGNALED(status) && WTERMSIG(status) == signo;
        int handled = kind == 1 && WIFEXITED(status) && WEXITSTATUS(status) == 7;
        if (!killed && !handled)
            fail("round %d: signal %d did not end it, wait status %#x", round, signo,
                 (unsigned)status);
    }
    return ok();
}
