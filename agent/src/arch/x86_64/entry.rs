//! The only assembly of the agent: its first instruction, the gate that holds its only real
//! call instructions, the way from a trampoline into Rust and back, signal entry points and
//! the first steps of a new task.
//!
//! Register contract at the entry points that trampolines jump to (`cg_pass`, `cg_enter`,
//! `cg_enter_any`): everything as the program had it before its `syscall`, except that
//! `rcx` holds the address after the site. `rcx` and `r11` are free: `syscall` overwrites
//! them. The flags are live: nothing may change them before `pushfq`, so the fast path uses
//! only `mov`, `movz`, `lea`, `jmp` and `jrcxz`. The program's stack is never touched: it
//! may be a few bytes deep, or no stack at all.
//!
//! Order and the labels matter: `signals::settle` decides by them what an interrupted
//! instruction pointer means.

use core::arch::global_asm;
use core::ffi::c_void;
use core::mem::offset_of;

use crossgate_hook::Call;

use super::frame::Regs;
use crate::image::{self, Params};
use crate::thread::{Phase, Thread};

global_asm!(
    // ---- first instruction -------------------------------------------------------------
    // The launcher leads here, with what it has to say in rbx, rbp and r12 to r15
    // (`image::Params`). All of the image is mapped read-execute so far, so no memory can be
    // written and there is no stack of ours yet: registers only. The others are dead at a
    // program's entry point (the kernel clears them), rsp is the program's.
    ".section .text.start, \"ax\", @progbits",
    ".globl cg_start",
    "cg_start:",
    "mov eax, 10",                         // mprotect(
    "lea rdi, [rip + {image_data}]",       //   start of the writable part,
    "lea rsi, [rip + {image_end}]",
    "sub rsi, rdi",                        //   its length,
    "mov edx, 3",                          //   PROT_READ | PROT_WRITE)
    "syscall",
    "test eax, eax",
    "jnz 2f",
    "lea rdx, [rip + {image_start}]",      // relocate: to each word of the table (Elf64_Rela,
    "lea rsi, [rip + {relocations}]",      // all R_X86_64_RELATIVE: launch/build.rs) goes
    "lea rdi, [rip + {relocations_end}]",  // the base plus the addend
    "3: cmp rsi, rdi",
    "jae 4f",
    "mov rax, [rsi]",                      //   r_offset
    "mov rcx, [rsi + 16]",                 //   r_addend
    "add rcx, rdx",
    "mov [rdx + rax], rcx",
    "add rsi, 24",
    "jmp 3b",
    "4: lea rsi, [rip + {params}]",        // what the launcher said
    "mov [rsi + {p_entry}], rbx",
    "mov [rsi + {p_region}], rbp",
    "mov [rsi + {p_arena_size}], r12",
    "mov [rsi + {p_ids}], r13",
    "mov [rsi + {p_descriptors}], r14",
    "mov [rsi + {p_flags}], r15",
    "mov rdi, rsp",                        // the program's stack: argc, argv, environment
    "lea rsp, [rip + {start_stack_end}]",  // a stack of ours until the first thread block
    "call {start}",                        // returns the thread's saved registers
    "mov rsp, rax",
    "jmp cg_leave",
    "2: int3",                             // the launcher reads rax: -errno, of mprotect
    "jmp 2b",
    // A step of joining or leaving: the launcher leads a stopped task here, and gives it its
    // registers back when the step stops itself.
    ".globl cg_step",
    "cg_step:",
    "cld",
    "lea rsp, [rip + {start_stack_end}]",
    "call {step}",
    "ud2",

    // ---- the gate ----------------------------------------------------------------------
    // Syscall User Dispatch's allowed range begins with the stubs before the image and ends
    // at cg_gate_end: calls made here are the kernel's, calls made anywhere else come to us.
    ".section .text.gate, \"ax\", @progbits",
    ".globl cg_gate_end, cg_pass, cg_gate_pass, cg_enter, cg_enter_any",
    ".globl cg_enter_switched, cg_enter_saved, cg_gate_hooked, cg_leave, cg_private",
    ".globl cg_private_syscall, cg_restorer, cg_program, cg_program_syscall, cg_task",
    ".globl cg_compat, cg_bare, cg_bare_after, cg_bare_trap",
    ".globl cg_exit_saved, cg_gate_any",
    ".globl cg_hook, cg_hook_switched, cg_hook_saved, cg_hook_failed, cg_hook_end",
    // From the arguments of a C function (number first, the seventh on the stack) to those
    // of a call.
    ".macro cg_arguments_of_call",
    "mov rax, rdi",
    "mov rdi, rsi",
    "mov rsi, rdx",
    "mov rdx, rcx",
    "mov r10, r8",
    "mov r8, r9",
    "mov r9, [rsp + 8]",
    ".endm",

    // long cg_private(nr, a, b, c, d, e, f): a call of the agent's own. Filters of the
    // program are rewritten to let `cg_private_syscall` pass.
    "cg_private:",
    "cg_arguments_of_call",
    "cg_private_syscall:",
    "syscall",
    "ret",

    // Where signal handlers of ours return to: rt_sigreturn with rsp at the frame.
    "cg_restorer:",
    "mov eax, 15",
    "jmp cg_private_syscall",

    // long cg_program(nr, a, b, c, d, e, f): a call on the program's behalf, from Rust;
    // the program's filters see it.
    "cg_program:",
    "cg_arguments_of_call",
    "cg_program_syscall:",
    "syscall",
    "ret",

    // A call that nobody wants to see.
    ".balign 64",
    "cg_pass:",
    "mov gs:[{t_return}], rcx",
    "cg_gate_pass:",                       // here rcx == return address: not yet executed
    "syscall",
    "mov rcx, gs:[{t_return}]",            // as `syscall` at the site would have left it
    "jmp rcx",

    // A call from a site whose number is not known in advance: look it up by its low 16
    // bits (numbers above that alias; dispatch looks at all of it).
    ".balign 64",
    "cg_enter_any:",
    "mov gs:[{t_return}], rcx",
    "movzx r11d, ax",
    "mov rcx, gs:[{t_interest}]",
    "movzx ecx, byte ptr [rcx + r11]",
    "jrcxz cg_gate_any",
    "mov rcx, gs:[{t_return}]",
    "jmp cg_enter",
    "cg_gate_any:",                        // here rcx == 0: not yet executed
    "syscall",
    "mov rcx, gs:[{t_return}]",
    "jmp rcx",

    // A call that Rust must see: save everything on the agent's stack of this thread.
    "cg_enter:",
    "mov gs:[{t_return}], rcx",
    "mov gs:[{t_rsp}], rsp",
    "mov rsp, gs:[{t_stack}]",
    "cg_enter_switched:",
    "pushfq",
    "push qword ptr gs:[{t_rsp}]",
    "push rcx",
    "push rdi",
    "push rsi",
    "push rdx",
    "push r10",
    "push r8",
    "push r9",
    "push rax",
    "push rbx",
    "push rbp",
    "push r12",
    "push r13",
    "push r14",
    "push r15",
    "mov dword ptr gs:[{t_phase}], {agent}",
    "cg_enter_saved:",
    "cld",
    "mov rdi, rsp",
    "mov rsi, gs:[0]",
    "call {enter}",                        // 0: make the call; else it is answered
    "cg_enter_decided:",
    "test eax, eax",
    "jnz cg_leave",
    // The effective number and arguments are in the thread block (a hook may have changed
    // them); the flags and the stack pointer are the program's again.
    "mov rax, [rsp + {r_flags}]",
    "test eax, 0x40400",                   // direction or alignment-check: rare, slow
    "jnz 1f",
    "mov ecx, eax",                        // sahf loads SF ZF AF PF CF from ah,
    "shr ecx, 11",
    "and ecx, 1",                          // OF comes from adding 0x7f to it
    "shl eax, 8",
    "add cl, 0x7f",
    "sahf",
    "jmp 2f",
    "1: push rax",
    "popfq",
    "2:",
    "mov rdi, gs:[{t_args}]",
    "mov rsi, gs:[{t_args} + 8]",
    "mov rdx, gs:[{t_args} + 16]",
    "mov r10, gs:[{t_args} + 24]",
    "mov r8, gs:[{t_args} + 32]",
    "mov r9, gs:[{t_args} + 40]",
    "mov rax, gs:[{t_nr}]",
    "mov rcx, gs:[{t_return}]",
    "mov rsp, gs:[{t_rsp}]",
    "cg_gate_hooked:",                     // here rcx == return address: not yet executed
    "syscall",
    "mov rsp, gs:[{t_stack}]",
    "lea rsp, [rsp - {regs}]",             // the registers saved above are still there
    "mov [rsp + {r_rax}], rax",
    "mov dword ptr gs:[{t_phase}], {agent}",
    "cg_exit_saved:",
    "cld",
    "mov rdi, rsp",
    "mov rsi, gs:[0]",
    "call {exit}",

    // rsp points to saved registers: load them all and go where rip says. rcx and r11 as
    // `syscall` leaves them. Uses no %gs.
    "cg_leave:",
    "mov r11, [rsp + {r_flags}]",
    "test r11d, 0x40500",                  // direction, alignment-check or trap flag
    "jnz 1f",
    "mov eax, r11d",
    "mov ecx, eax",
    "shr ecx, 11",
    "and ecx, 1",
    "shl eax, 8",
    "add cl, 0x7f",
    "sahf",
    "jmp 2f",
    "1: push r11",
    "popfq",
    "2:",
    "mov r15, [rsp + {r_r15}]",
    "mov r14, [rsp + {r_r14}]",
    "mov r13, [rsp + {r_r13}]",
    "mov r12, [rsp + {r_r12}]",
    "mov rbp, [rsp + {r_rbp}]",
    "mov rbx, [rsp + {r_rbx}]",
    "mov rax, [rsp + {r_rax}]",
    "mov r9, [rsp + {r_r9}]",
    "mov r8, [rsp + {r_r8}]",
    "mov r10, [rsp + {r_r10}]",
    "mov rdx, [rsp + {r_rdx}]",
    "mov rsi, [rsp + {r_rsi}]",
    "mov rdi, [rsp + {r_rdi}]",
    "mov rcx, [rsp + {r_rip}]",
    "mov rsp, [rsp + {r_rsp}]",
    "jmp rcx",

    // A call that one hook library has subscribed to and the agent has no business with, from
    // a stub that makes it: rcx is the address of the stub's call instruction. The library is
    // asked from here, and if it lets the call go, nothing comes after it.
    ".balign 64",
    "cg_hook:",
    "mov gs:[{t_return}], rcx",
    "mov gs:[{t_rsp}], rsp",
    "mov rsp, gs:[{t_stack}]",
    "cg_hook_switched:",
    "pushfq",                              // the saved registers (`Regs`), but for those that
    "push qword ptr gs:[{t_rsp}]",         // C code keeps; rip is the stub's for now
    "push rcx",
    "push rdi",
    "push rsi",
    "push rdx",
    "push r10",
    "push r8",
    "push r9",
    "push rax",
    "movsxd r11, dword ptr [rcx + 10]",    // the stub ends in a jump to the site's end:
    "lea r11, [rcx + r11 + 12]",           // 14 bytes on, less the two of the site
    "sub rsp, 48",
    "push r11",                            // struct crossgate_call: site, arguments, number
    "push r9",
    "push r8",
    "push r10",
    "push rdx",
    "push rsi",
    "push rdi",
    "mov r11d, eax",                       // the kernel looks at 32 bits
    "push r11",
    "mov dword ptr gs:[{t_phase}], {agent}",
    "cg_hook_saved:",
    "mov rsi, rsp",                        // the call
    "sub rsp, 16",
    "mov rdx, rsp",                        // room for a result
    "mov rdi, gs:[0]",                     // the task
    "xor eax, eax",
    "test dword ptr [rsp + {h_flags}], 0x400",
    "jnz 2f",                              // direction flag: C code wants it clear
    "1: cmp byte ptr gs:[{t_silent}], 0",
    "jne 3f",                              // a task that hooks do not see
    "mov dword ptr gs:[{t_library}], 1",
    "call qword ptr [rip + {first}]",
    "mov dword ptr gs:[{t_library}], 0",
    "test eax, eax",
    "jnz 3f",                              // not CROSSGATE_CONTINUE
    "mov dword ptr gs:[{t_phase}], {pass}",
    "cmp byte ptr gs:[{t_holds}], 0",
    "jne 3f",                              // a signal came: it goes first
    "mov ecx, [rsp + {h_flags}]",
    "test ecx, 0x40400",                   // direction or alignment-check: rare
    "jnz 3f",
    "mov eax, ecx",                        // SF ZF AF PF CF by sahf, OF by an addition
    "shr ecx, 11",
    "and ecx, 1",
    "shl eax, 8",
    "add cl, 0x7f",
    "sahf",
    "lea rsp, [rsp + {h_rax}]",
    "pop rax",
    "pop r9",
    "pop r8",
    "pop r10",
    "pop rdx",
    "pop rsi",
    "pop rdi",
    "pop rcx",
    "mov rsp, gs:[{t_rsp}]",
    "jmp rcx",                             // the stub's call instruction
    "2: cld",
    "jmp 1b",
    // Rust goes on. eax: what the library said.
    "3: mov dword ptr gs:[{t_phase}], {agent}",
    "mov [rsp + {h_rax} - 8], rbx",
    "mov [rsp + {h_rax} - 16], rbp",
    "mov [rsp + {h_rax} - 24], r12",
    "mov [rsp + {h_rax} - 32], r13",
    "mov [rsp + {h_rax} - 40], r14",
    "mov [rsp + {h_rax} - 48], r15",
    "mov rcx, [rsp + {h_rip}]",            // from the stub's call to the end of the site
    "movsxd rdx, dword ptr [rcx + 10]",
    "lea rcx, [rcx + rdx + 14]",
    "mov [rsp + {h_rip}], rcx",
    "mov gs:[{t_return}], rcx",
    "lea rdi, [rsp + {h_rax} - 48]",
    "mov rsi, gs:[0]",
    "mov edx, eax",
    "lea rcx, [rsp + 16]",
    "mov r8, [rsp]",
    "call {decided}",
    "lea rsp, [rsp + {h_rax} - 48]",
    "jmp cg_enter_decided",
    // The library failed, and the program ends. rbx: the thread.
    "cg_hook_failed:",
    "cld",
    "mov rdi, rbx",
    "mov rsp, [rdi + {t_stack}]",
    "sub rsp, 512",
    "call {hook_failed}",
    "ud2",
    "cg_hook_end:",

    // long cg_task(args, child): clone, clone3, fork and vfork with the program's own
    // number and arguments (`args` points to {nr, six arguments}). The child finds its
    // block in rbx and touches no stack but the block's: the program's new stack may be
    // shallow, and a vfork child shares ours.
    "cg_task:",
    "push rbx",
    "push rbp",
    "mov rbx, rsi",
    "mov rbp, rdi",
    "mov rax, [rbp]",
    "mov rdi, [rbp + 8]",
    "mov rsi, [rbp + 16]",
    "mov rdx, [rbp + 24]",
    "mov r10, [rbp + 32]",
    "mov r8, [rbp + 40]",
    "mov r9, [rbp + 48]",
    "syscall",
    "test rax, rax",
    "jz 1f",
    "pop rbp",
    "pop rbx",
    "ret",
    "1: mov rsp, [rbx + {t_stack}]",
    "lea rsp, [rsp - {regs}]",             // its saved registers lie at the top
    "mov rdi, rbx",
    "call {child}",                        // returns the child's saved registers
    "mov rsp, rax",
    "jmp cg_leave",

    // A 32-bit call (`int $0x80`) from 64-bit code, passed on. It leaves rcx alone, so the
    // address to return to travels in the thread block.
    "cg_compat:",
    "int 0x80",
    "jmp qword ptr gs:[{t_return}]",

    // Calls of a program that uses %gs itself: no thread block to be found, so the call is
    // made here with the program's registers and a second call instruction, outside the
    // allowed range, brings us back by a signal.
    "cg_bare:",
    "syscall",
    "cg_bare_after:",
    "nop",
    "cg_gate_end:",
    "cg_bare_trap:",
    "syscall",
    "ud2",

    // ---- signal entry points -----------------------------------------------------------
    // The kernel calls these on the thread's signal stack with every signal blocked; the
    // frame is at rsp and its first word, the return address, is cg_restorer.
    ".section .text.signal, \"ax\", @progbits",
    ".globl cg_on_sigsys, cg_on_signal, cg_return_from_frame",
    "cg_on_sigsys:",
    "mov rdi, rsp",                        // the frame
    "sub rsp, 8",                          // 16-byte alignment for the call
    "call {sigsys}",
    "add rsp, 8",
    "ret",                                 // to cg_restorer
    "cg_on_signal:",
    "mov rdi, rsp",
    "sub rsp, 8",
    "call {signal}",
    "add rsp, 8",
    "ret",
    // void cg_return_from_frame(rsp): rt_sigreturn from a frame of the program's.
    "cg_return_from_frame:",
    "mov rsp, rdi",
    "jmp cg_restorer",
    ".text",

    image_start = sym crate::image::IMAGE_START,
    relocations = sym crate::image::RELOCATIONS,
    relocations_end = sym crate::image::RELOCATIONS_END,
    params = sym crate::image::PARAMS,
    p_entry = const offset_of!(Params, entry),
    p_region = const offset_of!(Params, region),
    p_arena_size = const offset_of!(Params, arena_size),
    p_ids = const offset_of!(Params, ids),
    p_descriptors = const offset_of!(Params, descriptors),
    p_flags = const offset_of!(Params, flags),
    image_data = sym crate::image::IMAGE_DATA,
    image_end = sym crate::image::IMAGE_END,
    start_stack_end = sym crate::start::START_STACK_END,
    start = sym crate::start::start,
    step = sym crate::attach::step,
    enter = sym crate::dispatch::enter,
    exit = sym crate::dispatch::exit,
    child = sym crate::task::child_start,
    sigsys = sym crate::signals::on_sigsys,
    signal = sym crate::signals::on_signal,
    agent = const Phase::Agent as u32,
    pass = const Phase::Pass as u32,
    decided = sym crate::dispatch::decided,
    hook_failed = sym crate::library::failed_at_once,
    first = sym crate::library::FIRST,
    t_silent = const offset_of!(Thread, silent),
    t_library = const offset_of!(Thread, library),
    t_holds = const offset_of!(Thread, holds),
    // From the room for a result: 16 bytes of it, the call, and six registers' room.
    h_rax = const 16 + size_of::<Call>() + 48,
    h_rip = const 16 + size_of::<Call>() + 48 + 56,
    h_flags = const 16 + size_of::<Call>() + 48 + 72,
    regs = const size_of::<Regs>(),
    t_return = const offset_of!(Thread, return_to),
    t_interest = const offset_of!(Thread, interest),
    t_rsp = const offset_of!(Thread, program_rsp),
    t_stack = const offset_of!(Thread, stack_top),
    t_phase = const offset_of!(Thread, phase),
    t_args = const offset_of!(Thread, args),
    t_nr = const offset_of!(Thread, nr),
    r_r15 = const offset_of!(Regs, r15),
    r_r14 = const offset_of!(Regs, r14),
    r_r13 = const offset_of!(Regs, r13),
    r_r12 = const offset_of!(Regs, r12),
    r_rbp = const offset_of!(Regs, rbp),
    r_rbx = const offset_of!(Regs, rbx),
    r_rax = const offset_of!(Regs, rax),
    r_r9 = const offset_of!(Regs, r9),
    r_r8 = const offset_of!(Regs, r8),
    r_r10 = const offset_of!(Regs, r10),
    r_rdx = const offset_of!(Regs, rdx),
    r_rsi = const offset_of!(Regs, rsi),
    r_rdi = const offset_of!(Regs, rdi),
    r_rip = const offset_of!(Regs, rip),
    r_rsp = const offset_of!(Regs, rsp),
    r_flags = const offset_of!(Regs, flags),
);

