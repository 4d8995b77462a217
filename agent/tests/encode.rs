//! Properties of the bytes of patches, for any address and any bytes.
//!
//! Owns: the inputs. What must hold of them is in `invariants/`; the same invariants are
//! fuzzed by `fuzz/fuzz_targets/encode.rs`.

mod invariants;

use crossgate_agent::arch::x86_64::encode::{NumberLoad, RETURN_LEN, TRAMPOLINE};
use iced_x86::{Decoder, DecoderOptions};
use invariants::{
    USER_END, check_any_number_load, check_choosing_stub, check_jump, check_number_load,
    check_passing_stub, check_pun_window, check_trampoline, load_bytes,
};
use proptest::collection::vec;
use proptest::prelude::*;

/// Addresses at which programs have code.
fn address() -> impl Strategy<Value = u64> {
    prop_oneof![
        0x1_0000..0x1000_0000u64,
        0x5555_5555_0000..0x5655_5555_0000u64,
        0x7f00_0000_0000..0x7fff_ffff_f000u64,
        16..USER_END - 64,
    ]
}

/// An address, and another that lies mostly within a jump's reach, and often at its edge.
fn two_addresses() -> impl Strategy<Value = (u64, u64)> {
    let reach = 1i64 << 31;
    let distance = prop_oneof![
        -reach..reach,
        -0x1000..0x1000i64,
        -reach - 64..-reach + 64,
        reach - 64..reach + 64,
        any::<i64>(),
    ];
    (address(), distance)
        .prop_map(|(at, distance)| (at, at.saturating_add_signed(distance).min(USER_END)))
}

/// Whole instructions, as they stand before calls.
fn instructions() -> impl Strategy<Value = Vec<u8>> {
    let one = prop_oneof![
        any::<u32>().prop_map(|nr| load_bytes(nr).to_vec()),
        any::<i32>().prop_map(|nr| [&[0x48, 0xc7, 0xc0][..], &nr.to_le_bytes()].concat()),
        Just(vec![0x4c, 0x8b, 0x4c, 0x24, 0x08]), // mov 8(%rsp), %r9
        Just(vec![0x41, 0x5c]),                   // pop %r12
        Just(vec![0x31, 0xc0]),                   // xor %eax, %eax
        any::<u32>().prop_map(|d| [&[0x48, 0x8d, 0xb7][..], &d.to_le_bytes()].concat()), // lea d(%rdi), %rsi
    ];
    vec(one, 0..5).prop_map(|all| all.concat())
}

/// Bytes that are, or nearly are, a load of a number; and the number to look for.
fn nearly_a_load() -> impl Strategy<Value = (Vec<u8>, u64)> {
    let number = prop_oneof![0..500u32, any::<u32>()];
    let opcode = prop_oneof![
        Just(vec![0xb8]),
        Just(vec![0x48, 0xc7, 0xc0]),
        Just(vec![0x48, 0xb8]),
        vec(any::<u8>(), 1..4),
    ];
    (vec(any::<u8>(), 0..12), opcode, number, 0..4u8).prop_map(|(lead, opcode, number, ask)| {
        let nr = match ask {
            0 => i64::from(number as i32) as u64,
            1 => u64::from(number) + 1,
            _ => u64::from(number),
        };
        ([&lead[..], &opcode, &number.to_le_bytes()].concat(), nr)
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 4_000, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn a_jump_leads_to_the_trampoline((at, to) in two_addresses()) {
        check_jump(at, to);
    }

    #[test]
    fn a_trampoline_does_what_the_site_did(
        (at, after) in two_addresses(),
        moved in prop_oneof![instructions(), vec(any::<u8>(), 0..TRAMPOLINE)],
        pointer in 0..3u64,
    ) {
        check_trampoline(at, &moved, after, (at & !0xfff) + pointer * 8);
    }

    #[test]
    fn a_trampoline_reads_any_pointer((at, target) in two_addresses()) {
        check_trampoline(at, &[], at, target);
    }

    #[test]
    fn a_stub_does_what_the_site_did(
        (at, after) in two_addresses(),
        moved in prop_oneof![instructions(), vec(any::<u8>(), 0..80)],
        usual in prop::option::of(0..1024u32),
        interest in 0..4096u32,
        enter in 0..1u64 << 18,
    ) {
        check_passing_stub(at, &moved, after);
        check_choosing_stub(at, usual, interest, at + enter, after);
    }

    #[test]
    fn whole_instructions_stay_whole(at in address(), moved in instructions()) {
        let code = check_trampoline(at, &moved, at, at);
        prop_assert_eq!(code.is_some(), moved.len() + RETURN_LEN <= TRAMPOLINE);
        let Some(code) = code else { return Ok(()) };
        let ends: Vec<u64> = Decoder::with_ip(64, &code, at, DecoderOptions::NONE)
            .iter()
            .map(|i| { assert!(!i.is_invalid()); i.next_ip() - at })
            .collect();
        // The decoder comes to the moved instructions' end, and to the trampoline's.
        prop_assert!(moved.is_empty() || ends.contains(&(moved.len() as u64)));
        prop_assert_eq!(ends.last(), Some(&(code.len() as u64)));
    }

    #[test]
    fn a_window_is_what_the_jump_can_reach(after in address(), next in any::<[u8; 3]>()) {
        check_pun_window(after, next);
    }

    #[test]
    fn a_load_is_one_instruction((before, nr) in nearly_a_load()) {
        check_number_load(&before, nr);
        check_any_number_load(&before);
    }

    #[test]
    fn a_load_is_found(lead in vec(any::<u8>(), 1..12), number in any::<u32>()) {
        let short = [&lead[..], &load_bytes(number)].concat();
        let prefix = lead[lead.len() - 1];
        if !matches!(prefix, 0x40..=0x4f | 0x66 | 0x67 | 0xf0 | 0xf2 | 0xf3) {
            prop_assert_eq!(
                check_number_load(&short, u64::from(number)),
                Some(NumberLoad { len: 5, nr: number })
            );
        }
        let long = [&lead[..], &[0x48, 0xc7, 0xc0], &number.to_le_bytes()].concat();
        let nr = i64::from(number as i32) as u64;
        if !matches!(prefix, 0x40..=0x4f | 0x66 | 0x67 | 0xf0 | 0xf2 | 0xf3) {
            prop_assert_eq!(check_number_load(&long, nr), Some(NumberLoad { len: 7, nr: number }));
        }
        prop_assert_eq!(check_any_number_load(&long), Some(nr));
    }
}
