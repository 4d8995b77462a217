//! Entering a hook library's code and coming back, also when it fails in the middle.
//!
//! Owns: what the program's vector registers and the agent's callee-saved registers go through
//! meanwhile. The library runs on the agent's stack of the task, as C code expects it: direction
//! flag clear, stack aligned, and, where it uses them, x87 and SSE as at a program's start.

use core::arch::global_asm;
use core::ffi::c_void;
use core::mem::offset_of;
use core::ptr;

use crate::thread::Thread;

global_asm!(
    ".text",
    ".globl cg_call_library, cg_library_failed",
    // long cg_call_library(function, a, b, c, vectors, thread). Not by %gs, which may be the
    // program's own.
    "cg_call_library:",
    "push rbx",
    "push rbp",
    "push r12",
    "push r13",
    "push r14",
    "push r15",
    "push r8",                             // what to keep (`Vectors`); 16-byte alignment
    "mov rbx, r9",                         // C code keeps it
    "mov [rbx + {t_rsp}], rsp",            // where to come back to if it fails
    "mov rax, rdi",
    "mov rdi, rsi",
    "mov rsi, rdx",
    "mov rdx, rcx",
    "test r8d, r8d",
    "jz 1f",
    "lea rsp, [rsp - {area}]",             // room for the state, aligned as xsavec wants it
    "and rsp, -64",
    "mov r12, rax",
    "mov r13, rdx",
    "cmp r8d, 2",
    "je 2f",
    "xor eax, eax",                        // xrstor wants the header's rest to be zero
    "mov [rsp + 528], rax",
    "mov [rsp + 536], rax",
    "mov [rsp + 544], rax",
    "mov [rsp + 552], rax",
    "mov [rsp + 560], rax",
    "mov [rsp + 568], rax",
    "mov eax, {components}",
    "xor edx, edx",
    "xsavec64 [rsp]",
    "jmp 3f",
    "2: fxsave64 [rsp]",
    "3: fninit",                           // as at a program's start (System V ABI, 3.4.1)
    "push 0x1f80",
    "ldmxcsr [rsp]",
    "add rsp, 8",
    "mov rax, r12",
    "mov rdx, r13",
    "1: call rax",

    // rax: the result, rbx: the thread. Nothing else is believed, for it may come from below.
    "4: mov rbp, [rbx + {t_rsp}]",
    "mov r12, rax",
    "cmp dword ptr [rbp], 0",
    "je 5f",
    "lea rsp, [rbp - {area}]",
    "and rsp, -64",
    "cmp dword ptr [rbp], 2",
    "je 6f",
    "mov eax, {components}",
    "xor edx, edx",
    "xrstor64 [rsp]",
    "jmp 5f",
    "6: fxrstor64 [rsp]",
    "5: mov rsp, rbp",
    "mov rax, r12",
    "pop r8",
    "pop r15",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop rbp",
    "pop rbx",
    "ret",

    // Its code cannot go on: the call of the library gives {failed}. rbx: the thread.
    "cg_library_failed:",
    "cld",
    "cmp qword ptr [rbx + {t_rsp}], 0",    // it was `cg_hook` that called it
    "je cg_hook_failed",
    "mov rax, {failed}",
    "jmp 4b",
    // void cg_give_up(thread)
    ".globl cg_give_up",
    "cg_give_up:",
    "mov rbx, rdi",
    "jmp cg_library_failed",

    t_rsp = const offset_of!(Thread, library_rsp),
    // x87, SSE, AVX, and the three of AVX-512 (XCR0 bits 0 to 2 and 5 to 7); what the
    // processor has not is left out. 2,688 bytes at most (Intel SDM volume 1, 13.5).
    components = const 0xe7,
    area = const 2752,
    failed = const i64::MIN,
);

unsafe extern "C" {
    fn cg_call_library(
        function: u64,
        a: u64,
        b: u64,
        c: u64,
        vectors: u32,
        thread: *const c_void,
    ) -> i64;
    fn cg_library_failed();
    fn cg_give_up(thread: *const c_void) -> !;
}

/// Calls `function` of a library with these arguments; `None` when it failed.
///
/// # Safety
/// `function` is the address of a library's function that takes these arguments.
pub unsafe fn call(t: &Thread, function: u64, arguments: [u64; 3], vectors: u32) -> Option<i64> {
    let [a, b, c] = arguments;
    // SAFETY: as the caller says; the assembly keeps what must be kept.
    let result = unsafe { cg_call_library(function, a, b, c, vectors, ptr::from_ref(t).cast()) };
    (result != i64::MIN).then_some(result)
}

/// Where a task goes on whose library failed, with its [`Thread`] in rbx.
pub fn failed_address() -> u64 {
    cg_library_failed as *const () as u64
}

/// Gives the library up that is running on this task.
///
/// # Safety
/// Called by a library, through the agent's functions.
pub unsafe fn give_up(t: &Thread) -> ! {
    // SAFETY: there is a call of `cg_call_library` to go back to.
    unsafe { cg_give_up(ptr::from_ref(t).cast()) }
}
