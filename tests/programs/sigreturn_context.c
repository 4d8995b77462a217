/* sigreturn_context.c: what a handler writes into its ucontext takes effect at sigreturn.
 *
 * Hazard: a signal that lands while the program is inside a trampoline has the agent's registers
 * in its frame. The program must see, and change, its own: rip behind the call, rax the result,
 * any other register, a vector register, the mask; or jump elsewhere altogether.
 */
#include "check.h"

extern char after_kill[], after_tgkill[];
static volatile int runs;
static void *volatile seen_rip, *volatile seen_rsp;
static volatile long seen_rax;

static void change(int signo, siginfo_t *info, void *pointer) {
    ucontext_t *context = pointer;
    (void)signo, (void)info;
    runs++;
    seen_rip = (void *)context->uc_mcontext.gregs[REG_RIP];
    seen_rsp = (void *)context->uc_mcontext.gregs[REG_RSP];
    seen_rax = context->uc_mcontext.gregs[REG_RAX];
    context->uc_mcontext.gregs[REG_RAX] = 4242;
    context->uc_mcontext.gregs[REG_RBX] = 0x7777777777777777LL;
    context->uc_mcontext.gregs[REG_R12] = 0x1234567812345678LL;
    context->uc_mcontext.gregs[REG_R10] = 0x1010101010101010LL;
    context->uc_mcontext.fpregs->_xmm[3].element[0] = 0xabcdef01;
    sigaddset(&context->uc_sigmask, SIGUSR2);
}

static volatile int elsewhere_reached;
static jmp_buf back;
static void elsewhere(void) {
    elsewhere_reached++;
    longjmp(back, 1);
}
static void go_elsewhere(int signo, siginfo_t *info, void *pointer) {
    ucontext_t *context = pointer;
    (void)signo, (void)info;
    context->uc_mcontext.gregs[REG_RIP] = (greg_t)(void *)elsewhere;
    context->uc_mcontext.gregs[REG_RSP] =
        ((context->uc_mcontext.gregs[REG_RSP] - 4096) & ~0xfLL) - 8;
}

static void skip_load(int signo, siginfo_t *info, void *pointer) {
    ucontext_t *context = pointer;
    (void)signo, (void)info;
    context->uc_mcontext.gregs[REG_RIP] += 3; /* the length of mov (%rax),%rbx */
    context->uc_mcontext.gregs[REG_RBX] = 99;
    runs++;
}

int main(void) {
    begin("sigreturn_context");
    handle(SIGUSR1, change, 0);
    for (int round = 0; round < 4; round++) {
        register long rbx __asm__("rbx") = 1;
        register long r12 __asm__("r12") = 2;
        register long r10 __asm__("r10") = 3;
        long result, rsp;
        unsigned vector;
        __asm__ volatile("mov %%rsp,%1\n"
                         "mov $62,%%eax\n syscall\n after_kill:\n"
                         "movd %%xmm3,%2\n"
                         : "=&a"(result), "=&r"(rsp), "=&r"(vector), "+r"(rbx), "+r"(r12),
                           "+r"(r10)
                         : "D"((long)getpid()), "S"((long)SIGUSR1)
                         : "rcx", "r11", "xmm3", "memory");
        long got_rbx = rbx, got_r12 = r12, got_r10 = r10;
        EXPECT_EQ(runs, round + 1, "handler runs");
        EXPECT_EQ((long)seen_rip, (long)after_kill, "rip in the handler's context");
        EXPECT_EQ((long)seen_rsp, rsp, "rsp in the handler's context");
        EXPECT_EQ(seen_rax, 0, "result in the handler's context");
        EXPECT_EQ(result, 4242, "rax set by the handler");
        EXPECT_EQ(got_rbx, 0x7777777777777777LL, "rbx set by the handler");
        EXPECT_EQ(got_r12, 0x1234567812345678LL, "r12 set by the handler");
        EXPECT_EQ(got_r10, 0x1010101010101010LL, "r10 set by the handler");
        EXPECT_EQ(vector, 0xabcdef01u, "xmm3 set by the handler");
        sigset_t mask;
        CALL(sigprocmask(SIG_BLOCK, NULL, &mask));
        EXPECT_EQ(bits_of(&mask), BIT(SIGUSR2), "mask set through the context");
        mask = set_of(SIGUSR2, 0);
        CALL(sigprocmask(SIG_UNBLOCK, &mask, NULL));
    }
    handle(SIGUSR1, go_elsewhere, 0);
    for (int round = 0; round < 3; round++) {
        if (setjmp(back) == 0) {
            RAW(SYS_kill, getpid(), SIGUSR1, 0);
            fail("went on behind the call although the handler changed rip");
        }
        EXPECT_EQ(elsewhere_reached, round + 1, "code named by the handler");
    }
    handle(SIGSEGV, skip_load, 0);
    runs = 0;
    for (int round = 0; round < 3; round++) {
        long value;
        __asm__ volatile(".byte 0x48,0x8b,0x18" : "=&b"(value) : "a"(8L) : "memory");
        EXPECT_EQ(value, 99, "rbx set for the load that faulted");
        EXPECT_EQ(runs, round + 1, "SIGSEGV handler runs");
    }
    return ok();
}
