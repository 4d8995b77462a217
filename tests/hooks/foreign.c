/* foreign.c: a hook library as people write them for zpoline or (SVC_HOOK) svc-hook, with neither of
 * their headers nor ours: __hook_init finds the function that makes calls, and puts its own there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#ifdef SVC_HOOK
#define PARAMETERS long a, long b, long c, long d, long e, long f, long nr, long site
#define CALL(nr) next_sys_call(a, b, c, d, e, f, nr, site)
#else
#define PARAMETERS long nr, long a, long b, long c, long d, long e, long f
#define CALL(nr) next_sys_call(nr, a, b, c, d, e, f)
#endif

typedef long (*syscall_fn_t)(PARAMETERS);

static syscall_fn_t next_sys_call;
static const char *wish;

static long hook_function(PARAMETERS) {
    char text[32];
    if (snprintf(text, sizeof text, "%ld", nr) < 1) abort();
    if (nr == SYS_getppid && wish) {
        if (!strcmp(wish, "answer")) return 4242;
        if (!strcmp(wish, "change")) return CALL(SYS_getpid);
        if (!strcmp(wish, "twice")) return CALL(nr) * 0 + CALL(nr);
        if (!strcmp(wish, "crash")) *(volatile int *)8 = 0;
    }
    return CALL(nr);
}

int __hook_init(long placeholder, void *sys_call_hook_ptr) {
    (void)placeholder;
    wish = getenv("WISH");
    next_sys_call = *(syscall_fn_t *)sys_call_hook_ptr;
    *(syscall_fn_t *)sys_call_hook_ptr = hook_function;
    return 0;
}
