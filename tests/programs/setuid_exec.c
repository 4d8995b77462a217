/* setuid_exec.c: an ordinary user runs a copy of this program that belongs to root, mode 4755.
 *
 * Hazard: the kernel drops the set-uid bit of a program that is being traced at exec, and an
 * agent in a privileged process would be a hole; whichever way, the program must get the
 * identity it gets natively, or the run must be refused in words.
 */
#include <sys/sendfile.h>
#include <sys/statvfs.h>
#include "check.h"

int main(int argc, char **argv) {
    if (argc > 1) return getuid() == 65534 && geteuid() == 0 ? 78 : 2;
    begin("setuid_exec");
    if (geteuid() != 0) skip("making a set-uid copy needs root");
    char directory[] = "/tmp/setuid_exec_XXXXXX", copy[64];
    EXPECT(mkdtemp(directory), "mkdtemp");
    CALL(chmod(directory, 0755));
    struct statvfs mounted;
    CALL(statvfs(directory, &mounted));
    if (mounted.f_flag & ST_NOSUID) {
        rmdir(directory);
        skip("/tmp is mounted nosuid");
    }
    snprintf(copy, sizeof copy, "%s/program", directory);
    int from = CALL(open("/proc/self/exe", O_RDONLY)), to = CALL(open(copy, O_WRONLY | O_CREAT,
                                                                      0755));
    struct stat info;
    CALL(fstat(from, &info));
    EXPECT_EQ(sendfile(to, from, NULL, (size_t)info.st_size), info.st_size, "copy");
    CALL(fchmod(to, 04755));
    close(from), close(to);
    pid_t child = CALL(fork());
    if (child == 0) {
        CALL(setgid(65534));
        CALL(setuid(65534));
        execl(copy, argv[0], "child", (char *)NULL);
        _exit(1);
    }
    int status;
    CALL(waitpid(child, &status, 0));
    unlink(copy), rmdir(directory);
    EXPECT(WIFEXITED(status), "the set-uid copy ended by itself");
    EXPECT_EQ(WEXITSTATUS(status), 78, "exit code of the set-uid copy");
    return ok();
}
