/* temp_masks.c: sigsuspend, ppoll, pselect and epoll_pwait swap the mask for the time of the call.
 *
 * Hazard: these calls carry a mask that the agent must edit without the program noticing. Seen
 * from the handler: the temporary mask plus the signal itself; in its ucontext the mask from
 * before the call; after the call the same one again.
 */
#include <sys/epoll.h>
#include <sys/select.h>
#include "check.h"

static volatile int runs;
static volatile uint64_t seen, saved;
static void look(int signo, siginfo_t *info, void *pointer) {
    (void)signo, (void)info;
    ucontext_t *context = pointer;
    sigset_t mask;
    sigprocmask(SIG_BLOCK, NULL, &mask);
    seen = bits_of(&mask);
    memcpy((void *)&saved, &context->uc_sigmask, 8);
    runs++;
}

static int wait_with(int kind, sigset_t *mask, int epoll) {
    struct timespec limit = {20, 0};
    struct epoll_event event;
    switch (kind) {
    case 0: return sigsuspend(mask);
    case 1: return ppoll(NULL, 0, &limit, mask);
    case 2: return pselect(0, NULL, NULL, NULL, &limit, mask);
    default: return epoll_pwait(epoll, &event, 1, 20000, mask);
    }
}

int main(void) {
    begin("temp_masks");
    int epoll = CALL(epoll_create1(0));
    static const char *const names[] = {"sigsuspend", "ppoll", "pselect", "epoll_pwait"};
    handle(SIGUSR1, look, 0);
    for (int with_sys = 0; with_sys < 2; with_sys++)
        for (int round = 0; round < 2; round++)
            for (int kind = 0; kind < 4; kind++) {
                sigset_t before = set_of(SIGUSR1, SIGHUP, with_sys ? SIGSYS : 0, 0), after;
                sigset_t during = set_of(SIGUSR2, with_sys ? 0 : SIGSYS, 0);
                CALL(sigprocmask(SIG_SETMASK, &before, NULL));
                raise(SIGUSR1);
                runs = 0;
                errno = 0;
                EXPECT_EQ(wait_with(kind, &during, epoll), -1, names[kind]);
                EXPECT_EQ(errno, EINTR, names[kind]);
                EXPECT_EQ(runs, 1, "handler runs");
                EXPECT_EQ(seen, bits_of(&during) | BIT(SIGUSR1), "mask inside the handler");
                EXPECT_EQ(saved, bits_of(&before), "uc_sigmask");
                CALL(sigprocmask(SIG_BLOCK, NULL, &after));
                EXPECT_EQ(bits_of(&after), bits_of(&before), "mask after the call");
            }
    /* SIGSYS itself, opened for the time of the call. */
    handle(SIGSYS, look, 0);
    for (int kind = 0; kind < 4; kind++) {
        sigset_t before = set_of(SIGSYS, 0), during;
        sigemptyset(&during);
        CALL(sigprocmask(SIG_SETMASK, &before, NULL));
        runs = 0;
        raise(SIGSYS);
        EXPECT_EQ(runs, 0, "SIGSYS is blocked");
        EXPECT_EQ(wait_with(kind, &during, epoll), -1, names[kind]);
        EXPECT_EQ(runs, 1, "SIGSYS delivered during the call");
        EXPECT_EQ(seen, BIT(SIGSYS), "mask inside the SIGSYS handler");
    }
    return ok();
}
