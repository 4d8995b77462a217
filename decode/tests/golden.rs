//! Recorded calls print as strace printed them: the form of `real.rs` that needs neither
//! strace nor a compiler.

#![cfg(target_arch = "x86_64")]

use crossgate_decode::{Call, Exit, Options};
use crossgate_wire::record::Record;

/// Bytes from hexadecimal, in which `_n_` is a run of n zeros.
fn bytes(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for (index, piece) in text.split('_').enumerate() {
        if index % 2 == 1 {
            out.resize(out.len() + piece.parse::<usize>().unwrap(), 0);
            continue;
        }
        let digits = piece.as_bytes().chunks_exact(2);
        out.extend(digits.map(|d| u8::from_str_radix(str::from_utf8(d).unwrap(), 16).unwrap()));
    }
    out
}

#[test]
fn recorded_calls_print_as_strace_printed_them() {
    let text = include_str!("golden/calls.txt");
    let lines: Vec<&str> =
        text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    let cases = lines.chunks_exact(3);
    assert!(cases.len() > 200 && cases.remainder().is_empty());
    let options = Options::default();
    for case in cases {
        let (enter, exit) = (bytes(case[1].trim()), bytes(case[2].trim()));
        let Some((Record::Enter { nr, args, blobs, .. }, _)) = Record::parse(&enter) else {
            panic!("{}", case[0]);
        };
        let call = Call { nr, args, blobs };
        let Some((Record::Exit { result, blobs, .. }, _)) = Record::parse(&exit) else {
            panic!("{}", case[0]);
        };
        let mut line = String::new();
        options.enter(&mut line, &call);
        let column = line.chars().count();
        options.exit(&mut line, column, &call, &Exit { result, blobs });
        assert_eq!(line, case[0]);
    }
}
