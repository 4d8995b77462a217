/* deterministic.c: a clock and random numbers that are the same in every run.
 *
 *     crossgate run --vdso --hook ./libdeterministic.so:SEED[@SECONDS] -- PROGRAM
 *
 * Each process begins at SECONDS (since 1970; the start of 2020 if left out). Its clocks go on by one
 * microsecond whenever somebody looks, and by what somebody wants to sleep, which takes no time.
 * Random numbers, those read from /dev/urandom included, follow from SEED. --vdso makes crossgate take
 * the vDSO away, by which programs look at the clock without a call.
 *
 * What stays: process ids, addresses (setarch -R), the order in which threads run, the time stamp
 * counter.
 */
#include <crossgate.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>

enum { TICK = 1000, SECOND = 1000000000, SOURCE = 1 << 20 };

static uint64_t start = 1577836800, now, seed, streams;

static uint64_t advance(uint64_t nanoseconds) {
    return __atomic_add_fetch(&now, nanoseconds, __ATOMIC_RELAXED);
}

/* Each task draws from numbers of its own: what others draw meanwhile changes nothing. */
struct stream {
    uint64_t number, drawn;
};

/* The next random number: splitmix64 (Steele, Lea and Flood, OOPSLA 2014). */
static uint64_t draw(struct crossgate_task *task) {
    struct stream *own = crossgate_task_state(task);
    if (!own->number) own->number = __atomic_add_fetch(&streams, 1, __ATOMIC_RELAXED);
    uint64_t z = seed + (own->number << 40) + ++own->drawn * 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

static const char *number(const char *text, uint64_t *value) {
    for (*value = 0; *text >= '0' && *text <= '9'; text++)
        *value = *value * 10 + (uint64_t)(*text - '0');
    return text;
}

int crossgate_hook_init(struct crossgate_task *task, const char *argument) {
    (void)task;
    argument = number(argument, &seed);
    if (*argument == '@') argument = number(argument + 1, &start);
    if (*argument) return -EINVAL;
    static const int calls[] = {SYS_clock_gettime, SYS_clock_getres,    SYS_gettimeofday,
                                SYS_time,          SYS_clock_nanosleep, SYS_nanosleep,
                                SYS_getrandom,     SYS_open,            SYS_openat};
    for (unsigned i = 0; i < sizeof calls / sizeof *calls; i++) crossgate_subscribe(calls[i]);
    return 0;
}

static long give(struct crossgate_task *task, uint64_t to, const void *from, size_t size) {
    return crossgate_write(task, to, from, size) == (long)size ? 0 : -EFAULT;
}

/* The time on a clock that starts at zero, or at `start`. */
static struct timespec time_of(uint64_t clock, uint64_t at) {
    uint64_t seconds = at / SECOND + (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE ||
                                              clock == CLOCK_TAI
                                          ? start
                                          : 0);
    return (struct timespec){(time_t)seconds, (long)(at % SECOND)};
}

static long clock_gettime_(struct crossgate_task *task, uint64_t clock, uint64_t to) {
    struct timespec time = time_of(clock, advance(TICK));
    return give(task, to, &time, sizeof time);
}

static long gettimeofday_(struct crossgate_task *task, uint64_t to) {
    struct timespec time = time_of(CLOCK_REALTIME, advance(TICK));
    struct timeval value = {time.tv_sec, time.tv_nsec / 1000};
    return to ? give(task, to, &value, sizeof value) : 0;
}

static long sleep_(struct crossgate_task *task, uint64_t clock, bool until, uint64_t from) {
    struct timespec wish;
    if (crossgate_read(task, &wish, from, sizeof wish) != sizeof wish) return -EFAULT;
    if (wish.tv_sec < 0 || wish.tv_nsec < 0 || wish.tv_nsec >= SECOND) return -EINVAL;
    uint64_t length = (uint64_t)wish.tv_sec * SECOND + (uint64_t)wish.tv_nsec;
    if (until) {
        struct timespec time = time_of(clock, advance(0));
        uint64_t here = (uint64_t)time.tv_sec * SECOND + (uint64_t)time.tv_nsec;
        length = length > here ? length - here : 0;
    }
    advance(length);
    return 0;
}

static long getrandom_(struct crossgate_task *task, uint64_t to, uint64_t size) {
    uint64_t done = 0;
    while (done < size) {
        uint64_t word = draw(task), len = size - done < sizeof word ? size - done : sizeof word;
        if (give(task, to + done, &word, len)) return done ? (long)done : -EFAULT;
        done += len;
    }
    return (long)size;
}

/* A file of random numbers in place of the kernel's source; -1 when `path` is none. */
static long open_(struct crossgate_task *task, uint64_t path, uint64_t flags) {
    char name[16];
    long len = crossgate_read_string(task, name, path, sizeof name);
    static const char *const names[] = {"/dev/random", "/dev/urandom"};
    bool is_source = false;
    for (unsigned i = 0; i < 2; i++) {
        long at = 0;
        while (at < len && names[i][at] && names[i][at] == name[at]) at++;
        is_source |= len > 0 && at == len && !names[i][at];
    }
    if (!is_source) return -1;
    struct crossgate_call make = {.nr = SYS_memfd_create,
                                  .args = {(uintptr_t)"random", flags & O_CLOEXEC ? 1 : 0}};
    long fd = crossgate_call(task, &make);
    if (fd < 0) return fd;
    uint64_t words[64];
    for (unsigned at = 0; at < SOURCE; at += sizeof words) {
        for (unsigned i = 0; i < 64; i++) words[i] = draw(task);
        struct crossgate_call write = {
            .nr = SYS_pwrite64, .args = {(uint64_t)fd, (uintptr_t)words, sizeof words, at}};
        crossgate_call(task, &write);
    }
    return fd;
}

enum crossgate_action crossgate_hook_enter(struct crossgate_task *task, struct crossgate_call *call,
                                           long *result) {
    const uint64_t *args = call->args;
    switch (call->nr) {
    case SYS_clock_gettime:
        *result = clock_gettime_(task, args[0], args[1]);
        break;
    case SYS_clock_getres: {
        struct timespec tick = {0, TICK};
        *result = args[1] ? give(task, args[1], &tick, sizeof tick) : 0;
        break;
    }
    case SYS_gettimeofday:
        *result = gettimeofday_(task, args[0]);
        break;
    case SYS_time: {
        time_t seconds = time_of(CLOCK_REALTIME, advance(TICK)).tv_sec;
        *result = args[0] && give(task, args[0], &seconds, sizeof seconds) ? -EFAULT : seconds;
        break;
    }
    case SYS_clock_nanosleep:
        *result = sleep_(task, args[0], args[1] & TIMER_ABSTIME, args[2]);
        break;
    case SYS_nanosleep:
        *result = sleep_(task, CLOCK_MONOTONIC, false, args[0]);
        break;
    case SYS_getrandom:
        *result = getrandom_(task, args[0], args[1]);
        break;
    default: {
        bool at = call->nr == SYS_openat;
        long fd = open_(task, args[at], args[at + 1]);
        if (fd == -1) return CROSSGATE_CONTINUE;
        *result = fd;
    }
    }
    return CROSSGATE_ANSWER;
}
