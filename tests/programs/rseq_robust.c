/* rseq_robust.c: the registrations a thread has with the kernel: rseq, robust list, set_tid_address.
 *
 * Hazard: an agent that registers its own, or makes its thread state out of libc's, takes them
 * away: a mutex whose owner died is then never given to the next one.
 */
#include <linux/futex.h>
#include "check.h"

#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 35)
#include <sys/rseq.h>
static void rseq(void) {
    EXPECT(__rseq_size >= 20, "glibc registered rseq");
    struct rseq *area = (struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset);
    for (int i = 0; i < 100; i++) {
        EXPECT((int)area->cpu_id >= 0 && (int)area->cpu_id < sysconf(_SC_NPROCESSORS_CONF),
               "rseq cpu_id is kept up to date");
        RAW(SYS_sched_yield, 0, 0, 0);
    }
    EXPECT_EQ(syscall(SYS_rseq, area, 32, 0, 0x53053053), -1, "a second registration is refused");
    EXPECT(errno == EBUSY || errno == EINVAL || errno == EPERM, "errno of it");
}
#else
static void rseq(void) {}
#endif

static pthread_mutex_t *mutex;
static void *die_holding(void *argument) {
    EXPECT_EQ(pthread_mutex_lock(mutex), 0, "lock in the thread that dies");
    return argument;
}

static void *in_thread(void *argument) {
    rseq();
    return argument;
}

int main(void) {
    begin("rseq_robust");
    void *head = NULL;
    size_t length = 0;
    rseq();
    pthread_t thread;
    EXPECT_EQ(pthread_create(&thread, NULL, in_thread, NULL), 0, "pthread_create");
    pthread_join(thread, NULL);
    EXPECT_EQ(syscall(SYS_get_robust_list, 0, &head, &length), 0, "get_robust_list");
    EXPECT(head != NULL, "a robust list is registered");
    EXPECT_EQ(length, sizeof(struct robust_list_head), "its length");

    mutex = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT(mutex != MAP_FAILED, "mmap");
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    for (int round = 0; round < 4; round++) {
        EXPECT_EQ(pthread_mutex_init(mutex, &attributes), 0, "pthread_mutex_init");
        if (round & 1) {
            EXPECT_EQ(pthread_create(&thread, NULL, die_holding, NULL), 0, "pthread_create");
            pthread_join(thread, NULL);
        } else {
            pid_t child = CALL(fork());
            if (child == 0) {
                die_holding(NULL);
                if (round) kill(getpid(), SIGKILL);
                _exit(0);
            }
            waitpid(child, NULL, 0);
        }
        EXPECT_EQ(pthread_mutex_lock(mutex), EOWNERDEAD, "lock after the owner died");
        EXPECT_EQ(pthread_mutex_consistent(mutex), 0, "pthread_mutex_consistent");
        EXPECT_EQ(pthread_mutex_unlock(mutex), 0, "unlock");
        pthread_mutex_destroy(mutex);
    }
    return ok();
}
