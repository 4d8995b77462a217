/* set_name.c: PR_SET_NAME, PR_GET_NAME, /proc/self/task/TID/comm and the parent-death signal.
 *
 * Hazard: the per-process settings of prctl belong to the program; an agent thread or a launcher
 * in between would show here or take the parent-death signal.
 */
#include <dirent.h>
#include "check.h"

static void check_name_of(const char *want) {
    char name[16] = "", path[64], text[32];
    CALL(prctl(PR_GET_NAME, name));
    EXPECT(!strcmp(name, want), "PR_GET_NAME");
    snprintf(path, sizeof path, "/proc/self/task/%ld/comm", syscall(SYS_gettid));
    int fd = CALL(open(path, O_RDONLY));
    ssize_t size = CALL(read(fd, text, sizeof text - 1));
    close(fd);
    text[size - 1] = 0;
    EXPECT(!strcmp(text, want), "comm");
}

static void *body(void *argument) {
    CALL(prctl(PR_SET_NAME, "second name that is cut"));
    check_name_of("second name tha");
    return argument;
}

int main(void) {
    begin("set_name");
    CALL(prctl(PR_SET_NAME, "first"));
    check_name_of("first");
    pthread_t thread;
    EXPECT_EQ(pthread_create(&thread, NULL, body, NULL), 0, "pthread_create");
    pthread_join(thread, NULL);
    check_name_of("first");
    int tasks = 0;
    /* A thread that can be joined may not have left /proc yet. */
    for (int i = 0; i < 1000 && tasks != 1; i++) {
        tasks = 0;
        DIR *directory = opendir("/proc/self/task");
        for (struct dirent *entry; (entry = readdir(directory));) tasks += entry->d_name[0] != '.';
        closedir(directory);
        usleep(1000);
    }
    EXPECT_EQ(tasks, 1, "tasks of a program without threads");

    int ends[2];
    char byte;
    CALL(pipe(ends));
    pid_t child = CALL(fork());
    if (child == 0) {
        int signal_number = 0, ready[2];
        CALL(pipe(ready));
        pid_t second = CALL(fork());
        if (second == 0) {
            alarm(20);
            CALL(prctl(PR_SET_PDEATHSIG, SIGKILL));
            CALL(prctl(PR_GET_PDEATHSIG, &signal_number));
            if (signal_number != SIGKILL || write(ready[1], "r", 1) != 1) _exit(1);
            for (;;) pause(); /* holds the pipe open until it is killed */
        }
        close(ends[1]);
        EXPECT_EQ(read(ready[0], &byte, 1), 1, "ready byte");
        _exit(0);
    }
    close(ends[1]);
    expect_exit(child, 0, "the parent that dies");
    EXPECT_EQ(read(ends[0], &byte, 1), 0, "end of file once the grandchild is killed");
    return ok();
}
