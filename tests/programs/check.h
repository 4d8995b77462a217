/* check.h: what the C programs of this folder share: reporting, a time limit, waiting.
 *
 * A program calls begin("name"), checks with EXPECT and EXPECT_EQ, and ends with `return ok();`.
 * A failed check prints one line (what, expected, got) on standard output and ends with 1.
 * Everything here works with glibc and musl and may be called from a signal handler.
 */
#ifndef CHECK_H
#define CHECK_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

/* Seconds after which a hung program is ended by SIGALRM. */
#define TIME_LIMIT 40

static const char *check_name = "?";

__attribute__((unused)) static void begin_without_alarm(const char *name) { check_name = name; }

__attribute__((unused)) static void begin(const char *name) {
    check_name = name;
    alarm(TIME_LIMIT);
}

__attribute__((unused, noreturn, format(printf, 1, 2))) static void fail(const char *format, ...) {
    char text[512];
    int used = snprintf(text, sizeof text, "%s: ", check_name);
    va_list list;
    va_start(list, format);
    used += vsnprintf(text + used, sizeof text - (size_t)used - 1, format, list);
    va_end(list);
    if (used > (int)sizeof text - 2) used = (int)sizeof text - 2;
    text[used++] = '\n';
    if (write(1, text, (size_t)used) < 0) _exit(2);
    _exit(1);
}

__attribute__((unused)) static int ok(void) {
    char text[128];
    int used = snprintf(text, sizeof text, "ok %s\n", check_name);
    return write(1, text, (size_t)used) == used ? 0 : 1;
}

/* Leaves the program with a reason that the test harness shows as a skip. */
__attribute__((unused, noreturn)) static void skip(const char *reason) {
    char text[256];
    int used = snprintf(text, sizeof text, "skip %s: %s\n", check_name, reason);
    _exit(write(1, text, (size_t)used) == used ? 77 : 1);
}

#define EXPECT(condition, what)                                                              \
    do {                                                                                     \
        if (!(condition))                                                                    \
            fail("%s (line %d): expected %s, errno %d", what, __LINE__, #condition, errno);  \
    } while (0)

#define EXPECT_EQ(got, want, what)                                                           \
    do {                                                                                     \
        long long check_got = (long long)(got), check_want = (long long)(want);              \
        if (check_got != check_want)                                                         \
            fail("%s (line %d): expected %lld (%#llx), got %lld (%#llx), errno %d", what,    \
                 __LINE__, check_want, check_want, check_got, check_got, errno);             \
    } while (0)

/* A call that must not return -1. */
#define CALL(expression)                                                                     \
    __extension__({                                                                          \
        __auto_type check_result = (expression);                                             \
        if (check_result == (__typeof__(check_result))-1)                                    \
            fail("%s (line %d): %s", #expression, __LINE__, strerror(errno));                \
        check_result;                                                                        \
    })

#define EXPECT_ERRNO(expression, code)                                                       \
    do {                                                                                     \
        errno = 0;                                                                           \
        long long check_failed = (long long)(expression);                                    \
        if (check_failed != -1 || errno != (code))                                           \
            fail("%s (line %d): expected -1 and errno %d, got %lld and errno %d",            \
                 #expression, __LINE__, (code), check_failed, errno);                        \
    } while (0)

/* Waits for a child that must leave with `code`. */
__attribute__((unused)) static void expect_exit(pid_t pid, int code, const char *what) {
    int status;
    while (waitpid(pid, &status, __WALL) != pid)
        if (errno != EINTR) fail("%s: waitpid: %s", what, strerror(errno));
    if (!WIFEXITED(status) || WEXITSTATUS(status) != code)
        fail("%s: expected exit code %d, got wait status %#x", what, code, (unsigned)status);
}

/* Waits for a child that `signo` must end. */
__attribute__((unused)) static void expect_signal(pid_t pid, int signo, const char *what) {
    int status;
    while (waitpid(pid, &status, __WALL) != pid)
        if (errno != EINTR) fail("%s: waitpid: %s", what, strerror(errno));
    if (!WIFSIGNALED(status) || WTERMSIG(status) != signo)
        fail("%s: expected death by signal %d, got wait status %#x", what, signo,
             (unsigned)status);
}

__attribute__((unused)) static void sleep_ms(int ms) {
    struct timespec left = {ms / 1000, (ms % 1000) * 1000000L};
    while (nanosleep(&left, &left) < 0 && errno == EINTR) {}
}

__attribute__((unused)) static long now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Returns once the process sleeps in a call (state S seen several times in a row). */
__attribute__((unused)) static void wait_blocked(pid_t pid) {
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    for (int tries = 0, seen = 0; tries < 2000 && seen < 5; tries++) {
        int fd = open(path, O_RDONLY);
        ssize_t size = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
        if (fd >= 0) close(fd);
        if (size <= 0) return;
        text[size] = 0;
        char *state = strrchr(text, ')');
        seen = state && state[2] == 'S' ? seen + 1 : 0;
        sleep_ms(5);
    }
}

/* Installs a handler with exactly these flags and an empty mask. */
__attribute__((unused)) static void handle(int signo, void (*handler)(int, siginfo_t *, void *),
                                           int flags) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = handler;
    action.sa_flags = flags | SA_SIGINFO;
    CALL(sigaction(signo, &action, NULL));
}

__attribute__((unused)) static sigset_t set_of(int first, ...) {
    sigset_t set;
    sigemptyset(&set);
    va_list list;
    va_start(list, first);
    for (int signo = first; signo; signo = va_arg(list, int)) sigaddset(&set, signo);
    va_end(list);
    return set;
}

/* The low 64 signals of a set as the kernel stores them. */
__attribute__((unused)) static uint64_t bits_of(const sigset_t *set) {
    uint64_t bits = 0;
    for (int signo = 1; signo <= 64; signo++)
        if (sigismember(set, signo) == 1) bits |= 1ULL << (signo - 1);
    return bits;
}

#define BIT(signo) (1ULL << ((signo) - 1))

/* A system call at a site of its own: each expansion is a new `syscall` instruction. */
#define RAW(number, a, b, c)                                                                 \
    __extension__({                                                                          \
        long raw_result;                                                                     \
        __asm__ volatile("syscall"                                                           \
                         : "=a"(raw_result)                                                  \
                         : "a"((long)(number)), "D"((long)(a)), "S"((long)(b)),              \
                           "d"((long)(c))                                                    \
                         : "rcx", "r11", "memory");                                          \
        raw_result;                                                                          \
    })
#endif
