/* non_dumpable.c: PR_SET_DUMPABLE 0, then new sites, fork and exec; exec of an unreadable file.
 *
 * Hazard: /proc/self/mem, ptrace and process_vm_readv are refused for such a process.
 */
#include <sys/sendfile.h>
#include "check.h"

int main(int argc, char **argv) {
    if (argc > 1) return RAW(SYS_getppid, 0, 0, 0) == getppid() ? 76 : 2;
    begin("non_dumpable");
    char copy[] = "/tmp/non_dumpable_XXXXXX";
    int from = CALL(open("/proc/self/exe", O_RDONLY)), to = CALL(mkstemp(copy));
    struct stat info;
    CALL(fstat(from, &info));
    EXPECT_EQ(sendfile(to, from, NULL, (size_t)info.st_size), info.st_size, "copy");
    CALL(fchmod(to, 0111)); /* executable and not readable */
    CALL(fchmod(from, info.st_mode & 07777));
    close(from), close(to);
    CALL(prctl(PR_SET_DUMPABLE, 0));
    EXPECT_EQ(prctl(PR_GET_DUMPABLE), 0, "PR_GET_DUMPABLE");
    EXPECT_EQ(RAW(SYS_getppid, 0, 0, 0), getppid(), "a new site");
    for (int round = 0; round < 3; round++) {
        pid_t child = CALL(fork());
        if (child == 0) {
            EXPECT_EQ(prctl(PR_GET_DUMPABLE), 0, "PR_GET_DUMPABLE in the child");
            if (geteuid() == 0 && round == 2) CALL(setuid(65534));
            EXPECT_EQ(RAW(SYS_getppid, 0, 0, 0), getppid(), "a new site in the child");
            execl(copy, argv[0], "child", (char *)NULL);
            _exit(1);
        }
        expect_exit(child, 76, "the program");
    }
    unlink(copy);
    return ok();
}
