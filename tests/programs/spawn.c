/* spawn.c: posix_spawn with actions and attributes, system, popen.
 *
 * Hazard: glibc builds these on clone(CLONE_VM | CLONE_VFORK) with a stack of its own and all
 * signals blocked, and runs its own code in the child before the exec.
 */
#include <spawn.h>
#include "check.h"
extern char **environ;

int main(int argc, char **argv) {
    if (argc > 1) {
        sigset_t mask;
        sigprocmask(SIG_BLOCK, NULL, &mask);
        struct sigaction action;
        sigaction(SIGUSR1, NULL, &action);
        char byte = 0;
        if (read(0, &byte, 1) != 1 || byte != 'i') return 2;
        if (write(1, "o", 1) != 1) return 3;
        if (bits_of(&mask) != BIT(SIGUSR2)) return 4;
        return action.sa_handler == SIG_DFL ? 6 : 5;
    }
    begin("spawn");
    signal(SIGUSR1, SIG_IGN);
    for (int round = 0; round < 10; round++) {
        int in[2], out[2];
        CALL(pipe2(in, O_CLOEXEC));
        CALL(pipe2(out, O_CLOEXEC));
        posix_spawn_file_actions_t actions;
        posix_spawnattr_t attributes;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_adddup2(&actions, in[0], 0);
        posix_spawn_file_actions_adddup2(&actions, out[1], 1);
        posix_spawnattr_init(&attributes);
        sigset_t reset = set_of(SIGUSR1, 0), mask = set_of(SIGUSR2, 0);
        posix_spawnattr_setsigdefault(&attributes, &reset);
        posix_spawnattr_setsigmask(&attributes, &mask);
        posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
        char *arguments[] = {argv[0], "child", NULL};
        pid_t child;
        EXPECT_EQ(posix_spawn(&child, "/proc/self/exe", &actions, &attributes, arguments,
                              environ), 0, "posix_spawn");
        close(in[0]), close(out[1]);
        EXPECT_EQ(write(in[1], "i", 1), 1, "write");
        char byte = 0;
        EXPECT_EQ(read(out[0], &byte, 1), 1, "read");
        EXPECT_EQ(byte, 'o', "byte from the child");
        expect_exit(child, 6, "spawned child");
        close(in[1]), close(out[0]);
        EXPECT_EQ(posix_spawn(&child, "/nonexistent/program", NULL, NULL, arguments, environ),
                  ENOENT, "posix_spawn of nothing");
        posix_spawn_file_actions_destroy(&actions);
        posix_spawnattr_destroy(&attributes);
    }
    int status = system("exit 3");
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 3, "system");
    status = system("kill -9 $$");
    EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == 9, "system and a signal");
    FILE *pipe = popen("echo hello; exit 4", "r");
    EXPECT(pipe, "popen");
    char line[32] = "";
    EXPECT(fgets(line, sizeof line, pipe) && !strcmp(line, "hello\n"), "popen output");
    status = pclose(pipe);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 4, "pclose");
    return ok();
}
