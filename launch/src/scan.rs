//! Finding call instructions, and instructions that can be moved, with a disassembler
//! (iced-x86). The agent has none: it asks.
//!
//! Functions begin where the unwind table says (`.eh_frame_hdr`), so data between them is
//! never taken for code. Code without such a table is not searched.

use std::collections::HashMap;
use std::fs;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, Register};
use nix::unistd::Pid;
use object::{Object, ObjectSection, ObjectSegment, SegmentFlags};

/// A mapped file of a process: one line of `/proc/PID/maps`.
#[derive(Debug, Clone)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// Address after the last.
    pub end: u64,
    /// Executable.
    pub executable: bool,
    /// Offset in the file of `start`.
    pub offset: u64,
    /// Device and inode, as the kernel prints them.
    pub identity: String,
    /// Path as the kernel prints it.
    pub path: String,
}

/// The mappings of a process.
pub fn mappings(pid: Pid) -> Vec<Mapping> {
    let text = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    text.lines().filter_map(mapping).collect()
}

fn mapping(line: &str) -> Option<Mapping> {
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let flags = words.next()?;
    let offset = words.next()?;
    let identity = format!("{} {}", words.next()?, words.next()?);
    Some(Mapping {
        start: u64::from_str_radix(start, 16).ok()?,
        end: u64::from_str_radix(end, 16).ok()?,
        executable: flags.as_bytes().get(2) == Some(&b'x'),
        offset: u64::from_str_radix(offset, 16).ok()?,
        identity,
        path: words.next().unwrap_or_default().trim_start().to_owned(),
    })
}

/// What a file says about its code, as virtual addresses of the file.
#[derive(Debug, Default, Clone)]
pub struct CodeMap {
    /// Executable segments: virtual address, offset in the file, length.
    segments: Vec<(u64, u64, u64)>,
    /// Functions, sorted by their starts.
    functions: Vec<Range<u64>>,
    /// Call instructions, sorted.
    sites: Vec<Site>,
    /// There are bytes of a call instruction outside all functions.
    blind: bool,
}

/// A call instruction that the disassembler has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Site {
    /// Its address: in the file, or in the process.
    pub address: u64,
    /// Length of the instructions before it that may be moved; 0 for none.
    pub movable: usize,
    /// The instruction before it loads the call's number.
    pub loads_number: bool,
    /// A branch of its function leads straight to it.
    pub entered: bool,
}

/// What was found in a range of a process.
#[derive(Debug, Default)]
pub struct Found {
    /// Call instructions, by their addresses in the process.
    pub sites: Vec<Site>,
    /// Some code could not be searched: nothing says where its functions begin.
    pub blind: bool,
}

/// Remembers each file, so that a program that is started often is looked at once.
#[derive(Default)]
pub struct Scanner {
    files: HashMap<String, CodeMap>,
    /// Without their call instructions, for who asks about one function only.
    outlines: HashMap<String, CodeMap>,
}

impl Scanner {
    /// The call instructions in the executable part of `[start, start + len)` of `pid`.
    pub fn sites(&mut self, pid: Pid, start: u64, len: u64) -> Found {
        let end = start.saturating_add(len);
        let mut found = Found::default();
        for map in mappings(pid).iter().filter(|m| m.executable && m.start < end && m.end > start) {
            if map.path.is_empty() || map.path.starts_with('[') {
                // Anonymous memory, the vdso: no file says where functions begin.
                continue;
            }
            let code = self.code(pid, map);
            found.blind |= code.blind;
            for &(address, offset, size) in &code.segments {
                // What part of the segment this mapping shows.
                let first = map.offset.max(offset);
                let last = (map.offset + (map.end - map.start)).min(offset + size);
                if first >= last {
                    continue;
                }
                let bias = map.start.wrapping_sub(map.offset).wrapping_add(offset);
                let here = code.sites.iter().filter_map(|&site| {
                    let in_file = site.address.checked_sub(address)?.checked_add(offset)?;
                    let address = bias.wrapping_add(site.address).wrapping_sub(address);
                    (in_file >= first && in_file < last).then_some(Site { address, ..site })
                });
                found.sites.extend(here.filter(|s| s.address >= start && s.address < end));
            }
        }
        found
    }

