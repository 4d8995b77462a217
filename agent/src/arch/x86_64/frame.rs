//! The layouts that the kernel and the entry code define: saved registers and the signal
//! frame.
//!
//! Sources: the signal frame is `struct rt_sigframe` (arch/x86/include/asm/sigframe.h) with
//! `struct sigcontext_64` (arch/x86/include/uapi/asm/sigcontext.h); the extended state's
//! size is in `struct _fpx_sw_bytes` of the same file.

/// The program's registers at a call, as the entry code pushes them (lowest address first).
///
/// `rip` is the address after the call instruction, `rax` the call number before the call
/// and its result afterwards. `rcx` and `r11` are absent: the `syscall` instruction
/// overwrites them (Intel SDM, SYSCALL) with what `rip` and `flags` hold.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
#[allow(missing_docs)]
pub struct Regs {
    pub r15: u64,
    pub r14: u64,
    pub r13: u64,
    pub r12: u64,
    pub rbp: u64,
    pub rbx: u64,
    pub rax: u64,
    pub r9: u64,
    pub r8: u64,
    pub r10: u64,
    pub rdx: u64,
    pub rsi: u64,
    pub rdi: u64,
    pub rip: u64,
    pub rsp: u64,
    pub flags: u64,
}

const _: () = assert!(size_of::<Regs>() == 128, "the entry code relies on it");

impl Regs {
    /// The six arguments in order.
    pub fn args(&self) -> [u64; 6] {
        [self.rdi, self.rsi, self.rdx, self.r10, self.r8, self.r9]
    }

    /// Copies from what a signal interrupted.
    pub fn from_context(c: &Context) -> Self {
        Self {
            r15: c.r15,
            r14: c.r14,
            r13: c.r13,
            r12: c.r12,
            rbp: c.rbp,
            rbx: c.rbx,
            rax: c.rax,
            r9: c.r9,
            r8: c.r8,
            r10: c.r10,
            rdx: c.rdx,
            rsi: c.rsi,
            rdi: c.rdi,
            rip: c.rip,
            rsp: c.rsp,
            flags: c.flags,
        }
    }

    /// Makes these the registers that a signal's return will load, `rcx` and `r11` as
    /// `syscall` leaves them.
    pub fn to_context(&self, c: &mut Context) {
        c.r15 = self.r15;
        c.r14 = self.r14;
        c.r13 = self.r13;
        c.r12 = self.r12;
        c.rbp = self.rbp;
        c.rbx = self.rbx;
        c.rax = self.rax;
        c.r9 = self.r9;
        c.r8 = self.r8;
        c.r10 = self.r10;
        c.rdx = self.rdx;
        c.rsi = self.rsi;
        c.rdi = self.rdi;
        c.rip = self.rip;
        c.rsp = self.rsp;
        c.flags = self.flags;
        c.rcx = self.rip;
        c.r11 = self.flags;
    }
}

/// `stack_t`.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct SignalStack {
    pub sp: u64,
    pub flags: u32,
    pub pad: u32,
    pub size: u64,
}

/// `struct sigcontext_64`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)]
pub struct Context {
    pub r8: u64,
    pub r9: u64,
    pub r10: u64,
    pub r11: u64,
    pub r12: u64,
    pub r13: u64,
    pub r14: u64,
    pub r15: u64,
    pub rdi: u64,
    pub rsi: u64,
    pub rbp: u64,
    pub rbx: u64,
    pub rdx: u64,
    pub rax: u64,
    pub rcx: u64,
    pub rsp: u64,
    pub rip: u64,
    pub flags: u64,
    pub segments: u64,
    pub err: u64,
    pub trap: u64,
    pub oldmask: u64,
    pub cr2: u64,
    pub fpstate: u64,
    pub reserved: [u64; 8],
}

/// `struct ucontext`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct UserContext {
    pub flags: u64,
    pub link: u64,
    pub stack: SignalStack,
    pub context: Context,
    pub mask: u64,
}

/// `siginfo_t`: the head that all kinds share, then words by kind.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct SignalInfo {
    pub signo: i32,
    pub errno: i32,
    pub code: i32,
    pub pad: i32,
    pub words: [u64; 14],
}

impl SignalInfo {
    /// All zero.
    pub const EMPTY: Self = Self { signo: 0, errno: 0, code: 0, pad: 0, words: [0; 14] };

    /// The 128 bytes as the kernel has them.
    pub fn bytes(&self) -> &[u8; 128] {
        // SAFETY: `SignalInfo` is 128 bytes of integers without padding.
        unsafe { &*(&raw const *self).cast() }
    }
}

/// `struct rt_sigframe`: what lies at the stack pointer when a handler starts.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct SignalFrame {
    pub return_to: u64,
    pub uc: UserContext,
    pub info: SignalInfo,
}

const _: () = assert!(size_of::<SignalInfo>() == 128);
const _: () = assert!(size_of::<SignalFrame>() == 440);

/// Length of the extended state that `fpstate` points to.
///
/// # Safety
/// `fpstate` is the address the kernel put into a frame of the current thread, or null.
pub unsafe fn extended_state_size(fpstate: u64) -> usize {
    const MAGIC: u32 = 0x4650_5853; // FP_XSTATE_MAGIC1
    const LEGACY: usize = 512;
    if fpstate == 0 {
        return 0;
    }
    let words = fpstate as *const u32;
    // SAFETY: the state is at least the 512 legacy bytes; `sw_reserved` is their last 48.
    unsafe { if *words.add(464 / 4) == MAGIC { *words.add(468 / 4) as usize } else { LEGACY } }
}
