/* faulty.c: a tree of tasks that make the same calls in every run and tell what came of each.
 *
 * For `crossgate inject`: whatever fails is taken note of and passed over, so that the lines that
 * it prints say which faults it met, by task.
 */
#include "check.h"

/* Prints whatever writes fail. */
static void tell(const char *who, unsigned long sum) {
    char line[64];
    int len = snprintf(line, sizeof line, "%s %lx\n", who, sum), done = 0;
    while (done < len) {
        ssize_t n = write(1, line + done, (size_t)(len - done));
        if (n > 0) done += (int)n;
    }
}

/* Which of many calls failed, and how. */
static unsigned long work(void) {
    unsigned long sum = 0;
    char bytes[64];
    struct stat status;
#define NOTE(call) (sum = sum * 31 + ((call) < 0 ? (unsigned long)errno : 0))
    for (int i = 0; i < 60; i++) {
        int file = open("/etc/passwd", O_RDONLY);
        NOTE(file);
        NOTE(file < 0 ? 0 : read(file, bytes, sizeof bytes));
        NOTE(file < 0 ? 0 : pread(file, bytes, sizeof bytes, 5));
        NOTE(stat("/etc/../etc/hostname", &status));
        NOTE(access("/", R_OK));
        void *memory = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        NOTE(memory == MAP_FAILED ? -1 : munmap(memory, 4096));
        if (file >= 0) close(file);
    }
    return sum;
}

static void *thread(void *argument) {
    tell(argument, work());
    return NULL;
}

int main(int argc, char **argv) {
    begin("faulty");
    if (argc > 1 && !strcmp(argv[1], "again")) {
        tell("executed", work());
        return ok();
    }
    tell("first", work());
    for (int i = 0; i < 3; i++) {
        pid_t child = fork();
        if (child < 0) tell("fork", (unsigned long)errno);
        if (child == 0) {
            char who[2] = {(char)('a' + i), 0};
            tell(who, work());
            _exit(0);
        }
        while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR) continue;
    }
    for (int i = 0; i < 2; i++) {
        pthread_t id;
        int error = pthread_create(&id, NULL, thread, i ? "x" : "y");
        if (error) tell("thread", (unsigned long)error);
        else pthread_join(id, NULL);
    }
    char *const again[] = {argv[0], "again", NULL};
    while (execv("/proc/self/exe", again) < 0) tell("exec", (unsigned long)errno);
    return 1;
}