    fn code(&mut self, pid: Pid, map: &Mapping) -> &CodeMap {
        self.files
            .entry(map.identity.clone())
            .or_insert_with(|| file(pid, map).and_then(|b| code_map(&b)).unwrap_or_default())
    }

    fn outline(&mut self, pid: Pid, map: &Mapping) -> &CodeMap {
        self.outlines.entry(map.identity.clone()).or_insert_with(|| {
            let bytes = file(pid, map).unwrap_or_default();
            object::File::parse(&*bytes).map(|elf| outline(&elf)).unwrap_or_default()
        })
    }
}

/// The mapped file, by the kernel's own link: its path may be in another namespace, or
/// replaced.
fn file(pid: Pid, map: &Mapping) -> Option<Vec<u8>> {
    let link = format!("/proc/{pid}/map_files/{:x}-{:x}", map.start, map.end);
    fs::read(link).or_else(|_| fs::read(format!("/proc/{pid}/root{}", map.path))).ok()
}

/// Where a file's code is, and its functions.
fn outline(elf: &object::File) -> CodeMap {
    let mut code = CodeMap::default();
    for segment in elf.segments() {
        if let SegmentFlags::Elf { p_flags, .. } = segment.flags()
            && p_flags.0 & object::elf::PF_X.0 != 0
        {
            let (offset, size) = segment.file_range();
            code.segments.push((segment.address(), offset, size));
        }
    }
    code.functions = functions(elf);
    code
}

/// Reads what [`CodeMap`] holds out of an ELF file.
pub fn code_map(bytes: &[u8]) -> Option<CodeMap> {
    let elf = object::File::parse(bytes).ok()?;
    let mut code = outline(&elf);
    let mut last: Option<(usize, Decoded)> = None;
    for call in calls_in(&elf, &code, bytes) {
        let next = code.functions.partition_point(|f| f.start <= call);
        // The C library ends the description of `clone` at its call, where the stack changes.
        let Some(index) = next.checked_sub(1).filter(|&i| call <= code.functions[i].end) else {
            // Outside all functions: data, or code that nobody has described.
            code.blind = true;
            continue;
        };
        let function = code.functions[index].clone();
        let at_end = call == function.end;
        if at_end || last.as_ref().is_none_or(|&(known, _)| known != index) {
            let end = if at_end { call + CALL_LEN } else { function.end };
            let Some(body) = code.bytes(bytes, function.start, end) else {
                code.blind = true;
                continue;
            };
            // The entry of a signal's return begins a byte early, so that unwinders that look
            // for the instruction before an address find it.
            let early = usize::from(body.get(1..).is_some_and(|b| b.starts_with(&SIGNAL_RETURN)));
            let decoded = Decoded::new(&body[early..], function.start + early as u64);
            let sites: Vec<u64> = decoded.calls().collect();
            code.sites.extend(sites.into_iter().map(|address| decoded.site(address)));
            last = Some((index, decoded));
        }
        let decoded = last.as_ref().map(|(_, decoded)| decoded);
        // Bytes in the middle of an instruction are none; those behind the last are unknown.
        code.blind |= !decoded.is_some_and(|d| d.reaches(call, at_end));
    }
    code.sites.sort_unstable_by_key(|site| site.address);
    code.sites.dedup();
    Some(code)
}

/// Bytes of a call instruction.
const CALL_LEN: u64 = 2;
/// `mov $15, %rax; syscall`, as every C library has it: debuggers recognise these bytes.
const SIGNAL_RETURN: [u8; 9] = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];

