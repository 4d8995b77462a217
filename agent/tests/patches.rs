//! Golden files for patches: the bytes before and after, in `tests/golden/patches`.
//!
//! Owns: making each file's lower half again from its upper half, through `encode.rs`, and
//! comparing. `UPDATE_GOLDEN=1` writes the files instead. Whatever they say, the invariants
//! of `invariants/` hold for each case, so an update cannot make a wrong patch golden.
//! The format is described in `tests/golden/README.md`.

mod invariants;

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs};

use crossgate_agent::arch::x86_64::encode::{JUMP_LEN, SYSCALL, SYSCALL_LEN, likely_number};
use iced_x86::{Decoder, DecoderOptions, Formatter, GasFormatter};
use invariants::{
    check_any_number_load, check_choosing_stub, check_jump, check_number_load, check_passing_stub,
    check_pun_window, check_trampoline,
};

/// Between what a case is and what comes of it.
const SEPARATOR: &str = "---\n";

/// Where pointers lie in a page of trampolines: `near::pointer`, `near::Target`.
const ENTER: u64 = 8;
const ENTER_ANY: u64 = 16;
/// What the golden stubs name: where a thread block has the table of interest, and how far
/// behind the stub Rust is entered.
const INTEREST: u32 = 32;
const STUB_TO_ENTER: u64 = 0x2_0000;

/// The upper half of a file.
#[derive(Default)]
struct Case {
    /// Address of the call instruction.
    site: u64,
    /// What is in rax at the call, where that is known.
    nr: Option<u64>,
    /// Bytes up to the call.
    before: Vec<u8>,
    /// Bytes after it.
    next: Vec<u8>,
    /// Free memory for a trampoline near the site.
    near: Option<u64>,
    /// Free memory in the window of a pun: the low byte of its displacement.
    pun: Option<u8>,
    /// Place for a stub, where the call is one that nobody wants to see.
    stub: Option<u64>,
    /// Bytes of instructions before the call that `launch/src/scan.rs` lets move.
    movable: usize,
}

impl Case {
    fn parse(text: &str) -> Option<Self> {
        let mut case = Self::default();
        for line in text.lines().filter(|l| !l.is_empty() && !l.starts_with('#')) {
            let (key, value) = line.split_once(' ')?;
            let value = value.trim();
            let known = (value != "-").then_some(value);
            match key {
                "site" => case.site = address(value)?,
                "nr" => case.nr = known.map(str::parse).transpose().ok()?,
                "before" => case.before = bytes(value)?,
                "next" => case.next = bytes(value)?,
                "near" => case.near = known.map(|v| address(v).unwrap()),
                "pun" => case.pun = known.map(|v| u8::from_str_radix(v, 16).unwrap()),
                "stub" => case.stub = known.map(|v| address(v).unwrap()),
                "movable" => case.movable = value.parse().ok()?,
                _ => return None,
            }
        }
        Some(case)
    }

    fn after(&self) -> u64 {
        self.site + SYSCALL_LEN as u64
    }
}

/// What replaces what.
struct Patch {
    kind: &'static str,
    /// Address of the first byte that changes.
    start: u64,
    /// What is written there.
    written: Vec<u8>,
    trampoline: u64,
    code: Vec<u8>,
    /// How many bytes of `code` were moved.
    moved: usize,
    stub: Option<(u64, Vec<u8>)>,
}

/// The order of `agent/src/sites.rs`: the number's load, a pun, moved instructions.
fn decide(case: &Case) -> Option<Patch> {
    let nr = case.nr.or(check_any_number_load(&case.before));
    if let Some(load) = nr.and_then(|nr| check_number_load(&case.before, nr))
        && let Some(patch) = redirect(case, "mov", load.len, ENTER)
    {
        return Some(patch);
    }
    if let Some(patch) = pun(case) {
        return Some(patch);
    }
    (case.movable >= JUMP_LEN).then(|| redirect(case, "relocated", case.movable, ENTER_ANY))?
}

/// The `len` bytes before the call go to a trampoline, a jump takes their place.
fn redirect(case: &Case, kind: &'static str, len: usize, target: u64) -> Option<Patch> {
    let start = case.site - len as u64;
    let moved = &case.before[case.before.len() - len..];
    if let Some(at) = case.stub.filter(|_| kind == "mov")
        && let Some(stub) = check_passing_stub(at, moved, case.after())
        && let Some(jump) = check_jump(start, at)
    {
        let stub = Some((at, stub.code[..stub.len].to_vec()));
        let written = jump.to_vec();
        return Some(Patch {
            kind,
            start,
            written,
            trampoline: 0,
            code: Vec::new(),
            moved: 0,
            stub,
        });
    }
    let trampoline = case.near?;
    let pointer = (trampoline & !0xfff) + target;
    let code = check_trampoline(trampoline, moved, case.after(), pointer)?;
    let written = check_jump(start, trampoline)?.to_vec();
    Some(Patch { kind, start, written, trampoline, code, moved: len, stub: None })
}

