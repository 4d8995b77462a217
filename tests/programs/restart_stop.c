/* restart_stop.c: nanosleep and poll go on after SIGSTOP and SIGCONT.
 *
 * Hazard: these calls end with ERESTART_RESTARTBLOCK: the kernel puts the number of
 * restart_syscall into rax and runs the `syscall` again. A hook that re-reads the number, or a
 * patch that makes the instruction before it part of the way, repeats the wrong call.
 */
#include "check.h"

#define SLEEP_MS 300

static int sleeper(int kind, int ready) {
    alarm(TIME_LIMIT);
    for (int round = 0; round < 2; round++) {
        if (write(ready, "r", 1) != 1) return 9;
        long start = now_ms();
        if (kind == 0) {
            struct timespec time = {0, SLEEP_MS * 1000000L}, left = {7, 7};
            if (RAW(SYS_nanosleep, &time, &left, 0) != 0) return 2;
        } else if (kind == 1) {
            struct pollfd none = {-1, 0, 0};
            if (RAW(SYS_poll, &none, 1, SLEEP_MS) != 0) return 3;
        } else {
            struct timespec time = {0, SLEEP_MS * 1000000L};
            if (clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL) != 0) return 4;
        }
        if (now_ms() - start < SLEEP_MS) return 5;
    }
    return 0;
}

int main(void) {
    begin("restart_stop");
    for (int kind = 0; kind < 3; kind++) {
        int ends[2], status;
        char byte;
        CALL(pipe(ends));
        pid_t child = CALL(fork());
        if (child == 0) _exit(sleeper(kind, ends[1]));
        for (int round = 0; round < 2; round++) {
            EXPECT_EQ(read(ends[0], &byte, 1), 1, "ready byte");
            wait_blocked(child);
            for (int stop = 0; stop < 2; stop++) {
                CALL(kill(child, SIGSTOP));
                EXPECT_EQ(waitpid(child, &status, WUNTRACED), child, "waitpid for the stop");
                EXPECT(WIFSTOPPED(status), "child is stopped");
                CALL(kill(child, SIGCONT));
                EXPECT_EQ(waitpid(child, &status, WCONTINUED), child, "waitpid for the start");
                EXPECT(WIFCONTINUED(status), "child goes on");
            }
        }
        expect_exit(child, 0, kind == 0 ? "nanosleep" : kind == 1 ? "poll" : "clock_nanosleep");
        close(ends[0]), close(ends[1]);
    }
    return ok();
}
