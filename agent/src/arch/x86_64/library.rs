//! Entering a hook library's code and coming back, also when it fails in the middle.
//!
//! Owns: what the program's vector registers and the agent's callee-saved registers go through
//! meanwhile. The library runs on the agent's stack of the task, or on the one that it has in the
//! host, as C code expects it: direction flag clear, stack aligned, and, where it uses them, x87 and
//! SSE as at a program's start. Also how the host's dynamic linker begins and ends, how its patched
//! sites come to Rust, and how a hook stays in the middle of its work while the kernel has the call.

use core::arch::global_asm;
use core::ffi::c_void;
use core::mem::offset_of;
use core::ptr;

use crate::thread::Thread;

global_asm!(
    ".text",
    ".globl cg_call_library, cg_library_failed, cg_host_start, cg_host_ready, cg_host_call",
    ".globl cg_call_foreign, cg_next_call, cg_call_svc_hook, cg_next_svc_hook, cg_resume",
    // What a function keeps, and room for a struct Call with 16-byte alignment.
    ".macro cg_suspend",
    "push rbx",
    "push rbp",
    "push r12",
    "push r13",
    "push r14",
    "push r15",
    "sub rsp, {call} + 8",
    ".endm",
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
    "ja cg_save_vectors",
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
    "push {mxcsr}",
    "ldmxcsr [rsp]",
    "add rsp, 8",
    "cg_vectors_saved:",
    "mov rax, r12",
    "mov rdx, r13",
    "1: mov r11, [rbx + {t_stack}]",       // the host's, if it is there that it runs
    "test r11, r11",
    "jz 7f",
    "mov rsp, r11",
    "7: call rax",

    // rax: the result, rbx: the thread. Nothing else is believed, for it may come from below.
    "4: mov rbp, [rbx + {t_rsp}]",
    "mov r12, rax",
    "cmp dword ptr [rbp], 0",
    "je 5f",
    "lea rsp, [rbp - {area}]",
    "and rsp, -64",
    "cmp dword ptr [rbp], 2",
    "ja cg_restore_vectors",
    "je 6f",
    "mov eax, {components}",
    "xor edx, edx",
    "xrstor64 [rsp]",
    "jmp 5f",
    "6: fxrstor64 [rsp]",
    "cg_vectors_restored:",
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

    // The same by plain moves, which take a quarter of the time of `xsavec` and `xrstor`. What
    // the processor says to be as it is at a program's start need not be kept, but made so again.
    // In the area: 32 registers of 64 bytes, the masks, mxcsr, what is in use, x87.
    "cg_save_vectors:",
    "mov ecx, 1",
    "xgetbv",                              // eax: the components in use (XINUSE)
    "mov [rsp + {in_use}], eax",
    "stmxcsr [rsp + {saved_mxcsr}]",
    "test eax, {only_512}",
    "jnz 2f",
    ".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
    "vmovdqu [rsp + 64*\\n], ymm\\n",
    ".endr",
    "jmp 3f",
    "2:",
    ".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31",
    "vmovdqu64 [rsp + 64*\\n], zmm\\n",
    ".endr",
    ".irp n, 0, 1, 2, 3, 4, 5, 6, 7",
    "kmovq [rsp + {masks} + 8*\\n], k\\n",
    ".endr",
    "3: test eax, {x87}",
    "jz 8f",
    "fxsave64 [rsp + {saved_x87}]",
    "fninit",
    "8: mov eax, [rsp + {saved_mxcsr}]",
    "and eax, 0xffc0",                     // but for what has happened
    "cmp eax, {mxcsr}",
    "je cg_vectors_saved",
    "push {mxcsr}",
    "ldmxcsr [rsp]",
    "add rsp, 8",
    "jmp cg_vectors_saved",

    "cg_restore_vectors:",
    "mov ecx, 1",
    "xgetbv",
    "mov ecx, [rsp + {in_use}]",
    "test ecx, {x87}",
    "jz 2f",
    "fxrstor64 [rsp + {saved_x87}]",
    "jmp 3f",
    "2: test eax, {x87}",
    "jz 3f",
    "fninit",
    "3: test ecx, {only_512}",
    "jz 8f",
    ".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31",
    "vmovdqu64 zmm\\n, [rsp + 64*\\n]",
    ".endr",
    ".irp n, 0, 1, 2, 3, 4, 5, 6, 7",
    "kmovq k\\n, [rsp + {masks} + 8*\\n]",
    ".endr",
    "jmp 9f",
    "8: test eax, {only_512}",
    "jz 8f",
    ".irp n, 0, 1, 2, 3, 4, 5, 6, 7",
    "kxorq k\\n, k\\n, k\\n",
    ".endr",
    ".irp n, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31",
    "vpxorq zmm\\n, zmm\\n, zmm\\n",
    ".endr",
    "8:",
    ".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
    "vmovdqu ymm\\n, [rsp + 64*\\n]",    // and zero above
    ".endr",
    "9: test ecx, {upper}",
    "jnz 8f",
    "vzeroupper",                          // zero it is; the processor is to know
    "8: ldmxcsr [rsp + {saved_mxcsr}]",
    "jmp cg_vectors_restored",

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

    // A function for `cg_call_library` on the stack that a program begins with: the dynamic
    // linker, whose entry point is in rdi.
    "cg_host_start:",
    "lea rsp, [rsp + 8]",                  // no return address: argc is what lies there
    "xor edx, edx",                        // no function for the end (System V ABI, 3.4.1)
    "jmp rdi",
    // Where it goes on as to a program's first instruction: that call has ended.
    "cg_host_ready:",
    "mov rbx, gs:[0]",
    "xor eax, eax",
    "jmp 4b",

    // A call from a patched site of the host's, on the host's stack; rcx is the address after
    // the site. All registers but rax, rcx and r11 stay as they are, and the red zone.
    "cg_host_call:",
    "lea rsp, [rsp - 128]",
    "pushfq",
    "push rcx",                            // struct HostCall, from its end
    "push rdi",
    "push rsi",
    "push rdx",
    "push r10",
    "push r8",
    "push r9",
    "push rax",
    "push rbp",
    "cld",
    "lea rdi, [rsp + 8]",
    "mov rsi, gs:[0]",
    "mov rbp, rsp",
    "and rsp, -16",
    "call {host_called}",
    "mov rsp, rbp",
    "pop rbp",
    "lea rsp, [rsp + 8]",                  // the number; the result stays in rax
    "pop r9",
    "pop r8",
    "pop r10",
    "pop rdx",
    "pop rsi",
    "pop rdi",
    "pop rcx",
    "popfq",
    "lea rsp, [rsp + 128]",
    "jmp rcx",

    // long cg_call_foreign(function, const Call *): a function of seven arguments, the call's
    // number and its own (`syscall_fn_t` of zpoline).
    "cg_call_foreign:",
    "mov rax, rdi",
    "mov r11, rsi",
    "push [r11 + 48]",                     // the seventh; 16-byte alignment
    "mov rdi, [r11]",
    "mov rsi, [r11 + 8]",
    "mov rdx, [r11 + 16]",
    "mov rcx, [r11 + 24]",
    "mov r8, [r11 + 32]",
    "mov r9, [r11 + 40]",
    "call rax",
    "add rsp, 8",
    "ret",
    // The same for a function of eight: the call's own arguments, its number, and where it was
    // made (svc-hook).
    "cg_call_svc_hook:",
    "mov rax, rdi",
    "mov r11, rsi",
    "sub rsp, 8",                          // 16-byte alignment
    "push [r11 + 56]",
    "push [r11]",
    "mov rdi, [r11 + 8]",
    "mov rsi, [r11 + 16]",
    "mov rdx, [r11 + 24]",
    "mov rcx, [r11 + 32]",
    "mov r8, [r11 + 40]",
    "mov r9, [r11 + 48]",
    "call rax",
    "add rsp, 24",
    "ret",
    // long cg_next_call(number, six arguments): such a function wants the call made. Its stack
    // stays as it is, and whoever called it goes on, as if it had come back.
    "cg_next_call:",
    "cg_suspend",
    "mov [rsp], rdi",
    "mov [rsp + 8], rsi",
    "mov [rsp + 16], rdx",
    "mov [rsp + 24], rcx",
    "mov [rsp + 32], r8",
    "mov [rsp + 40], r9",
    "mov rax, [rsp + {call} + 64]",        // the seventh, above the return address
    "mov [rsp + 48], rax",
    "jmp 9f",
    // long cg_next_svc_hook(six arguments, number, site)
    "cg_next_svc_hook:",
    "cg_suspend",
    "mov [rsp + 8], rdi",
    "mov [rsp + 16], rsi",
    "mov [rsp + 24], rdx",
    "mov [rsp + 32], rcx",
    "mov [rsp + 40], r8",
    "mov [rsp + 48], r9",
    "mov rax, [rsp + {call} + 64]",
    "mov [rsp], rax",
    "9: mov rdi, rsp",
    "call {next_call}",                    // the thread; or null, and the result is in `site`
    "test rax, rax",
    "mov rbx, rax",
    "jnz 4b",
    "mov rax, [rsp + 56]",
    "8: add rsp, {call} + 8",
    "pop r15",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop rbp",
    "pop rbx",
    "ret",
    // A function for `cg_call_library`: with the result in rdi, `cg_next_call` comes back on the
    // stack that it left at rsi.
    "cg_resume:",
    "mov rax, rdi",
    "mov rsp, rsi",
    "jmp 8b",

    host_called = sym crate::host::called,
    next_call = sym crate::library::next_call,
    call = const size_of::<crossgate_hook::Call>(),
    t_stack = const offset_of!(Thread, library_stack),

    t_rsp = const offset_of!(Thread, library_rsp),
    // x87, SSE, AVX, and the three of AVX-512 (XCR0 bits 0 to 2 and 5 to 7); what the
    // processor has not is left out. 2,688 bytes at most (Intel SDM volume 1, 13.5).
    components = const 0xe7,
    area = const 2752,
    x87 = const 1,
    upper = const 0x44,                    // of registers 0 to 15, beyond what SSE knows
    only_512 = const 0xe0,
    masks = const 2048,
    saved_mxcsr = const 2112,
    in_use = const 2116,
    saved_x87 = const 2176,
    mxcsr = const 0x1f80,
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
    fn cg_host_start();
    fn cg_host_ready();
    fn cg_host_call();
    fn cg_call_foreign();
    fn cg_next_call();
    fn cg_call_svc_hook();
    fn cg_next_svc_hook();
    fn cg_resume();
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

/// Starts the dynamic linker whose entry point is `entry`, on [`Thread::library_stack`]; `None`
/// when it failed.
///
/// # Safety
/// The stack is as a program expects it, and the program that it begins starts at [`host_ready`].
pub unsafe fn start_host(t: &Thread, entry: u64, vectors: u32) -> Option<i64> {
    let start = cg_host_start as *const () as u64;
    // SAFETY: as the caller says. The program's registers are as the kernel has made them, and
    // are so again.
    unsafe { call(t, start, [entry, 0, 0], vectors) }
}

/// The first instruction of the program that the host's dynamic linker has loaded.
pub fn host_ready() -> u64 {
    cg_host_ready as *const () as u64
}

/// Where the host's patched sites lead, with the address after the site in rcx.
pub fn host_call() -> u64 {
    cg_host_call as *const () as u64
}

/// What functions of libraries that were written for others are given.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Convention {
    /// The call's number and its six arguments (zpoline).
    NumberFirst,
    /// The six arguments, the number, and the address of the site (svc-hook).
    NumberLater,
}

