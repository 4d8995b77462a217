/* int80.c: `int $0x80` in a 64-bit program: the 32-bit table, 32-bit arguments.
 *
 * Hazard: Syscall User Dispatch traps this way too; taken for a 64-bit call, number 20 (getpid)
 * would run writev. r8 to r11 must be kept as well.
 */
#include "check.h"

static long int80(long number, long a, long b, long c) {
    register long r8 __asm__("r8") = 0x8888;
    long result;
    __asm__ volatile("int $0x80"
                     : "=a"(result), "+r"(r8) : "a"(number), "b"(a), "c"(b), "d"(c)
                     : "memory", "r9", "r10", "r11");
    long kept = r8;
    EXPECT_EQ(kept, 0x8888, "r8 after int $0x80");
    return result;
}

int main(void) {
    begin("int80");
    char *low = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT,
                     -1, 0);
    EXPECT(low != MAP_FAILED, "mmap");
    int ends[2];
    CALL(pipe(ends));
    for (int run = 0; run < 4; run++) {
        EXPECT_EQ(int80(20, 0, 0, 0), getpid(), "getpid by int $0x80");
        EXPECT_EQ(int80(64, 0, 0, 0), getppid(), "getppid by int $0x80");
        memcpy(low, "hello", 5);
        EXPECT_EQ(int80(4, ends[1], (long)low, 5), 5, "write by int $0x80");
        memset(low, 0, 5);
        EXPECT_EQ(int80(3, ends[0], (long)low, 5), 5, "read by int $0x80");
        EXPECT(!memcmp(low, "hello", 5), "what was read");
        EXPECT_EQ((int)int80(6, -1, 0, 0), -EBADF, "close(-1) by int $0x80");
    }
    return ok();
}
