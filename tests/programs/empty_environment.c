/* empty_environment.c: a program started with no environment has none and gives none on.
 *
 * Hazard: injection by LD_PRELOAD or by a variable of our own is lost here, or shows.
 */
#include "check.h"
extern char **environ;

int main(int argc, char **argv) {
    if (argc > 1) {
        if (environ && environ[0]) return 2;
        return 73;
    }
    begin("empty_environment");
    EXPECT(!getenv("LD_PRELOAD") || !strstr(getenv("LD_PRELOAD"), "crossgate"),
           "nothing of ours in LD_PRELOAD");
    for (char **variable = environ; *variable; variable++)
        EXPECT(strncmp(*variable, "CROSSGATE_AGENT", 15), "nothing of ours in the environment");
    pid_t child = CALL(fork());
    if (child == 0) {
        char *arguments[] = {argv[0], "child", NULL}, *none[] = {NULL};
        execve("/proc/self/exe", arguments, none);
        _exit(1);
    }
    expect_exit(child, 73, "an empty environment");
    return ok();
}
