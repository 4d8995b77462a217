/* ptrace_child.c: a tiny debugger: PTRACE_TRACEME in a child, syscall stops, an exec.
 *
 * Hazard: only one tracer per task: a launcher that attaches to follow the exec and the
 * program's own debugger exclude each other. Counts of stops are checked for a child that was
 * not replaced by exec; one exec is followed too.
 */
#include <sys/ptrace.h>
#include <sys/user.h>
#include "check.h"

int main(int argc, char **argv) {
    if (argc > 1) return 42;
    begin("ptrace_child");
    pid_t child = CALL(fork());
    if (child == 0) {
        CALL(ptrace(PTRACE_TRACEME, 0, 0, 0));
        raise(SIGSTOP);
        for (int i = 0; i < 5; i++) RAW(SYS_getppid, 0, 0, 0);
        _exit(3);
    }
    int status, entries = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child, "waitpid");
    EXPECT(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP, "the child stopped itself");
    CALL(ptrace(PTRACE_SETOPTIONS, child, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL));
    for (int in_call = 0;;) {
        CALL(ptrace(PTRACE_SYSCALL, child, 0, 0));
        EXPECT_EQ(waitpid(child, &status, 0), child, "waitpid");
        if (WIFEXITED(status)) break;
        EXPECT(WIFSTOPPED(status), "stopped");
        if (WSTOPSIG(status) != (SIGTRAP | 0x80)) continue;
        struct user_regs_struct registers;
        CALL(ptrace(PTRACE_GETREGS, child, 0, &registers));
        in_call = !in_call;
        if (in_call && registers.orig_rax == SYS_getppid) entries++;
    }
    EXPECT_EQ(WEXITSTATUS(status), 3, "exit code of the child");
    EXPECT_EQ(entries, 5, "getppid calls seen by the debugger");

    child = CALL(fork());
    if (child == 0) {
        CALL(ptrace(PTRACE_TRACEME, 0, 0, 0));
        execl("/proc/self/exe", argv[0], "child", (char *)NULL);
        _exit(1);
    }
    EXPECT_EQ(waitpid(child, &status, 0), child, "waitpid");
    EXPECT(WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP, "stop at the exec");
    CALL(ptrace(PTRACE_CONT, child, 0, 0));
    expect_exit(child, 42, "the program that was exec'ed under the debugger");
    return ok();
}
