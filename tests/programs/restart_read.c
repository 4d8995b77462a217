/* restart_read.c: a blocking read goes on after a SA_RESTART handler, and fails with EINTR
 * without it.
 *
 * Hazard: the kernel restarts by moving the instruction pointer back two bytes; when the call
 * was made from a trampoline that address, and what lies there, is the agent's responsibility.
 * The first round meets a site that was never run before, the later ones a patched site.
 */
#include "check.h"

static volatile int calls;
static void count(int signo, siginfo_t *info, void *context) {
    (void)signo, (void)info, (void)context;
    calls++;
    RAW(SYS_getppid, 0, 0, 0);
}

int main(void) {
    begin("restart_read");
    for (int restart = 1; restart >= 0; restart--) {
        handle(SIGUSR1, count, restart ? SA_RESTART : 0);
        for (int round = 0; round < 4; round++) {
            int ends[2];
            CALL(pipe(ends));
            calls = 0;
            pid_t parent = getpid(), child = CALL(fork());
            if (child == 0) {
                for (int i = 0; i < 3; i++) {
                    wait_blocked(parent);
                    kill(parent, SIGUSR1);
                    if (!restart) break;
                    sleep_ms(20);
                }
                wait_blocked(parent);
                _exit(write(ends[1], "x", 1) == 1 ? 0 : 1);
            }
            char byte = 0;
            long got = restart ? RAW(SYS_read, ends[0], &byte, 1) : read(ends[0], &byte, 1);
            if (restart) {
                EXPECT_EQ(got, 1, "bytes from the restarted read");
                EXPECT_EQ(byte, 'x', "byte read");
                EXPECT_EQ(calls, 3, "handler runs while the read was restarted");
            } else {
                EXPECT_EQ(got, -1, "read without SA_RESTART");
                EXPECT_EQ(errno, EINTR, "errno of read without SA_RESTART");
                EXPECT_EQ(calls, 1, "handler runs");
            }
            expect_exit(child, 0, "child");
            close(ends[0]), close(ends[1]);
        }
    }
    return ok();
}
