/* with_libc.c: a hook with a libc of its own, which uses it at each call: memory, text, threads'
 * variables, floating point. What its argument says it does besides. */
#include <crossgate.h>
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *wish;
static __thread unsigned long seen;
static __thread char *kept[16];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static unsigned long constructed, all;

__attribute__((constructor)) static void construct(void) {
    constructed = 17;
}

static int is(const char *name) {
    return !strcmp(wish, name);
}

static void *nothing(void *unused) {
    return unused;
}

/* What must not reach the program, tried; the first that is not as it should be. */
static const char *refused(void) {
    pthread_t thread;
    struct sigaction action = {.sa_handler = SIG_IGN};
    if (pthread_create(&thread, NULL, nothing, NULL) != EAGAIN) return "a thread was made";
    if (fork() >= 0) return "a process was made";
    if (sigaction(SIGUSR1, &action, NULL) == 0) return "a handler was set";
    if (execl("/bin/true", "true", NULL) == 0 || errno != EPERM) return "a program was executed";
    return "ok";
}

/* More than the stack has. */
static __attribute__((noinline)) unsigned overflow(unsigned depth) {
    volatile char much[4096];
    much[0] = (char)depth;
    return depth == 1000 ? 0 : overflow(depth + 1) + (unsigned)much[0];
}

int crossgate_hook_init(struct crossgate_task *task, const char *argument) {
    (void)task;
    wish = argument;
    if (is("exit at start")) exit(3);
    if (constructed != 17 || getenv("LD_BIND_NOW") == NULL || strtod("2.5", NULL) != 2.5) return -EINVAL;
    return (int)crossgate_subscribe(-1);
}

/* Something with each part of a libc; a wrong result gives the hook up. */
static void work(struct crossgate_task *task) {
    char text[64], other[64];
    char **slot = &kept[++seen % 16];
    free(*slot);
    *slot = malloc(seen % 300 + 64);
    snprintf(*slot, 64, "%lu %.4f", seen, sqrt((double)seen));
    snprintf(text, sizeof text, "%lu %.4f", seen, sqrt((double)seen));
    strcpy(other, *slot);
    pthread_mutex_lock(&mutex);
    all++;
    pthread_mutex_unlock(&mutex);
    if (strcmp(text, other) || !isdigit((unsigned char)*text)) crossgate_fail(task, text, strlen(text));
}

enum crossgate_action crossgate_hook_enter(struct crossgate_task *task,
                                           struct crossgate_call *call, long *result) {
    work(task);
    if (call->nr == SYS_getppid) {
        if (is("abort")) abort();
        if (is("exit")) exit(4);
        if (is("overflow") && overflow(1) == 1) abort();
        if (is("refused")) {
            const char *text = refused();
            crossgate_log(task, text, strlen(text));
        }
        if (is("print")) {
            *result = printf("%s\n", "printed") + fflush(stdout);
            return CROSSGATE_ANSWER;
        }
        if (is("block")) {
            static int others;
            /* The first task waits here until another comes. */
            if (__atomic_fetch_add(&others, 1, __ATOMIC_SEQ_CST) == 0)
                while (__atomic_load_n(&others, __ATOMIC_SEQ_CST) < 2) usleep(1000);
        }
    }
    return CROSSGATE_WATCH;
}

long crossgate_hook_exit(struct crossgate_task *task, const struct crossgate_call *call,
                         long result) {
    (void)call;
    work(task);
    return result;
}

void crossgate_hook_task(struct crossgate_task *task, enum crossgate_event event) {
    (void)event;
    work(task);
}
