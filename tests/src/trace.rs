//! Counts system calls in strace's format, which `crossgate trace` writes too.
//!
//! A call that was interrupted in the output (`<unfinished ...>`, then `resumed>`) counts once,
//! where it starts. One that a signal overtook (`<cancelled ...>`) begins again and counts then.

use std::collections::BTreeMap;

/// How often each call was made.
pub type Counts = BTreeMap<String, u64>;

/// Counts the calls of a trace whose lines start with a process id.
#[must_use]
pub fn count(text: &str) -> Counts {
    let mut counts = Counts::new();
    for line in text.lines() {
        if let Some(name) = call_name(line) {
            *counts.entry(name.to_owned()).or_default() += 1;
        }
    }
    counts
}

fn call_name(line: &str) -> Option<&str> {
    let line = line.trim_start();
    if line.ends_with("<cancelled ...>") {
        return None;
    }
    let rest = line.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start();
    let name = &rest[..rest.find('(')?];
    let valid = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    (!name.is_empty() && name.chars().all(valid)).then_some(name)
}

/// The calls whose counts differ: name, expected, got.
#[must_use]
pub fn differences(want: &Counts, got: &Counts, noise: &[String]) -> Vec<(String, u64, u64)> {
    let mut names: Vec<&String> = want.keys().chain(got.keys()).collect();
    names.sort();
    names.dedup();
    names
        .into_iter()
        .filter(|name| !noise.contains(name))
        .map(|name| {
            let of = |counts: &Counts| counts.get(name).copied().unwrap_or_default();
            (name.clone(), of(want), of(got))
        })
        .filter(|(_, want, got)| want != got)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unfinished_calls_count_once() {
        let counts = count(
            "12 execve(\"/bin/x\", [\"x\"], 0x7ffc /* 3 vars */) = 0\n\
             12 read(0,  <unfinished ...>\n\
             13 write(1, \"a(b\", 3 <cancelled ...>\n\
             13 write(1, \"a(b\", 3) = 3\n\
             12 <... read resumed>\"\", 1) = 0\n\
             12 --- SIGCHLD {si_signo=SIGCHLD} ---\n\
             12 pread64(3, \"\", 1, 0) = 0\n\
             12 exit_group(0) = ?\n\
             12 +++ exited with 0 +++\n",
        );
        let names: Vec<_> = counts.iter().map(|(name, n)| (name.as_str(), *n)).collect();
        let want = [("execve", 1), ("exit_group", 1), ("pread64", 1), ("read", 1), ("write", 1)];
        assert_eq!(names, want);
    }

    #[test]
    fn noise_is_left_out() {
        let (a, b) = (count("1 read(0) = 0\n1 futex(0) = 0\n"), count("1 read(0) = 0\n"));
        assert!(differences(&a, &b, &["futex".into()]).is_empty());
        assert_eq!(differences(&a, &b, &[]), [("futex".into(), 1, 0)]);
    }
}
