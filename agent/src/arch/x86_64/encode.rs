//! The bytes of patches and trampolines: pure functions, tested on the host by golden files
//! (`tests/golden`) and a fuzzer.
//!
//! Owns: recognising the `mov` before a call, and encoding jumps. Never does: touch memory.

/// Length of `syscall`.
pub const SYSCALL_LEN: usize = 2;
/// `0f 05`.
pub const SYSCALL: [u8; 2] = [0x0f, 0x05];
/// Length of `jmp rel32`.
pub const JUMP_LEN: usize = 5;
/// Bytes of a trampoline: moved instructions, `lea`, `jmp`.
pub const TRAMPOLINE: usize = 32;
/// Bytes of that `lea` and `jmp`.
pub const RETURN_LEN: usize = 13;

/// The instruction before a call that loads the call's number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NumberLoad {
    /// Its length: 5 (`mov $imm32, %eax`) or 7 (`mov $imm32, %rax`).
    pub len: usize,
    /// The number it loads.
    pub nr: u32,
}

/// Whether a byte in front of an instruction may belong to it.
fn may_be_prefix(byte: u8) -> bool {
    matches!(byte, 0x40..=0x4f | 0x66 | 0x67 | 0xf0 | 0xf2 | 0xf3)
}

/// Recognises the instruction that loads `nr` in the bytes right before a `syscall`.
///
/// Only the caller's word that `rax` holds `nr` at the call makes this safe: five bytes
/// that look like `mov $nr, %eax` and happen to be something else would have had to load
/// the same number. A byte before that may be a prefix of the instruction rules it out.
pub fn number_load(before: &[u8], nr: u64) -> Option<NumberLoad> {
    if let [.., p, 0x48, 0xc7, 0xc0, a, b, c, d] = *before {
        let value = i32::from_le_bytes([a, b, c, d]);
        if i64::from(value) as u64 == nr && !may_be_prefix(p) {
            return Some(NumberLoad { len: 7, nr: value as u32 });
        }
    }
    if let [.., p, 0xb8, a, b, c, d] = *before {
        let value = u32::from_le_bytes([a, b, c, d]);
        if u64::from(value) == nr && !may_be_prefix(p) {
            return Some(NumberLoad { len: 5, nr: value });
        }
    }
    None
}

/// The number that an instruction loads, whose bytes are `instruction`, where nobody knows
/// what `rax` holds at the call.
pub fn any_number_load(instruction: &[u8]) -> Option<u64> {
    match *instruction {
        [0x48, 0xc7, 0xc0, a, b, c, d] => Some(i64::from(i32::from_le_bytes([a, b, c, d])) as u64),
        [0xb8, a, b, c, d] => Some(u64::from(u32::from_le_bytes([a, b, c, d]))),
        _ => None,
    }
}

/// Signed distance from the end of an instruction to `to`, if it fits.
fn rel32(end: u64, to: u64) -> Option<[u8; 4]> {
    let distance = to.wrapping_sub(end) as i64;
    i32::try_from(distance).ok().map(i32::to_le_bytes)
}

/// `jmp rel32` at `at` to `to`.
pub fn jump(at: u64, to: u64) -> Option<[u8; JUMP_LEN]> {
    let [a, b, c, d] = rel32(at + JUMP_LEN as u64, to)?;
    Some([0xe9, a, b, c, d])
}

/// The 256 addresses that a jump over the two bytes of a `syscall` can reach when it
/// borrows the three bytes `next` after it: from the result, 256 upwards (the free low byte
/// of the displacement).
pub fn pun_window(after: u64, next: [u8; 3]) -> u64 {
    let displacement = i32::from_le_bytes([0, next[0], next[1], next[2]]);
    // The jump is five bytes long and starts at the two bytes of the call.
    (after + 3).wrapping_add(displacement as i64 as u64)
}

