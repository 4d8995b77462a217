/* run_bits32.c: a 64-bit program that runs a 32-bit one as its child.
 *
 * Hazard: following an exec into an image the agent cannot live in.
 */
#include "check.h"

int main(int argc, char **argv) {
    begin("run_bits32");
    EXPECT(argc == 2, "usage: run_bits32 CHILD");
    int lowest = dup(1);
    EXPECT(lowest >= 0 && lowest < 10 && close(lowest) == 0, "a low descriptor is free");
    char digit[] = {(char)('0' + lowest), 0};
    for (int round = 0; round < 3; round++) {
        pid_t child = round & 1 ? vfork() : CALL(fork());
        if (child == 0) {
            execl(argv[1], argv[1], digit, (char *)NULL);
            _exit(errno == ENOEXEC ? 77 : 1);
        }
        int status;
        CALL(waitpid(child, &status, 0));
        if (WIFEXITED(status) && WEXITSTATUS(status) == 77) skip("no 32-bit support here");
        EXPECT(WIFEXITED(status), "the 32-bit child ended by itself");
        EXPECT_EQ(WEXITSTATUS(status), 32, "exit code of the 32-bit child");
    }
    return ok();
}
