//! How the supervisor and an agent join a program that runs already, and leave it.
//!
//! Owns: the layout of what they tell each other in the agent's memory. All tasks of the program are
//! stopped meanwhile; one at a time runs the agent's code for a step. Where the data goes next:
//! `launch/src/attach.rs` writes it, `agent/src/attach.rs` reads it and answers.

/// A task's registers.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Registers {
    pub r15: u64,
    pub r14: u64,
    pub r13: u64,
    pub r12: u64,
    pub rbp: u64,
    pub rbx: u64,
    pub r11: u64,
    pub r10: u64,
    pub r9: u64,
    pub r8: u64,
    pub rax: u64,
    pub rcx: u64,
    pub rdx: u64,
    pub rsi: u64,
    pub rdi: u64,
    pub rip: u64,
    pub flags: u64,
    pub rsp: u64,
}

/// What a step is given, and what it gives back.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exchange {
    /// A [`Step`].
    pub step: u64,
    /// The task's thread id, as the supervisor sees it.
    pub tid: u64,
    /// The task's signal mask.
    pub mask: u64,
    /// How many tasks the program has.
    pub tasks: u64,
    /// The task's registers as it was stopped.
    pub registers: Registers,
}

/// What a task does for joining or leaving. Each gives zero, or why it cannot (`-errno`).
#[repr(u64)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Says whether it can be joined now; changes nothing.
    Look = 1,
    /// The program's handlers become the agent's, for all tasks.
    JoinProgram = 2,
    /// The task's calls come to the agent from here on.
    Join = 3,
    /// Gives the registers with which the task can go on as if there were no agent, when all tasks
    /// are calm.
    Settle = 4,
    /// Takes all patches back.
    Revert = 5,
    /// The task's calls go to the kernel from here on. `mask` becomes the program's.
    Leave = 6,
    /// After the last task: the program's handlers are its own, and all memory is given back but the
    /// image's.
    LeaveProgram = 7,
    /// Says whether the task is in the middle of nothing of the agent's (EAGAIN: it is); takes no lock,
    /// for who holds one may be stopped.
    Calm = 8,
}
