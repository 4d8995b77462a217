/* vectors.c: a hook that uses vector registers and leaves nothing in them as it was. Compiled
 * without -mgeneral-regs-only.
 */
#include <crossgate.h>

int crossgate_hook_init(struct crossgate_task *task, const char *argument) {
    (void)task, (void)argument;
    return (int)crossgate_subscribe(-1);
}

static void spoil(void) {
    __asm__ volatile("pcmpeqd %%xmm0, %%xmm0\n pcmpeqd %%xmm7, %%xmm7\n"
                     "pcmpeqd %%xmm8, %%xmm8\n pcmpeqd %%xmm15, %%xmm15\n"
                     "fldpi\n fstp %%st(0)" ::: "xmm0", "xmm7", "xmm8", "xmm15");
    unsigned a = 1, c = 0;
    __asm__("cpuid" : "+a"(a), "+c"(c)::"ebx", "edx");
    if (c & 1 << 28) __asm__ volatile("vzeroall" ::: "memory");
}

enum crossgate_action crossgate_hook_enter(struct crossgate_task *task,
                                           struct crossgate_call *call, long *result) {
    (void)task, (void)call, (void)result;
    spoil();
    return CROSSGATE_WATCH;
}

long crossgate_hook_exit(struct crossgate_task *task, const struct crossgate_call *call,
                         long result) {
    (void)task, (void)call;
    spoil();
    return result;
}
