/* clone_vm_many.c: 200 processes that share this one's memory, one after another.
 *
 * Hazard: such a process has a table of signal handlers and agent state of its own, in memory that
 * does not go with it. Nobody frees them unless it does so on its way out, and then there is soon
 * no room for the next.
 */
#include "check.h"

#define PROCESSES 200
#define STACK (64 * 1024)
static volatile int turns;

static int child(void *number) {
    struct sigaction action;
    if (sigaction(SIGUSR1, NULL, &action) < 0 || action.sa_handler != SIG_IGN) return 1;
    signal(SIGUSR1, SIG_DFL); /* not its parent's, which has CLONE_SIGHAND not set */
    int status = ++turns == (int)(long)number ? 5 : 2;
    if ((long)number % 2) return status; /* the C library then ends the thread, not the process */
    _exit(status);
}

int main(void) {
    begin("clone_vm_many");
    char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(stack != MAP_FAILED, "mmap");
    signal(SIGUSR1, SIG_IGN);
    for (long number = 1; number <= PROCESSES; number++) {
        pid_t pid = clone(child, stack + STACK, CLONE_VM | SIGCHLD, (void *)number);
        if (pid < 0) fail("clone %ld: %s", number, strerror(errno));
        expect_exit(pid, 5, "a process with this memory (1 handlers, 2 turns)");
    }
    return ok();
}
