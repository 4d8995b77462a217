/* vdso_time.c: clocks through the vDSO and through the call agree and go forward.
 *
 * Hazard: the vDSO falls back to a `syscall` of its own in pages nobody may patch; and clocks
 * read through a pointer the agent copies must be exact.
 */
#include "check.h"

static int64_t ns(const struct timespec *time) {
    return (int64_t)time->tv_sec * 1000000000 + time->tv_nsec;
}

int main(void) {
    begin("vdso_time");
    static const clockid_t clocks[] = {CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_BOOTTIME,
                                       CLOCK_REALTIME_COARSE, CLOCK_MONOTONIC_RAW, CLOCK_TAI,
                                       CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID};
    for (int round = 0; round < 20; round++)
        for (unsigned i = 0; i < sizeof clocks / sizeof *clocks; i++) {
            struct timespec before, middle, after;
            CALL(clock_gettime(clocks[i], &before));
            EXPECT_EQ(RAW(SYS_clock_gettime, clocks[i], &middle, 0), 0, "clock_gettime");
            CALL(clock_gettime(clocks[i], &after));
            EXPECT(ns(&before) <= ns(&middle) && ns(&middle) <= ns(&after), "order of a clock");
        }
    struct timeval value;
    CALL(gettimeofday(&value, NULL));
    EXPECT(labs((long)(value.tv_sec - time(NULL))) <= 1, "gettimeofday and time");
    unsigned cpu = 9999, node = 9999;
    EXPECT_EQ(syscall(SYS_getcpu, &cpu, &node, NULL), 0, "getcpu");
    EXPECT((int)cpu < sysconf(_SC_NPROCESSORS_CONF), "cpu number");
    EXPECT(sched_getcpu() >= 0, "sched_getcpu");
    return ok();
}
