//! The program that has hook libraries with a libc: a program in the program, with a dynamic
//! linker and a libc of its own.
//!
//! Owns: what its dynamic linker finds in memory in place of a file, as a program's headers and
//! dynamic section are laid out (System V ABI, chapters 4 and 5). Never does: map or run it. Where
//! the data goes next: the launcher writes a [`HostObject`] into the arena's file
//! (`launch/src/arena.rs`), each agent maps a copy and starts the dynamic linker on it
//! (`agent/src/host.rs`).

use core::mem::offset_of;

use crate::hooks::{LONGEST_PATH, MOST_HOOKS};

/// The dynamic linker of glibc, by its name in the ABI of x86-64.
pub const DYNAMIC_LINKER: &str = "/lib64/ld-linux-x86-64.so.2";
/// The libc that it is part of.
pub const LIBC: &str = "libc.so.6";

/// How many functions of `crossgate.h` a library finds in it: the first of
/// [`crate::hooks::FUNCTIONS`]; the others are its libc's.
pub const GIVEN: usize = 10;

/// What the agent needs of that libc, by name, in the order of [`HostObject::needed`]. Without the
/// last one it works, too.
pub const NEEDED: [&str; 7] = [
    "dlopen",
    "dlsym",
    "dlerror",
    "__libc_single_threaded",
    "__ctype_init",
    "_dl_allocate_tls",
    "__rseq_offset",
];

const SYMBOLS: usize = 1 + GIVEN + NEEDED.len();
const STRINGS: usize = 512;

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_INTERP: u32 = 3;
const PT_PHDR: u32 = 6;
const PT_GNU_STACK: u32 = 0x6474_e551;
const DT_NEEDED: u64 = 1;
const DT_HASH: u64 = 4;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_RELA: u64 = 7;
const DT_RELASZ: u64 = 8;
const DT_RELAENT: u64 = 9;
const DT_STRSZ: u64 = 10;
const DT_SYMENT: u64 = 11;
const DT_DEBUG: u64 = 21;
const SHN_ABS: u16 = 0xfff1;
const GLOBAL_FUNCTION: u8 = 0x12;
const GLOBAL: u8 = 0x10;
const WEAK: u8 = 0x20;
const R_X86_64_GLOB_DAT: u64 = 6;

/// `Elf64_Phdr`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ProgramHeader {
    kind: u32,
    flags: u32,
    offset: u64,
    address: u64,
    physical: u64,
    file_size: u64,
    size: u64,
    alignment: u64,
}

/// `Elf64_Sym`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Symbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    /// Its address, for the agent to fill in.
    pub value: u64,
    size: u64,
}

/// `Elf64_Rela`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Rela {
    at: u64,
    info: u64,
    addend: u64,
}

/// A hash table with one bucket.
#[repr(C)]
#[derive(Clone, Copy)]
struct Hash {
    buckets: u32,
    chains: u32,
    bucket: u32,
    chain: [u32; SYMBOLS],
}

/// The whole of it, at addresses from zero on. All of it is readable and writable data.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct HostObject {
    /// For AT_PHDR.
    pub headers: [ProgramHeader; 5],
    dynamic: [[u64; 2]; 12],
    symbols: [Symbol; SYMBOLS],
    relocations: [Rela; NEEDED.len()],
    /// Addresses of what [`NEEDED`] names, as the dynamic linker has found them; zero for what
    /// it has not.
    pub needed: [u64; NEEDED.len()],
    hash: Hash,
    strings: [u8; STRINGS],
    interpreter: [u8; 36],
    /// Absolute paths of the libraries that it opens, up to a NUL; empty for those that need no
    /// libc.
    pub paths: [[u8; LONGEST_PATH]; MOST_HOOKS],
}

const fn segment(kind: u32, flags: u32, at: usize, size: usize, alignment: u64) -> ProgramHeader {
    let (at, size) = (at as u64, size as u64);
    ProgramHeader {
        kind,
        flags,
        offset: at,
        address: at,
        physical: at,
        file_size: size,
        size,
        alignment,
    }
}

/// The strings of the dynamic section while they are put together.
struct Strings {
    bytes: [u8; STRINGS],
    /// The first one is empty.
    used: usize,
}

impl Strings {
    const fn add(&mut self, text: &str) -> u32 {
        let at = self.used;
        let text = text.as_bytes();
        let mut i = 0;
        while i < text.len() {
            self.bytes[at + i] = text[i];
            i += 1;
        }
        self.used += text.len() + 1;
        at as u32
    }
}

