# child_bits32.s: a static i386 program: writes a line, asks for its pid twice, exits with 32.
#
# Hazard: the agent is 64-bit code; a 32-bit image must be refused or left alone with a clear
# word, and never crash. Nothing of the attempt may stay: it has no signal blocked (else exit 2),
# and, where it is told by its argument which descriptor is the lowest free one, finds just that
# (else exit 3). Runs by itself and as the child of run_bits32.
        .globl _start
        .text
_start: mov     $20, %eax               # getpid
        int     $0x80
        mov     %eax, %esi
        mov     $20, %eax
        int     $0x80
        cmp     %eax, %esi
        jne     1f
        mov     $126, %eax              # sigprocmask(SIG_BLOCK, NULL, &mask)
        xor     %ebx, %ebx
        xor     %ecx, %ecx
        mov     $mask, %edx
        int     $0x80
        cmpl    $0, mask
        jne     2f
        cmpl    $2, (%esp)              # argc
        jb      4f
        mov     $41, %eax               # dup(1)
        mov     $1, %ebx
        int     $0x80
        mov     8(%esp), %ecx           # argv[1]: one digit
        movzbl  (%ecx), %ecx
        sub     $'0', %ecx
        cmp     %eax, %ecx
        jne     3f
4:      mov     $4, %eax                # write(1, text, size)
        mov     $1, %ebx
        mov     $text, %ecx
        mov     $size, %edx
        int     $0x80
        mov     $1, %eax                # exit(32)
        mov     $32, %ebx
        int     $0x80
1:      mov     $1, %eax
        mov     $1, %ebx
        int     $0x80
2:      mov     $1, %eax
        mov     $2, %ebx
        int     $0x80
3:      mov     $1, %eax
        mov     $3, %ebx
        int     $0x80
        .section .rodata
text:   .ascii  "ok child_bits32\n"
        .set    size, . - text
        .data
mask:   .long   -1
