/* no_proc.c: exec, threads and new sites in a mount namespace without /proc.
 *
 * Hazard: tools that read /proc/self/maps or open /proc/self/mem to find and patch code fail.
 */
#include <dlfcn.h>
#include <sys/mount.h>
#include "check.h"

static void *body(void *argument) {
    return RAW(SYS_getppid, 0, 0, 0) == getppid() ? argument : NULL;
}

int main(int argc, char **argv) {
    if (argc > 1) {
        pthread_t thread;
        void *result = NULL;
        if (access("/proc/self", F_OK) == 0) return 2;
        if (pthread_create(&thread, NULL, body, argv) || pthread_join(thread, &result)) return 3;
        return result == (void *)argv ? 72 : 4;
    }
    begin("no_proc");
    if (geteuid() != 0) skip("a mount namespace of its own needs root");
    char path[4096];
    ssize_t size = CALL(readlink("/proc/self/exe", path, sizeof path - 1));
    path[size] = 0;
    if (unshare(CLONE_NEWNS) != 0) skip("unshare(CLONE_NEWNS) is refused here");
    if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) {
        if (errno == EINVAL) skip("the root is no mount: a chroot");
        fail("mount: %s", strerror(errno));
    }
    CALL(mount("none", "/proc", "tmpfs", 0, NULL));
    EXPECT_ERRNO(access("/proc/self", F_OK), ENOENT);
    EXPECT_EQ(RAW(SYS_getppid, 0, 0, 0), getppid(), "a new site");
    for (int round = 0; round < 2; round++) {
        pid_t child = CALL(fork());
        if (child == 0) {
            execl(path, argv[0], "child", (char *)NULL);
            _exit(1);
        }
        expect_exit(child, 72, "the program without /proc");
    }
    return ok();
}
