/* basic.c: a bit of everything an ordinary program does: files, memory, a pipe, a child, a thread.
 *
 * Hazard: the way in: it is built static and dynamic, with glibc and musl, position-independent
 * and not, so every start-up path is taken.
 */
#include "check.h"

static int constructed;
__attribute__((constructor)) static void construct(void) {
    constructed = RAW(SYS_getppid, 0, 0, 0) > 0 || getppid() == 0;
}

static __thread int thread_local_value = 5;
static void *body(void *argument) {
    thread_local_value += (int)(long)argument;
    return (void *)(long)thread_local_value;
}

int main(void) {
    begin("basic");
    EXPECT_EQ(constructed, 1, "the call in the constructor");
    char name[] = "/tmp/basic_XXXXXX", text[64] = "";
    int fd = CALL(mkstemp(name));
    EXPECT_EQ(write(fd, "hello world", 11), 11, "write");
    EXPECT_EQ(lseek(fd, 6, SEEK_SET), 6, "lseek");
    EXPECT_EQ(read(fd, text, sizeof text), 5, "read");
    EXPECT(!strcmp(text, "world"), "text");
    char *mapped = mmap(NULL, 11, PROT_READ, MAP_SHARED, fd, 0);
    EXPECT(mapped != MAP_FAILED && !memcmp(mapped, "hello", 5), "mmap");
    CALL(munmap(mapped, 11));
    close(fd);
    CALL(unlink(name));
    EXPECT_ERRNO(open(name, O_RDONLY), ENOENT);

    char *memory = malloc(3 << 20);
    EXPECT(memory, "malloc");
    memset(memory, 1, 3 << 20);
    free(memory);
    thread_local_value = 7;
    pthread_t thread;
    void *result;
    EXPECT_EQ(pthread_create(&thread, NULL, body, (void *)10L), 0, "pthread_create");
    pthread_join(thread, &result);
    EXPECT_EQ((long)result, 15, "thread-local value of the thread");
    EXPECT_EQ(thread_local_value, 7, "thread-local value of main");

    int ends[2];
    CALL(pipe(ends));
    pid_t child = CALL(fork());
    if (child == 0) _exit(write(ends[1], "x", 1) == 1 ? 9 : 1);
    EXPECT_EQ(read(ends[0], text, 1), 1, "read from the child");
    expect_exit(child, 9, "child");
    return ok();
}
