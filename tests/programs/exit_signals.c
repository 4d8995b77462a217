/* exit_signals.c: processes and threads end while signals come.
 *
 * Hazard: a signal that arrives between a hook's sight of the last call and the kernel's sends
 * the task back to the call's beginning: the call must be seen once, the exit status be right.
 */
#include "check.h"

enum { ENDS = 150 };
static void nothing(int signal) { (void)signal; }

/* SIGUSR1 to this task, once, `after` nanoseconds from now. */
static void soon(long after) {
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1};
    event._sigev_un._tid = (int)syscall(SYS_gettid);
    timer_t timer;
    struct itimerspec once = {{0, 0}, {0, after}};
    CALL(timer_create(CLOCK_MONOTONIC, &event, &timer));
    CALL(timer_settime(timer, 0, &once, NULL));
}

static void *thread(void *argument) {
    soon((long)argument);
    syscall(SYS_exit, 0);
    return NULL;
}

int main(void) {
    begin("exit_signals");
    struct sigaction action = {.sa_handler = nothing};
    CALL(sigaction(SIGUSR1, &action, NULL));
    for (long i = 0; i < ENDS; i++) {
        pid_t child = fork();
        EXPECT(child >= 0, "fork");
        if (child == 0) {
            soon(1 + i * 97 % 20000);
            _exit((int)(i & 127));
        }
        int status;
        while (waitpid(child, &status, 0) < 0)
            EXPECT(errno == EINTR, "waitpid");
        EXPECT_EQ(status, (i & 127) << 8, "the exit status");
    }
    for (long i = 0; i < ENDS; i++) {
        pthread_t id;
        EXPECT_EQ(pthread_create(&id, NULL, thread, (void *)(1 + i * 97 % 20000)), 0, "a thread");
        EXPECT_EQ(pthread_join(id, NULL), 0, "its end");
    }
    return ok();
}
