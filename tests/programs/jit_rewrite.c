/* jit_rewrite.c: write, mprotect to executable, run, back to writable, rewrite, run again; and
 * one file mapped, unmapped and replaced at the same address.
 *
 * Hazard: a page's protection is the agent's to restore after a patch, and a page that went back
 * to writable holds new sites at old addresses.
 */
#include "check.h"

int main(void) {
    begin("jit_rewrite");
    unsigned char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                               -1, 0);
    EXPECT(page != MAP_FAILED, "mmap");
    static const unsigned numbers[] = {SYS_getppid, SYS_getpid, SYS_gettid, SYS_geteuid};
    for (int round = 0; round < 20; round++) {
        unsigned char code[] = {0xb8, 0, 0, 0, 0, 0x0f, 0x05, 0xc3};
        memcpy(code + 1, &numbers[round % 4], 4);
        memset(page, 0xcc, 4096);
        memcpy(page + (round % 5) * 8, code, sizeof code);
        CALL(mprotect(page, 4096, PROT_READ | PROT_EXEC));
        long want = syscall(numbers[round % 4]);
        for (int i = 0; i < 3; i++)
            EXPECT_EQ(((long (*)(void))(void *)(page + (round % 5) * 8))(), want, "result");
        FILE *maps = fopen("/proc/self/maps", "r");
        char line[512], mode[8] = "";
        unsigned long from, to;
        while (fgets(line, sizeof line, maps))
            if (sscanf(line, "%lx-%lx %7s", &from, &to, mode) == 3 && from <= (unsigned long)page &&
                (unsigned long)page < to)
                break;
        fclose(maps);
        EXPECT(!strcmp(mode, "r-xp"), "the page is r-xp after its site was patched");
        CALL(mprotect(page, 4096, PROT_READ | PROT_WRITE));
        page[100] = 1;
    }
    char name[] = "/tmp/jit_rewrite_XXXXXX";
    int fd = CALL(mkstemp(name));
    unlink(name);
    for (int round = 0; round < 8; round++) {
        unsigned char code[4096];
        memset(code, 0xcc, sizeof code);
        unsigned char body[] = {0xb8, 0, 0, 0, 0, 0x0f, 0x05, 0xc3};
        memcpy(body + 1, &numbers[round % 4], 4);
        memcpy(code, body, sizeof body);
        EXPECT_EQ(pwrite(fd, code, sizeof code, 0), 4096, "pwrite");
        void *at = mmap(page, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd, 0);
        EXPECT(at == page, "mmap of the file");
        long want = syscall(numbers[round % 4]);
        for (int i = 0; i < 3; i++)
            EXPECT_EQ(((long (*)(void))(void *)page)(), want, "result of mapped code");
        unsigned char on_disk[8];
        EXPECT_EQ(pread(fd, on_disk, 8, 0), 8, "pread");
        EXPECT(!memcmp(on_disk, body, 8), "the file itself is not patched");
        CALL(munmap(page, 4096));
    }
    close(fd);
    return ok();
}
