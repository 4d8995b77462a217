//! Times: `timespec`, `timeval`, interval timers, and dates.
//!
//! Owns: their layouts (`linux/time_types.h`, `linux/time.h`) and the calendar. Never does:
//! know a time zone; dates are UTC. Where the data goes next: the argument printers.

use crate::bytes::{i64_at, u64_at};
use crate::put;

/// `{tv_sec=1, tv_nsec=2}`; the fraction's name is given.
fn pair(out: &mut String, bytes: &[u8], at: usize, fraction: &str) -> Option<()> {
    let (seconds, part) = (i64_at(bytes, at)?, u64_at(bytes, at + 8)?);
    put!(out, "{{tv_sec={seconds}, {fraction}={part}}}");
    Some(())
}

/// A `struct timespec`.
pub fn timespec(out: &mut String, bytes: &[u8]) -> Option<()> {
    pair(out, bytes, 0, "tv_nsec")
}

/// A `struct timeval`.
pub fn timeval(out: &mut String, bytes: &[u8]) -> Option<()> {
    pair(out, bytes, 0, "tv_usec")
}

/// Two pairs: interval and value.
fn interval(out: &mut String, bytes: &[u8], fraction: &str) -> Option<()> {
    out.push_str("{it_interval=");
    pair(out, bytes, 0, fraction)?;
    out.push_str(", it_value=");
    pair(out, bytes, 16, fraction)?;
    out.push('}');
    Some(())
}

/// A `struct itimerspec`.
pub fn itimerspec(out: &mut String, bytes: &[u8]) -> Option<()> {
    interval(out, bytes, "tv_nsec")
}

/// A `struct itimerval`.
pub fn itimerval(out: &mut String, bytes: &[u8]) -> Option<()> {
    interval(out, bytes, "tv_usec")
}

/// A `struct timezone`.
pub fn timezone(out: &mut String, bytes: &[u8]) -> Option<()> {
    let (west, dst) = (crate::bytes::i32_at(bytes, 0)?, crate::bytes::i32_at(bytes, 4)?);
    put!(out, "{{tz_minuteswest={west}, tz_dsttime={dst}}}");
    Some(())
}

/// A `struct timespec` that becomes a file's time, with its date.
pub fn file_timespec(out: &mut String, bytes: &[u8]) -> Option<()> {
    match i64_at(bytes, 8)? {
        libc::UTIME_NOW => out.push_str("UTIME_NOW"),
        libc::UTIME_OMIT => out.push_str("UTIME_OMIT"),
        nanoseconds => {
            timespec(out, bytes)?;
            out.push_str(" /* ");
            date(out, i64_at(bytes, 0)?, Some((nanoseconds, 9)));
            out.push_str(" */");
        }
    }
    Some(())
}

/// A `struct timeval` that becomes a file's time, with its date.
pub fn file_timeval(out: &mut String, bytes: &[u8]) -> Option<()> {
    timeval(out, bytes)?;
    out.push_str(" /* ");
    date(out, i64_at(bytes, 0)?, Some((i64_at(bytes, 8)?, 6)));
    out.push_str(" */");
    Some(())
}

/// `1970-01-01T00:00:01.5+0000`, the fraction as a number and its digits (left out when
/// zero or out of range).
pub fn date(out: &mut String, seconds: i64, fraction: Option<(i64, usize)>) {
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Years are counted from 1 March of year 0, so that a leap day is the last of its year;
    // 146097 days make 400 years.
    let shifted = i128::from(days) + 719_468;
    let era = shifted.div_euclid(146_097);
    let day = shifted.rem_euclid(146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + i128::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    put!(out, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}");
    if let Some((part, digits)) = fraction
        && part > 0
        && part.to_string().len() <= digits
    {
        put!(out, ".{part:0digits$}");
    }
    out.push_str("+0000");
}
