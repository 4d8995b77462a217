/* clone_raw.c: clone in its less common forms: VM without THREAD, VM|VFORK on a stack of its
 * own, tid pointers, a thread without TLS, fork-like clone with a new stack.
 *
 * Hazard: each form needs the child to get agent state of its own and to start with the stack,
 * registers and dispatch settings the program asked for.
 */
#include "check.h"

#define STACK (64 * 1024)
static char *stack_of(void) {
    char *low = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(low != MAP_FAILED, "mmap");
    return low + STACK;
}

static volatile int shared;
static int child_of_vm(void *argument) {
    for (int i = 0; i < 5; i++) RAW(SYS_getppid, 0, 0, 0);
    shared = (int)(long)argument;
    return 11;
}

static volatile int thread_calls, thread_tid;
static volatile int parent_tid, child_tid;
static int thread_body(void *argument) {
    (void)argument;
    thread_tid = (int)RAW(SYS_gettid, 0, 0, 0);
    for (int i = 0; i < 100; i++)
        if (RAW(SYS_getpid, 0, 0, 0) > 0) thread_calls++;
    RAW(SYS_exit, 0, 0, 0);
    return 0;
}

/* clone with every register holding a value the child must still have. */
static long clone_registers(long flags, long stack) {
    register long r12 __asm__("r12") = 0x1212, r13 __asm__("r13") = 0x1313;
    register long r8 __asm__("r8") = 0x88, r9 __asm__("r9") = 0x99;
    long result, good = 0;
    __asm__ volatile("mov $0xbbbb,%%ebx\n"
                     "xor %%r10d,%%r10d\n xor %%edx,%%edx\n"
                     "mov $56,%%eax\n syscall\n"
                     "test %%rax,%%rax\n jnz 1f\n"
                     "cmp $0x1212,%%r12\n jne 2f\n cmp $0x1313,%%r13\n jne 2f\n"
                     "cmp $0x88,%%r8\n jne 2f\n cmp $0x99,%%r9\n jne 2f\n"
                     "cmp $0xbbbb,%%rbx\n jne 2f\n test %%rdx,%%rdx\n jnz 2f\n"
                     "test %%rsi,%%rsi\n jz 3f\n cmp %%rsi,%%rsp\n jne 2f\n"
                     "3: mov $13,%%edi\n mov $231,%%eax\n syscall\n"
                     "2: mov $14,%%edi\n mov $231,%%eax\n syscall\n"
                     "1:"
                     : "=a"(result), "+r"(good), "+r"(r8), "+r"(r9)
                     : "D"(flags), "S"(stack), "r"(r12), "r"(r13)
                     : "rbx", "rcx", "rdx", "r10", "r11", "memory", "cc");
    return result;
}

int main(void) {
    begin("clone_raw");
    for (int round = 0; round < 5; round++) {
        char *stack = stack_of();
        shared = 0;
        pid_t child = CALL(clone(child_of_vm, stack, CLONE_VM | CLONE_VFORK | SIGCHLD,
                                 (void *)21L));
        EXPECT_EQ(shared, 21, "memory after CLONE_VM|CLONE_VFORK");
        expect_exit(child, 11, "CLONE_VM|CLONE_VFORK");

        child = CALL(clone(child_of_vm, stack, CLONE_VM | SIGCHLD, (void *)22L));
        expect_exit(child, 11, "CLONE_VM without THREAD");
        EXPECT_EQ(shared, 22, "memory after CLONE_VM");

        child = CALL(clone(child_of_vm, stack, SIGCHLD, (void *)23L));
        expect_exit(child, 11, "fork-like clone with a stack");
        EXPECT_EQ(shared, 22, "memory is not shared");

        child = (pid_t)clone_registers(SIGCHLD, 0);
        EXPECT(child > 0, "raw clone");
        expect_exit(child, 13, "registers of a raw clone's child");
        child = (pid_t)clone_registers(SIGCHLD, (long)(stack - 256));
        EXPECT(child > 0, "raw clone with a stack");
        expect_exit(child, 13, "registers and stack of a raw clone's child");
        child = (pid_t)clone_registers(CLONE_VM | SIGCHLD, (long)(stack - 256));
        EXPECT(child > 0, "raw clone with CLONE_VM");
        expect_exit(child, 13, "registers and stack of a raw CLONE_VM child");

        thread_calls = 0;
        parent_tid = 0, child_tid = 1;
        int tid = CALL(clone(thread_body, stack,
                             CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
                                 CLONE_SYSVSEM | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID |
                                 CLONE_CHILD_SETTID,
                             NULL, &parent_tid, NULL, &child_tid));
        for (int value; (value = child_tid) != 0;) syscall(SYS_futex, &child_tid, 0, value, NULL);
        EXPECT_EQ(parent_tid, tid, "CLONE_PARENT_SETTID");
        EXPECT_EQ(thread_tid, tid, "gettid in the thread");
        EXPECT_EQ(thread_calls, 100, "calls of a thread without TLS");
        munmap(stack - STACK, STACK);
    }
    return ok();
}
