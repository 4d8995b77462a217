/* identity.c: what a program can see of itself is its own: ids, descriptors, exe, comm,
 * arguments, no tracer, auxiliary vector, and close-on-exec.
 *
 * Hazard: a launcher shows as the tracer, the parent, argv[0] or an extra descriptor.
 */
#include <dirent.h>
#include <elf.h>
#include <sys/auxv.h>
#include "check.h"

static int list(int *found, int limit) {
    int count = 0;
    DIR *directory = opendir("/proc/self/fd");
    EXPECT(directory, "opendir(/proc/self/fd)");
    for (struct dirent *entry; (entry = readdir(directory));) {
        int fd = atoi(entry->d_name);
        if (entry->d_name[0] == '.' || fd == dirfd(directory)) continue;
        if (count < limit) found[count] = fd;
        count++;
    }
    closedir(directory);
    return count;
}

static void read_file(const char *path, char *text, size_t size) {
    int fd = CALL(open(path, O_RDONLY));
    ssize_t used = CALL(read(fd, text, size - 1));
    text[used] = 0;
    close(fd);
}

int main(int argc, char **argv) {
    begin("identity");
    int found[64], count = list(found, 64);
    int inherited = argc > 2 ? atoi(argv[2]) : -1;
    for (int i = 0; i < count && i < 64; i++)
        if (found[i] > 2 && found[i] != inherited)
            fail("descriptor %d is open at the start, and is not the program's", found[i]);
    char text[4096], want[4096];
    ssize_t size = CALL(readlink("/proc/self/exe", text, sizeof text - 1));
    text[size] = 0;
    const char *base = strrchr(text, '/') + 1;
    if (argc == 1) {
        EXPECT(realpath(argv[0], want) && !strcmp(text, want), "/proc/self/exe is argv[0]");
        EXPECT(!strcmp(base, strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0]),
               "the name of /proc/self/exe");
        char comm[32];
        snprintf(want, sizeof want, "%.15s\n", base);
        read_file("/proc/self/comm", comm, sizeof comm);
        EXPECT(!strcmp(comm, want), "/proc/self/comm is the program's name");
    }
    char line[4096];
    int fd = CALL(open("/proc/self/cmdline", O_RDONLY));
    size = CALL(read(fd, line, sizeof line));
    close(fd);
    size_t at = 0;
    for (int i = 0; i < argc; i++) {
        EXPECT(!strcmp(line + at, argv[i]), "/proc/self/cmdline");
        at += strlen(argv[i]) + 1;
    }
    EXPECT_EQ(size, at, "length of /proc/self/cmdline");
    read_file("/proc/self/status", text, sizeof text);
    char *tracer = strstr(text, "TracerPid:");
    EXPECT(tracer && atoi(tracer + 10) == 0, "TracerPid is 0");

    EXPECT_EQ(RAW(SYS_getpid, 0, 0, 0), getpid(), "getpid");
    EXPECT_EQ(syscall(SYS_gettid), getpid(), "gettid of the first thread");
    snprintf(want, sizeof want, "%d", getpid());
    size = CALL(readlink("/proc/self", text, sizeof text - 1));
    text[size] = 0;
    EXPECT(!strcmp(text, want), "/proc/self");
    EXPECT(getauxval(AT_PHDR) && getauxval(AT_ENTRY) && getauxval(AT_SYSINFO_EHDR), "auxv");
    EXPECT(!strcmp((char *)getauxval(AT_EXECFN) + strlen((char *)getauxval(AT_EXECFN)) -
                       strlen("identity"), "identity") || argc > 1, "AT_EXECFN");
    EXPECT_EQ(getauxval(AT_SECURE), 0, "AT_SECURE");

    int again[64];
    EXPECT_EQ(list(again, 64), count, "descriptors at the end");
    if (argc == 1) {
        int closing = CALL(open("/dev/null", O_RDONLY | O_CLOEXEC));
        int staying = CALL(open("/dev/null", O_RDONLY));
        char number[16];
        snprintf(number, sizeof number, "%d", staying);
        for (int fork_first = 0; fork_first < 2; fork_first++) {
            pid_t child = fork_first ? CALL(fork()) : vfork();
            if (child == 0) {
                execl("/proc/self/exe", "other name", "child", number, (char *)NULL);
                _exit(1);
            }
            expect_exit(child, 0, "the descriptors and arguments of a child");
        }
        close(closing), close(staying);
        return ok();
    }
    return 0;
}
