/* seccomp_sigaction.c: a filter answers rt_sigaction by SIGSYS while another signal storms.
 *
 * Hazard: the agent makes filtered calls on the program's behalf; a signal that it holds back
 * meanwhile must not leave SIGSYS blocked, for then the kernel ends the process.
 */
#include "check.h"
#include <linux/filter.h>
#include <linux/seccomp.h>

static volatile long traps, others;
static void on_trap(int signal) { (void)signal, traps++; }
static void on_other(int signal) { (void)signal, others++; }

int main(void) {
    begin("seccomp_sigaction");
    struct sigaction trap = {.sa_handler = on_trap, .sa_flags = SA_NODEFER};
    struct sigaction other = {.sa_handler = on_other, .sa_flags = SA_RESTART};
    CALL(sigaction(SIGSYS, &trap, NULL));
    CALL(sigaction(SIGUSR2, &other, NULL));
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigaction, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = 4, .filter = code};
    CALL(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0) {
        if (errno == EINVAL) skip("a kernel without seccomp filters");
        fail("prctl: %s", strerror(errno));
    }
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR2};
    timer_t timer;
    CALL(timer_create(CLOCK_MONOTONIC, &event, &timer));
    long calls = 0;
    for (time_t end = time(NULL) + 2; time(NULL) < end; calls++) {
        /* One at a time: a storm that does not wait starves a slow tracer for good. */
        struct itimerspec once = {{0, 0}, {0, 1 + calls * 97 % 20000}};
        CALL(timer_settime(timer, 0, &once, NULL));
        char old[32];
        syscall(SYS_rt_sigaction, SIGUSR1, NULL, old, 8);
    }
    EXPECT_EQ(traps, calls, "each call was answered by SIGSYS");
    EXPECT(others > 0, "the other signal came, too");
    return ok();
}
