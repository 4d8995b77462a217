//! Hook libraries: reading the file of one into the form in which agents map it.
//!
//! Owns: which libraries can be hooks, and saying why one cannot. A library that needs nothing but
//! the functions of `crossgate.h` is laid out here, for an agent has no loader; one that needs a
//! libc, or what only a dynamic linker does, is left to the dynamic linker of its own that agents
//! start. Never does: run any of it.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use crossgate_wire::hooks::{
    FOR_SVC_HOOK, FOR_ZPOLINE, FUNCTIONS, HOOK_ROOM, HookImage, ITSELF, LONGEST_ARGUMENT,
    LONGEST_PATH, MOST_PARTS, NO_FUNCTION, Part, Relocation, Vectors,
};
use crossgate_wire::host::{DYNAMIC_LINKER, LIBC};
use iced_x86::{Code, CpuidFeature, Decoder, DecoderOptions, Instruction, OpKind};
use object::elf::{self, FileHeader64};
use object::read::elf::{Dyn, FileHeader, ProgramHeader, Rela, SectionHeader, Sym, SymbolTable};
use object::{Endianness, SymbolIndex};

use crate::error::{Error, Result};

const PAGE: u64 = 4096;

/// A library that can be a hook.
pub struct Library {
    /// What the agents are told; the offsets in the arena's file are still to be added.
    pub image: HookImage,
    /// Its memory, whole pages.
    pub bytes: Vec<u8>,
    /// Its relocations.
    pub relocations: Vec<Relocation>,
    /// Where its file is, if it needs a libc.
    pub path: Option<PathBuf>,
}

impl Library {
    /// The name of its file.
    pub fn name(&self) -> &[u8] {
        self.image.name.split(|&byte| byte == 0).next().unwrap_or_default()
    }
}

type Elf = FileHeader64<Endianness>;

/// What a library defines, in the order of [`HookImage`]; it must have the first two.
const ENTRY_POINTS: [&str; 4] =
    ["crossgate_hook_init", "crossgate_hook_enter", "crossgate_hook_exit", "crossgate_hook_task"];
/// What a library defines that was written for zpoline or svc-hook.
const FOREIGN_INIT: &str = "__hook_init";

fn required(has: impl Fn(&str) -> bool) -> Said<()> {
    match ENTRY_POINTS[..2].iter().find(|name| !has(name)) {
        Some(name) => Err(format!("it has no function {name}")),
        None => Ok(()),
    }
}

const NOTHING: HookImage = HookImage {
    offset: 0,
    size: 0,
    part_count: 0,
    relocation_count: 0,
    relocations: 0,
    parts: [Part { offset: 0, len: 0, protection: 0 }; MOST_PARTS],
    init: NO_FUNCTION,
    enter: NO_FUNCTION,
    exit: NO_FUNCTION,
    task: NO_FUNCTION,
    vectors: 0,
    needs_libc: 0,
    argument: [0; LONGEST_ARGUMENT],
    name: [0; 64],
};

/// Reads the library at `path`; `argument` is what its `crossgate_hook_init` gets.
pub fn read(path: &Path, argument: &[u8]) -> Result<Library> {
    let shown = path.display();
    let bytes = fs::read(path).map_err(|e| {
        let why = e.to_string();
        let why = why.split(" (os error").next().unwrap_or_default().to_owned();
        Error::own(format!("{shown}: cannot read the hook: {why}"))
    })?;
    if argument.len() >= LONGEST_ARGUMENT {
        let most = LONGEST_ARGUMENT - 1;
        return Err(Error::own(format!("{shown}: its argument is longer than {most} bytes")));
    }
    let read = |reader: Reader| reader.read(argument);
    let mut library = Reader::new(&bytes).and_then(read).map_err(|why| {
        Error::own(format!("{shown}: cannot be a hook: {why}; see docs/hooks.md"))
    })?;
    if library.image.needs_libc != 0 {
        let path = path.canonicalize().unwrap_or_else(|_| path.into());
        if path.as_os_str().len() >= LONGEST_PATH {
            return Err(Error::own(format!("{shown}: the path of this hook is too long")));
        }
        library.path = Some(path);
    }
    library.image.argument[..argument.len()].copy_from_slice(argument);
    let name = PathBuf::from(path.file_name().unwrap_or_default());
    let name = name.as_os_str().as_encoded_bytes();
    let len = name.len().min(library.image.name.len() - 1);
    library.image.name[..len].copy_from_slice(&name[..len]);
    Ok(library)
}

