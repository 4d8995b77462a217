/* fork_threads.c: fork in a program whose other threads are busy in calls.
 *
 * Hazard: the child has one thread and a copy of every lock; a lock of the agent that another
 * thread held at that moment stays locked in the child for ever.
 */
#include "check.h"

static volatile int stop;
static void *busy(void *argument) {
    char path[64];
    while (!stop) {
        RAW(SYS_getppid, 0, 0, 0);
        snprintf(path, sizeof path, "/nonexistent/%ld", (long)argument);
        int fd = open(path, O_RDONLY);
        if (fd >= 0) close(fd);
        free(malloc(1000));
    }
    return NULL;
}

int main(void) {
    begin("fork_threads");
    pthread_t threads[4];
    for (long i = 0; i < 4; i++)
        EXPECT_EQ(pthread_create(&threads[i], NULL, busy, (void *)i), 0, "pthread_create");
    for (int round = 0; round < 60; round++) {
        pid_t child = CALL(fork());
        if (child == 0) {
            alarm(10);
            void *memory = malloc(4096);
            int fd = open("/dev/null", O_WRONLY);
            if (!memory || fd < 0 || write(fd, "x", 1) != 1) _exit(1);
            if (RAW(SYS_gettid, 0, 0, 0) != RAW(SYS_getpid, 0, 0, 0)) _exit(2);
            pid_t grandchild = fork();
            if (grandchild == 0) _exit(3);
            int status;
            if (waitpid(grandchild, &status, 0) != grandchild) _exit(4);
            _exit(WIFEXITED(status) && WEXITSTATUS(status) == 3 ? 17 : 5);
        }
        expect_exit(child, 17, "child");
    }
    stop = 1;
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    return ok();
}