/// The trampoline of a site: what stood before the call (`moved`), the address after the
/// site into rcx, and a jump through the pointer at `target`. Gives its length.
pub fn trampoline(
    out: &mut [u8; TRAMPOLINE],
    at: u64,
    moved: &[u8],
    after: u64,
    target: u64,
) -> Option<usize> {
    let lea = moved.len();
    let jmp = lea + 7;
    let end = jmp + 6;
    if end > TRAMPOLINE {
        return None;
    }
    out[..lea].copy_from_slice(moved);
    lea_rcx(&mut out[lea..jmp], at + lea as u64, after)?;
    // jmp [rip + target]
    out[jmp..jmp + 2].copy_from_slice(&[0xff, 0x25]);
    out[jmp + 2..end].copy_from_slice(&rel32(at + end as u64, target)?);
    Some(end)
}

/// Most bytes of a stub.
pub const STUB: usize = 64;
/// Bytes of a stub from its call instruction on.
pub const STUB_TAIL: usize = SYSCALL_LEN + RETURN_DIRECT_LEN;
/// `lea` and `jmp` of [`return_directly`].
const RETURN_DIRECT_LEN: usize = 12;

/// Code that makes a call itself, so that it must lie where calls are the kernel's, and
/// then jumps back to the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stub {
    /// Its code; what follows `len` is zero.
    pub code: [u8; STUB],
    /// How much of it is code.
    pub len: usize,
    /// Where in it the call instruction is.
    pub call: usize,
}

/// A call instruction at `at`, what it leaves in rcx at the site, and a direct jump to
/// `after`: right after a call the processor predicts no indirect jump (6 ns).
fn call_and_return(out: &mut [u8], at: u64, after: u64) -> Option<()> {
    out[..2].copy_from_slice(&SYSCALL);
    lea_rcx(&mut out[2..9], at + 2, after)?;
    out[9..14].copy_from_slice(&jump(at + 9, after)?);
    Some(())
}

/// `lea rcx, [rip + to]` at `at`.
fn lea_rcx(out: &mut [u8], at: u64, to: u64) -> Option<()> {
    out[..3].copy_from_slice(&[0x48, 0x8d, 0x0d]);
    out[3..7].copy_from_slice(&rel32(at + 7, to)?);
    Some(())
}

/// The stub at `at` of a call whose number is known and which nobody wants to see: `moved`
/// loads the number.
pub fn passing_stub(at: u64, moved: &[u8], after: u64) -> Option<Stub> {
    let call = moved.len();
    let len = call + STUB_TAIL;
    let mut code = [0; STUB];
    code.get_mut(..call)?.copy_from_slice(moved);
    call_and_return(code.get_mut(call..len)?, at + call as u64, after)?;
    Some(Stub { code, len, call })
}

/// The stub at `at` of a call whose number is known and which a hook library wants to see:
/// `moved` loads the number, and the way to the call instruction, whose address is in rcx, leads
/// by `hook`.
pub fn hooking_stub(at: u64, moved: &[u8], hook: u64, after: u64) -> Option<Stub> {
    let lea = moved.len();
    let call = lea + 12;
    let len = call + STUB_TAIL;
    let mut code = [0; STUB];
    code.get_mut(..lea)?.copy_from_slice(moved);
    lea_rcx(code.get_mut(lea..lea + 7)?, at + lea as u64, at + call as u64)?;
    code.get_mut(lea + 7..call)?.copy_from_slice(&jump(at + lea as u64 + 7, hook)?);
    call_and_return(code.get_mut(call..len)?, at + call as u64, after)?;
    Some(Stub { code, len, call })
}

/// The address after the site to which a stub returns whose call instruction is at `call`.
///
/// # Safety
/// There is such a stub.
pub unsafe fn site_of_stub(call: u64) -> u64 {
    // SAFETY: the distance of its last jump, as the caller says.
    let distance = unsafe { ((call + 10) as *const i32).read_unaligned() };
    call + STUB_TAIL as u64 + distance as i64 as u64
}