/// A file that is being read.
struct Reader<'a> {
    file: &'a [u8],
    header: &'a Elf,
    end: Endianness,
}

type Said<T> = std::result::Result<T, String>;

fn damaged(_: object::Error) -> String {
    "the file is damaged".into()
}

impl<'a> Reader<'a> {
    fn new(file: &'a [u8]) -> Said<Self> {
        let no_library = || "it is no shared library for x86-64".to_owned();
        let header = Elf::parse(file).map_err(|_| no_library())?;
        let end = header.endian().map_err(|_| no_library())?;
        let fits = header.e_machine(end) == elf::EM_X86_64 && header.e_type(end) == elf::ET_DYN;
        if fits { Ok(Self { file, header, end }) } else { Err(no_library()) }
    }

    fn read(self, argument: &[u8]) -> Said<Library> {
        if self.needs_linker()? {
            return self.with_libc(argument);
        }
        let (parts, size) = self.parts()?;
        let mut bytes = vec![0; size as usize];
        let headers = self.header.program_headers(self.end, self.file).map_err(damaged)?;
        for header in headers.iter().filter(|h| h.p_type(self.end) == elf::PT_LOAD) {
            let data = header.data(self.end, self.file).map_err(|()| "the file is damaged")?;
            let from = header.p_vaddr(self.end) as usize;
            // `parts` has checked that all of them fit.
            bytes[from..from + data.len()].copy_from_slice(data);
        }
        let vectors = look_at_code(&bytes, &parts)?;
        let (functions, relocations) = self.symbols(size)?;
        let writable = |at: u64| {
            let holds = |part: &&Part| part.offset <= at && at + 8 <= part.offset + part.len;
            parts.iter().find(holds).is_some_and(|p| p.protection & libc::PROT_WRITE as u64 != 0)
        };
        if !relocations.iter().all(|relocation| writable(relocation.at)) {
            return Err("its code has relocations; compile it with -fPIC".into());
        }
        let function = |name: &str| functions.get(name).copied().unwrap_or(NO_FUNCTION);
        let [init, enter, exit, task] = ENTRY_POINTS.map(function);
        required(|name| functions.contains_key(name))?;
        let mut image = HookImage {
            size,
            part_count: parts.len() as u32,
            relocation_count: relocations.len() as u32,
            init,
            enter,
            exit,
            task,
            vectors: vectors as u32,
            ..NOTHING
        };
        image.parts[..parts.len()].copy_from_slice(&parts);
        Ok(Library { image, bytes, relocations, path: None })
    }

    /// A library that the dynamic linker maps: it says then what else is wrong with it.
    fn with_libc(self, argument: &[u8]) -> Said<Library> {
        let (functions, _) = self.exported(u64::MAX)?;
        let own = required(|name| functions.contains_key(name));
        if !functions.contains_key(FOREIGN_INIT) {
            own?;
        } else if own.is_err() && ![b"", FOR_ZPOLINE, FOR_SVC_HOOK].contains(&argument) {
            return Err("with __hook_init, its argument is zpoline or svc-hook".into());
        }
        if !Path::new(DYNAMIC_LINKER).exists() {
            return Err(format!("it needs a libc, and there is no {DYNAMIC_LINKER}"));
        }
        let vectors = all_vectors() as u32;
        let image = HookImage { needs_libc: 1, vectors, ..NOTHING };
        Ok(Library { image, bytes: Vec::new(), relocations: Vec::new(), path: None })
    }