/// Addresses, in order, at which the file's code has the bytes of a call instruction,
/// whatever they are there. Code is what the sections say; where there are none, what the
/// segments do.
fn calls_in(elf: &object::File, code: &CodeMap, file: &[u8]) -> Vec<u64> {
    let mut ranges: Vec<(u64, u64)> = elf
        .sections()
        .filter(|section| section.kind() == object::SectionKind::Text)
        .map(|section| (section.address(), section.address().saturating_add(section.size())))
        .collect();
    if ranges.is_empty() {
        ranges = code.segments.iter().map(|&(a, _, size)| (a, a.saturating_add(size))).collect();
    }
    let mut found = Vec::new();
    for (start, end) in ranges {
        let body = code.bytes(file, start, end).unwrap_or_default();
        found.extend(memchr::memmem::find_iter(body, &[0x0f, 0x05]).map(|at| start + at as u64));
    }
    found.sort_unstable();
    found
}

impl CodeMap {
    /// The file's bytes of virtual addresses `[start, limit)`, cut to its segment.
    fn bytes<'a>(&self, file: &'a [u8], start: u64, limit: u64) -> Option<&'a [u8]> {
        let (address, offset, size) =
            self.segments.iter().find(|(a, _, size)| start >= *a && start - a < *size)?;
        let end = limit.min(address.saturating_add(*size)).max(start);
        let from = usize::try_from((start - address).checked_add(*offset)?).ok()?;
        let to = usize::try_from((end - address).checked_add(*offset)?).ok()?;
        file.get(from..to)
    }

    /// The call instructions, as virtual addresses of the file.
    pub fn sites(&self) -> &[Site] {
        &self.sites
    }
}

/// The functions by the unwind table, and by the symbols, sorted by their starts.
fn functions(elf: &object::File) -> Vec<Range<u64>> {
    use object::ObjectSymbol;
    let part = |name| elf.section_by_name(name).and_then(|s| Some((s.address(), s.data().ok()?)));
    let mut functions = match (part(".eh_frame_hdr"), part(".eh_frame")) {
        (Some(header), Some(frames)) => described(header, frames),
        _ => Vec::new(),
    };
    for symbol in elf.symbols().chain(elf.dynamic_symbols()) {
        if symbol.kind() == object::SymbolKind::Text && symbol.is_definition() && symbol.size() > 0
        {
            functions.push(symbol.address()..symbol.address().saturating_add(symbol.size()));
        }
    }
    // Of two that start together the unwind table's, which came first, stays.
    functions.sort_by_key(|f| f.start);
    functions.dedup_by_key(|f| f.start);
    functions
}

/// The functions that `.eh_frame_hdr` leads to (Linux Standard Base Core, "The .eh_frame_hdr
/// section" and "Call Frame Information Extensions"): a table of pairs of 32-bit offsets
/// from the section's start, to the function and to its description. A description is a
/// length, a pointer, the function's address relative to this field, and its length.
fn described(
    (address, header): (u64, &[u8]),
    (frames_at, frames): (u64, &[u8]),
) -> Vec<Range<u64>> {
    const SDATA4_PCREL: u8 = 0x1b;
    const UDATA4: u8 = 0x03;
    const SDATA4_DATAREL: u8 = 0x3b;
    let [1, SDATA4_PCREL, UDATA4, SDATA4_DATAREL, ..] = *header else { return Vec::new() };
    let word = |data: &[u8], at: usize| -> Option<i32> {
        Some(i32::from_le_bytes(data.get(at..at.checked_add(4)?)?.try_into().ok()?))
    };
    let count = word(header, 8).unwrap_or(0).max(0) as usize;
    let entry = |i: usize| -> Option<Range<u64>> {
        let start = address.wrapping_add_signed(i64::from(word(header, 12 + i * 8)?));
        let frame = address.wrapping_add_signed(i64::from(word(header, 16 + i * 8)?));
        let at = usize::try_from(frame.checked_sub(frames_at)?).ok()?;
        let field = frame.wrapping_add(8);
        let told = field.wrapping_add_signed(i64::from(word(frames, at.checked_add(8)?)?));
        let len = word(frames, at.checked_add(12)?)? as u32;
        // Another encoding than the usual one would give another address.
        (told == start).then(|| start..start.saturating_add(u64::from(len)))
    };
    (0..count.min(header.len() / 8)).filter_map(entry).collect()
}

