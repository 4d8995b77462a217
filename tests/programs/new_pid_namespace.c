/* new_pid_namespace.c: fork and exec in a PID namespace of its own.
 *
 * Hazard: the number a task has inside is not the launcher's number for it; passing tasks by
 * number attaches to a stranger.
 */
#include "check.h"

int main(int argc, char **argv) {
    if (argc > 1) {
        pid_t child = fork();
        if (child == 0) _exit(syscall(SYS_getpid) == 2 ? 0 : 1);
        int status;
        waitpid(child, &status, 0);
        return getpid() == 1 && RAW(SYS_getpid, 0, 0, 0) == 1 && status == 0 ? 80 : 2;
    }
    begin("new_pid_namespace");
    if (geteuid() != 0) skip("a PID namespace of its own needs root");
    if (unshare(CLONE_NEWPID) != 0) skip("unshare(CLONE_NEWPID) is refused here");
    pid_t child = CALL(fork());
    if (child == 0) {
        alarm(20);
        execl("/proc/self/exe", argv[0], "child", (char *)NULL);
        _exit(1);
    }
    expect_exit(child, 80, "the program with pid 1");
    return ok();
}