/// The call becomes the start of a jump that ends in the bytes after it.
fn pun(case: &Case) -> Option<Patch> {
    let window = check_pun_window(case.after(), *case.next.first_chunk()?);
    let trampoline = window.wrapping_add(u64::from(case.pun?));
    let pointer = (trampoline & !0xfff) + ENTER_ANY;
    let stub = case.stub.and_then(|at| {
        let usual = case.nr.and_then(|nr| nr.try_into().ok()).or(likely_number(&case.before));
        let enter = at + STUB_TO_ENTER;
        let stub = check_choosing_stub(at, usual, INTEREST, enter, case.after())?;
        Some((at, stub.code[..stub.len].to_vec()))
    });
    let to_stub = stub.as_ref().and_then(|&(at, _)| check_jump(trampoline, at));
    let code = match to_stub {
        Some(jump) => jump.to_vec(),
        None => check_trampoline(trampoline, &[], case.after(), pointer)?,
    };
    let jump = check_jump(case.site, trampoline)?;
    assert_eq!(jump[SYSCALL_LEN..], case.next[..JUMP_LEN - SYSCALL_LEN]);
    let written = jump[..SYSCALL_LEN].to_vec();
    let stub = stub.filter(|_| to_stub.is_some());
    Some(Patch { kind: "pun", start: case.site, written, trampoline, code, moved: 0, stub })
}

/// The lower half of a file.
fn outcome(case: &Case) -> String {
    let Some(patch) = decide(case) else { return "kind signal\n".into() };
    let mut code = [&case.before[..], &SYSCALL, &case.next].concat();
    let base = case.site - case.before.len() as u64;
    let at = (patch.start - base) as usize;
    let mut text = format!("kind {}\n\nbefore\n", patch.kind);
    list(&mut text, &code[at..], patch.start);
    code[at..at + patch.written.len()].copy_from_slice(&patch.written);
    text.push_str("\nafter\n");
    let end = at + JUMP_LEN;
    list(&mut text, &code[at..end], patch.start);
    // What a jump leaves of the instructions it replaced; a pun leaves nothing, and the
    // bytes it borrows are the next instruction's, too.
    let call = (case.site - base) as usize;
    if patch.kind == "pun" {
        list(&mut text, &case.next, case.after());
    } else {
        raw(&mut text, &code[end..call], base + end as u64, "never run");
        list(&mut text, &code[call..], case.site);
    }
    if !patch.code.is_empty() {
        text.push_str("\ntrampoline\n");
        let (moved, rest) = patch.code.split_at(patch.moved);
        list(&mut text, moved, patch.trampoline);
        list(&mut text, rest, patch.trampoline + moved.len() as u64);
    }
    if let Some((at, code)) = patch.stub {
        text.push_str("\nstub\n");
        list(&mut text, &code, at);
    }
    text
}

/// Adds the instructions in `code` at `ip`, one line each.
fn list(text: &mut String, code: &[u8], ip: u64) {
    let mut formatter = GasFormatter::new();
    formatter.options_mut().set_gas_show_mnemonic_size_suffix(false);
    formatter.options_mut().set_uppercase_hex(false);
    formatter.options_mut().set_hex_prefix("0x");
    formatter.options_mut().set_branch_leading_zeros(false);
    for instruction in &mut Decoder::with_ip(64, code, ip, DecoderOptions::NONE) {
        let from = (instruction.ip() - ip) as usize;
        let own = &code[from..from + instruction.len()];
        if instruction.is_invalid() {
            raw(text, own, instruction.ip(), "cut");
            continue;
        }
        let mut words = String::new();
        formatter.format(&instruction, &mut words);
        raw(text, own, instruction.ip(), &words);
    }
}

/// Adds a line of bytes.
fn raw(text: &mut String, bytes: &[u8], ip: u64, comment: &str) {
    if !bytes.is_empty() {
        let hex: Vec<String> = bytes.iter().map(|b| format!("{b:02x}")).collect();
        writeln!(text, "  {ip:#014x}  {:<30}# {comment}", hex.join(" ")).unwrap();
    }
}

fn address(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

fn bytes(text: &str) -> Option<Vec<u8>> {
    text.split(' ').map(|b| u8::from_str_radix(b, 16).ok()).collect()
}

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/patches");
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn patches_are_as_recorded() {
    let update = env::var_os("UPDATE_GOLDEN").is_some();
    let mut different = Vec::new();
    let files = files();
    assert!(files.len() >= 10);
    for file in &files {
        let text = fs::read_to_string(file).unwrap();
        let name = file.file_name().unwrap().to_string_lossy();
        let input = text.split(SEPARATOR).next().unwrap();
        let case = Case::parse(input).unwrap_or_else(|| panic!("{name} is no case"));
        let expected = format!("{input}{SEPARATOR}{}", outcome(&case));
        if text == expected {
            continue;
        }
        if update {
            fs::write(file, &expected).unwrap();
        } else {
            different.push(format!("{name} should be:\n{expected}"));
        }
    }
    assert!(
        different.is_empty(),
        "{}\nif this is what is meant, run again with UPDATE_GOLDEN=1",
        different.join("\n")
    );
}