/// Length of a jump: less need not be moved.
const JUMP: usize = 5;
/// Most bytes of moved instructions that fit into a trampoline
/// (`agent/src/arch/x86_64/encode.rs`).
const MOST_MOVED: usize = 19;

/// The one instruction right before `site` in the process, if it can run elsewhere while
/// other tasks may be running it: see [`movable`].
pub fn movable_before(scanner: &mut Scanner, pid: Pid, site: u64) -> Option<Vec<u8>> {
    let maps = mappings(pid);
    let map = maps.iter().find(|m| m.executable && site >= m.start && site < m.end)?;
    let code = scanner.outline(pid, map);
    let in_file = site - map.start + map.offset;
    let &(address, offset, _) =
        code.segments.iter().find(|(_, o, size)| in_file >= *o && in_file < o + size)?;
    let virtual_site = in_file - offset + address;
    let next = code.functions.partition_point(|f| f.start <= virtual_site);
    let Range { start, end } = code.functions.get(next.checked_sub(1)?)?.clone();
    if virtual_site >= end {
        return None;
    }
    let len = usize::try_from((end - start).min(1 << 16)).ok()?;
    let mut body = vec![0; len];
    let memory = fs::File::open(format!("/proc/{pid}/mem")).ok()?;
    let got = memory.read_at(&mut body, site - (virtual_site - start)).ok()?;
    body.truncate(got);
    let moved = movable(&body, start, virtual_site, 0)?;
    let at = usize::try_from(virtual_site - start).ok()?;
    body.get(at - moved..at).map(<[u8]>::to_vec)
}

/// Length of the instructions right before `site` that a jump can replace, in a function
/// whose code `body` starts at `start`: five bytes or more, none refers to its own place or
/// leaves, and nothing jumps in between. One instruction, or as many as needed up to `most`
/// bytes, which is only right while no task can be between two of them.
pub fn movable(body: &[u8], start: u64, site: u64, most: usize) -> Option<usize> {
    Decoded::new(body, start).movable(site, most)
}

/// A function's instructions, up to the first bytes that are none.
struct Decoded {
    instructions: Vec<Instruction>,
    /// Where its branches and calls lead.
    targets: Vec<u64>,
    /// It jumps somewhere that only a register or memory knows.
    jumps_anywhere: bool,
}

impl Decoded {
    fn new(body: &[u8], start: u64) -> Self {
        let mut decoder = Decoder::with_ip(64, body, start, DecoderOptions::NONE);
        let mut decoded =
            Self { instructions: Vec::new(), targets: Vec::new(), jumps_anywhere: false };
        let mut instruction = Instruction::default();
        while decoder.can_decode() {
            decoder.decode_out(&mut instruction);
            if instruction.is_invalid() {
                break;
            }
            match instruction.flow_control() {
                FlowControl::ConditionalBranch
                | FlowControl::UnconditionalBranch
                | FlowControl::Call
                | FlowControl::XbeginXabortXend => {
                    decoded.targets.push(instruction.near_branch_target());
                }
                FlowControl::IndirectBranch => decoded.jumps_anywhere = true,
                _ => {}
            }
            decoded.instructions.push(instruction);
        }
        decoded
    }

    fn calls(&self) -> impl Iterator<Item = u64> {
        self.instructions.iter().filter(|i| i.code() == Code::Syscall).map(Instruction::ip)
    }

    /// Whether what lies at `address` was decoded; `as_call`: as an instruction of its own
    /// that the one before leads to.
    fn reaches(&self, address: u64, as_call: bool) -> bool {
        if !as_call {
            return self.instructions.last().is_some_and(|i| address < i.next_ip());
        }
        let falls_through = |i: &Instruction| {
            !matches!(
                i.flow_control(),
                FlowControl::UnconditionalBranch
                    | FlowControl::IndirectBranch
                    // It may never return.
                    | FlowControl::Call
                    | FlowControl::IndirectCall
                    | FlowControl::Return
                    | FlowControl::Exception
            )
        };
        self.calls().any(|call| call == address)
            && self.before(address).last().is_some_and(falls_through)
    }

