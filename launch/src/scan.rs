//! Finding call instructions, and instructions that can be moved, with a disassembler
//! (iced-x86). The agent has none: it asks.
//!
//! Functions begin where the unwind table says (`.eh_frame_hdr`), so data between them is
//! never taken for code. Code without such a table is not searched.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::FileExt;

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction};
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
    /// Starts of functions, sorted.
    functions: Vec<u64>,
    /// Call instructions, sorted.
    sites: Vec<u64>,
}

/// Remembers each file, so that a program that is started often is looked at once.
#[derive(Default)]
pub struct Scanner {
    files: HashMap<String, CodeMap>,
}

impl Scanner {
    /// The call instructions in the executable part of `[start, start + len)` of `pid`.
    pub fn sites(&mut self, pid: Pid, start: u64, len: u64) -> Vec<u64> {
        let end = start.saturating_add(len);
        let mut found = Vec::new();
        for map in mappings(pid).iter().filter(|m| m.executable && m.start < end && m.end > start) {
            let code = self.code(pid, map);
            for &(address, offset, size) in &code.segments {
                // What part of the segment this mapping shows.
                let first = map.offset.max(offset);
                let last = (map.offset + (map.end - map.start)).min(offset + size);
                if first >= last {
                    continue;
                }
                let bias = map.start.wrapping_sub(map.offset).wrapping_add(offset);
                let here = code.sites.iter().filter_map(|&site| {
                    let in_file = site.checked_sub(address)? + offset;
                    (in_file >= first && in_file < last)
                        .then(|| bias.wrapping_add(site).wrapping_sub(address))
                });
                found.extend(here.filter(|a| *a >= start && *a < end));
            }
        }
        found
    }

    fn code(&mut self, pid: Pid, map: &Mapping) -> &CodeMap {
        self.files.entry(map.identity.clone()).or_insert_with(|| {
            // By the kernel's own link: the path may be in another namespace, or replaced.
            let link = format!("/proc/{pid}/map_files/{:x}-{:x}", map.start, map.end);
            let bytes = fs::read(link).or_else(|_| fs::read(format!("/proc/{pid}/root{}", map.path)));
            bytes.ok().and_then(|b| code_map(&b)).unwrap_or_default()
        })
    }
}

/// Reads what [`CodeMap`] holds out of an ELF file.
pub fn code_map(bytes: &[u8]) -> Option<CodeMap> {
    let elf = object::File::parse(bytes).ok()?;
    let mut code = CodeMap::default();
    for segment in elf.segments() {
        if let SegmentFlags::Elf { p_flags, .. } = segment.flags()
            && p_flags.0 & object::elf::PF_X.0 != 0
        {
            let (offset, size) = segment.file_range();
            code.segments.push((segment.address(), offset, size));
        }
    }
    code.functions = function_starts(&elf);
    let functions = code.functions.clone();
    for (i, &start) in functions.iter().enumerate() {
        let limit = functions.get(i + 1).copied().unwrap_or(u64::MAX);
        let Some(body) = code.bytes(bytes, start, limit) else { continue };
        // Most functions make no call of the kernel: look before decoding.
        if !body.windows(2).any(|w| w == [0x0f, 0x05]) {
            continue;
        }
        let mut decoder = Decoder::with_ip(64, body, start, DecoderOptions::NONE);
        let mut instruction = Instruction::default();
        while decoder.can_decode() {
            decoder.decode_out(&mut instruction);
            if instruction.code() == Code::Syscall {
                code.sites.push(instruction.ip());
            }
        }
    }
    code.sites.sort_unstable();
    code.sites.dedup();
    Some(code)
}

impl CodeMap {
    /// The file's bytes of virtual addresses `[start, limit)`, cut to its segment.
    fn bytes<'a>(&self, file: &'a [u8], start: u64, limit: u64) -> Option<&'a [u8]> {
        let (address, offset, size) =
            self.segments.iter().find(|(a, _, size)| start >= *a && start < a + size)?;
        let end = limit.min(address + size);
        let from = usize::try_from(start - address + offset).ok()?;
        let to = usize::try_from(end - address + offset).ok()?;
        file.get(from..to)
    }

    /// The call instructions, as virtual addresses of the file.
    pub fn sites(&self) -> &[u64] {
        &self.sites
    }
}

/// Starts of functions by the unwind table; by the symbols where there is none.
fn function_starts(elf: &object::File) -> Vec<u64> {
    use object::ObjectSymbol;
    let mut starts: Vec<u64> = elf
        .section_by_name(".eh_frame_hdr")
        .and_then(|s| Some((s.address(), s.data().ok()?)))
        .map(|(address, data)| table_of_starts(address, data))
        .unwrap_or_default();
    for symbol in elf.symbols().chain(elf.dynamic_symbols()) {
        if symbol.kind() == object::SymbolKind::Text && symbol.is_definition() {
            starts.push(symbol.address());
        }
    }
    starts.sort_unstable();
    starts.dedup();
    starts
}

