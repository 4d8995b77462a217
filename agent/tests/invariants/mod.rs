//! What must hold of the bytes of every patch, as a second decoder (iced-x86) reads them.
//!
//! Owns: the invariants of `arch::x86_64::encode`, said once for the golden files
//! (`patches.rs`), the property tests (`encode.rs`) and the fuzzer (`fuzz/`). Never does:
//! choose inputs. Each function takes any input and panics where an invariant is broken.

// Each user has its own copy of this module and needs a part of it.
#![allow(dead_code)]

use crossgate_agent::arch::x86_64::encode::{
    JUMP_LEN, NumberLoad, RETURN_LEN, STUB, STUB_TAIL, SYSCALL, SYSCALL_LEN, Stub, TRAMPOLINE,
    any_number_load, choosing_stub, jump, number_load, passing_stub, pun_window, trampoline,
};
use iced_x86::{
    Code, Decoder, DecoderOptions, Instruction, InstructionInfoFactory, OpAccess, Register,
    RflagsBits,
};

/// Programs live below this address, also with five levels of page tables.
pub const USER_END: u64 = 1 << 56;

/// The one instruction at the start of `code`, which lies at `ip`.
fn decode(code: &[u8], ip: u64) -> Instruction {
    Decoder::with_ip(64, code, ip, DecoderOptions::NONE).decode()
}

/// Whether 32 bits of displacement lead from `end` to `to`.
fn reaches(end: u64, to: u64) -> bool {
    i32::try_from(i128::from(to) - i128::from(end)).is_ok()
}

/// A jump leads where it must, and is refused only where no jump reaches.
pub fn check_jump(at: u64, to: u64) -> Option<[u8; JUMP_LEN]> {
    let code = jump(at, to);
    assert_eq!(code.is_some(), reaches(at + JUMP_LEN as u64, to), "{at:#x} to {to:#x}");
    let instruction = decode(&code?, at);
    assert_eq!(instruction.code(), Code::Jmp_rel32_64);
    assert_eq!(instruction.len(), JUMP_LEN);
    assert_eq!(instruction.near_branch_target(), to);
    assert_eq!(instruction.rflags_modified(), RflagsBits::NONE);
    code
}

/// A trampoline holds the moved bytes unchanged, then loads rcx with the address after the
/// site and jumps through the pointer; nothing but rcx changes on the way. It is refused
/// only where it does not fit or not reach. Gives its bytes.
pub fn check_trampoline(at: u64, moved: &[u8], after: u64, target: u64) -> Option<Vec<u8>> {
    const UNTOUCHED: u8 = 0xcc;
    let mut out = [UNTOUCHED; TRAMPOLINE];
    let len = trampoline(&mut out, at, moved, after, target);
    let size = moved.len() + RETURN_LEN;
    let lea_end = at.wrapping_add(moved.len() as u64 + 7);
    let possible = size <= TRAMPOLINE
        && reaches(lea_end, after)
        && reaches(at.wrapping_add(size as u64), target);
    assert_eq!(len.is_some(), possible, "at {at:#x}, {moved:x?}, {after:#x}, {target:#x}");
    let len = len?;
    assert_eq!(len, size);
    assert!(out[len..].iter().all(|b| *b == UNTOUCHED));
    assert_eq!(&out[..moved.len()], moved);

    let lea = decode(&out[moved.len()..len], at + moved.len() as u64);
    assert_eq!((lea.code(), lea.len()), (Code::Lea_r64_m, 7));
    assert_eq!(lea.op0_register(), Register::RCX);
    assert!(lea.is_ip_rel_memory_operand());
    assert_eq!(lea.ip_rel_memory_address(), after);

    let jmp = decode(&out[lea.next_ip().wrapping_sub(at) as usize..len], lea.next_ip());
    assert_eq!((jmp.code(), jmp.len()), (Code::Jmp_rm64, 6));
    assert!(jmp.is_ip_rel_memory_operand());
    assert_eq!(jmp.ip_rel_memory_address(), target);
    assert_eq!(jmp.next_ip(), at + len as u64);

    let mut factory = InstructionInfoFactory::new();
    for (instruction, writes) in [(&lea, &[Register::RCX][..]), (&jmp, &[])] {
        assert_eq!(instruction.rflags_modified(), RflagsBits::NONE);
        let info = factory.info(instruction);
        let written: Vec<Register> = info
            .used_registers()
            .iter()
            .filter(|r| r.access() != OpAccess::Read)
            .map(|r| r.register())
            .collect();
        assert_eq!(written, writes);
        // `lea` touches no memory, `jmp` reads its pointer; no stack is used.
        assert!(info.used_memory().iter().all(|m| m.access() == OpAccess::Read));
        assert_eq!(instruction.stack_pointer_increment(), 0);
    }
    Some(out[..len].to_vec())
}

