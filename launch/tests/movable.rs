//! Which instructions may be moved: for generated code, for real code, for the golden files.
//!
//! Owns: the inputs. What must hold is in `oracle/`; the same is fuzzed by
//! `fuzz/fuzz_targets/movable.rs`.

mod oracle;

use std::path::Path;
use std::{env, fs};

use crossgate_agent::arch::x86_64::encode::{RETURN_LEN, SYSCALL, TRAMPOLINE, any_number_load};
use crossgate_launch::scan::{code_map, movable};
use object::{Object, ObjectSection, ObjectSegment};
use oracle::{MOST, check_block, check_movable, decode, jump};
use proptest::collection::vec;
use proptest::prelude::*;

const _: () = assert!(MOST == TRAMPOLINE - RETURN_LEN);

/// An instruction, or bytes that may be none.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let fixed = proptest::sample::select(vec![
        &[0x4c, 0x8b, 0x4c, 0x24, 0x08][..], // mov 8(%rsp), %r9
        &[0x48, 0x8b, 0x44, 0x24, 0x08],     // mov 8(%rsp), %rax
        &[0x41, 0x5c],                       // pop %r12
        &[0x31, 0xc0],                       // xor %eax, %eax
        &[0x48, 0x89, 0xf8],                 // mov %rdi, %rax
        &[0x90],                             // nop
        &[0xb8, 0x27, 0, 0, 0],              // mov $0x27, %eax
        &[0x48, 0x8d, 0x35, 0x10, 0, 0, 0],  // lea 0x10(%rip), %rsi
        &[0x67, 0x8b, 0x05, 0x10, 0, 0, 0],  // mov 0x10(%eip), %eax
        &[0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0], // nopw %cs:0(%rax, %rax)
    ]);
    let near = -24..24i32;
    let byte = |opcode: u8, to: i32| vec![opcode, to as u8];
    prop_oneof![
        10 => fixed.prop_map(<[u8]>::to_vec),
        2 => (0x70..0x80u8, near.clone()).prop_map(move |(op, to)| byte(op, to)), // jcc
        1 => (0xe0..0xe4u8, near.clone()).prop_map(move |(op, to)| byte(op, to)), // loop, jrcxz
        1 => near.clone().prop_map(move |to| byte(0xeb, to)),                     // jmp
        1 => near.clone().prop_map(|to| [&[0xe9][..], &to.to_le_bytes()].concat()),
        1 => near.clone().prop_map(|to| [&[0xe8][..], &to.to_le_bytes()].concat()), // call
        1 => near.prop_map(|to| [&[0x0f, 0x84][..], &to.to_le_bytes()].concat()), // je
        1 => proptest::sample::select(vec![0xc3u8, 0xcc, 0xf4]).prop_map(|op| vec![op]),
        1 => vec(any::<u8>(), 1..6),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 20_000, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn what_is_moved_can_move(
        before in vec(piece(), 0..8),
        after in vec(piece(), 0..6),
        start in prop_oneof![0x1000..0x7fff_ffff_0000u64, Just(0u64)],
        most in prop_oneof![Just(0), Just(MOST)],
    ) {
        let before = before.concat();
        let body = [&before, &SYSCALL[..], &after.concat()].concat();
        check_movable(&body, start, before.len(), most);
    }

    #[test]
    fn any_bytes_can_be_asked_about(
        body in vec(any::<u8>(), 0..64),
        offset in 0..64usize,
        most in prop_oneof![Just(0), Just(MOST)],
    ) {
        check_movable(&body, 0x1000, offset.min(body.len()), most);
    }
}

/// The code of an ELF file: address and bytes of each executable segment.
fn code(file: &[u8]) -> Vec<(u64, &[u8])> {
    let elf = object::File::parse(file).unwrap();
    elf.segments()
        .filter(|s| s.permissions().executable())
        .map(|s| (s.address(), s.data().unwrap()))
        .collect()
}

/// What the file's sections of code hold from their first byte to their last, whichever
/// function it is in: where instructions begin, and where jumps lead.
struct Sweep {
    starts: Vec<u64>,
    jumps: Vec<u64>,
}