macro_rules! addresses {
    ($($(#[$doc:meta])* $name:ident = $symbol:ident;)*) => {
        unsafe extern "C" {
            $(fn $symbol();)*
        }
        $(
            $(#[$doc])*
            #[inline]
            pub fn $name() -> u64 {
                $symbol as *const () as u64
            }
        )*
    };
}

addresses! {
    /// Where a step of joining or leaving begins.
    step = cg_step;
    /// End of the gate.
    gate_end = cg_gate_end;
    /// Way of calls nobody wants to see.
    pass = cg_pass;
    /// The call instruction of that way.
    gate_pass = cg_gate_pass;
    /// Way of calls whose number decides.
    enter_any = cg_enter_any;
    /// The call instruction of that way.
    gate_any = cg_gate_any;
    /// Way of calls that Rust must see.
    enter = cg_enter;
    /// There the stack pointer is the agent's.
    enter_switched = cg_enter_switched;
    /// There all registers are saved and the phase is set.
    enter_saved = cg_enter_saved;
    /// The call instruction of a call that Rust has seen.
    gate_hooked = cg_gate_hooked;
    /// There its result is saved and the phase is set.
    exit_saved = cg_exit_saved;
    /// Way of calls that one hook library has subscribed to.
    hook = cg_hook;
    /// There the stack pointer is the agent's.
    hook_switched = cg_hook_switched;
    /// There the registers are saved and the phase is set.
    hook_saved = cg_hook_saved;
    /// Where a task goes on whose library failed on this way.
    hook_failed = cg_hook_failed;
    /// End of that way.
    hook_end = cg_hook_end;
    /// The agent's own call instruction.
    private_syscall = cg_private_syscall;
    /// The call instruction for calls on the program's behalf.
    program_syscall = cg_program_syscall;
    /// The 32-bit call instruction.
    compat = cg_compat;
    /// The call instruction of a program that uses %gs itself.
    bare = cg_bare;
    /// The instruction after it.
    bare_after = cg_bare_after;
    /// The trap behind it.
    bare_trap = cg_bare_trap;
    /// Return address of the agent's handlers.
    restorer = cg_restorer;
    /// Handler of SIGSYS.
    on_sigsys = cg_on_sigsys;
    /// Handler of every other signal.
    on_signal = cg_on_signal;
}

/// The range of addresses whose calls are the kernel's.
pub fn gate() -> (u64, u64) {
    (image::stubs().start, gate_end())
}

unsafe extern "C" {
    /// clone, clone3, fork or vfork: `args` is {number, six arguments}. Gives the kernel's
    /// result in the maker; the child goes to `task::child_start`.
    fn cg_task(args: *const [u64; 7], child: *const c_void) -> i64;
    fn cg_return_from_frame(rsp: u64) -> !;
}

/// Makes a task with the program's own arguments; see the assembly.
pub fn make_task(args: &[u64; 7], child: &'static Thread) -> i64 {
    // SAFETY: `child` is a new block with its registers saved; in this task the function
    // returns like any other.
    unsafe { cg_task(args, core::ptr::from_ref(child).cast()) }
}

/// Returns from a signal through the frame below `rsp`, abandoning the current stack.
pub fn return_from_frame(rsp: u64) -> ! {
    // SAFETY: what the frame holds is the program's business; the kernel checks it.
    unsafe { cg_return_from_frame(rsp) }
}
