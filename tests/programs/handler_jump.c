/* handler_jump.c: siglongjmp out of handlers that interrupted calls, hundreds of times.
 *
 * Hazard: the frame the handler leaves behind is never returned to. A trampoline that counted on
 * coming back (a depth counter, a lock, a blocked signal, a borrowed stack) leaks each time.
 */
#include "check.h"

static sigjmp_buf back;
static volatile sig_atomic_t armed;
static volatile int jumps;

static void leave(int signo, siginfo_t *info, void *context) {
    (void)signo, (void)info, (void)context;
    if (!armed) return;
    armed = 0;
    jumps++;
    RAW(SYS_getppid, 0, 0, 0);
    siglongjmp(back, 1);
}

int main(void) {
    begin_without_alarm("handler_jump");
    struct sigevent kill_event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
    timer_t limit;
    CALL(timer_create(CLOCK_MONOTONIC, &kill_event, &limit));
    struct itimerspec end = {{0, 0}, {TIME_LIMIT, 0}};
    CALL(timer_settime(limit, 0, &end, NULL));

    /* Out of a blocking call. */
    int ends[2];
    char byte;
    CALL(pipe(ends));
    handle(SIGALRM, leave, SA_RESTART);
    struct itimerval fast = {{0, 1000}, {0, 1000}};
    CALL(setitimer(ITIMER_REAL, &fast, NULL));
    volatile int round = 0;
    for (; round < 200; round++)
        if (sigsetjmp(back, 1) == 0) {
            armed = 1;
            if (round & 1) RAW(SYS_read, ends[0], &byte, 1);
            else (void)!read(ends[0], &byte, 1);
            fail("the read returned");
        }
    EXPECT_EQ(jumps, 200, "jumps out of a blocking read");

    /* Out of anywhere in a busy loop of short calls. */
    jumps = 0;
    fast.it_value.tv_usec = fast.it_interval.tv_usec = 300;
    CALL(setitimer(ITIMER_REAL, &fast, NULL));
    for (round = 0; round < 500; round++)
        if (sigsetjmp(back, 1) == 0) {
            armed = 1;
            for (;;) RAW(SYS_getppid, 0, 0, 0);
        }
    EXPECT_EQ(jumps, 500, "jumps out of short calls");

    /* And from a SIGSYS handler. */
    memset(&fast, 0, sizeof fast);
    CALL(setitimer(ITIMER_REAL, &fast, NULL));
    handle(SIGSYS, leave, 0);
    for (round = 0; round < 200; round++)
        if (sigsetjmp(back, 1) == 0) {
            armed = 1;
            raise(SIGSYS);
            fail("raise returned");
        }
    EXPECT_EQ(jumps, 700, "jumps out of a SIGSYS handler");
    sigset_t mask;
    CALL(sigprocmask(SIG_BLOCK, NULL, &mask));
    EXPECT_EQ(bits_of(&mask), 0, "mask after the jumps");
    return ok();
}
