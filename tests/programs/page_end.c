/* page_end.c: a `syscall` in the last bytes of a page, across two pages, before an unmapped one.
 *
 * Hazard: the bytes after the instruction cannot be read or borrowed, a patch that is longer
 * than the instruction touches the next page, and a write across two pages is not atomic.
 */
#include "check.h"

static sigjmp_buf back;
static volatile long fault, result_seen, rip_seen;

static void at_fault(int signo, siginfo_t *info, void *pointer) {
    (void)signo;
    ucontext_t *context = pointer;
    fault = (long)info->si_addr;
    result_seen = context->uc_mcontext.gregs[REG_RAX];
    rip_seen = context->uc_mcontext.gregs[REG_RIP];
    siglongjmp(back, 1);
}

static unsigned char *pages;

static void run(unsigned char *code, const char *what) {
    EXPECT_EQ(((long (*)(void))(void *)code)(), getppid(), what);
}

int main(void) {
    begin("page_end");
    static const unsigned char mov_call_ret[] = {0xb8, 0x6e, 0, 0, 0, 0x0f, 0x05, 0xc3};
    handle(SIGSEGV, at_fault, 0);
    for (int round = 0; round < 3; round++) {
        pages = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        EXPECT(pages != MAP_FAILED, "mmap");
        unsigned char *edge = pages + 4096, *end = pages + 2 * 4096;
        memcpy(edge - 6, mov_call_ret, 8);       /* 0f at the end of one page, 05 on the next */
        memcpy(edge - 3 - 64, mov_call_ret, 8);
        memcpy(edge + 64 - 3, mov_call_ret, 8);
        memcpy(end - 8, mov_call_ret, 8);        /* ret is the last byte before nothing */
        CALL(munmap(end, 4096));
        CALL(mprotect(pages, 2 * 4096, PROT_READ | PROT_EXEC));
        for (int i = 0; i < 3; i++) {
            run(edge - 6, "a site across two pages");
            run(end - 8, "a site before the end");
        }
        CALL(mprotect(pages, 2 * 4096, PROT_READ | PROT_WRITE));
        memcpy(edge - 4, mov_call_ret, 8);       /* the mov itself crosses the pages */
        memcpy(end - 7, mov_call_ret, 7);        /* syscall is the last instruction */
        CALL(mprotect(pages, 4096, PROT_READ | PROT_EXEC));
        CALL(mprotect(pages + 4096, 4096, PROT_READ | PROT_WRITE | PROT_EXEC));
        for (volatile int i = 0; i < 3; i++) {
            run(edge - 4, "a mov across two pages");
            fault = 0;
            if (sigsetjmp(back, 1) == 0) {
                run(end - 7, "never returns");
                fail("went on behind the end of the page");
            }
            EXPECT_EQ(fault, (long)end, "si_addr behind the last instruction");
            EXPECT_EQ(rip_seen, (long)end, "rip behind the last instruction");
            EXPECT_EQ(result_seen, getppid(), "result of the last instruction");
        }
        CALL(munmap(pages, 2 * 4096));
    }
    return ok();
}