/// The binary search table of `.eh_frame_hdr` (Linux Standard Base Core, "The .eh_frame_hdr
/// section"): version, three encodings, pointer to .eh_frame, count, then pairs of 32-bit
/// offsets from the section's start.
fn table_of_starts(address: u64, data: &[u8]) -> Vec<u64> {
    const SDATA4_PCREL: u8 = 0x1b;
    const UDATA4: u8 = 0x03;
    const SDATA4_DATAREL: u8 = 0x3b;
    let [1, SDATA4_PCREL, UDATA4, SDATA4_DATAREL, ..] = *data else { return Vec::new() };
    let word = |at: usize| Some(i32::from_le_bytes(data.get(at..at + 4)?.try_into().ok()?));
    let count = word(8).unwrap_or(0).max(0) as usize;
    (0..count)
        .map_while(|i| word(12 + i * 8))
        .map(|offset| address.wrapping_add_signed(i64::from(offset)))
        .collect()
}

/// The instruction right before `site` in the process, if it can run elsewhere: five bytes
/// or more, no reference to its own place, no way out, and nothing else jumps between it
/// and the call.
pub fn movable_before(scanner: &mut Scanner, pid: Pid, site: u64) -> Option<Vec<u8>> {
    let maps = mappings(pid);
    let map = maps.iter().find(|m| m.executable && site >= m.start && site < m.end)?;
    let code = scanner.code(pid, map).clone();
    let in_file = site - map.start + map.offset;
    let &(address, offset, _) =
        code.segments.iter().find(|(_, o, size)| in_file >= *o && in_file < o + size)?;
    let virtual_site = in_file - offset + address;
    let next = code.functions.partition_point(|&f| f <= virtual_site);
    let start = *code.functions.get(next.checked_sub(1)?)?;
    let end = code.functions.get(next).copied().unwrap_or(virtual_site + 4096);
    let len = usize::try_from((end - start).min(1 << 16)).ok()?;
    let mut body = vec![0; len];
    let memory = fs::File::open(format!("/proc/{pid}/mem")).ok()?;
    let got = memory.read_at(&mut body, site - (virtual_site - start)).ok()?;
    body.truncate(got);
    movable(&body, start, virtual_site)
}

/// As [`movable_before`], for the code of one function that starts at `start`.
pub fn movable(body: &[u8], start: u64, site: u64) -> Option<Vec<u8>> {
    let mut decoder = Decoder::with_ip(64, body, start, DecoderOptions::NONE);
    let mut previous: Option<Instruction> = None;
    let mut candidate: Option<Instruction> = None;
    let mut targets = Vec::new();
    let mut instruction = Instruction::default();
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        if instruction.is_invalid() {
            // Past the function's end, or data: what comes later is not trusted.
            break;
        }
        if instruction.ip() == site {
            candidate = previous;
        }
        match instruction.flow_control() {
            FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch => {
                targets.push(instruction.near_branch_target());
            }
            // Where an indirect jump leads is not known: give up.
            FlowControl::IndirectBranch => return None,
            _ => {}
        }
        previous = Some(instruction);
    }
    let candidate = candidate?;
    let fits = candidate.len() >= 5
        && candidate.len() <= 15
        && candidate.flow_control() == FlowControl::Next
        && !candidate.is_ip_rel_memory_operand()
        && candidate.next_ip() == site;
    let entered = targets.iter().any(|&t| t > candidate.ip() && t < site);
    if !fits || entered {
        return None;
    }
    let from = usize::try_from(candidate.ip() - start).ok()?;
    body.get(from..from + candidate.len()).map(<[u8]>::to_vec)
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
        assert_eq!(movable(&body, 0x1000, 0x1005), Some(body[..5].to_vec()));
    }

    #[test]
    fn what_refers_to_its_own_place_or_is_jumped_behind_stays() {
        // mov 0x10(%rip), %eax; syscall
        let body = [0x8b, 0x05, 0x10, 0, 0, 0, 0x0f, 0x05, 0xc3];
        assert_eq!(movable(&body, 0x1000, 0x1006), None);
        // xor %eax, %eax; syscall: too short
        assert_eq!(movable(&[0x31, 0xc0, 0x0f, 0x05, 0xc3], 0x1000, 0x1002), None);
        // jmp *%rax somewhere
        let body = [0x4c, 0x8b, 0x4c, 0x24, 0x08, 0x0f, 0x05, 0xff, 0xe0];
        assert_eq!(movable(&body, 0x1000, 0x1005), None);
    }
}
