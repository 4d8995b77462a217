/* limit_memory.c: RLIMIT_AS set by the program to little more than it has, then threads, fork,
 * exec and mmap.
 *
 * Hazard: memory the agent maps for sites, threads and the next image counts against the limit;
 * what succeeds natively with 64 MiB must not fail, and what fails must fail with ENOMEM.
 */
#include "check.h"

static void *body(void *argument) {
    return RAW(SYS_getppid, 0, 0, 0) == getppid() ? argument : NULL;
}

int main(int argc, char **argv) {
    if (argc > 1) {
        void *memory = malloc(4 << 20);
        return memory && RAW(SYS_getppid, 0, 0, 0) == getppid() ? 74 : 2;
    }
    begin("limit_memory");
    struct rlimit limit = {64 << 20, 64 << 20};
    CALL(setrlimit(RLIMIT_AS, &limit));
    EXPECT(mmap(NULL, 128 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED &&
               errno == ENOMEM, "mmap above the limit");
    EXPECT_EQ(RAW(SYS_getppid, 0, 0, 0), getppid(), "a new site");
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 256 * 1024);
    pthread_t threads[4];
    for (long i = 0; i < 4; i++)
        EXPECT_EQ(pthread_create(&threads[i], &attributes, body, (void *)(i + 1)), 0,
                  "pthread_create");
    for (long i = 0; i < 4; i++) {
        void *result;
        pthread_join(threads[i], &result);
        EXPECT(result == (void *)(i + 1), "call in a thread");
    }
    pid_t child = CALL(fork());
    if (child == 0) {
        execl("/proc/self/exe", argv[0], "child", (char *)NULL);
        _exit(1);
    }
    expect_exit(child, 74, "exec under the limit");
    return ok();
}
