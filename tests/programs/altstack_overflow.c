/* altstack_overflow.c: a stack overflow is caught by a SIGSEGV handler on the alternate stack.
 *
 * Hazard: the recursion makes a call at every level, so the overflow can hit inside a trampoline
 * or while SIGSYS is being delivered; the program must get its SIGSEGV with the faulting address
 * in its guard page, be able to leave by siglongjmp, and do so again.
 */
#include "check.h"

static sigjmp_buf back;
static char *stack_low;
static volatile long fault;

static void overflowed(int signo, siginfo_t *info, void *context) {
    (void)signo, (void)context;
    fault = (long)info->si_addr;
    RAW(SYS_getppid, 0, 0, 0);
    siglongjmp(back, 1);
}

static volatile int sink, endless = 1;
__attribute__((noinline)) static int deeper(int level) {
    volatile char frame[96];
    frame[0] = (char)level;
    RAW(SYS_getppid, 0, 0, 0);
    if (endless) sink = deeper(level + 1) + frame[0];
    return sink;
}

static void *worker(void *argument) {
    stack_t alternate = {.ss_sp = malloc(256 * 1024), .ss_size = 256 * 1024};
    CALL(sigaltstack(&alternate, NULL));
    for (int round = 0; round < 3; round++) {
        if (sigsetjmp(back, 1) == 0) {
            deeper(0);
            fail("the recursion returned");
        }
        EXPECT(fault >= (long)stack_low - 4096 && fault < (long)stack_low + 4096,
               "si_addr lies in the guard page");
    }
    return argument;
}

int main(void) {
    begin("altstack_overflow");
    size_t size = 64 * 4096;
    char *memory = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(memory != MAP_FAILED, "mmap");
    stack_low = memory + 4 * 4096;
    CALL(mprotect(stack_low, size - 4 * 4096, PROT_READ | PROT_WRITE));
    handle(SIGSEGV, overflowed, SA_ONSTACK);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    EXPECT_EQ(pthread_attr_setstack(&attributes, stack_low, size - 4 * 4096), 0, "setstack");
    pthread_t thread;
    EXPECT_EQ(pthread_create(&thread, &attributes, worker, NULL), 0, "pthread_create");
    pthread_join(thread, NULL);
    return ok();
}