/// From its call on, a stub makes the call, leaves in rcx what the call would have left at
/// the site, and jumps there; it has bytes of nothing else.
fn check_tail(stub: &Stub, at: u64, after: u64) {
    assert_eq!(stub.len, stub.call + STUB_TAIL);
    assert!(stub.code[stub.len..].iter().all(|b| *b == 0));
    let from = at + stub.call as u64;
    let tail = Decoder::with_ip(64, &stub.code[stub.call..stub.len], from, DecoderOptions::NONE);
    let [call, lea, back] = tail.into_iter().collect::<Vec<_>>()[..] else { panic!("{stub:x?}") };
    assert_eq!(call.code(), Code::Syscall);
    assert_eq!((lea.code(), lea.op0_register()), (Code::Lea_r64_m, Register::RCX));
    assert_eq!(lea.ip_rel_memory_address(), after);
    assert_eq!(back.code(), Code::Jmp_rel32_64);
    assert_eq!(back.near_branch_target(), after);
    assert_eq!(back.next_ip(), at + stub.len as u64);
}

/// The stub of a known number holds the moved bytes unchanged, then the tail. It is refused
/// only where it does not fit or not reach.
pub fn check_passing_stub(at: u64, moved: &[u8], after: u64) -> Option<Stub> {
    let stub = passing_stub(at, moved, after);
    let end = at.wrapping_add((moved.len() + STUB_TAIL) as u64);
    let fits = moved.len() + STUB_TAIL <= STUB;
    // `lea` and `jmp` end at different addresses.
    let possible = fits && reaches(end - JUMP_LEN as u64, after) && reaches(end, after);
    assert_eq!(stub.is_some(), possible, "at {at:#x}, {moved:x?}, {after:#x}");
    let stub = stub?;
    assert_eq!(stub.call, moved.len());
    assert_eq!(&stub.code[..stub.call], moved);
    check_tail(&stub, at, after);
    Some(stub)
}

/// The stub of an unknown number changes only rcx and r11 (which the call overwrites) and no
/// flag, reads the table, and goes on at its call or, with rcx as at the site, at `enter`.
pub fn check_choosing_stub(
    at: u64,
    usual: Option<u32>,
    interest: u32,
    enter: u64,
    after: u64,
) -> Option<Stub> {
    let stub = choosing_stub(at, usual, interest, enter, after)?;
    check_tail(&stub, at, after);
    let head: Vec<Instruction> =
        Decoder::with_ip(64, &stub.code[..stub.call], at, DecoderOptions::NONE)
            .into_iter()
            .collect();
    let mut factory = InstructionInfoFactory::new();
    for instruction in &head {
        assert_eq!(instruction.rflags_modified(), RflagsBits::NONE);
        let info = factory.info(instruction);
        for used in info.used_registers().iter().filter(|r| r.access() != OpAccess::Read) {
            let whole = used.register().full_register();
            assert!(matches!(whole, Register::RCX | Register::R11), "{instruction:?}");
        }
        assert!(info.used_memory().iter().all(|m| m.access() == OpAccess::Read));
    }
    let usual_way = if usual.is_some() { 2 } else { 0 };
    if let ([compare, branch, ..], Some(usual)) = (&head[..], usual) {
        assert_eq!((compare.code(), compare.memory_base()), (Code::Lea_r64_m, Register::RAX));
        assert_eq!(compare.op0_register(), Register::RCX);
        assert_eq!(compare.memory_displacement64(), i64::from(usual).wrapping_neg() as u64);
        assert_eq!(branch.code(), Code::Jrcxz_rel8_64);
        assert_eq!(branch.near_branch_target(), at + stub.call as u64);
    }
    let [number, table, byte, branch, lea, jump] = head[usual_way..] else { panic!("{stub:x?}") };
    assert_eq!((number.code(), number.op1_register()), (Code::Movzx_r32_rm16, Register::AX));
    assert_eq!(table.memory_segment(), Register::GS);
    assert_eq!(table.memory_displacement64() as u32, interest);
    assert_eq!((byte.memory_base(), byte.memory_index()), (Register::RCX, Register::R11));
    assert_eq!(branch.code(), Code::Jrcxz_rel8_64);
    assert_eq!(branch.near_branch_target(), at + stub.call as u64);
    assert_eq!(lea.ip_rel_memory_address(), after);
    assert_eq!(jump.near_branch_target(), enter);
    Some(stub)
}

