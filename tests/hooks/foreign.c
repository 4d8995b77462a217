/* foreign.c: a hook library as people write them for zpoline and svc-hook, with neither of their
 * headers nor ours: __hook_init finds the function that makes calls, and puts its own there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

typedef long (*syscall_fn_t)(long, long, long, long, long, long, long);

static syscall_fn_t next_sys_call;
static const char *wish;

static long hook_function(long a1, long a2, long a3, long a4, long a5, long a6, long a7) {
    char text[32];
    if (snprintf(text, sizeof text, "%ld", a1) < 1) abort();
    if (a1 == SYS_getppid && wish) {
        if (!strcmp(wish, "answer")) return 4242;
        if (!strcmp(wish, "change")) return next_sys_call(SYS_getpid, 0, 0, 0, 0, 0, 0);
        if (!strcmp(wish, "add")) return next_sys_call(a1, a2, a3, a4, a5, a6, a7) + 1;
        if (!strcmp(wish, "twice"))
            return next_sys_call(a1, a2, a3, a4, a5, a6, a7) -
                   next_sys_call(a1, a2, a3, a4, a5, a6, a7) + 99;
        if (!strcmp(wish, "crash")) *(volatile int *)8 = 0;
    }
    return next_sys_call(a1, a2, a3, a4, a5, a6, a7);
}

int __hook_init(long placeholder, void *sys_call_hook_ptr) {
    (void)placeholder;
    wish = getenv("WISH");
    next_sys_call = *(syscall_fn_t *)sys_call_hook_ptr;
    *(syscall_fn_t *)sys_call_hook_ptr = hook_function;
    return 0;
}
