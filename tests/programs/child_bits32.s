# child_bits32.s: a static i386 program: writes a line, asks for its pid twice, exits with 32.
#
# Hazard: the agent is 64-bit code; a 32-bit image must be refused or left alone with a clear
# word, and never crash. Runs by itself and as the child of run_bits32.
        .globl _start
        .text
_start: mov     $20, %eax               # getpid
        int     $0x80
        mov     %eax, %esi
        mov     $20, %eax
        int     $0x80
        cmp     %eax, %esi
        jne     1f
        mov     $4, %eax                # write(1, text, size)
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
        .section .rodata
text:   .ascii  "ok child_bits32\n"
        .set    size, . - text
