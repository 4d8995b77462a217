/* closed_fds.c: a program started with descriptors 0 to 2 closed gets 0 from its first open.
 *
 * Hazard: a descriptor that the launcher or the agent keeps, even for a moment, takes a low
 * number that the program counts on.
 */
#include "check.h"

static int child(void) {
    for (int want = 0; want < 6; want++)
        if (open("/dev/null", O_RDONLY) != want) return 10 + want;
    return 70;
}

int main(int argc, char **argv) {
    if (argc > 1) return child();
    begin("closed_fds");
    for (int round = 0; round < 3; round++) {
        pid_t pid = CALL(fork());
        if (pid == 0) {
            char *arguments[] = {argv[0], "child", NULL};
            for (int fd = 0; fd < 64; fd++) close(fd);
            int want = round ? open("/dev/null", O_RDONLY) : 0;
            if (want != 0) _exit(2);
            close(0);
            execv("/proc/self/exe", arguments);
            _exit(1);
        }
        expect_exit(pid, 70, "opens with all descriptors closed (10 + the one that was off)");
    }
    return ok();
}
