/* signal_storm.c: a fast timer and many threads in calls; handlers make calls themselves.
 *
 * Hazard: signals land at every instruction of the trampolines and of the agent, and while sites
 * are being patched. Nothing may be lost: bytes through pipes, counters and errno must add up.
 */
#include "check.h"

#define THREADS 4
#define ROUNDS 4000

static int log_pipe[2];
static volatile int ticks, written;

static void tick(int signo, siginfo_t *info, void *context) {
    (void)signo, (void)info, (void)context;
    int saved = errno;
    __atomic_add_fetch(&ticks, 1, __ATOMIC_RELAXED);
    if (write(log_pipe[1], "t", 1) == 1) __atomic_add_fetch(&written, 1, __ATOMIC_RELAXED);
    RAW(SYS_gettid, 0, 0, 0);
    errno = saved;
}

static void *worker(void *argument) {
    int ends[2];
    long sum = 0, tid = syscall(SYS_gettid);
    CALL(pipe(ends));
    for (int i = 0; i < ROUNDS; i++) {
        unsigned char byte = (unsigned char)i, got = 0;
        EXPECT_EQ(write(ends[1], &byte, 1), 1, "write");
        EXPECT_EQ(read(ends[0], &got, 1), 1, "read");
        EXPECT_EQ(got, byte, "byte");
        EXPECT_EQ(RAW(SYS_gettid, 0, 0, 0), tid, "gettid");
        errno = 77;
        EXPECT_EQ(RAW(SYS_close, -1, 0, 0), -EBADF, "close(-1)");
        EXPECT_EQ(errno, 77, "errno is kept by the handler");
        sum += got;
    }
    close(ends[0]), close(ends[1]);
    *(long *)argument = sum;
    return NULL;
}

int main(void) {
    begin_without_alarm("signal_storm");
    struct sigevent kill_event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
    timer_t limit;
    CALL(timer_create(CLOCK_MONOTONIC, &kill_event, &limit));
    struct itimerspec end = {{0, 0}, {TIME_LIMIT, 0}};
    CALL(timer_settime(limit, 0, &end, NULL));

    CALL(pipe2(log_pipe, O_NONBLOCK));
    handle(SIGALRM, tick, SA_RESTART);
    struct itimerval fast = {{0, 200}, {0, 200}};
    CALL(setitimer(ITIMER_REAL, &fast, NULL));
    pthread_t threads[THREADS];
    long sums[THREADS], want = 0;
    for (int i = 0; i < ROUNDS; i++) want += (unsigned char)i;
    for (int i = 0; i < THREADS; i++)
        EXPECT_EQ(pthread_create(&threads[i], NULL, worker, &sums[i]), 0, "pthread_create");
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        EXPECT_EQ(sums[i], want, "sum of a thread");
    }
    /* On a loaded machine the threads may be done before the timer has ticked often. */
    for (int i = 0; i < 5000 && ticks <= 10; i++) {
        struct timespec wait = {0, 1000000};
        nanosleep(&wait, NULL);
    }
    memset(&fast, 0, sizeof fast);
    CALL(setitimer(ITIMER_REAL, &fast, NULL));
    EXPECT(ticks > 10, "the timer ticked");
    int read_back = 0;
    char buffer[4096];
    ssize_t got;
    while ((got = read(log_pipe[0], buffer, sizeof buffer)) > 0) read_back += (int)got;
    EXPECT_EQ(read_back, written, "bytes written by handlers");
    return ok();
}
