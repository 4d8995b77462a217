/* exec_thread.c: exec from a thread that is not the leader, others busy in calls.
 *
 * Hazard: the kernel ends the other threads and gives the caller the leader's id in the middle
 * of the exec, so a launcher that knows the thread by its old id loses it.
 */
#include "check.h"

static char *program;
static pthread_barrier_t barrier;

static void *busy(void *argument) {
    pthread_barrier_wait(&barrier);
    for (;;) RAW(SYS_getppid, 0, 0, 0);
    return argument;
}
static void *blocked(void *argument) {
    pthread_barrier_wait(&barrier);
    for (;;) pause();
    return argument;
}
static void *exec_it(void *argument) {
    char pid[32];
    pthread_barrier_wait(&barrier);
    snprintf(pid, sizeof pid, "%d", getpid());
    execl("/proc/self/exe", program, "child", pid, (char *)NULL);
    fail("execl: %s", strerror(errno));
    return argument;
}

int main(int argc, char **argv) {
    if (argc > 1) {
        if (getpid() != atoi(argv[2]) || syscall(SYS_gettid) != getpid()) return 1;
        pthread_t thread;
        pthread_barrier_init(&barrier, NULL, 1);
        return pthread_create(&thread, NULL, blocked, NULL) == 0 ? 23 : 2;
    }
    begin("exec_thread");
    program = argv[0];
    for (int round = 0; round < 10; round++) {
        pid_t child = CALL(fork());
        if (child == 0) {
            alarm(20);
            pthread_t threads[4];
            pthread_barrier_init(&barrier, NULL, 5);
            pthread_create(&threads[0], NULL, busy, NULL);
            pthread_create(&threads[1], NULL, busy, NULL);
            pthread_create(&threads[2], NULL, blocked, NULL);
            pthread_create(&threads[3], NULL, exec_it, NULL);
            pthread_barrier_wait(&barrier);
            for (;;) pause();
        }
        expect_exit(child, 23, "the new program");
    }
    return ok();
}
