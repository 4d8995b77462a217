/* exec_failure.c: an exec that fails leaves the program as it was.
 *
 * Hazard: the agent prepares for the new image (descriptors, masks, dispatch off) before the
 * kernel has said yes; on ENOENT, EACCES, ENOEXEC, E2BIG, ELOOP or EFAULT all of it must be
 * undone: calls at known and at new sites go on, and the signal mask and descriptors are the same.
 */
#include "check.h"
extern char **environ;

static int descriptors(void) {
    int count = 0;
    for (int fd = 0; fd < 64; fd++)
        if (fcntl(fd, F_GETFD) >= 0) count++;
    return count;
}

int main(void) {
    begin("exec_failure");
    char directory[] = "/tmp/exec_failure_XXXXXX", empty[64], no_x[64], junk[64], loop[64];
    EXPECT(mkdtemp(directory), "mkdtemp");
    snprintf(empty, sizeof empty, "%s/empty", directory);
    snprintf(no_x, sizeof no_x, "%s/no_x", directory);
    snprintf(junk, sizeof junk, "%s/junk", directory);
    snprintf(loop, sizeof loop, "%s/loop", directory);
    close(CALL(open(empty, O_WRONLY | O_CREAT, 0755)));
    close(CALL(open(no_x, O_WRONLY | O_CREAT, 0644)));
    int fd = CALL(open(junk, O_WRONLY | O_CREAT, 0755));
    EXPECT_EQ(write(fd, "no program at all", 17), 17, "write");
    close(fd);
    CALL(symlink(loop, loop));
    char *arguments[] = {"x", NULL};
    size_t length = 200 * 1024;
    char *huge = malloc(length + 1);
    memset(huge, 'x', length);
    huge[length] = 0;
    char *long_arguments[] = {"x", huge, NULL};
    sigset_t mask = set_of(SIGUSR1, SIGSYS, 0), now;
    CALL(sigprocmask(SIG_SETMASK, &mask, NULL));
    int before = descriptors();
    for (int round = 0; round < 5; round++) {
        EXPECT_ERRNO(execve("/nonexistent/program", arguments, environ), ENOENT);
        EXPECT_ERRNO(execve(no_x, arguments, environ), EACCES);
        EXPECT_ERRNO(execve(directory, arguments, environ), EACCES);
        EXPECT_ERRNO(execve(empty, arguments, environ), ENOEXEC);
        EXPECT_ERRNO(execve(junk, arguments, environ), ENOEXEC);
        EXPECT_ERRNO(execve(loop, arguments, environ), ELOOP);
        EXPECT_ERRNO(execve("/bin/true", long_arguments, environ), E2BIG);
        EXPECT_EQ(RAW(SYS_execve, 8, arguments, environ), -EFAULT, "a bad path pointer");
        EXPECT_EQ(RAW(SYS_execve, "/bin/true", 8, environ), -EFAULT, "a bad argv pointer");
        EXPECT_EQ(RAW(SYS_getppid, 0, 0, 0), getppid(), "a new site");
        CALL(sigprocmask(SIG_BLOCK, NULL, &now));
        EXPECT_EQ(bits_of(&now), bits_of(&mask), "mask");
        EXPECT_EQ(descriptors(), before, "open descriptors");
    }
    unlink(empty), unlink(no_x), unlink(junk), unlink(loop), rmdir(directory);
    return ok();
}
