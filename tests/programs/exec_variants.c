/* exec_variants.c: every way to exec: execve, execveat, fexecve, AT_EMPTY_PATH, a script, from
 * a chain; argv[0], arguments and environment arrive unchanged.
 *
 * Hazard: the agent must be put into the new image whichever way it is named, and argv[0], the
 * comm and the arguments must be the program's, not the launcher's.
 */
#include "check.h"
extern char **environ;

static void run(int kind, const char *path) {
    char *arguments[] = {"a name that is no path", "child", "two words", "", NULL};
    char *environment[] = {"ONLY=this", NULL};
    int fd;
    switch (kind) {
    case 0: execve(path, arguments, environment); break;
    case 1:
        fd = open("/", O_PATH | O_DIRECTORY);
        syscall(SYS_execveat, fd, path + 1, arguments, environment, 0);
        break;
    case 2:
        fd = open(path, O_RDONLY | O_CLOEXEC);
        fexecve(fd, arguments, environment);
        break;
    case 3:
        fd = open(path, O_PATH | O_CLOEXEC);
        syscall(SYS_execveat, fd, "", arguments, environment, AT_EMPTY_PATH);
        break;
    default: syscall(SYS_execveat, AT_FDCWD, path, arguments, environment, 0);
    }
    _exit(100);
}

int main(int argc, char **argv) {
    if (argc == 3 && !strcmp(argv[1], "script")) return strstr(argv[2], "/script") ? 61 : 62;
    if (argc > 1 && !strcmp(argv[1], "child")) {
        if (argc != 4) return 101;
        if (strcmp(argv[0], "a name that is no path")) return 102;
        if (strcmp(argv[2], "two words") || strcmp(argv[3], "")) return 103;
        if (!environ[0] || strcmp(environ[0], "ONLY=this") || environ[1]) return 104;
        return 50;
    }
    begin("exec_variants");
    char path[4096], directory[] = "/tmp/exec_variants_XXXXXX", script[64];
    ssize_t size = CALL(readlink("/proc/self/exe", path, sizeof path - 1));
    path[size] = 0;
    for (int kind = 0; kind < 5; kind++) {
        pid_t child = CALL(fork());
        if (child == 0) run(kind, path);
        char what[32];
        snprintf(what, sizeof what, "way %d to exec", kind);
        expect_exit(child, 50, what);
    }
    EXPECT(mkdtemp(directory), "mkdtemp");
    snprintf(script, sizeof script, "%s/script", directory);
    int fd = CALL(open(script, O_WRONLY | O_CREAT | O_CLOEXEC, 0755));
    /* Not the program's own path: a #! line cannot hold a space. */
    char name[300];
    snprintf(name, sizeof name, "%s/interpreter", directory);
    CALL(symlink(path, name));
    dprintf(fd, "#!%s script\n", name);
    close(fd);
    pid_t child = CALL(fork());
    if (child == 0) {
        char *arguments[] = {"script", NULL};
        execv(script, arguments);
        _exit(100);
    }
    /* The kernel adds the script's path as the last argument. */
    int status;
    CALL(waitpid(child, &status, 0));
    unlink(script);
    unlink(name);
    rmdir(directory);
    EXPECT(WIFEXITED(status), "the script's interpreter ended");
    EXPECT_EQ(WEXITSTATUS(status), 61, "exit code of the script's interpreter");
    return ok();
}
