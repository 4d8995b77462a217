/* exec_rt_signals.c: 300 queued real-time signals while the receiver tries to execute programs
 * that do not exist.
 *
 * Hazard: in each of these failed execs signals are blocked, held by the agent, or stopped at by
 * the supervisor. All of them must be handled, once and in order.
 */
#include "check.h"

#define SIGNALS 300
static volatile int next, wrong = -1;

static void take(int signo, siginfo_t *info, void *context) {
    (void)signo, (void)context;
    if (info->si_value.sival_int != next && wrong < 0) wrong = next;
    next++;
}

int main(void) {
    begin("exec_rt_signals");
    handle(SIGRTMIN + 2, take, SA_RESTART);
    pid_t parent = getpid(), child = CALL(fork());
    if (child == 0) {
        alarm(TIME_LIMIT);
        for (int i = 0; i < SIGNALS; i++) {
            union sigval value = {.sival_int = i};
            while (sigqueue(parent, SIGRTMIN + 2, value) < 0 && errno == EAGAIN) sleep_ms(1);
            if (i % 10 == 0) sleep_ms(1);
        }
        _exit(0);
    }
    char *arguments[] = {"x", NULL}, *environment[] = {NULL};
    while (next < SIGNALS)
        EXPECT_ERRNO(execve("/nonexistent/program", arguments, environment), ENOENT);
    EXPECT_EQ(wrong, -1, "the first signal out of order");
    expect_exit(child, 0, "the sender");
    return ok();
}
