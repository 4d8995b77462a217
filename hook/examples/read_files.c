/* read_files.c: logs every file that a program, or a whole build, opens for reading.
 *
 *     crossgate run --hook ./libread_files.so --hook-log files -- make
 *     sort -u files
 */
#include <crossgate.h>

enum { OPEN = 2, OPENAT = 257, OPENAT2 = 437, ACCESS_MODE = 3, WRITE_ONLY = 1 };

int crossgate_hook_init(struct crossgate_task *task, const char *argument) {
    (void)task, (void)argument;
    crossgate_subscribe(OPEN);
    crossgate_subscribe(OPENAT);
    return (int)crossgate_subscribe(OPENAT2);
}

enum crossgate_action crossgate_hook_enter(struct crossgate_task *task,
                                           struct crossgate_call *call, long *result) {
    (void)task, (void)call, (void)result;
    return CROSSGATE_WATCH;
}

long crossgate_hook_exit(struct crossgate_task *task, const struct crossgate_call *call,
                         long result) {
    uint64_t path = call->args[call->nr == OPEN ? 0 : 1], flags = call->args[call->nr == OPEN ? 1 : 2];
    if (call->nr == OPENAT2) crossgate_read(task, &flags, call->args[2], sizeof flags);
    if (result < 0 || (flags & ACCESS_MODE) == WRITE_ONLY) return result;
    char name[1024];
    long len = crossgate_read_string(task, name, path, sizeof name);
    if (len > 0) crossgate_log(task, name, (size_t)len);
    return result;
}
