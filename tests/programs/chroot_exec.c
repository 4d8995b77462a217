/* chroot_exec.c: exec inside a chroot that holds nothing but this (static) program.
 *
 * Hazard: inside, neither the launcher's files nor /proc exist; the agent must already be in
 * memory or come by descriptor.
 */
#include <sys/sendfile.h>
#include "check.h"

int main(int argc, char **argv) {
    (void)argv;
    if (argc > 1) return access("/proc/self", F_OK) == 0 ? 2 : 71;
    begin("chroot_exec");
    if (geteuid() != 0) skip("chroot needs root");
    char directory[] = "/tmp/chroot_exec_XXXXXX", copy[64];
    EXPECT(mkdtemp(directory), "mkdtemp");
    snprintf(copy, sizeof copy, "%s/program", directory);
    int from = CALL(open("/proc/self/exe", O_RDONLY)), to = CALL(open(copy, O_WRONLY | O_CREAT,
                                                                      0755));
    struct stat info;
    CALL(fstat(from, &info));
    EXPECT_EQ(sendfile(to, from, NULL, (size_t)info.st_size), info.st_size, "copy");
    close(from), close(to);
    for (int round = 0; round < 2; round++) {
        pid_t child = CALL(fork());
        if (child == 0) {
            char *arguments[] = {"program", "child", NULL};
            CALL(chroot(directory));
            CALL(chdir("/"));
            if (round) {
                pid_t second = CALL(fork());
                if (second) {
                    expect_exit(second, 71, "grandchild");
                    _exit(71);
                }
            }
            execv("/program", arguments);
            _exit(1);
        }
        expect_exit(child, 71, "the program inside the chroot");
    }
    unlink(copy), rmdir(directory);
    return ok();
}