/// The stub at `at` of a call whose number decides: the table at `gs:interest` has a byte
/// for each. Where that is not zero, the way goes on at `enter`. `usual` is a number that
/// nobody wants to see and that is expected here: it needs no look at the table.
pub fn choosing_stub(
    at: u64,
    usual: Option<u32>,
    interest: u32,
    enter: u64,
    after: u64,
) -> Option<Stub> {
    /// Bytes of the way by the table.
    const TABLE: usize = 32;
    /// Bytes of the comparison before it.
    const USUAL: usize = 9;
    let usual = usual.filter(|&nr| nr <= i32::MAX as u32);
    let mut code = [0; STUB];
    let table = if usual.is_some() { USUAL } else { 0 };
    let call = table + TABLE;
    // The flags are live: nothing here changes them.
    if let Some(usual) = usual {
        // lea rcx, [rax - usual]
        code[..3].copy_from_slice(&[0x48, 0x8d, 0x88]);
        code[3..7].copy_from_slice(&(-(usual as i32)).to_le_bytes());
        // jrcxz to the call
        code[7..9].copy_from_slice(&[0xe3, TABLE as u8]);
    }
    let way = code.get_mut(table..call)?;
    // movzx r11d, ax
    way[..4].copy_from_slice(&[0x44, 0x0f, 0xb7, 0xd8]);
    // mov rcx, gs:[interest]
    way[4..9].copy_from_slice(&[0x65, 0x48, 0x8b, 0x0c, 0x25]);
    way[9..13].copy_from_slice(&interest.to_le_bytes());
    // movzx ecx, byte ptr [rcx + r11]
    way[13..18].copy_from_slice(&[0x42, 0x0f, 0xb6, 0x0c, 0x19]);
    // jrcxz to the call
    way[18..20].copy_from_slice(&[0xe3, (TABLE - 20) as u8]);
    let at_way = at + table as u64;
    lea_rcx(&mut way[20..27], at_way + 20, after)?;
    way[27..].copy_from_slice(&jump(at_way + 27, enter)?);
    call_and_return(code.get_mut(call..call + STUB_TAIL)?, at + call as u64, after)?;
    Some(Stub { code, len: call + STUB_TAIL, call })
}

