/* daemonize.c: becomes a daemon as daemons do: fork, exit, setsid, fork, exit; then works on.
 *
 * Hazard: each parent is gone before anybody can look at its child. A supervisor that finds all
 * processes gone that it knows must not leave while one of them may have made another. The calls
 * of the last one are in the trace only if it was followed. `ok` is written first: when the
 * first process has ended, nobody waits for the output of the others.
 */
#include "check.h"

int main(void) {
    begin("daemonize");
    if (ok()) return 1;
    if (CALL(fork())) _exit(0);
    CALL(setsid());
    if (CALL(fork())) _exit(0);
    sleep_ms(20);
    for (int i = 0; i < 20; i++) RAW(SYS_getppid, 0, 0, 0);
    return 0;
}
