/* promises.c: a hook that does what its argument says, to hold crossgate.h to its word. */
#include <crossgate.h>

enum {
    WRITE = 1, OPEN = 2, GETPID = 39, GETUID = 102, GETGID = 104, GETPPID = 110, GETTID = 186, GETEUID = 107,
    OPENAT = 257, EFAULT = -14, ENAMETOOLONG = -36, EPERM = -1,
};

static const char *wish;
static long begun, ended, processes;

static int is(const char *name) {
    const char *a = wish;
    while (*a && *a == *name) a++, name++;
    return *a == *name;
}

/* Writes where nothing is. */
static void crash(void) {
    static volatile uintptr_t nowhere = 8;
    *(volatile int *)nowhere = 0;
}

static void say(struct crossgate_task *task, const char *text) {
    size_t len = 0;
    while (text[len]) len++;
    crossgate_log(task, text, len);
}

/* What the functions promise about memory and calls; the name of the first that does not hold. */
static const char *memory(struct crossgate_task *task) {
    char here[64] = "abc", there[64];
    uint64_t in = (uint64_t)(uintptr_t)here, nowhere = 16;
    if (crossgate_read(task, there, in, 4) != 4 || there[2] != 'c') return "read";
    if (crossgate_read(task, there, nowhere, 4) != EFAULT) return "read of nothing";
    if (crossgate_write(task, in, "xyz", 4) != 4 || here[0] != 'x') return "write";
    if (crossgate_write(task, nowhere, "xyz", 4) != EFAULT) return "write to nothing";
    if (crossgate_read_string(task, there, in, sizeof there) != 3) return "read_string";
    if (crossgate_read_string(task, there, in, 3) != ENAMETOOLONG) return "a long string";
    if (crossgate_read_string(task, there, nowhere, 3) != EFAULT) return "no string";
    struct crossgate_call pid = {.nr = GETPID}, tid = {.nr = GETTID};
    if (crossgate_call(task, &pid) != crossgate_pid(task)) return "pid";
    if (crossgate_call(task, &tid) != crossgate_tid(task)) return "tid";
    if (crossgate_subscribe(GETPID) != EPERM) return "a late subscription";
    return "ok";
}

int crossgate_hook_init(struct crossgate_task *task, const char *argument) {
    wish = argument;
    if (is("refuse")) return EPERM;
    if (is("crash at start")) crash();
    if (is("everything") || is("pass")) return (int)crossgate_subscribe(-1);
    (void)task;
    static const int calls[] = {WRITE, GETUID, GETGID, GETPPID, GETEUID, OPENAT, OPEN};
    for (unsigned i = 0; i < sizeof calls / sizeof *calls; i++) crossgate_subscribe(calls[i]);
    return crossgate_subscribe(100000) == -22 ? 0 : -22;
}

enum crossgate_action crossgate_hook_enter(struct crossgate_task *task,
                                           struct crossgate_call *call, long *result) {
    if (is("everything")) return CROSSGATE_WATCH;
    if (is("pass")) return CROSSGATE_CONTINUE;
    if (is("change") && call->nr == GETPPID) return call->nr = GETPID, CROSSGATE_CHANGE;
    if (is("look") && call->nr == GETPPID) return call->nr = GETPID, CROSSGATE_CONTINUE;
    if (is("answer") && call->nr == GETPPID) return *result = 4242, CROSSGATE_ANSWER;
    if (is("fail") && call->nr == GETPPID) return *result = -5, CROSSGATE_ANSWER;
    if (is("another call") && call->nr == GETPPID) call->nr = GETPID;
    if (is("redirect") && (call->nr == OPENAT || call->nr == OPEN)) {
        char path[64];
        unsigned at = call->nr == OPENAT;
        if (crossgate_read_string(task, path, call->args[at], sizeof path) == 8 && path[1] == 'n')
            call->args[at] = (uint64_t)(uintptr_t)"/etc/hostname";
    }
    if (is("memory") && call->nr == GETPPID) say(task, memory(task));
    if (is("crash") && call->nr == GETPPID) crash();
    if (is("crash later") && call->nr == GETPPID) ((void (*)(void))16)();
    if (is("illegal") && call->nr == GETPPID) __builtin_trap();
    if (is("give up") && call->nr == GETPPID) crossgate_fail(task, "enough", 6);
    if (is("state") && call->nr == GETPPID) {
        long *calls = crossgate_task_state(task);
        *result = ++*calls;
        return CROSSGATE_ANSWER;
    }
    if (is("events") && call->nr == GETPPID) {
        *result = begun * 10000 + processes * 100 + ended;
        return CROSSGATE_ANSWER;
    }
    return CROSSGATE_WATCH;
}

long crossgate_hook_exit(struct crossgate_task *task, const struct crossgate_call *call,
                         long result) {
    (void)task;
    if (call->nr != GETUID) return result;
    if (is("double")) return result * 2;
    if (is("add one")) return result + 1;
    return result;
}

void crossgate_hook_task(struct crossgate_task *task, enum crossgate_event event) {
    (void)task;
    long *counter = event == CROSSGATE_TASK_ENDS       ? &ended
                    : event == CROSSGATE_PROCESS_BEGINS ? &processes
                                                        : &begun;
    __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}