    /// What is known of the call instruction at `address`.
    fn site(&self, address: u64) -> Site {
        let before = self.before(address).last();
        let loads_number = before.is_some_and(|i| {
            i.next_ip() == address
                && matches!(
                    (i.code(), i.op0_register(), i.len()),
                    (Code::Mov_r32_imm32, Register::EAX, 5)
                        | (Code::Mov_rm64_imm32, Register::RAX, 7)
                )
        });
        Site {
            address,
            movable: self.movable(address, MOST_MOVED).unwrap_or(0),
            loads_number,
            entered: self.targets.contains(&address),
        }
    }

    fn before(&self, address: u64) -> &[Instruction] {
        &self.instructions[..self.instructions.partition_point(|i| i.ip() < address)]
    }

    /// See [`movable`].
    fn movable(&self, site: u64, most: usize) -> Option<usize> {
        let known = self.instructions.iter().any(|i| i.ip() == site);
        if self.jumps_anywhere || !known {
            return None;
        }
        let mut len = 0;
        let mut at = site;
        for moved in self.before(site).iter().rev() {
            let stays = moved.next_ip() != at
                || moved.flow_control() != FlowControl::Next
                || moved.is_ip_rel_memory_operand();
            len += moved.len();
            if stays || len > most.max(15) || most == 0 && moved.len() < JUMP {
                return None;
            }
            at = moved.ip();
            if len >= JUMP {
                break;
            }
        }
        (len >= JUMP && !self.targets.iter().any(|&t| t > at && t < site)).then_some(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_maps_is_read() {
        let line = "7f0000001000-7f0000002000 r-xp 00001000 fe:00 1234    /usr/lib/a b.so";
        let map = mapping(line).unwrap();
        assert_eq!((map.start, map.end), (0x7f00_0000_1000, 0x7f00_0000_2000));
        assert!(map.executable);
        assert_eq!((map.offset, map.path.as_str()), (0x1000, "/usr/lib/a b.so"));
    }

    #[test]
    fn a_long_load_before_a_call_can_be_moved() {
        // mov 8(%rsp), %r9; syscall; ret
        let body = [0x4c, 0x8b, 0x4c, 0x24, 0x08, 0x0f, 0x05, 0xc3];
        assert_eq!(movable(&body, 0x1000, 0x1005, 0), Some(5));
    }

    #[test]
    fn short_instructions_are_moved_together_or_not_at_all() {
        // mov 8(%rsp), %rax; pop %r12; syscall; push %r12; ret
        let body = [0x48, 0x8b, 0x44, 0x24, 0x08, 0x41, 0x5c, 0x0f, 0x05, 0x41, 0x54, 0xc3];
        assert_eq!(movable(&body, 0x1000, 0x1007, 0), None);
        assert_eq!(movable(&body, 0x1000, 0x1007, MOST_MOVED), Some(7));
        // jmp to the pop
        let body = [0x48, 0x8b, 0x44, 0x24, 0x08, 0x41, 0x5c, 0x0f, 0x05, 0xeb, 0xfa];
        assert_eq!(movable(&body, 0x1000, 0x1007, MOST_MOVED), None);
    }

    #[test]
    fn what_refers_to_its_own_place_or_is_jumped_behind_stays() {
        // mov 0x10(%rip), %eax; syscall
        let body = [0x8b, 0x05, 0x10, 0, 0, 0, 0x0f, 0x05, 0xc3];
        assert_eq!(movable(&body, 0x1000, 0x1006, 0), None);
        // xor %eax, %eax; syscall: too short
        assert_eq!(movable(&[0x31, 0xc0, 0x0f, 0x05, 0xc3], 0x1000, 0x1002, MOST_MOVED), None);
        // jmp *%rax somewhere
        let body = [0x4c, 0x8b, 0x4c, 0x24, 0x08, 0x0f, 0x05, 0xff, 0xe0];
        assert_eq!(movable(&body, 0x1000, 0x1005, MOST_MOVED), None);
    }
}
