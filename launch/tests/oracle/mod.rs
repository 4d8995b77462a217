//! What must hold of the instructions that may be moved, said by the bytes of their operands
//! rather than by the kinds of control flow that `launch/src/scan.rs` goes by.
//!
//! Owns: the invariants, said once for the tests (`movable.rs`) and the fuzzer (`fuzz/`).
//! Never does: choose inputs.

// Each user has its own copy of this module and needs a part of it.
#![allow(dead_code)]

use crossgate_launch::scan::movable;
use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, OpAccess, OpKind,
    Register,
};

/// Length of a jump, and of the longest instruction.
const JUMP: usize = 5;
const LONGEST: usize = 15;
/// Bytes of moved instructions that fit into a trampoline: `encode::TRAMPOLINE` less
/// `encode::RETURN_LEN`.
pub const MOST: usize = 19;

/// The instructions in `code`, which lies at `ip`, up to the first that is none.
pub fn decode(code: &[u8], ip: u64) -> impl Iterator<Item = Instruction> {
    let mut decoder = Decoder::with_ip(64, code, ip, DecoderOptions::NONE);
    std::iter::from_fn(move || decoder.can_decode().then(|| decoder.decode()))
        .take_while(|instruction| !instruction.is_invalid())
}

/// Where an instruction may lead besides the next: whatever it is, by its operand.
pub fn target(instruction: &Instruction) -> Option<u64> {
    let near = [OpKind::NearBranch16, OpKind::NearBranch32, OpKind::NearBranch64];
    (instruction.op_count() > 0 && near.contains(&instruction.op0_kind()))
        .then(|| instruction.near_branch_target())
}

/// Where a jump leads. Calls lead to the start of a function, not into one.
pub fn jump(instruction: &Instruction) -> Option<u64> {
    if instruction.flow_control() == FlowControl::Call { None } else { target(instruction) }
}

/// The block is five bytes or more of whole instructions, none of which knows or changes
/// where it is.
pub fn check_block(block: &[u8], ip: u64) {
    assert!((JUMP..=MOST).contains(&block.len()));
    let mut factory = InstructionInfoFactory::new();
    let mut at = ip;
    for instruction in decode(block, ip) {
        at = instruction.next_ip();
        assert_eq!(target(&instruction), None, "{block:x?}");
        assert_eq!(instruction.flow_control(), FlowControl::Next, "{block:x?}");
        let place = [Register::RIP, Register::EIP];
        assert!(!place.contains(&instruction.memory_base()), "{block:x?}");
        let info = factory.info(&instruction);
        let knows = |r: Register, a: OpAccess| place.contains(&r) && a != OpAccess::None;
        assert!(!info.used_registers().iter().any(|r| knows(r.register(), r.access())));
    }
    assert_eq!(at, ip + block.len() as u64, "instructions are cut: {block:x?}");
}

/// Asks for the block before the call at `offset` in a function's code, and checks it.
pub fn check_movable(body: &[u8], start: u64, offset: usize, most: usize) -> Option<usize> {
    let site = start + offset as u64;
    let len = movable(body, start, site, most)?;
    assert!(len <= offset);
    let block = &body[offset - len..offset];
    check_block(block, site - len as u64);
    // Instructions come one after the other from the function's start to the call.
    let boundaries: Vec<u64> = decode(body, start).map(|i| i.ip()).collect();
    let first = site - len as u64;
    assert!(boundaries.contains(&first));
    assert!(
        offset == body.len()
            || boundaries.contains(&site)
            || decode(&body[offset..], site).next().is_none()
    );
    // One instruction, or no more than it takes.
    let parts = decode(block, first).count();
    if most == 0 {
        assert!(parts == 1 && len <= LONGEST);
    } else {
        let head = decode(block, first).next().map_or(0, |i| i.len());
        assert!(len - head < JUMP, "more is moved than it takes: {block:x?}");
    }
    let into = decode(body, start).filter_map(|i| jump(&i)).find(|t| *t > first && *t < site);
    assert_eq!(into, None, "a jump leads into {block:x?}");
    Some(len)
}
