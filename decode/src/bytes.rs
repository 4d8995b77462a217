//! Numbers out of copies of a program's memory, and the small pieces of text that every
//! other file needs.
//!
//! Owns: bounds-checked reads in native byte order, and formats for numbers and pointers.
//! Never does: panic. Where the data goes next: the printers of the families.

/// `write!` to a `String`, which cannot fail.
macro_rules! put {
    ($out:expr, $($arg:tt)*) => {{
        use std::fmt::Write as _;
        let _ = write!($out, $($arg)*);
    }};
}

pub(crate) use put;

/// Appends a number in decimal; most of a trace is such numbers.
pub fn decimal(out: &mut String, value: impl itoa::Integer) {
    out.push_str(itoa::Buffer::new().format(value));
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

/// The `u16` at offset `at`.
pub fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    array(bytes, at).map(u16::from_ne_bytes)
}

/// The `u32` at offset `at`.
pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_ne_bytes)
}

/// The `i32` at offset `at`.
pub fn i32_at(bytes: &[u8], at: usize) -> Option<i32> {
    array(bytes, at).map(i32::from_ne_bytes)
}

/// The `u64` at offset `at`.
pub fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    array(bytes, at).map(u64::from_ne_bytes)
}

/// The `i64` at offset `at`.
pub fn i64_at(bytes: &[u8], at: usize) -> Option<i64> {
    array(bytes, at).map(i64::from_ne_bytes)
}

/// A pointer: `NULL` or hexadecimal.
pub fn address(out: &mut String, value: u64) {
    if value == 0 { out.push_str("NULL") } else { put!(out, "{value:#x}") }
}

/// A number in hexadecimal, zero without the prefix.
pub fn hex(out: &mut String, value: u64) {
    if value == 0 { out.push('0') } else { put!(out, "{value:#x}") }
}

/// Permission bits: octal, a leading zero, at least three digits.
pub fn octal(out: &mut String, value: u32) {
    if value < 0o100 { put!(out, "{value:03o}") } else { put!(out, "0{value:o}") }
}

/// Elements of `size` bytes as `[a, b, ...]`, at most `limit` of them. `more` says that the
/// copy ends before the array does. `None` when an element cannot be printed.
pub fn list(
    out: &mut String,
    bytes: &[u8],
    size: usize,
    limit: usize,
    more: bool,
    mut element: impl FnMut(&mut String, &[u8]) -> Option<()>,
) -> Option<()> {
    out.push('[');
    let mut chunks = bytes.chunks_exact(size.max(1));
    for (i, chunk) in chunks.by_ref().enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        if i == limit {
            out.push_str("...]");
            return Some(());
        }
        element(out, chunk)?;
    }
    if more || !chunks.remainder().is_empty() {
        out.push_str(if bytes.len() < size { "..." } else { ", ..." });
    }
    out.push(']');
    Some(())
}