/// The window of a pun holds the 256 addresses that the jump can reach, and no other.
pub fn check_pun_window(after: u64, next: [u8; 3]) -> u64 {
    let site = after - SYSCALL_LEN as u64;
    let window = pun_window(after, next);
    for low in 0..=u8::MAX {
        let code = [0xe9, low, next[0], next[1], next[2]];
        let target = decode(&code, site).near_branch_target();
        assert_eq!(target, window.wrapping_add(u64::from(low)));
        // A window can begin below address zero; no program can be there, and no jump is made.
        if target < USER_END {
            assert_eq!(jump(site, target), Some(code));
        }
    }
    for outside in [window.wrapping_sub(1), window.wrapping_add(256)] {
        assert!(jump(site, outside).is_none_or(|code| code[2..] != next));
    }
    let exact = decode(&[0xe9, SYSCALL[1], next[0], next[1], next[2]], site);
    assert_eq!(exact.near_branch_target(), window.wrapping_add(u64::from(SYSCALL[1])));
    window
}

/// What loads the number is one whole instruction that puts just this number into rax. It
/// is `mov $imm32, %eax` or `mov $imm32, %rax`, and a jump fits into its place.
pub fn check_number_load(before: &[u8], nr: u64) -> Option<NumberLoad> {
    let load = number_load(before, nr)?;
    let start = before.len() - load.len;
    let instruction = decode(&before[start..], 0);
    assert_eq!(instruction.len(), load.len);
    assert!(load.len >= JUMP_LEN);
    let loads = match instruction.code() {
        Code::Mov_r32_imm32 => {
            assert_eq!(instruction.op0_register(), Register::EAX);
            // The byte before is no prefix that makes it load another register, or less.
            let longer = decode(&before[start - 1..], 0);
            let codes = [Code::Mov_r16_imm16, Code::Mov_r32_imm32, Code::Mov_r64_imm64];
            if longer.len() == load.len + 1 && codes.contains(&longer.code()) {
                assert_eq!(longer.op0_register(), Register::EAX, "{before:x?}");
            }
            instruction.immediate(1)
        }
        Code::Mov_rm64_imm32 => {
            assert_eq!(instruction.op0_register(), Register::RAX);
            instruction.immediate(1)
        }
        code => panic!("{code:?} in {before:x?}"),
    };
    assert_eq!(loads, nr);
    assert_eq!(u64::from(load.nr), nr & 0xffff_ffff);
    Some(load)
}

/// The number that the last instruction loads, where a disassembler has said that it is a
/// load: seven bytes long or five. The bytes of any other instruction are none.
pub fn check_any_number_load(before: &[u8]) -> Option<u64> {
    let ends = [7, 5].into_iter().filter_map(|len| before.len().checked_sub(len));
    for bytes in ends.map(|at| &before[at..]) {
        if let Some(nr) = any_number_load(bytes) {
            let instruction = decode(bytes, 0);
            assert_eq!(instruction.len(), bytes.len());
            assert!(matches!(instruction.code(), Code::Mov_r32_imm32 | Code::Mov_rm64_imm32));
            assert_eq!(instruction.immediate(1), nr);
            assert_eq!(any_number_load(&[&[0x90], bytes].concat()), None, "only exact bytes");
            return Some(nr);
        }
    }
    None
}

/// `mov $nr, %eax`.
pub fn load_bytes(nr: u32) -> [u8; 5] {
    let [a, b, c, d] = nr.to_le_bytes();
    [0xb8, a, b, c, d]
}
