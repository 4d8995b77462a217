//! Records from a ring that the traced program has scribbled over: nothing panics, and what
//! is read lies in what was given.
#![no_main]

use crossgate_wire::record::{Blob, Blobs, Record};
use libfuzzer_sys::fuzz_target;

/// Bytes of a record before its blobs: the header, and number, site and six arguments, or
/// the result.
const ENTER: usize = 16 + 64;
const EXIT: usize = 16 + 8;

fuzz_target!(|bytes: &[u8]| {
    let mut rest = bytes;
    // As `launch/src/drain.rs` goes through a ring.
    while let Some((record, len)) = Record::parse(rest) {
        assert!(len >= 8 && len.is_multiple_of(8));
        match record {
            Record::Pad => {}
            Record::Enter { blobs, .. } => check_blobs(blobs, &rest[ENTER..len]),
            Record::Exit { blobs, .. } => check_blobs(blobs, &rest[EXIT..len]),
            Record::Signal { info, .. } => {
                assert_eq!(info.len(), 128);
                assert!(rest[..len].as_ptr_range().contains(&info.as_ptr()));
            }
            Record::Inject { task: text, .. } | Record::Log { text, .. } => {
                assert!(text.is_empty() || rest[..len].as_ptr_range().contains(&text.as_ptr()));
            }
            Record::Cancel { .. } | Record::TaskStart { .. } => assert!(len >= 16),
        }
        // A pad may claim more than there is; nothing else may.
        let Some(next) = rest.get(len..) else {
            assert!(matches!(record, Record::Pad));
            break;
        };
        rest = next;
    }
});

/// Blobs lie one after the other in `area`.
fn check_blobs(blobs: Blobs<'_>, area: &[u8]) {
    let mut at = 0;
    for Blob { arg, kind, data, .. } in blobs {
        assert_eq!((arg, kind as u8), (area[at], area[at + 1]));
        assert_eq!(data, &area[at + 8..at + 8 + data.len()]);
        at += (8 + data.len()).next_multiple_of(8);
        assert!(at <= area.len());
    }
}
