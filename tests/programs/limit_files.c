/* limit_files.c: RLIMIT_NOFILE of 3, then fork and exec of this (static) program.
 *
 * Hazard: a launcher or an agent that opens a descriptor in the target fails with EMFILE, and
 * one that moves it to a high number is refused.
 */
#include "check.h"

int main(int argc, char **argv) {
    if (argc > 1) {
        if (open("/dev/null", O_RDONLY) != -1 || errno != EMFILE) return 2;
        close(0);
        if (open("/dev/null", O_RDONLY) != 0) return 3;
        return RAW(SYS_getppid, 0, 0, 0) == getppid() ? 75 : 4;
    }
    begin("limit_files");
    struct rlimit limit = {3, 3};
    for (int fd = 3; fd < 64; fd++) close(fd);
    CALL(setrlimit(RLIMIT_NOFILE, &limit));
    EXPECT_ERRNO(open("/dev/null", O_RDONLY), EMFILE);
    for (int round = 0; round < 2; round++) {
        pid_t child = CALL(fork());
        if (child == 0) {
            char *arguments[] = {argv[0], "child", NULL};
            execv("/proc/self/exe", arguments);
            _exit(1);
        }
        expect_exit(child, 75, "exec with three descriptors");
    }
    return ok();
}
