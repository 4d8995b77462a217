/* site_shapes.c: sites that are hard to patch, and jumps into the middle of a patched sequence.
 *
 * Hazard: a jump to the `syscall` behind a `mov` that became a jump; `xor eax,eax` in place of
 * the mov; following bytes that give a pun no page to land on; two sites back to back; a site
 * that is itself a jump target of the instruction after it; a prefixed `syscall`.
 */
#include "check.h"

#define SHAPE(name, text) \
    extern long name(long); \
    __asm__(".text\n.balign 64\n.globl " #name "\n.type " #name ",@function\n" #name ":\n" text "\n")

/* rdi: 0 runs the mov, else the number goes in from outside and the mov is jumped over. */
SHAPE(jump_in, "test %edi,%edi\n jz 1f\n mov %edi,%eax\n jmp 2f\n"
               "1: mov $110,%eax\n 2: syscall\n ret");
/* read(-1, 0, 0) = -EBADF through xor. */
SHAPE(xor_zero, "mov $-1,%rdi\n xor %esi,%esi\n xor %edx,%edx\n xor %eax,%eax\n syscall\n ret");
/* The three bytes after the site make e9 xx .. .. .. point below zero or far above. */
SHAPE(pun_80, "mov %edi,%eax\n syscall\n lea -0x80(%rax),%rax\n ret");
SHAPE(pun_7f, "mov %edi,%eax\n syscall\n jmp 1f\n .byte 0x7f\n 1: ret");
SHAPE(pun_00, "mov %edi,%eax\n syscall\n .byte 0x0f,0x1f,0x00\n ret"); /* nopl (%rax) */
SHAPE(pun_ff, "mov %edi,%eax\n syscall\n jmp 1f\n .byte 0xff\n 1: ret");
/* Two sites back to back: the first one's tail is the second one's head. */
SHAPE(twice, "mov %edi,%eax\n syscall\n mov %edi,%eax\n syscall\n ret");
SHAPE(back_to_back, "mov $100000,%eax\n syscall\n syscall\n ret"); /* -ENOSYS is no number either */
/* The instruction after the site is a jump target, and the site is in a loop of two bytes. */
SHAPE(loop_site, "mov $5,%r8d\n 1: mov %edi,%eax\n syscall\n dec %r8d\n jnz 1b\n ret");
SHAPE(loop_mov, "mov $5,%r8d\n mov $110,%eax\n jmp 2f\n 1: mov %edi,%eax\n"
                "2: syscall\n dec %r8d\n jnz 1b\n ret");
/* Prefixes are allowed before syscall and make it longer. */
SHAPE(prefixed, "mov $110,%eax\n .byte 0x48\n syscall\n ret");
/* A mov to eax whose immediate holds the bytes of a syscall, jumped into. */
SHAPE(in_immediate, "mov %edi,%eax\n jmp 1f\n .byte 0xb8\n 1: .byte 0x0f,0x05,0xeb,0x00\n ret");
/* A wide mov, a push and pop of the number, and lea as the source of the number. */
SHAPE(wide_mov, "mov $110,%rax\n syscall\n ret");
SHAPE(push_pop, "push $110\n pop %rax\n syscall\n ret");
SHAPE(with_lea, "xor %eax,%eax\n lea 110(%rax),%eax\n syscall\n ret");
/* The flags after the call decide a branch that was computed before it. */
SHAPE(flags_after, "cmp $110,%edi\n mov %edi,%eax\n syscall\n jne 1f\n ret\n 1: mov $-1,%rax\n ret");
/* rcx after the call is used as the kernel sets it. */
SHAPE(rcx_after, "mov %edi,%eax\n syscall\n 1: lea 1b(%rip),%rdx\n cmp %rdx,%rcx\n"
                 "je 2f\n mov $-2,%rax\n 2: ret");

int main(void) {
    begin("site_shapes");
    long want = getppid();
    for (int run = 0; run < 5; run++) {
        /* In odd runs the direct jump comes first, so that it finds the site not yet patched. */
        EXPECT_EQ(jump_in(run & 1 ? 110 : 0), want, "jump_in");
        EXPECT_EQ(jump_in(run & 1 ? 0 : 110), want, "jump_in, the other way");
        EXPECT_EQ(jump_in(SYS_getpid), getpid(), "jump_in with another number");
        EXPECT_EQ(xor_zero(0), -EBADF, "xor_zero");
        EXPECT_EQ(pun_80(110), want - 0x80, "pun_80");
        EXPECT_EQ(pun_7f(110), want, "pun_7f");
        EXPECT_EQ(pun_00(110), want, "pun_00");
        EXPECT_EQ(pun_ff(110), want, "pun_ff");
        EXPECT_EQ(twice(110), want, "twice");
        EXPECT_EQ(back_to_back(0), -ENOSYS, "back_to_back");
        EXPECT_EQ(loop_site(110), want, "loop_site");
        EXPECT_EQ(loop_mov(110), want, "loop_mov");
        EXPECT_EQ(prefixed(0), want, "prefixed");
        EXPECT_EQ(in_immediate(110), want, "in_immediate");
        EXPECT_EQ(wide_mov(0), want, "wide_mov");
        EXPECT_EQ(push_pop(0), want, "push_pop");
        EXPECT_EQ(with_lea(0), want, "with_lea");
        EXPECT_EQ(flags_after(110), want, "flags_after");
        EXPECT_EQ(rcx_after(110), want, "rcx_after");
        EXPECT_EQ(rcx_after(-1), -ENOSYS, "a number that does not exist");
        EXPECT_EQ(rcx_after(100000), -ENOSYS, "a number far above the table");
    }
    return ok();
}
