/* fork_chain.c: a chain of 100 processes, each the child of the one before, all alive at once.
 *
 * Hazard: what the agent keeps for an address space goes along with a fork. A child that keeps
 * what it was given for its forebears, and not only for itself, runs out of it some generations on.
 */
#include "check.h"

#define GENERATIONS 100
static volatile int runs;
static void count(int signo, siginfo_t *info, void *context) {
    (void)signo, (void)info, (void)context;
    runs++;
}

int main(void) {
    begin("fork_chain");
    handle(SIGUSR1, count, SA_RESTART);
    for (int generation = 1; generation <= GENERATIONS; generation++) {
        pid_t child = fork();
        if (child < 0) fail("fork of generation %d: %s", generation, strerror(errno));
        if (child) {
            expect_exit(child, 0, "the next generation");
            return generation == 1 ? ok() : 0;
        }
        alarm(TIME_LIMIT);
        raise(SIGUSR1);
        EXPECT_EQ(runs, generation, "the handler went along");
    }
    return 0;
}
