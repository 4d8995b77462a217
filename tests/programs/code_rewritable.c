/* code_rewritable.c: a task is blocked in a call while another makes the page of its code writable,
 * then a signal comes.
 *
 * Hazard: the page gets its own bytes back, so the way by which the blocked call came is gone; the
 * handler must still see the program's own address, and the call must begin again.
 */
#include "check.h"

ssize_t own_read(int descriptor, void *to, size_t size);
__asm__(".pushsection .own_code, \"ax\", @progbits\n"
        ".balign 4096\n"
        ".globl own_read\n"
        ".type own_read, @function\n"
        "own_read: .cfi_startproc\n"
        "mov $0, %eax\n"
        "syscall\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size own_read, . - own_read\n"
        ".balign 4096\n"
        ".popsection\n");

#define CALLS 21
static int ends[2];
static volatile int handled, inside;

static void handler(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    unsigned long at = (unsigned long)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
    inside = at >= (unsigned long)own_read && at < (unsigned long)own_read + 8;
    handled = 1;
}

static void *reader(void *unused) {
    char byte;
    for (int i = 0; i < CALLS; i++)
        if (own_read(ends[0], &byte, 1) != 1) fail("read %d", i);
    return unused;
}

int main(void) {
    begin("code_rewritable");
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_RESTART | SA_SIGINFO};
    CALL(sigaction(SIGUSR1, &action, NULL));
    CALL(pipe(ends));
    for (int i = 0; i < CALLS - 1; i++) {
        getppid(); /* so that not all patches are those of the page */
        EXPECT(write(ends[1], "x", 1) == 1, "write");
    }
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, reader, NULL) == 0, "pthread_create");
    usleep(100000); /* it has read what there was, and waits */
    CALL(mprotect((void *)own_read, 4096, PROT_READ | PROT_WRITE | PROT_EXEC));
    EXPECT(pthread_kill(thread, SIGUSR1) == 0, "pthread_kill");
    for (int i = 0; i < 1000 && !handled; i++) usleep(1000);
    EXPECT(handled, "the handler ran");
    EXPECT(inside, "its context is in the program's own code");
    EXPECT(write(ends[1], "y", 1) == 1, "write");
    EXPECT(pthread_join(thread, NULL) == 0, "pthread_join");
    return ok();
}
