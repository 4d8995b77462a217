/* mdwe.c: PR_SET_MDWE (no page may become executable that was not), then dlopen, fork and exec.
 *
 * Hazard: patching needs a page writable and executable again, which the kernel now refuses;
 * the calls must go on by another way, and the program's own mprotect must still fail.
 */
#include <dlfcn.h>
#include "check.h"

#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65
#define PR_GET_MDWE 66
#define PR_MDWE_REFUSE_EXEC_GAIN 1
#endif

static int load(const char *path) {
    void *plugin = dlopen(path, RTLD_NOW);
    if (!plugin) return 0;
    int (*work)(void) = (int (*)(void))dlsym(plugin, "plugin_work");
    for (int i = 0; i < 3; i++)
        if (!work || work() != 1) return 0;
    return dlclose(plugin) == 0;
}

int main(int argc, char **argv) {
    if (argc == 3)
        return load(argv[2]) && prctl(PR_GET_MDWE, 0, 0, 0, 0) >= 0 ? 77 : 2;
    begin("mdwe");
    EXPECT(argc == 2, "usage: mdwe PLUGIN");
    if (prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0) != 0)
        skip("PR_SET_MDWE needs Linux 6.3");
    EXPECT_EQ(prctl(PR_GET_MDWE, 0, 0, 0, 0), PR_MDWE_REFUSE_EXEC_GAIN, "PR_GET_MDWE");
    char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(page != MAP_FAILED, "mmap");
    EXPECT_ERRNO(mprotect(page, 4096, PROT_READ | PROT_EXEC), EACCES);
    EXPECT(mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                0) == MAP_FAILED && errno == EACCES, "a page both writable and executable");
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(RAW(SYS_getppid, 0, 0, 0), getppid(), "a new site under MDWE");
    EXPECT(load(argv[1]), "dlopen under MDWE");
    pid_t child = CALL(fork());
    if (child == 0) {
        execl("/proc/self/exe", argv[0], "child", argv[1], (char *)NULL);
        _exit(1);
    }
    expect_exit(child, 77, "exec under MDWE");
    return ok();
}
