//! Reading the program's memory with plain loads: the one place where the agent may fault.
//!
//! From `cg_copying` up to `cg_copied` every signal, a fault of the loads included, ends the
//! copy: the agent's handlers move the interrupted `rip` to `cg_copied`
//! (`uaccess::interrupt`), where the destination's register tells how much is there. So
//! what is looked at after `cg_copying` is still true when the loads happen: whoever changes
//! it in this task is a handler, and whoever changes it in another one waits.

use core::arch::global_asm;
use core::sync::atomic::AtomicU8;

use crate::uaccess::{COPYING, OPEN};

global_asm!(
    ".section .text.copy, \"ax\", @progbits",
    ".globl cg_copy, cg_copy_string, cg_copying, cg_copied",

    // Registers from here on: rdi where to, rsi where from, rdx how much, rcx how much is
    // left, r8 the task's state of faults, r9 where rdi was.
    ".macro cg_begin_copy",
    "mov r8, rcx",
    "mov r9, rdi",
    ".endm",

    // The first steps inside: nothing is read unless faults are open. Two tasks' writes and
    // reads cross here (this state, the switch), so the state is written with a lock.
    ".macro cg_check_copy",
    "mov eax, {open}",
    "mov ecx, {copying}",
    "lock cmpxchg [r8], cl",               // open -> copying
    "jne cg_copied",                       // a signal came since the caller looked
    "mov rcx, rdx",
    "cmp byte ptr [rip + {direct}], 0",
    "je 9f",                               // no more for this process
    ".endm",

    // u64 cg_copy_string(into, from, len, faults): up to a NUL, which is copied too.
    "cg_copy_string:",
    "cg_begin_copy",
    "jmp cg_string_begun",

    // u64 cg_copy(into, from, len, faults)
    "cg_copy:",
    "cg_begin_copy",

    "cg_copying:",
    "cg_check_copy",
    "cmp rcx, 32",                         // `rep movsb` takes some time to start
    "ja 4f",
    "2: sub rcx, 8",
    "jb 3f",
    "mov rax, [rsi]",
    "mov [rdi], rax",
    "add rsi, 8",
    "add rdi, 8",
    "jmp 2b",
    "3: add rcx, 8",                       // less than a word is left
    "4: rep movsb",
    "9: mov byte ptr [r8], {open}",
    "jmp cg_copied",

    // A word is only read where it starts at a multiple of its size: then it lies in the
    // page of its first byte, and nothing behind the string's page is touched.
    "cg_string_begun:",
    "cg_check_copy",
    "mov r10, 0x0101010101010101",
    "mov r11, 0x8080808080808080",
    "test sil, 7",
    "jz 3f",
    "2: sub rcx, 1",                       // byte by byte, up to a word's start or the NUL
    "jb 9f",
    "mov al, [rsi]",
    "mov [rdi], al",
    "inc rsi",
    "inc rdi",
    "test al, al",
    "jz 9f",
    "test sil, 7",
    "jnz 2b",
    "3: cmp rcx, 8",
    "jb 2b",
    "mov rax, [rsi]",
    "mov rdx, rax",                        // has it a zero byte? (x - 01..) & ~x & 80..
    "sub rdx, r10",
    "not rax",
    "and rdx, rax",
    "not rax",
    "test rdx, r11",
    "jnz 2b",
    "mov [rdi], rax",
    "add rsi, 8",
    "add rdi, 8",
    "sub rcx, 8",
    "jmp 3b",
    "9: mov byte ptr [r8], {open}",

    // Here too comes a copy that ended early. The state is then what the handler left.
    "cg_copied:",
    "mov rax, rdi",
    "sub rax, r9",
    "ret",
    ".text",

    open = const OPEN,
    copying = const COPYING,
    direct = sym crate::uaccess::DIRECT,
);

unsafe extern "C" {
    fn cg_copy(into: *mut u8, from: u64, len: usize, faults: *const AtomicU8) -> usize;
    fn cg_copy_string(into: *mut u8, from: u64, len: usize, faults: *const AtomicU8) -> usize;
    fn cg_copying();
    fn cg_copied();
}

/// Copies `into.len()` bytes from `from`; gives how many there are, fewer where a signal
/// came first. `faults` is this task's.
pub fn copy(into: &mut [u8], from: u64, faults: &AtomicU8) -> usize {
    // SAFETY: writes to `into` alone; reads where it may not be possible only while a fault
    // comes to the agent, which ends the copy.
    unsafe { cg_copy(into.as_mut_ptr(), from, into.len(), faults) }
}

/// As [`copy`], up to and with the first zero byte.
pub fn copy_string(into: &mut [u8], from: u64, faults: &AtomicU8) -> usize {
    // SAFETY: as above.
    unsafe { cg_copy_string(into.as_mut_ptr(), from, into.len(), faults) }
}

/// Where a copy goes on that a signal interrupted at `rip`; `None` when it is no copy.
pub fn landing(rip: u64) -> Option<u64> {
    let (start, end) = (cg_copying as *const () as u64, cg_copied as *const () as u64);
    (start..end).contains(&rip).then_some(end)
}