/// What the bytes before a call make its number look like: a guess.
pub fn likely_number(before: &[u8]) -> Option<u32> {
    // xor eax, eax
    if before.ends_with(&[0x31, 0xc0]) {
        return Some(0);
    }
    // The last mov $imm32, %eax with a number that a call may have.
    before.windows(5).rev().find_map(|window| match *window {
        [0xb8, a, b, 0, 0] if b < 4 => Some(u32::from_le_bytes([a, b, 0, 0])),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_load_is_recognised_only_when_it_loads_the_number() {
        let code = [0x90, 0xb8, 0x27, 0, 0, 0];
        assert_eq!(number_load(&code, 0x27), Some(NumberLoad { len: 5, nr: 0x27 }));
        assert_eq!(number_load(&code, 0x28), None);
        // 41 b8: mov $imm, %r8d
        assert_eq!(number_load(&[0x41, 0xb8, 0x27, 0, 0, 0], 0x27), None);
        let long = [0x90, 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0];
        assert_eq!(number_load(&long, 15), Some(NumberLoad { len: 7, nr: 15 }));
        assert_eq!(number_load(&[], 0), None);
    }

    #[test]
    fn a_trampoline_leads_back_to_the_site() {
        let mut out = [0; TRAMPOLINE];
        let len = trampoline(&mut out, 0x10_0000, &[0xb8, 1, 0, 0, 0], 0x20_0007, 0x10_1000);
        assert_eq!(len, Some(18));
        assert_eq!(
            out[..18],
            [
                0xb8, 1, 0, 0, 0, // mov $1, %eax
                0x48, 0x8d, 0x0d, 0xfb, 0xff, 0x0f, 0, // lea 0xffffb(%rip), %rcx
                0xff, 0x25, 0xee, 0x0f, 0, 0, // jmp *0xfee(%rip)
            ]
        );
    }

    #[test]
    fn a_stub_calls_and_returns_directly() {
        let stub = passing_stub(0x10_0000, &[0xb8, 110, 0, 0, 0], 0x20_0007).unwrap();
        assert_eq!((stub.call, stub.len), (5, 19));
        assert_eq!(
            stub.code[..19],
            [
                0xb8, 110, 0, 0, 0, // mov $110, %eax
                0x0f, 0x05, // syscall
                0x48, 0x8d, 0x0d, 0xf9, 0xff, 0x0f, 0, // lea 0xffff9(%rip), %rcx
                0xe9, 0xf4, 0xff, 0x0f, 0, // jmp 0x200007
            ]
        );
        assert_eq!(passing_stub(0, &[0x90; 60], 0), None);
        assert_eq!(passing_stub(0, &[], 1 << 40), None);
    }

    #[test]
    fn a_hooking_stub_tells_where_its_call_is() {
        let at = 0x10_0000;
        let stub = hooking_stub(at, &[0xb8, 110, 0, 0, 0], 0x11_0000, 0x20_0007).unwrap();
        assert_eq!((stub.call, stub.len), (17, 31));
        assert_eq!(
            stub.code[5..17],
            [
                0x48, 0x8d, 0x0d, 5, 0, 0, 0, // lea 5(%rip), %rcx
                0xe9, 0xef, 0xff, 0, 0, // jmp 0x110000
            ]
        );
        let here = stub.code.as_ptr() as u64;
        // SAFETY: the stub is there, if not where it was made for.
        let after = unsafe { site_of_stub(here + stub.call as u64) };
        assert_eq!(after.wrapping_sub(here), 0x20_0007 - at);
        assert_eq!(hooking_stub(at, &[0x90; 40], 0x11_0000, 0x20_0007), None);
    }

    #[test]
    fn a_choosing_stub_skips_to_its_call() {
        let stub = choosing_stub(0x10_0000, None, 32, 0x11_0000, 0x20_0007).unwrap();
        assert_eq!((stub.call, stub.len), (32, 46));
        // jrcxz leads to the call instruction.
        assert_eq!(20 + stub.code[19] as usize, stub.call);
        assert_eq!(stub.code[stub.call..][..2], SYSCALL);
        assert_eq!(choosing_stub(0, None, 32, 1 << 40, 0), None);
        let stub = choosing_stub(0x10_0000, Some(1), 32, 0x11_0000, 0x20_0007).unwrap();
        assert_eq!((stub.call, stub.len), (41, 55));
        assert_eq!(stub.code[..7], [0x48, 0x8d, 0x88, 0xff, 0xff, 0xff, 0xff]);
        assert_eq!(9 + stub.code[8] as usize, stub.call);
    }

    #[test]
    fn a_likely_number_is_the_last_that_is_loaded() {
        assert_eq!(likely_number(&[0xb8, 1, 0, 0, 0, 0x31, 0xc0]), Some(0));
        assert_eq!(likely_number(&[0xb8, 1, 1, 0, 0, 0x31, 0xd2]), Some(0x101));
        assert_eq!(likely_number(&[0xb8, 0, 0, 0, 1]), None);
        assert_eq!(likely_number(&[]), None);
    }

    #[test]
    fn what_does_not_reach_is_refused() {
        assert_eq!(jump(0x1000, 0x1000 + (1 << 32)), None);
        assert!(jump(0x1000, 0x1000 + (1 << 31)).is_some());
        let mut out = [0; TRAMPOLINE];
        assert_eq!(trampoline(&mut out, 0, &[], 1 << 40, 0), None);
        assert_eq!(trampoline(&mut out, 0, &[0x90; 20], 0, 0), None);
    }

    #[test]
    fn a_pun_window_follows_the_borrowed_bytes() {
        // cmp $-4095, %rax: 48 3d 01 ...
        assert_eq!(pun_window(0x40_0002, [0x48, 0x3d, 0x01]), 0x40_0005 + 0x013d_4800);
        assert_eq!(pun_window(0x4000_0002, [0, 0, 0xff]), 0x4000_0005 - 0x0100_0000);
    }
}
