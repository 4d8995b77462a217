/* seccomp.c: programs that put themselves under seccomp: kill, errno, trap, strict, exec.
 *
 * Hazard: calls of the agent's own are judged by the program's filter, so it may make none that
 * the program would not; SECCOMP_RET_TRAP uses SIGSYS too and must look the same in the handler.
 */
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include "check.h"

#define LOAD_NUMBER BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))
#define ALLOW(number)                                                                        \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),                                       \
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define ON(number, action)                                                                   \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, action)

static void install(struct sock_filter *filter, unsigned length) {
    struct sock_fprog program = {(unsigned short)length, filter};
    CALL(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    CALL(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
}
#define INSTALL(filter) install(filter, sizeof(filter) / sizeof *(filter))

extern char trap_after[];
static volatile int traps;
static siginfo_t trap_info;
static volatile long trap_rip, trap_rax;
static void on_trap(int signo, siginfo_t *info, void *pointer) {
    ucontext_t *context = pointer;
    (void)signo;
    traps++;
    trap_info = *info;
    trap_rip = context->uc_mcontext.gregs[REG_RIP];
    trap_rax = context->uc_mcontext.gregs[REG_RAX];
    context->uc_mcontext.gregs[REG_RAX] = -777;
}

static void kill_list(void) {
    struct sock_filter filter[] = {
        LOAD_NUMBER, ALLOW(SYS_write), ALLOW(SYS_getppid), ALLOW(SYS_exit_group),
        ALLOW(SYS_rt_sigreturn), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)};
    INSTALL(filter);
    for (int i = 0; i < 5; i++) RAW(SYS_getppid, 0, 0, 0);
    if (RAW(SYS_write, -1, "x", 1) != -EBADF) RAW(SYS_exit_group, 1, 0, 0);
    RAW(SYS_getuid, 0, 0, 0); /* not on the list */
    RAW(SYS_exit_group, 2, 0, 0);
}

static void strict(void) {
    CALL(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT));
    for (int i = 0; i < 3; i++)
        if (RAW(SYS_write, -1, "x", 1) != -EBADF) RAW(SYS_exit, 1, 0, 0);
    RAW(SYS_exit, 12, 0, 0);
}

static void strict_kill(void) {
    CALL(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT));
    RAW(SYS_getppid, 0, 0, 0);
    RAW(SYS_exit, 1, 0, 0);
}

static void error_code(void) {
    struct sock_filter filter[] = {LOAD_NUMBER, ON(SYS_getuid, SECCOMP_RET_ERRNO | 99),
                                   BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    INSTALL(filter);
    for (int i = 0; i < 3; i++) EXPECT_EQ(RAW(SYS_getuid, 0, 0, 0), -99, "SECCOMP_RET_ERRNO");
    EXPECT_EQ(RAW(SYS_getppid, 0, 0, 0), getppid(), "a call that is allowed");
    _exit(13);
}

static void trap(void) {
    struct sock_filter filter[] = {LOAD_NUMBER, ON(SYS_getuid, SECCOMP_RET_TRAP | 321),
                                   BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    handle(SIGSYS, on_trap, 0);
    INSTALL(filter);
    for (int i = 0; i < 4; i++) {
        long result;
        __asm__ volatile("mov $102,%%eax\n syscall\n trap_after:"
                         : "=a"(result) : : "rcx", "r11", "memory");
        EXPECT_EQ(traps, i + 1, "SIGSYS handler runs");
        EXPECT_EQ(result, -777, "result set by the handler");
        EXPECT_EQ(trap_info.si_code, 1, "si_code (SYS_SECCOMP)");
        EXPECT_EQ(trap_info.si_errno, 321, "si_errno");
        EXPECT_EQ(trap_info.si_syscall, SYS_getuid, "si_syscall");
        EXPECT_EQ(trap_info.si_arch, AUDIT_ARCH_X86_64, "si_arch");
        EXPECT_EQ((long)trap_info.si_call_addr, (long)trap_after, "si_call_addr");
        EXPECT_EQ(trap_rip, (long)trap_after, "rip in the handler");
        EXPECT_EQ(trap_rax, SYS_getuid, "rax in the handler");
    }
    _exit(14);
}

static void through_exec(char *program) {
    struct sock_filter filter[] = {LOAD_NUMBER, ON(SYS_getuid, SECCOMP_RET_ERRNO | 98),
                                   BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    INSTALL(filter);
    execl("/proc/self/exe", program, "child", (char *)NULL);
    _exit(1);
}

int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "child"))
        return RAW(SYS_getuid, 0, 0, 0) == -98 ? 15 : 2;
    begin("seccomp");
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    const char *only = argc > 1 ? argv[1] : "all";
    for (int part = 0; part < 6; part++) {
        static const char *const names[] = {"kill", "strict", "strict-kill", "errno", "trap",
                                            "exec"};
        if (strcmp(only, "all") && strcmp(only, names[part])) continue;
        pid_t child = CALL(fork());
        if (child == 0) {
            if (part == 0) kill_list();
            if (part == 1) strict();
            if (part == 2) strict_kill();
            if (part == 3) error_code();
            if (part == 4) trap();
            through_exec(argv[0]);
        }
        if (part == 0) expect_signal(child, SIGSYS, names[part]);
        else if (part == 2) expect_signal(child, SIGKILL, names[part]);
        else expect_exit(child, part == 1 ? 12 : 10 + part, names[part]);
    }
    return ok();
}