/// A function for [`call`]: (a function of a library's, a [`Call`](crossgate_hook::Call)).
pub fn call_foreign(convention: Convention) -> u64 {
    let function: unsafe extern "C" fn() = match convention {
        Convention::NumberFirst => cg_call_foreign,
        Convention::NumberLater => cg_call_svc_hook,
    };
    function as *const () as u64
}

/// A function for libraries, of the same kind as theirs: makes a call.
pub fn next_call(convention: Convention) -> u64 {
    let function: unsafe extern "C" fn() = match convention {
        Convention::NumberFirst => cg_next_call,
        Convention::NumberLater => cg_next_svc_hook,
    };
    function as *const () as u64
}

/// A function for [`call`]: (the result, where [`crate::library::next_call`] was called with).
pub fn resume() -> u64 {
    cg_resume as *const () as u64
}

/// A call of the host's, as its registers were at the site.
#[repr(C)]
#[allow(missing_docs)]
pub struct HostCall {
    pub rax: u64,
    pub r9: u64,
    pub r8: u64,
    pub r10: u64,
    pub rdx: u64,
    pub rsi: u64,
    pub rdi: u64,
    pub rcx: u64,
}

impl HostCall {
    /// The six arguments.
    pub fn args(&self) -> [u64; 6] {
        [self.rdi, self.rsi, self.rdx, self.r10, self.r8, self.r9]
    }
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
