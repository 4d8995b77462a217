//! Hook libraries: reading the file of one into the form in which agents map it.
//!
//! Owns: which libraries can be hooks, and saying why one cannot. An agent has no libc to give
//! and no loader: a library needs nothing but the functions of `crossgate.h`. Never does: run
//! any of it.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use crossgate_wire::hooks::{
    FUNCTIONS, HOOK_ROOM, HookImage, ITSELF, LONGEST_ARGUMENT, MOST_PARTS, NO_FUNCTION, Part,
    Relocation, Vectors,
};
use iced_x86::{Code, CpuidFeature, Decoder, DecoderOptions, Instruction, OpKind};
use object::elf::{self, FileHeader64};
use object::read::elf::{Dyn, FileHeader, ProgramHeader, Rela, SectionHeader, Sym};
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
}

impl Library {
    /// The name of its file.
    pub fn name(&self) -> &[u8] {
        self.image.name.split(|&byte| byte == 0).next().unwrap_or_default()
    }
}

type Elf = FileHeader64<Endianness>;

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
    let mut library = Reader::new(&bytes).and_then(Reader::read).map_err(|why| {
        Error::own(format!("{shown}: cannot be a hook: {why}; see docs/hooks.md"))
    })?;
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

    fn read(self) -> Said<Library> {
        let (parts, size) = self.parts()?;
        let mut bytes = vec![0; size as usize];
        let headers = self.header.program_headers(self.end, self.file).map_err(damaged)?;
        for header in headers.iter().filter(|h| h.p_type(self.end) == elf::PT_LOAD) {
            let data = header.data(self.end, self.file).map_err(|()| "the file is damaged")?;
            let from = header.p_vaddr(self.end) as usize;
            // `parts` has checked that all of them fit.
            bytes[from..from + data.len()].copy_from_slice(data);
        }
        self.look_at_dynamic(headers)?;
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
        let [init, enter, exit, task] = [
            "crossgate_hook_init",
            "crossgate_hook_enter",
            "crossgate_hook_exit",
            "crossgate_hook_task",
        ]
        .map(function);
        for (at, name) in [(init, "crossgate_hook_init"), (enter, "crossgate_hook_enter")] {
            if at == NO_FUNCTION {
                return Err(format!("it has no function {name}"));
            }
        }
        let mut image = HookImage {
            offset: 0,
            size,
            part_count: parts.len() as u32,
            relocation_count: relocations.len() as u32,
            relocations: 0,
            parts: [Part::default(); MOST_PARTS],
            init,
            enter,
            exit,
            task,
            vectors: vectors as u32,
            pad: 0,
            argument: [0; LONGEST_ARGUMENT],
            name: [0; 64],
        };
        image.parts[..parts.len()].copy_from_slice(&parts);
        Ok(Library { image, bytes, relocations })
    }

    /// Its pieces, in order, and its length in memory.
    fn parts(&self) -> Said<(Vec<Part>, u64)> {
        let headers = self.header.program_headers(self.end, self.file).map_err(damaged)?;
        let mut parts: Vec<Part> = Vec::new();
        let mut size = 0;
        for header in headers {
            match header.p_type(self.end) {
                elf::PT_TLS => return Err("it has thread-local variables".into()),
                elf::PT_INTERP => return Err("it is a program, not a library".into()),
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

    /// Refuses what only a dynamic loader can do.
    fn look_at_dynamic(&self, headers: &[elf::ProgramHeader64<Endianness>]) -> Said<()> {
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
                        return Err(format!(
                            "it needs {name}, and there is no library but itself in a hook; link \
                             it with -nostdlib"
                        ));
                    }
                    elf::DT_INIT | elf::DT_INIT_ARRAYSZ if entry.d_val(self.end) != 0 => {
                        return Err(
                            "it has constructors; do that work in crossgate_hook_init".into()
                        );
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// The functions that it exports, and its relocations.
    fn symbols(&self, size: u64) -> Said<(HashMap<String, u64>, Vec<Relocation>)> {
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
        symbols: &object::read::elf::SymbolTable<'a, Elf>,
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
    Ok(match (vectors, std::arch::is_x86_feature_detected!("xsavec")) {
        (false, _) => Vectors::None,
        (true, true) => Vectors::Xsavec,
        (true, false) => Vectors::Fxsave,
    })
}

fn uses_vectors(instruction: &Instruction) -> bool {
    let x87 = || instruction.cpuid_features().contains(&CpuidFeature::FPU);
    let mut registers = (0..instruction.op_count())
        .filter(|&index| instruction.op_kind(index) == OpKind::Register)
        .map(|index| instruction.op_register(index));
    registers.any(|r| r.is_vector_register() || r.is_mm() || r.is_st() || r.is_k()) || x87()
}