fn sweep(file: &[u8]) -> Sweep {
    let elf = object::File::parse(file).unwrap();
    let (mut starts, mut jumps) = (Vec::new(), Vec::new());
    for section in elf.sections().filter(|s| s.kind() == object::SectionKind::Text) {
        for instruction in decode(section.data().unwrap(), section.address()) {
            starts.push(instruction.ip());
            jumps.extend(jump(&instruction));
        }
    }
    starts.sort_unstable();
    jumps.sort_unstable();
    Sweep { starts, jumps }
}

/// Checks what is found in the file; gives how many sites there are and how many have
/// something that may be moved.
fn check_file(path: &Path) -> (usize, usize) {
    let file = fs::read(path).unwrap();
    let code = code(&file);
    let sweep = sweep(&file);
    let starts = |address: u64| sweep.starts.binary_search(&address).is_ok();
    let found = code_map(&file).unwrap();
    let mut with_block = 0;
    for found in found.sites() {
        let (site, len) = (found.address, found.movable);
        let (address, bytes) =
            code.iter().find(|(a, b)| site >= *a && site < a + b.len() as u64).unwrap();
        let at = (site - address) as usize;
        assert!(bytes[at..].starts_with(&SYSCALL), "{site:#x}");
        assert!(starts(site), "{site:#x} is no instruction");
        // What is taken for the load of a number is one; where there is one, it is what moves.
        let load = [7, 5].into_iter().find(|&len| {
            at.checked_sub(len).and_then(|from| any_number_load(&bytes[from..at])).is_some()
        });
        if found.loads_number {
            let load = load.expect("a load");
            assert!(starts(site - load as u64), "{site:#x}: no load");
        } else if len > 0 {
            assert!(starts(site - len as u64), "{site:#x}: the block begins in an instruction");
        }
        if len > 0 {
            with_block += 1;
            let first = site - len as u64;
            check_block(&bytes[at - len..at], first);
            let inside = sweep.jumps.partition_point(|&t| t <= first);
            let inside = sweep.jumps.get(inside).filter(|&&t| t < site);
            assert_eq!(inside, None, "a jump leads into the block before {site:#x}");
        }
    }
    (found.sites().len(), with_block)
}

#[test]
fn sites_of_this_program_hold() {
    // It is static, so the C library is in it, too.
    let (sites, with_block) = check_file(&env::current_exe().unwrap());
    assert!(sites > 50 && with_block > sites / 2, "{sites} {with_block}");
}

#[test]
fn sites_of_the_c_library_hold() {
    // Where Debian and its kin, and where the others have it.
    let places = ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/libc.so.6", "/usr/lib/libc.so.6"];
    let Some(libc) = places.iter().map(Path::new).find(|p| p.exists()) else {
        eprintln!("there is no libc.so.6 to look at");
        return;
    };
    let (sites, with_block) = check_file(libc);
    assert!(sites > 300 && with_block > sites / 2, "{sites} {with_block}");
}

#[test]
fn golden_files_say_what_may_be_moved() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/patches");
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let value = |key: &str| {
            let line = text.lines().find_map(|l| l.strip_prefix(key)?.strip_prefix(' '));
            line.unwrap_or_else(|| panic!("{} has no {key}", path.display())).trim()
        };
        let hex = |text: &str| -> Vec<u8> {
            text.split(' ').map(|b| u8::from_str_radix(b, 16).unwrap()).collect()
        };
        let before = hex(value("before"));
        let body = [&before, &SYSCALL[..], &hex(value("next"))].concat();
        let site = u64::from_str_radix(value("site").trim_start_matches("0x"), 16).unwrap();
        let start = site - before.len() as u64;
        // Where the number is not known, fast mode asks, which moves several.
        let most = if value("nr") == "-" { MOST } else { 0 };
        let len = movable(&body, start, site, most).unwrap_or(0);
        assert_eq!(len.to_string(), value("movable"), "{}", path.display());
    }
}