impl HostObject {
    /// Without paths.
    pub const EMPTY: Self = Self::new();

    const fn new() -> Self {
        const READ_WRITE: u32 = 6;
        let mut strings = Strings { bytes: [0; STRINGS], used: 1 };
        let libc = strings.add(LIBC) as u64;
        let none = Symbol { name: 0, info: 0, other: 0, section: 0, value: 0, size: 0 };
        let mut symbols = [none; SYMBOLS];
        let mut i = 0;
        while i < GIVEN {
            let name = strings.add(crate::hooks::FUNCTIONS[i]);
            symbols[1 + i] = Symbol { name, info: GLOBAL_FUNCTION, section: SHN_ABS, ..none };
            i += 1;
        }
        let mut relocations = [Rela { at: 0, info: 0, addend: 0 }; NEEDED.len()];
        i = 0;
        while i < NEEDED.len() {
            let name = strings.add(NEEDED[i]);
            let info = if i + 1 == NEEDED.len() { WEAK } else { GLOBAL };
            let symbol = 1 + GIVEN + i;
            symbols[symbol] = Symbol { name, info, ..none };
            relocations[i] = Rela {
                at: (offset_of!(Self, needed) + i * 8) as u64,
                info: (symbol as u64) << 32 | R_X86_64_GLOB_DAT,
                addend: 0,
            };
            i += 1;
        }
        // Each symbol's chain goes on at the next one.
        let mut hash = Hash { buckets: 1, chains: SYMBOLS as u32, bucket: 1, chain: [0; SYMBOLS] };
        i = 1;
        while i + 1 < SYMBOLS {
            hash.chain[i] = i as u32 + 1;
            i += 1;
        }
        let mut interpreter = [0; 36];
        i = 0;
        while i < DYNAMIC_LINKER.len() {
            interpreter[i] = DYNAMIC_LINKER.as_bytes()[i];
            i += 1;
        }
        Self {
            headers: [
                segment(PT_PHDR, READ_WRITE, 0, size_of::<[ProgramHeader; 5]>(), 8),
                segment(
                    PT_INTERP,
                    READ_WRITE,
                    offset_of!(Self, interpreter),
                    DYNAMIC_LINKER.len() + 1,
                    1,
                ),
                segment(PT_LOAD, READ_WRITE, 0, size_of::<Self>(), 4096),
                segment(
                    PT_DYNAMIC,
                    READ_WRITE,
                    offset_of!(Self, dynamic),
                    size_of::<[[u64; 2]; 12]>(),
                    8,
                ),
                segment(PT_GNU_STACK, READ_WRITE, 0, 0, 16),
            ],
            dynamic: [
                [DT_NEEDED, libc],
                [DT_HASH, offset_of!(Self, hash) as u64],
                [DT_STRTAB, offset_of!(Self, strings) as u64],
                [DT_STRSZ, strings.used as u64],
                [DT_SYMTAB, offset_of!(Self, symbols) as u64],
                [DT_SYMENT, size_of::<Symbol>() as u64],
                [DT_RELA, offset_of!(Self, relocations) as u64],
                [DT_RELASZ, size_of::<[Rela; NEEDED.len()]>() as u64],
                [DT_RELAENT, size_of::<Rela>() as u64],
                [DT_DEBUG, 0],
                [0, 0],
                [0, 0],
            ],
            symbols,
            relocations,
            needed: [0; NEEDED.len()],
            hash,
            strings: strings.bytes,
            interpreter,
            paths: [[0; LONGEST_PATH]; MOST_HOOKS],
        }
    }

    /// The symbols of the first functions of [`crate::hooks::FUNCTIONS`], in their order.
    pub fn given(&mut self) -> &mut [Symbol] {
        &mut self.symbols[1..=GIVEN]
    }

    /// As bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: all fields are numbers, and there is no room between them.
        unsafe { core::slice::from_raw_parts((&raw const *self).cast(), size_of::<Self>()) }
    }
}

const _: () = {
    let fields = size_of::<[ProgramHeader; 5]>()
        + size_of::<[[u64; 2]; 12]>()
        + size_of::<[Symbol; SYMBOLS]>()
        + size_of::<[Rela; NEEDED.len()]>()
        + size_of::<[u64; NEEDED.len()]>()
        + size_of::<Hash>()
        + STRINGS
        + 36
        + MOST_HOOKS * LONGEST_PATH;
    assert!(fields == size_of::<HostObject>());
};
