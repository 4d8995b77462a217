//! Whatever a traced program puts into its memory, a line comes out and nothing panics.

use crossgate_decode::{Call, Exit, Options, ended, signal};
use crossgate_wire::record::{BlobKind, Kind, Record, Writer};
use proptest::collection::vec;
use proptest::prelude::*;

const KINDS: [BlobKind; 5] =
    [BlobKind::Str, BlobKind::Bytes, BlobKind::StrVec, BlobKind::Count, BlobKind::Iovec];

/// Argument, kind, bytes, truncated, fault.
type Piece = (u8, usize, Vec<u8>, bool, bool);

fn record(kind: Kind, words: &[u64], pieces: &[Piece]) -> Vec<u8> {
    let mut buffer = vec![0; 1 << 16];
    let mut writer = Writer::new(&mut buffer, kind, 0);
    words.iter().for_each(|word| writer.word(*word));
    for (arg, kind, bytes, truncated, fault) in pieces {
        let Some(space) = writer.begin_blob() else { break };
        let len = bytes.len().min(space.len());
        space[..len].copy_from_slice(&bytes[..len]);
        writer.end_blob(*arg, KINDS[*kind], len, *truncated, *fault);
    }
    let len = writer.finish();
    buffer.truncate(len);
    buffer
}

/// Numbers as programs have them: small, pointers, anything.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0..64u64, any::<u64>(), any::<u32>().prop_map(u64::from), Just(u64::MAX)]
}

/// Bytes from a seed (SplitMix64): half of them zero or small, as in structs. Drawing each
/// from proptest would take most of the test's time.
fn noise(mut seed: u64, len: usize) -> Vec<u8> {
    let mut byte = || {
        seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (seed ^ seed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        let value = (mixed >> 40) as u8;
        match mixed >> 62 {
            0 | 1 => value & 0x1f & (mixed >> 50) as u8,
            2 => value & 0x1f,
            _ => value,
        }
    };
    (0..len).map(|_| byte()).collect()
}

fn pieces() -> impl Strategy<Value = Vec<Piece>> {
    let piece = (0..7u8, 0..5usize, any::<u64>(), 0..300usize, any::<bool>(), any::<bool>());
    let piece = piece.prop_map(|(arg, kind, seed, len, truncated, fault)| {
        (arg, kind, noise(seed, len), truncated, fault)
    });
    vec(piece, 0..12usize)
}

fn lines(options: &Options, nr: u64, args: [u64; 6], enter: &[u8], exit: &[u8]) -> String {
    let Some((Record::Enter { blobs, .. }, _)) = Record::parse(enter) else { panic!() };
    let call = Call { nr, args, blobs };
    let Some((Record::Exit { result, blobs, .. }, _)) = Record::parse(exit) else { panic!() };
    let mut out = String::new();
    options.enter(&mut out, &call);
    let column = out.chars().count();
    options.exit(&mut out, column, &call, &Exit { result, blobs });
    options.no_exit(&mut out, column, &call);
    out
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_call_with_any_memory_gives_a_line(
        nr in prop_oneof![0..480u64, any::<u64>()],
        args in [number(), number(), number(), number(), number(), number()],
        before in pieces(),
        after in pieces(),
        result in prop_oneof![-600..600i64, any::<i64>()],
        limit in 0..40usize,
    ) {
        let mut words = vec![nr, 0];
        words.extend(args);
        let enter = record(Kind::Enter, &words, &before);
        let exit = record(Kind::Exit, &[result as u64], &after);
        let options = Options { string_limit: limit, ..Options::default() };
        let text = lines(&options, nr, args, &enter, &exit);
        prop_assert!(text.contains('('));
        prop_assert!(!text.contains('\n') && text.is_ascii());
    }

    #[test]
    fn any_signal_and_status_gives_a_line(bytes in vec(any::<u8>(), 0..160), status in any::<i32>()) {
        let mut out = String::new();
        signal(&mut out, &bytes);
        ended(&mut out, status);
        prop_assert!(out.is_ascii());
    }
}
