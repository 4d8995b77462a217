/* fork_many.c: 200 processes, each forking from the one before or after it, all alive at once.
 *
 * Hazard: every new process must be followed and its state set up while many others are; the
 * sum of what they report shows whether one was lost or ran twice.
 */
#include "check.h"

int main(void) {
    begin("fork_many");
    int report[2], gate[2];
    CALL(pipe(report));
    CALL(pipe(gate));
    for (int i = 0; i < 100; i++) {
        pid_t child = CALL(fork());
        if (child == 0) {
            alarm(TIME_LIMIT);
            close(gate[1]);
            pid_t second = fork();
            int number = second == 0 ? 1000 + i : i;
            if (second < 0 || write(report[1], &number, sizeof number) != sizeof number) _exit(1);
            char byte;
            if (read(gate[0], &byte, 1) != 0) _exit(2);
            if (second == 0) _exit(RAW(SYS_getpid, 0, 0, 0) == getpid() ? 4 : 5);
            int status;
            if (waitpid(second, &status, 0) != second || WEXITSTATUS(status) != 4) _exit(3);
            _exit(0);
        }
    }
    long sum = 0;
    for (int i = 0; i < 200; i++) {
        int number;
        EXPECT_EQ(read(report[0], &number, sizeof number), sizeof number, "report");
        sum += number;
    }
    EXPECT_EQ(sum, 2 * 4950 + 100 * 1000, "sum of the reports");
    close(gate[1]);
    for (int i = 0; i < 100; i++) {
        int status;
        EXPECT(wait(&status) > 0, "wait");
        EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0, "child");
    }
    EXPECT_ERRNO(wait(NULL), ECHILD);
    return ok();
}
