/* exec_huge_env.c: an environment of 1.5 MB, many arguments, and an empty argument vector.
 *
 * Hazard: the launcher writes to the new stack next to the strings, and finds the auxiliary
 * vector by walking past them.
 */
#include <sys/auxv.h>
#include "check.h"
extern char **environ;

#define VARIABLES 15000
#define ARGUMENTS 2000

static int child(int argc, char **argv) {
    size_t total = 0, count = 0;
    for (char **variable = environ; *variable; variable++, count++) {
        char want[128];
        int used = snprintf(want, sizeof want, "V%zu=", count);
        if (strncmp(*variable, want, (size_t)used)) return 2;
        total += strlen(*variable) + 1;
    }
    if (count != VARIABLES || total < 1500000) return 3;
    if (argc != ARGUMENTS + 2) return 4;
    for (int i = 0; i < ARGUMENTS; i++)
        if (atoi(argv[i + 2]) != i) return 5;
    if (getauxval(AT_PAGESZ) != 4096 || !getauxval(AT_RANDOM)) return 6;
    return RAW(SYS_getppid, 0, 0, 0) == getppid() ? 40 : 7;
}

int main(int argc, char **argv) {
    if (argc > 1) return child(argc, argv);
    if (argc == 1 && argv[0][0] == 0) return 41; /* the kernel makes {} into {""} */
    begin("exec_huge_env");
    struct rlimit stack = {0, 0};
    CALL(getrlimit(RLIMIT_STACK, &stack));
    if (stack.rlim_cur != RLIM_INFINITY && stack.rlim_cur < 8 << 20) {
        stack.rlim_cur = 8 << 20;
        CALL(setrlimit(RLIMIT_STACK, &stack));
    }
    static char *environment[VARIABLES + 1], *arguments[ARGUMENTS + 3];
    for (int i = 0; i < VARIABLES; i++) {
        environment[i] = malloc(128);
        int used = snprintf(environment[i], 128, "V%d=", i);
        memset(environment[i] + used, 'e', 100 - (size_t)used);
        environment[i][100] = 0;
    }
    arguments[0] = argv[0];
    arguments[1] = "child";
    for (int i = 0; i < ARGUMENTS; i++) {
        arguments[i + 2] = malloc(16);
        snprintf(arguments[i + 2], 16, "%d", i);
    }
    pid_t pid = CALL(fork());
    if (pid == 0) {
        execve("/proc/self/exe", arguments, environment);
        _exit(1);
    }
    expect_exit(pid, 40, "1.5 MB of environment");
    pid = CALL(fork());
    if (pid == 0) {
        char *none[] = {NULL};
        execve("/proc/self/exe", none, none);
        _exit(1);
    }
    expect_exit(pid, 41, "no argument at all");
    return ok();
}
