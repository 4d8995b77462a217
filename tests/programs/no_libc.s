# no_libc.s: a program with no libc, no thread pointer, and a stack pointer that points nowhere.
#
# Hazard: `syscall` needs neither a stack nor %fs. Calls are made with rsp = 0, with rsp not
# canonical and with rsp in unmapped memory; a trampoline that pushes first dies here. Each site
# runs three times, so that both its first trap and its patched form are met.
        .globl _start
        .text
_start: mov     %rsp, %rbx
        mov     $3, %r13d
again:  mov     $110, %eax              # getppid, to compare with
        syscall
        mov     %rax, %r12

        xor     %esp, %esp              # rsp = 0, number by an immediate
        mov     $110, %eax
        syscall
        mov     $1, %r14d
        cmp     %rax, %r12
        jne     bad

        mov     $0x8000000000000000, %rsp       # not canonical
        mov     $110, %eax
        syscall
        mov     $2, %r14d
        cmp     %rax, %r12
        jne     bad

        mov     $0x1234567, %rsp        # unmapped and not aligned, number from a register
        mov     $110, %r15d
        mov     %r15d, %eax
        syscall
        mov     $3, %r14d
        cmp     %rax, %r12
        jne     bad
        cmp     $0x1234567, %rsp
        jne     bad

        mov     $-1, %rsp               # gettid against getpid
        mov     $39, %eax
        syscall
        mov     %rax, %r15
        mov     $186, %eax
        syscall
        mov     $4, %r14d
        cmp     %rax, %r15
        jne     bad

        dec     %r13d
        jnz     again
        mov     %rbx, %rsp
        mov     $1, %eax                # write(1, good, good_size)
        mov     $1, %edi
        lea     good(%rip), %rsi
        mov     $good_size, %edx
        syscall
        xor     %esp, %esp
        mov     $231, %eax
        xor     %edi, %edi
        syscall

bad:    mov     %rbx, %rsp
        add     %r14b, wrong_digit(%rip)
        mov     $1, %eax
        mov     $1, %edi
        lea     wrong(%rip), %rsi
        mov     $wrong_size, %edx
        syscall
        mov     $231, %eax
        mov     $1, %edi
        syscall
        ud2
        .data
good:   .ascii  "ok no_libc\n"
        .set    good_size, . - good
wrong:  .ascii  "no_libc: expected the same result as with a stack, got another in part "
wrong_digit:
        .ascii  "0\n"
        .set    wrong_size, . - wrong
