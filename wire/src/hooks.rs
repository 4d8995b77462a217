//! Hook libraries: what the launcher has found out about each, for the agents to map it.
//!
//! Owns: the layout of that, and the order of the functions that a library may call. Never
//! does: read a library. Where the data goes next: `agent/src/hooks.rs`.

/// Most libraries at a time.
pub const MOST_HOOKS: usize = 8;
/// Address space that each may take.
pub const HOOK_ROOM: u64 = 64 << 20;
/// Most parts with a protection of their own.
pub const MOST_PARTS: usize = 6;
/// Longest argument of a library, with its NUL.
pub const LONGEST_ARGUMENT: usize = 1024;
/// Longest path of a library that needs a libc, with its NUL.
pub const LONGEST_PATH: usize = 1024;
/// Bytes that a library may keep of each task.
pub const TASK_STATE: usize = 512;

/// The functions of `crossgate.h` that a library may call, and those that compilers assume. An
/// index into this is an index into the agent's table of their addresses.
pub const FUNCTIONS: [&str; 16] = [
    "crossgate_subscribe",
    "crossgate_read",
    "crossgate_read_string",
    "crossgate_write",
    "crossgate_call",
    "crossgate_pid",
    "crossgate_tid",
    "crossgate_task_state",
    "crossgate_log",
    "crossgate_fail",
    "memcpy",
    "memmove",
    "memset",
    "memcmp",
    "bcmp",
    "strlen",
];

/// The libraries of a tree, in the order in which they see a call.
#[repr(C)]
pub struct Hooks {
    /// How many there are.
    pub count: u32,
    /// Whether a library that fails ends the program (0), or is left out from then on (1).
    pub goes_on: u32,
    /// Where in the arena's file a [`crate::host::HostObject`] lies, a page boundary; zero where
    /// no library needs a libc.
    pub host: u64,
    /// The libraries.
    pub images: [HookImage; MOST_HOOKS],
}

/// One library, laid out as it is in memory, in the arena's file behind the arena.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct HookImage {
    /// Where in the file it begins, a page boundary.
    pub offset: u64,
    /// Its length in memory, whole pages.
    pub size: u64,
    /// How many of `parts` are in use.
    pub part_count: u32,
    /// How many [`Relocation`]s there are.
    pub relocation_count: u32,
    /// Where in the file they are, a page boundary.
    pub relocations: u64,
    /// Pieces with a protection of their own.
    pub parts: [Part; MOST_PARTS],
    /// `crossgate_hook_init`; [`NO_FUNCTION`] where it has none.
    pub init: u64,
    /// `crossgate_hook_enter`.
    pub enter: u64,
    /// `crossgate_hook_exit`.
    pub exit: u64,
    /// `crossgate_hook_task`.
    pub task: u64,
    /// Its code uses vector registers, which are the program's: a [`Vectors`].
    pub vectors: u32,
    /// Non-zero when it needs a libc: then nothing but `vectors` and the names is known of it,
    /// and the dynamic linker maps it.
    pub needs_libc: u32,
    /// What follows `:` on the command line, up to a NUL.
    pub argument: [u8; LONGEST_ARGUMENT],
    /// Its file's name, up to a NUL.
    pub name: [u8; 64],
}

/// The argument of a library with `__hook_init` by which it says that it was written for svc-hook.
pub const FOR_SVC_HOOK: &[u8] = b"svc-hook";
/// And for zpoline, as without an argument.
pub const FOR_ZPOLINE: &[u8] = b"zpoline";

/// Offset of a function that a library has not.
pub const NO_FUNCTION: u64 = u64::MAX;

/// What must be kept of the vector registers around a library's code.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Vectors {
    /// Nothing: it uses general registers only.
    None = 0,
    /// All of them, by `xsavec`.
    Xsavec = 1,
    /// x87 and SSE, by `fxsave`: the processor has no `xsavec`.
    Fxsave = 2,
    /// All of them, by plain moves: the processor has AVX, says which components are in use, and
    /// has AVX-512 with all its masks or nothing of it.
    Moves = 3,
}

/// Whole pages of a library.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// From its start.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
    /// PROT_READ, PROT_WRITE, PROT_EXEC.
    pub protection: u64,
}

/// A word that depends on where things lie.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relocation {
    /// Offset of the word.
    pub at: u64,
    /// Added to the address of what it refers to.
    pub addend: u64,
    /// Index in [`FUNCTIONS`] of what that is; [`ITSELF`] for the library's start.
    pub to: u64,
}

/// See [`Relocation::to`].
pub const ITSELF: u64 = u64::MAX;

/// What becomes of a call after `crossgate_hook_enter`: the kernel gets it as it was.
pub const CONTINUE: i64 = 0;
/// The program gets the result, and the kernel nothing.
pub const ANSWER: i64 = 1;
/// The kernel gets it as the hook has left it, and the hook its result.
pub const WATCH: i64 = 2;
/// The kernel gets it as the hook has left it.
pub const CHANGE: i64 = 3;

/// A task has begun (`crossgate_hook_task`).
pub const TASK_BEGINS: i64 = 1;
/// The same in a process of its own, made by fork: the memory is a copy of its maker's.
pub const PROCESS_BEGINS: i64 = 2;
/// The task is about to end.
pub const TASK_ENDS: i64 = 3;
