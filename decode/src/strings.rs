//! Strings as strace quotes them.
//!
//! Owns: escapes, cutting, and the forms of string vectors and of `iovec` contents. Never
//! does: interpret an encoding: bytes above 126 are escapes. Where the data goes next: the
//! argument printers.

use crossgate_wire::record::Blob;

use crate::bytes::{address, u32_at, u64_at};
use crate::put;

/// Set in a length of a `StrVec` or `Iovec` blob when there was more.
const MORE: u32 = 1 << 31;

/// Appends `bytes` between quotes, escaped.
pub fn quote(out: &mut String, bytes: &[u8]) {
    out.push('"');
    let mut rest = bytes.iter().peekable();
    while let Some(&byte) = rest.next() {
        match byte {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\t' => out.push_str("\\t"),
            b'\n' => out.push_str("\\n"),
            0x0b => out.push_str("\\v"),
            0x0c => out.push_str("\\f"),
            b'\r' => out.push_str("\\r"),
            b' '..=b'~' => out.push(char::from(byte)),
            // A digit that follows would be read as part of a shorter escape.
            _ if rest.peek().is_some_and(|next| next.is_ascii_digit()) => {
                put!(out, "\\{byte:03o}");
            }
            _ => put!(out, "\\{byte:o}"),
        }
    }
    out.push('"');
}

/// Appends at most `limit` of the bytes, and `...` when there is more.
pub fn limited(out: &mut String, bytes: &[u8], more: bool, limit: usize) {
    let shown = bytes.get(..limit).unwrap_or(bytes);
    quote(out, shown);
    if more || shown.len() < bytes.len() {
        out.push_str("...");
    }
}

/// Appends bytes as hexadecimal escapes, at most `limit` of them.
pub fn hexadecimal(out: &mut String, bytes: &[u8], more: bool, limit: usize) {
    let shown = bytes.get(..limit).unwrap_or(bytes);
    out.push('"');
    for byte in shown {
        put!(out, "\\x{byte:02x}");
    }
    out.push('"');
    if more || shown.len() < bytes.len() {
        out.push_str("...");
    }
}

/// The bytes up to the first NUL.
pub fn until_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or(&[])
}

/// Appends the strings of a `StrVec` blob, at most `limit` of them.
pub fn vector(out: &mut String, blob: &Blob<'_>, limit: usize) {
    let mut data = blob.data;
    out.push('[');
    let mut count = 0;
    while let Some(word) = u32_at(data, 0) {
        if count > 0 {
            out.push_str(", ");
        }
        if count == limit {
            out.push_str("...]");
            return;
        }
        let len = (word & !MORE) as usize;
        let Some(text) = data.get(4..4 + len) else { break };
        limited(out, text, word & MORE != 0, limit);
        data = data.get(4 + len..).unwrap_or(&[]);
        count += 1;
    }
    if blob.truncated {
        out.push_str(if count > 0 { ", ..." } else { "..." });
    }
    out.push(']');
}

/// Appends the elements of an `Iovec` blob. Without `contents` (the call failed) the bases
/// are shown as addresses.
pub fn iovec(out: &mut String, blob: &Blob<'_>, contents: bool, limit: usize) {
    let mut data = blob.data;
    out.push('[');
    let mut count = 0;
    while let (Some(word), Some(base), Some(len)) =
        (u32_at(data, 0), u64_at(data, 8), u64_at(data, 16))
    {
        if count > 0 {
            out.push_str(", ");
        }
        if count == limit {
            out.push_str("...]");
            return;
        }
        let copied = (word & !MORE) as usize;
        let Some(bytes) = data.get(24..24 + copied) else { break };
        out.push_str("{iov_base=");
        if contents && base != 0 && (copied > 0 || word & MORE == 0) {
            limited(out, bytes, word & MORE != 0, limit);
        } else {
            address(out, base);
        }
        put!(out, ", iov_len={len}}}");
        data = data.get(24 + copied..).unwrap_or(&[]);
        count += 1;
    }
    if blob.truncated {
        out.push_str(if count > 0 { ", ..." } else { "..." });
    }
    out.push(']');
}