    /// Its pieces, in order, and its length in memory.
    fn parts(&self) -> Said<(Vec<Part>, u64)> {
        let headers = self.header.program_headers(self.end, self.file).map_err(damaged)?;
        let mut parts: Vec<Part> = Vec::new();
        let mut size = 0;
        for header in headers {
            match header.p_type(self.end) {
                elf::PT_LOAD => {}
                _ => continue,
            }
            let (from, len) = (header.p_vaddr(self.end), header.p_memsz(self.end));
            let end = from.checked_add(len).filter(|&end| end <= HOOK_ROOM);
            let end = end.ok_or("it is larger than a hook may be")?.next_multiple_of(PAGE);
            let start = from & !(PAGE - 1);
            if start < size || header.p_filesz(self.end) > len || parts.len() == MOST_PARTS {
                return Err("its segments lie in each other's pages".into());
            }
            let flags = header.p_flags(self.end).0;
            let set = |flag: elf::ProgramFlags, bit: i32| {
                if flags & flag.0 != 0 { bit as u64 } else { 0 }
            };
            let protection = set(elf::PF_R, libc::PROT_READ)
                | set(elf::PF_W, libc::PROT_WRITE)
                | set(elf::PF_X, libc::PROT_EXEC);
            let both = libc::PROT_WRITE | libc::PROT_EXEC;
            if protection & both as u64 == both as u64 {
                return Err("it has memory that is writable and executable".into());
            }
            parts.push(Part { offset: start, len: end - start, protection });
            size = end;
        }
        if parts.is_empty() { Err("there is nothing in it".into()) } else { Ok((parts, size)) }
    }

    /// Whether it takes a dynamic linker to map it. Refuses what it must not need.
    fn needs_linker(&self) -> Said<bool> {
        let headers = self.header.program_headers(self.end, self.file).map_err(damaged)?;
        let has = |kind| headers.iter().any(|header| header.p_type(self.end) == kind);
        if has(elf::PT_INTERP) {
            return Err("it is a program, not a library".into());
        }
        let mut needs = has(elf::PT_TLS);
        let sections = self.header.sections(self.end, self.file).map_err(damaged)?;
        let strings = sections
            .iter()
            .find_map(|section| section.dynamic(self.end, self.file).ok().flatten())
            .and_then(|(_, link)| sections.strings(self.end, self.file, link).ok());
        for header in headers {
            let Some(entries) = header.dynamic(self.end, self.file).map_err(damaged)? else {
                continue;
            };
            for entry in entries {
                match entry.d_tag(self.end) {
                    elf::DT_NEEDED => {
                        let name = strings
                            .and_then(|strings| entry.string(self.end, strings).ok())
                            .map_or("another".into(), |name| String::from_utf8_lossy(name));
                        if name.starts_with("libc.") && name != LIBC {
                            return Err(format!("it needs {name}, and hooks have glibc's {LIBC}"));
                        }
                        needs = true;
                    }
                    elf::DT_INIT | elf::DT_INIT_ARRAYSZ => needs |= entry.d_val(self.end) != 0,
                    _ => {}
                }
            }
        }
        let (functions, _) = self.exported(u64::MAX)?;
        Ok(needs || functions.contains_key(FOREIGN_INIT))
    }

    /// What it exports at offsets below `size`, by name, and the table of symbols.
    fn exported(&self, size: u64) -> Said<(HashMap<String, u64>, SymbolTable<'a, Elf>)> {
        let sections = self.header.sections(self.end, self.file).map_err(damaged)?;
        let symbols = sections.symbols(self.end, self.file, elf::SHT_DYNSYM).map_err(damaged)?;
        let mut functions = HashMap::new();
        for symbol in symbols.iter() {
            let name = symbol.name(self.end, symbols.strings()).map_err(damaged)?;
            let name = String::from_utf8_lossy(name).into_owned();
            if symbol.st_shndx(self.end) != elf::SHN_UNDEF && !name.is_empty() {
                let at = symbol.st_value(self.end);
                if at < size {
                    functions.insert(name, at);
                }
            }
        }
        Ok((functions, symbols))
    }

    /// The functions that it exports, and its relocations.
    fn symbols(&self, size: u64) -> Said<(HashMap<String, u64>, Vec<Relocation>)> {
        let (functions, symbols) = self.exported(size)?;
        let sections = self.header.sections(self.end, self.file).map_err(damaged)?;
        let mut relocations = Vec::new();
        for section in sections.iter() {
            let table = section.rela(self.end, self.file).map_err(damaged)?;
            for rela in table.map(|(table, _)| table).unwrap_or_default() {
                relocations.push(self.relocation(rela, size, &symbols)?);
            }
        }
        Ok((functions, relocations))
    }

