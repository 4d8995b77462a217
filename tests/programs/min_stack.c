/* min_stack.c: calls with next to no stack left, down to none, and threads of the minimal size.
 *
 * Hazard: `syscall` itself uses no stack at all; a trampoline that pushes, or a signal frame of
 * 3 to 11 KB put on the program's stack, runs into the guard page.
 */
#include "check.h"

/* Runs getppid with `left` bytes between rsp and the guard page. */
static long at(char *low, long left, int shape) {
    long result;
    char *top = low + left;
    if (shape == 0)
        __asm__ volatile("mov %%rsp,%%r12\n mov %1,%%rsp\n mov $110,%%eax\n syscall\n"
                         "mov %%r12,%%rsp"
                         : "=a"(result) : "r"(top) : "r12", "rcx", "r11", "memory");
    else
        __asm__ volatile("mov %%rsp,%%r12\n mov %1,%%rsp\n mov %2,%%eax\n nop\n syscall\n"
                         "mov %%r12,%%rsp"
                         : "=&a"(result) : "r"(top), "r"(110) : "r12", "rcx", "r11", "memory");
    return result;
}

static long fresh(char *low, long left) {
    /* A new site for every depth: generated code, so that each one traps for the first time. */
    static unsigned char *code;
    if (!code) {
        code = mmap(NULL, 65536, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS,
                    -1, 0);
        EXPECT(code != MAP_FAILED, "mmap");
    }
    static const unsigned char body[] = {0x49, 0x89, 0xe0,                   /* mov rsp,r8 */
                                         0x48, 0x89, 0xfc,                   /* mov rdi,rsp */
                                         0xb8, 110,  0,    0, 0, 0x0f, 0x05, /* getppid */
                                         0x4c, 0x89, 0xc4, 0xc3};            /* mov r8,rsp; ret */
    memcpy(code, body, sizeof body);
    long result = ((long (*)(char *))(void *)code)(low + left);
    code += 32;
    return result;
}

static void *worker(void *argument) {
    for (int i = 0; i < 20; i++) EXPECT_EQ(RAW(SYS_getpid, 0, 0, 0), getpid(), "getpid");
    return argument;
}

int main(void) {
    begin("min_stack");
    char *low = mmap(NULL, 32 * 1024, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(low != MAP_FAILED, "mmap");
    low += 16 * 1024;
    CALL(mprotect(low, 16 * 1024, PROT_READ | PROT_WRITE));
    static const long left[] = {16384, 8192, 4096, 2048, 1024, 512, 256, 136, 128, 64, 8, 0};
    for (unsigned i = 0; i < sizeof left / sizeof *left; i++) {
        char what[64];
        snprintf(what, sizeof what, "call with %ld bytes of stack left", left[i]);
        for (int run = 0; run < 3; run++) {
            EXPECT_EQ(at(low, left[i], 0), getppid(), what);
            EXPECT_EQ(at(low, left[i], 1), getppid(), what);
        }
        EXPECT_EQ(fresh(low, left[i]), getppid(), what);
    }
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    EXPECT_EQ(pthread_attr_setstacksize(&attributes, (size_t)sysconf(_SC_THREAD_STACK_MIN)), 0,
              "pthread_attr_setstacksize");
    pthread_t threads[16];
    for (int i = 0; i < 16; i++)
        EXPECT_EQ(pthread_create(&threads[i], &attributes, worker, NULL), 0, "pthread_create");
    for (int i = 0; i < 16; i++) pthread_join(threads[i], NULL);
    return ok();
}
