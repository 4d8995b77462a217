/* vfork_sighand.c: SIGSYS is ignored, and a child of vfork's kind that shares the handlers executes.
 *
 * Hazard: the agent needs a handler of SIGSYS; a program that is executed must find it ignored, but
 * whoever shares the child's handlers must keep the agent's.
 */
#include "check.h"

static char stack[64 << 10];

static int child(void *unused) {
    (void)unused;
    execl("/bin/true", "true", (char *)NULL);
    _exit(9);
}

int main(void) {
    begin("vfork_sighand");
    signal(SIGSYS, SIG_IGN);
    int flags = CLONE_VM | CLONE_VFORK | CLONE_SIGHAND | SIGCHLD;
    pid_t pid = CALL(clone(child, stack + sizeof stack, flags, NULL));
    expect_exit(pid, 0, "the executed program");
    /* Sites that nobody has called before. */
    EXPECT(getpgrp() > 0 && getsid(0) >= 0, "calls go on");
    return ok();
}
