/* jit_rwx.c: code written into a page that is readable, writable and executable.
 *
 * Hazard: the program rewrites its code without any call the agent could see; a patched site is
 * overwritten by new code, and the patch must not be written back or assumed to be there.
 */
#include "check.h"

static void emit(unsigned char *at, unsigned number, int shape) {
    unsigned char code[16] = {0xb8, 0, 0, 0, 0, 0x0f, 0x05, 0xc3};
    memcpy(code + 1, &number, 4);
    if (shape == 1) { /* mov edi,edi first, so that no mov imm stands before the call */
        unsigned char other[16] = {0xb8, 0, 0, 0, 0, 0x89, 0xff, 0x0f, 0x05, 0xc3};
        memcpy(other + 1, &number, 4);
        memcpy(code, other, sizeof code);
    }
    memcpy(at, code, sizeof code);
}

int main(void) {
    begin("jit_rwx");
    unsigned char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE | PROT_EXEC,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(page != MAP_FAILED, "mmap");
    static const unsigned numbers[] = {SYS_getppid, SYS_getpid, SYS_gettid, SYS_getuid};
    for (int round = 0; round < 24; round++) {
        unsigned char *at = page + (round % 3) * 64 + round % 2;
        emit(at, numbers[round % 4], (round / 4) % 2);
        long want = syscall(numbers[round % 4]);
        for (int i = 0; i < 3; i++)
            EXPECT_EQ(((long (*)(void))(void *)at)(), want, "result of generated code");
    }
    /* Code without a call where a patched site was. */
    memset(page, 0x90, 4096);
    unsigned char plain[] = {0xb8, 0x2a, 0, 0, 0, 0xc3};
    memcpy(page, plain, sizeof plain);
    EXPECT_EQ(((long (*)(void))(void *)page)(), 42, "code without a call");
    for (int i = 6; i < 256; i++) EXPECT_EQ(page[i], 0x90, "no patch came back");
    return ok();
}
