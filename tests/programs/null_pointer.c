/* null_pointer.c: calling and reading address 0 raise SIGSEGV at address 0, as they always do.
 *
 * Hazard: tools that map page zero turn the commonest bug of all into something else. With the
 * argument `call` or `read` it really dies of it; without, a handler looks at the details.
 */
#include "check.h"

static sigjmp_buf back;
static volatile long fault, rip, code;
static void at_fault(int signo, siginfo_t *info, void *pointer) {
    (void)signo;
    fault = (long)info->si_addr;
    code = info->si_code;
    rip = ((ucontext_t *)pointer)->uc_mcontext.gregs[REG_RIP];
    siglongjmp(back, 1);
}

int main(int argc, char **argv) {
    void (*volatile function)(void) = NULL;
    volatile char *volatile pointer = NULL;
    begin("null_pointer");
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    if (argc > 1 && !strcmp(argv[1], "call")) function();
    if (argc > 1) return *pointer;
    handle(SIGSEGV, at_fault, 0);
    for (volatile int round = 0; round < 3; round++) {
        fault = rip = -1;
        if (sigsetjmp(back, 1) == 0) {
            function();
            fail("the call returned");
        }
        EXPECT_EQ(fault, 0, "si_addr of the call");
        EXPECT_EQ(rip, 0, "rip of the call");
        EXPECT_EQ(code, SEGV_MAPERR, "si_code of the call");
        fault = -1;
        if (sigsetjmp(back, 1) == 0) {
            (void)*pointer;
            fail("the read returned");
        }
        EXPECT_EQ(fault, 0, "si_addr of the read");
        EXPECT_EQ(code, SEGV_MAPERR, "si_code of the read");
    }
    return ok();
}
