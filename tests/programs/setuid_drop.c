/* setuid_drop.c: root drops to another user and goes on: new sites, fork, exec.
 *
 * Hazard: after the change the process is non-dumpable and of another user than the launcher,
 * which may no longer open or attach to it.
 */
#include <grp.h>
#include "check.h"

int main(int argc, char **argv) {
    if (argc > 1)
        return getuid() == 65534 && RAW(SYS_getppid, 0, 0, 0) == getppid() ? 79 : 2;
    begin("setuid_drop");
    if (geteuid() != 0) skip("dropping privileges needs root");
    int self = CALL(open("/proc/self/exe", O_PATH));
    pid_t child = CALL(fork());
    if (child == 0) {
        CALL(setgroups(0, NULL));
        CALL(setgid(65534));
        CALL(setuid(65534));
        EXPECT_EQ(RAW(SYS_getppid, 0, 0, 0), getppid(), "a new site as another user");
        pid_t second = CALL(fork());
        if (second == 0) {
            char *arguments[] = {argv[0], "child", NULL}, *none[] = {NULL};
            syscall(SYS_execveat, self, "", arguments, none, AT_EMPTY_PATH);
            _exit(1);
        }
        expect_exit(second, 79, "exec as another user");
        _exit(0);
    }
    expect_exit(child, 0, "the process that dropped its privileges");
    return ok();
}
