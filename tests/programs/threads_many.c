/* threads_many.c: 1,000 threads alive at once, all in calls.
 *
 * Hazard: the agent's state per thread (its stack, its alternate stack) must fit, be found
 * without libc's help, and be given back when a thread ends: a second thousand follows.
 */
#include "check.h"

#define THREADS 1000
static pthread_barrier_t barrier;
static pid_t tids[THREADS];

static void *body(void *argument) {
    int index = (int)(long)argument;
    tids[index] = (pid_t)syscall(SYS_gettid);
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < 10; i++) EXPECT_EQ(syscall(SYS_gettid), tids[index], "gettid");
    EXPECT_EQ(RAW(SYS_getpid, 0, 0, 0), getpid(), "getpid");
    return NULL;
}

static int compare(const void *a, const void *b) { return *(const pid_t *)a - *(const pid_t *)b; }

int main(void) {
    begin("threads_many");
    static pthread_t threads[THREADS];
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 64 * 1024);
    for (int round = 0; round < 2; round++) {
        pthread_barrier_init(&barrier, NULL, THREADS);
        for (long i = 0; i < THREADS; i++)
            EXPECT_EQ(pthread_create(&threads[i], &attributes, body, (void *)i), 0,
                      "pthread_create");
        for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
        qsort(tids, THREADS, sizeof *tids, compare);
        for (int i = 1; i < THREADS; i++) EXPECT(tids[i] != tids[i - 1], "thread ids are unique");
    }
    return ok();
}
