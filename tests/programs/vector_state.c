/* vector_state.c: a call keeps the x87 stack, MXCSR, xmm/ymm/zmm, the mask registers and PKRU.
 *
 * Hazard: hook code compiled with vector instructions, or a SIGSYS frame whose extended state is
 * not restored in full, corrupts them (libm and memcpy keep values there across calls; the
 * kernel gives a signal handler a PKRU of its own).
 */
#include <cpuid.h>
#include "check.h"

static _Alignas(64) unsigned char fx_in[512], fx_out[512];
static _Alignas(64) unsigned char wide_in[32 * 64], wide_out[32 * 64];
static uint64_t masks_in[8], masks_out[8];

/* The width of the vector registers: 16, 32 or 64 bytes. */
static int width(void) {
    unsigned a, b, c, d, low, high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE) || !(c & bit_AVX)) return 16;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    if ((low & 6) != 6) return 16;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return 32;
    return (b & bit_AVX512F) && (b & bit_AVX512BW) && (low & 0xe6) == 0xe6 ? 64 : 32;
}

static int has_keys(void) {
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (c & (1u << 4));
}

__asm__(".text\n"
        ".globl run_sse; run_sse: fxrstor64 fx_in(%rip); mov $110,%eax; syscall\n"
        "fxsave64 fx_out(%rip); fninit; ret\n"
        ".macro each operation reg from count size where\n"
        ".set i,\\from; .rept \\count; each1 \\operation \\reg %i \\size \\where; .set i,i+1; .endr\n"
        ".endm\n"
        ".altmacro\n"
        ".macro each1 operation reg n size where\n"
        ".ifc \\where,in; \\operation (\\size*\\n)(%rdi),%\\reg\\n\n"
        ".else; \\operation %\\reg\\n,(\\size*\\n)(%rsi); .endif\n"
        ".endm\n"
        ".globl run_avx; run_avx: fxrstor64 fx_in(%rip)\n"
        "each vmovdqu ymm 0 16 64 in\n"
        "mov $110,%eax; syscall\n"
        "each vmovdqu ymm 0 16 64 out\n"
        "fxsave64 fx_out(%rip); fninit; vzeroupper; ret\n"
        ".globl run_avx512; run_avx512: fxrstor64 fx_in(%rip)\n"
        "each vmovdqu64 zmm 0 32 64 in\n"
        "mov %rdx,%r8; mov %rdi,%r9; mov %rdx,%rdi\n"
        "each kmovq k 1 7 8 in\n"
        "mov %r9,%rdi; mov $110,%eax; syscall\n"
        "each vmovdqu64 zmm 0 32 64 out\n"
        "lea 64(%r8),%rsi\n"
        "each kmovq k 1 7 8 out\n"
        "fxsave64 fx_out(%rip); fninit; vzeroupper; ret\n"
        ".noaltmacro\n");
extern void run_sse(void), run_avx(void *, void *), run_avx512(void *, void *, void *);

static void set_mxcsr(unsigned value) { __asm__ volatile("ldmxcsr %0" : : "m"(value)); }

static unsigned read_keys(void) {
    unsigned value, high;
    __asm__ volatile(".byte 0x0f,0x01,0xee" : "=a"(value), "=d"(high) : "c"(0));
    return value;
}
static void write_keys(unsigned value) {
    __asm__ volatile(".byte 0x0f,0x01,0xef" : : "a"(value), "c"(0), "d"(0) : "memory");
}

int main(void) {
    static uint64_t masks[16];
    begin("vector_state");
    int wide = width();
    for (int run = 0; run < 4; run++) {
        for (unsigned i = 0; i < sizeof wide_in; i++)
            wide_in[i] = (unsigned char)(i * 7 + (i >> 6) + (unsigned)run * 31 + 1);
        for (int i = 0; i < 8; i++) masks_in[i] = 0x9e3779b97f4a7c15ULL * (uint64_t)(i + 1 + run);
        memset(fx_in, 0, sizeof fx_in);
        memset(fx_out, 0xee, sizeof fx_out);
        memset(wide_out, 0xee, sizeof wide_out);
        *(uint16_t *)(fx_in + 0) = 0x0c7f;  /* round towards zero, double precision */
        *(uint16_t *)(fx_in + 2) = 3 << 11; /* top of stack 3 */
        fx_in[4] = 0xff;                    /* all eight registers in use */
        *(uint32_t *)(fx_in + 24) = 0xff80 & ~0x40u; /* flush to zero, round towards zero */
        *(uint32_t *)(fx_in + 28) = 0xffff;
        for (int i = 0; i < 8; i++) {
            *(uint64_t *)(fx_in + 32 + 16 * i) = 0x8000000000000000ULL + (uint64_t)(i + run);
            *(uint16_t *)(fx_in + 40 + 16 * i) = (uint16_t)(0x3fff + i);
        }
        for (int i = 0; i < 16; i++) memcpy(fx_in + 160 + 16 * i, wide_in + 64 * i, 16);
        memcpy(masks, masks_in, 64);
        if (wide == 64) run_avx512(wide_in, wide_out, masks);
        else if (wide == 32) run_avx(wide_in, wide_out);
        else run_sse();
        set_mxcsr(0x1f80);
        memcpy(masks_out, masks + 8, 64);
        EXPECT_EQ(*(uint16_t *)fx_out, *(uint16_t *)fx_in, "x87 control word");
        EXPECT_EQ(*(uint16_t *)(fx_out + 2), *(uint16_t *)(fx_in + 2), "x87 status word");
        EXPECT_EQ(fx_out[4], 0xff, "x87 tag word");
        EXPECT_EQ(*(uint32_t *)(fx_out + 24), *(uint32_t *)(fx_in + 24), "MXCSR");
        for (int i = 0; i < 8; i++)
            if (memcmp(fx_out + 32 + 16 * i, fx_in + 32 + 16 * i, 10))
                fail("st(%d) changed in run %d", i, run);
        for (int i = 0; i < 16; i++)
            if (memcmp(fx_out + 160 + 16 * i, fx_in + 160 + 16 * i, 16))
                fail("xmm%d changed in run %d", i, run);
        for (int i = 0; i < (wide == 64 ? 32 : wide == 32 ? 16 : 0); i++)
            if (memcmp(wide_out + 64 * i, wide_in + 64 * i, (size_t)wide))
                fail("vector register %d (%d bytes) changed in run %d", i, wide, run);
        for (int i = 1; i < 8 && wide == 64; i++) EXPECT_EQ(masks_out[i], masks_in[i], "mask k");
    }
    if (has_keys()) {
        unsigned before = read_keys(), changed = before ^ (3u << 4);
        for (int run = 0; run < 3; run++) {
            write_keys(changed);
            RAW(SYS_getppid, 0, 0, 0);
            unsigned after = read_keys();
            write_keys(before);
            EXPECT_EQ(after, changed, "PKRU after a call");
        }
    }
    return ok();
}
