/* shrinking_file.c: a call's argument lies in a mapped file that another process makes shorter and
 * longer again all the time.
 *
 * Hazard: whether memory can be read may change between a look and the reading, also where this
 * process has only one task; the call must say EFAULT or succeed, and the program live.
 */
#include "check.h"

int main(void) {
    begin("shrinking_file");
    int file = CALL(memfd_create("shrinking", 0));
    CALL(ftruncate(file, 4096));
    char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    EXPECT(page != MAP_FAILED, "mmap");
    pid_t child = CALL(fork());
    if (child == 0)
        for (;;)
            if (ftruncate(file, 0) < 0 || ftruncate(file, 4096) < 0) _exit(1);
    for (time_t end = time(NULL) + 2; time(NULL) < end;)
        for (int i = 0; i < 100; i++)
            if (syscall(SYS_rt_sigprocmask, SIG_BLOCK, page, NULL, 8) < 0)
                EXPECT_EQ(errno, EFAULT, "why the call fails");
    CALL(kill(child, SIGKILL));
    CALL(waitpid(child, NULL, 0));
    return ok();
}