    fn relocation(
        &self,
        rela: &elf::Rela64<Endianness>,
        size: u64,
        symbols: &SymbolTable<'a, Elf>,
    ) -> Said<Relocation> {
        let at = rela.r_offset(self.end);
        let addend = rela.r_addend(self.end) as u64;
        if at.checked_add(8).is_none_or(|end| end > size) {
            return Err("the file is damaged".into());
        }
        let kind = rela.r_type(self.end, false);
        if kind == elf::R_X86_64_RELATIVE {
            return Ok(Relocation { at, addend, to: ITSELF });
        }
        let words = [elf::R_X86_64_64, elf::R_X86_64_GLOB_DAT, elf::R_X86_64_JUMP_SLOT];
        if !words.contains(&kind) {
            return Err(format!("it has a relocation of kind {kind}, which is not supported"));
        }
        let index = SymbolIndex(rela.r_sym(self.end, false) as usize);
        let symbol = symbols.symbol(index).map_err(damaged)?;
        let name = symbol.name(self.end, symbols.strings()).map_err(damaged)?;
        // A word and a slot differ in whether the addend counts (System V ABI, x86-64, 4.4).
        let addend = if kind == elf::R_X86_64_64 { addend } else { 0 };
        if symbol.st_shndx(self.end) != elf::SHN_UNDEF {
            let addend = symbol.st_value(self.end).wrapping_add(addend);
            return Ok(Relocation { at, addend, to: ITSELF });
        }
        let known = FUNCTIONS.iter().position(|known| known.as_bytes() == name);
        match known {
            Some(to) => Ok(Relocation { at, addend, to: to as u64 }),
            None => Err(format!(
                "it needs the function {}, which a hook has not",
                String::from_utf8_lossy(name)
            )),
        }
    }
}

/// Looks at all of its code: calls to the kernel of its own would come back to the hook; vector
/// registers are the program's.
fn look_at_code(bytes: &[u8], parts: &[Part]) -> Said<Vectors> {
    let executable = parts.iter().filter(|p| p.protection & libc::PROT_EXEC as u64 != 0);
    let mut vectors = false;
    for part in executable {
        let code = &bytes[part.offset as usize..(part.offset + part.len) as usize];
        let mut decoder = Decoder::with_ip(64, code, part.offset, DecoderOptions::NONE);
        let mut instruction = Instruction::default();
        while decoder.can_decode() {
            decoder.decode_out(&mut instruction);
            let old = instruction.code() == Code::Int_imm8 && instruction.immediate8() == 0x80;
            if old || matches!(instruction.code(), Code::Syscall | Code::Sysenter) {
                return Err(format!(
                    "it has a call instruction of its own at {:#x}; use crossgate_call",
                    instruction.ip()
                ));
            }
            vectors |= uses_vectors(&instruction);
        }
    }
    Ok(if vectors { all_vectors() } else { Vectors::None })
}

/// How this processor keeps all of them.
fn all_vectors() -> Vectors {
    use std::arch::is_x86_feature_detected;
    /// `xgetbv` gives the components in use (Intel SDM volume 1, 13.2).
    const XGETBV_IN_USE: u32 = 1 << 2;
    if !is_x86_feature_detected!("xsavec") {
        return Vectors::Fxsave;
    }
    let in_use = core::arch::x86_64::__cpuid_count(0xd, 1).eax & XGETBV_IN_USE != 0;
    let all_or_nothing =
        is_x86_feature_detected!("avx512bw") || !is_x86_feature_detected!("avx512f");
    if in_use && all_or_nothing && is_x86_feature_detected!("avx") {
        Vectors::Moves
    } else {
        Vectors::Xsavec
    }
}

fn uses_vectors(instruction: &Instruction) -> bool {
    let x87 = || instruction.cpuid_features().contains(&CpuidFeature::FPU);
    let mut registers = (0..instruction.op_count())
        .filter(|&index| instruction.op_kind(index) == OpKind::Register)
        .map(|index| instruction.op_register(index));
    registers.any(|r| r.is_vector_register() || r.is_mm() || r.is_st() || r.is_k()) || x87()
}
