/* cancel.c: thread cancellation, deferred in a blocking call and asynchronous.
 *
 * Hazard: glibc and musl decide in their cancellation signal handler whether the thread was at a
 * cancellation point by the interrupted instruction pointer (musl: between two labels around its
 * `syscall`); a pointer into a trampoline is neither. Built with both libraries.
 */
#include "check.h"

static int ends[2];
static volatile int ready, cleaned;

static void clean(void *argument) {
    (void)argument;
    cleaned++;
    RAW(SYS_getppid, 0, 0, 0);
}

static void *blocked_read(void *argument) {
    char byte;
    pthread_cleanup_push(clean, NULL);
    ready = (int)syscall(SYS_gettid);
    for (;;)
        if (read(ends[0], &byte, 1) < 0 && errno != EINTR) break;
    pthread_cleanup_pop(0);
    return argument;
}

static void *asynchronous(void *argument) {
    volatile unsigned long spins = 0;
    pthread_cleanup_push(clean, NULL);
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    ready = 1;
    for (;;) {
        spins++;
        RAW(SYS_getppid, 0, 0, 0);
    }
    pthread_cleanup_pop(0);
    return argument;
}

static volatile int disabled_done;
static void *disabled(void *argument) {
    char byte;
    pthread_cleanup_push(clean, NULL);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    ready = (int)syscall(SYS_gettid);
    ssize_t got = read(ends[0], &byte, 1);
    if (got == 1) disabled_done = 1;
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
    pthread_testcancel();
    pthread_cleanup_pop(0);
    return argument;
}

static void cancel(void *(*body)(void *), const char *what, int block) {
    pthread_t thread;
    void *result = NULL;
    ready = cleaned = 0;
    EXPECT_EQ(pthread_create(&thread, NULL, body, NULL), 0, what);
    while (!ready) sched_yield();
    if (block) wait_blocked(ready);
    EXPECT_EQ(pthread_cancel(thread), 0, what);
    if (body == disabled) {
        sleep_ms(20);
        EXPECT_EQ(cleaned, 0, "cancellation is disabled");
        EXPECT_EQ(write(ends[1], "x", 1), 1, "write");
    }
    EXPECT_EQ(pthread_join(thread, &result), 0, what);
    EXPECT(result == PTHREAD_CANCELED, what);
    EXPECT_EQ(cleaned, 1, what);
}

int main(void) {
    begin("cancel");
    CALL(pipe(ends));
    for (int round = 0; round < 5; round++) {
        cancel(blocked_read, "deferred, in a blocking read", 1);
        cancel(asynchronous, "asynchronous", 0);
        disabled_done = 0;
        cancel(disabled, "disabled, then tested", 1);
        EXPECT_EQ(disabled_done, 1, "the read ended although a cancel was pending");
    }
    return ok();
}
