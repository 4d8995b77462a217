/* dispatch_user.c: a program that uses Syscall User Dispatch itself.
 *
 * Hazard: there is one dispatch setting per thread and the agent owns it; the program's range,
 * selector and SIGSYS with SYS_USER_DISPATCH must be provided by the agent.
 */
#include <linux/audit.h>
#include "check.h"

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#endif

static volatile char selector;
static volatile int traps;
static siginfo_t last;
extern char dispatch_after[];

static void on_trap(int signo, siginfo_t *info, void *pointer) {
    (void)signo;
    selector = 0;
    traps++;
    last = *info;
    ((ucontext_t *)pointer)->uc_mcontext.gregs[REG_RAX] = 4321;
}

int main(void) {
    begin("dispatch_user");
    handle(SIGSYS, on_trap, 0);
    EXPECT_ERRNO(prctl(PR_SET_SYSCALL_USER_DISPATCH, 77, 0, 0, 0), EINVAL);
    if (prctl(PR_SET_SYSCALL_USER_DISPATCH, 1, 0, 0, &selector) != 0)
        skip("Syscall User Dispatch needs Linux 5.11");
    for (int i = 0; i < 3; i++) {
        long result;
        selector = 1;
        __asm__ volatile("mov $110,%%eax\n syscall\n dispatch_after:"
                         : "=a"(result) : : "rcx", "r11", "memory");
        EXPECT_EQ(selector, 0, "the handler opened the selector");
        EXPECT_EQ(traps, i + 1, "SIGSYS handler runs");
        EXPECT_EQ(result, 4321, "result set by the handler");
        EXPECT_EQ(last.si_code, 2, "si_code (SYS_USER_DISPATCH)");
        EXPECT_EQ(last.si_syscall, SYS_getppid, "si_syscall");
        EXPECT_EQ(last.si_arch, AUDIT_ARCH_X86_64, "si_arch");
        EXPECT_EQ((long)last.si_call_addr, (long)dispatch_after, "si_call_addr");
    }
    CALL(prctl(PR_SET_SYSCALL_USER_DISPATCH, 0, 0, 0, 0));
    selector = 1;
    EXPECT_EQ(RAW(SYS_getppid, 0, 0, 0), getppid(), "a call once it is off");
    return ok();
}
