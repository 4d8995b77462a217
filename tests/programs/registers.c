/* registers.c: a call changes rax, rcx and r11 and nothing else.
 *
 * Hazard: a trampoline or the SIGSYS handler that loses a general register, an arithmetic flag,
 * the direction flag or a byte of the red zone breaks code that the compiler was free to emit:
 * Linux promises all of them, plus rcx = address after the call and r11 = the flags.
 * Three site shapes, each run four times: the first run traps, the next ones are patched.
 */
#include "check.h"

struct state {
    uint64_t gpr[15]; /* rax rbx rcx rdx rsi rdi rbp r8 .. r15 */
    uint64_t flags;
    uint64_t red[16];
    uint64_t rsp;
};

__asm__(".bss; .balign 8; in_ptr: .quad 0; out_ptr: .quad 0; keep: .quad 0; .text\n"
        ".macro probe name body\n"
        ".globl \\name; .type \\name,@function; \\name:\n"
        "push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15\n"
        "mov %rdi,in_ptr(%rip); mov %rsi,out_ptr(%rip)\n"
        "pushq 120(%rdi); popfq\n"
        ".set i,0; .rept 16\n"
        "mov 128+8*i(%rdi),%rax; mov %rax,-128+8*i(%rsp); .set i,i+1\n"
        ".endr\n"
        "mov 8(%rdi),%rbx; mov 16(%rdi),%rcx; mov 24(%rdi),%rdx; mov 32(%rdi),%rsi\n"
        "mov 48(%rdi),%rbp; mov 56(%rdi),%r8; mov 64(%rdi),%r9; mov 72(%rdi),%r10\n"
        "mov 80(%rdi),%r11; mov 88(%rdi),%r12; mov 96(%rdi),%r13; mov 104(%rdi),%r14\n"
        "mov 112(%rdi),%r15; mov 0(%rdi),%rax; mov 40(%rdi),%rdi\n"
        "\\body\n"
        "\\name\\()_after:\n"
        "mov %rax,keep(%rip); mov out_ptr(%rip),%rax\n"
        "mov %rbx,8(%rax); mov %rcx,16(%rax); mov %rdx,24(%rax); mov %rsi,32(%rax)\n"
        "mov %rdi,40(%rax); mov %rbp,48(%rax); mov %r8,56(%rax); mov %r9,64(%rax)\n"
        "mov %r10,72(%rax); mov %r11,80(%rax); mov %r12,88(%rax); mov %r13,96(%rax)\n"
        "mov %r14,104(%rax); mov %r15,112(%rax); mov %rsp,256(%rax)\n"
        ".set i,0; .rept 16\n"
        "mov -128+8*i(%rsp),%rbx; mov %rbx,128+8*i(%rax); .set i,i+1\n"
        ".endr\n"
        "pushfq; popq 120(%rax)\n"
        "cld; mov keep(%rip),%rbx; mov %rbx,0(%rax)\n"
        "pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx; ret\n"
        ".globl \\name\\()_after\n"
        ".endm\n"
        "probe probe_immediate \"mov $110,%eax; syscall\"\n"
        "probe probe_register syscall\n"
        "probe probe_wide \"mov $110,%rax; syscall\"\n");

#define DECLARE(name) \
    extern void name(const struct state *, struct state *); extern char name##_after[];
DECLARE(probe_immediate)
DECLARE(probe_register)
DECLARE(probe_wide)

#define CF 0x1
#define PF 0x4
#define AF 0x10
#define ZF 0x40
#define SF 0x80
#define DF 0x400
#define OF 0x800
#define ID 0x200000
#define CHECKED (CF | PF | AF | ZF | SF | DF | OF | ID)

static void check(const char *shape, void (*probe)(const struct state *, struct state *),
                  char *after, uint64_t flags) {
    static const char *const names[] = {"rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "r8",
                                        "r9",  "r10", "r11", "r12", "r13", "r14", "r15"};
    struct state in, out;
    memset(&out, 0, sizeof out);
    for (int i = 0; i < 15; i++) in.gpr[i] = 0x1111111111111111ULL * (uint64_t)(i + 1) ^ flags;
    in.gpr[0] = SYS_getppid;
    for (int i = 0; i < 16; i++) in.red[i] = 0xfeed000000000000ULL + (uint64_t)i * 0x0101010101ULL;
    in.flags = flags | 0x202;
    probe(&in, &out);
    EXPECT_EQ(out.gpr[0], getppid(), shape);
    for (int i = 1; i < 15; i++) {
        if (i == 2 || i == 10) continue;
        if (out.gpr[i] != in.gpr[i])
            fail("%s, flags %#llx: %s: expected %#llx, got %#llx", shape,
                 (unsigned long long)flags, names[i], (unsigned long long)in.gpr[i],
                 (unsigned long long)out.gpr[i]);
    }
    if ((out.flags & CHECKED) != flags)
        fail("%s: flags: expected %#llx, got %#llx", shape, (unsigned long long)flags,
             (unsigned long long)(out.flags & CHECKED));
    if (out.gpr[2] != (uint64_t)after)
        fail("%s: rcx: expected the address after the call %p, got %#llx", shape, (void *)after,
             (unsigned long long)out.gpr[2]);
    if (out.gpr[10] != out.flags)
        fail("%s: r11: expected the flags %#llx, got %#llx", shape,
             (unsigned long long)out.flags, (unsigned long long)out.gpr[10]);
    for (int i = 0; i < 16; i++)
        if (out.red[i] != in.red[i])
            fail("%s: red zone at rsp-%d: expected %#llx, got %#llx", shape, 128 - 8 * i,
                 (unsigned long long)in.red[i], (unsigned long long)out.red[i]);
}

int main(void) {
    static const uint64_t flags[] = {0, CF | AF | SF | OF | ID, PF | ZF | DF, CHECKED};
    begin("registers");
    for (int run = 0; run < 4; run++) {
        check("mov imm32; syscall", probe_immediate, probe_immediate_after, flags[run]);
        check("syscall alone", probe_register, probe_register_after, flags[run]);
        check("mov imm32 sign-extended; syscall", probe_wide, probe_wide_after, flags[run]);
    }
    return ok();
}
