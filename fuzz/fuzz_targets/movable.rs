//! What may be moved before a call, in any bytes: nothing panics, and the invariants of
//! `launch/tests/oracle` hold.
#![no_main]

#[path = "../../launch/tests/oracle/mod.rs"]
mod oracle;

use libfuzzer_sys::fuzz_target;
use oracle::{MOST, check_movable};

/// Functions may be larger, but not different.
const LARGEST: usize = 512;

fuzz_target!(|input: (u32, Vec<u8>)| {
    let (start, mut body) = input;
    body.truncate(LARGEST);
    // Every place that could be a call, and every other: the agent asks, so that the
    // supervisor must cope with any address.
    for offset in 0..=body.len() {
        for most in [0, MOST] {
            check_movable(&body, u64::from(start), offset, most);
        }
    }
});
