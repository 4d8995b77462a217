//! Reads what `crossgate run --stats` writes: whether a program was hooked at all, or only not
//! disturbed.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Each counter by its name.
#[derive(Debug)]
pub struct Stats(BTreeMap<String, u64>);

impl Stats {
    /// Reads a file that `--stats -o` wrote.
    ///
    /// # Errors
    /// When there is none or no counter in it.
    pub fn read(file: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(file).map_err(|error| format!("no counts: {error}"))?;
        let counts = parse(&text);
        if counts.is_empty() { Err(format!("no counts in {text:?}")) } else { Ok(Self(counts)) }
    }

    fn of(&self, name: &str) -> Result<u64, String> {
        self.0.get(name).copied().ok_or_else(|| format!("no counter {name} in {self:?}"))
    }

    /// That at least `execs` programs had the agent in them, and that it came upon calls.
    ///
    /// # Errors
    /// When not, with all counters.
    pub fn prove_hooked(&self, execs: u64) -> Result<(), String> {
        let mut sites = 0;
        for name in ["traps", "patched-mov", "patched-pun", "patched-relocated"] {
            sites += self.of(name)?;
        }
        if self.of("execs")? >= execs && sites > 0 {
            Ok(())
        } else {
            Err(format!("expected {execs} programs or more to be hooked, and calls: {self:?}"))
        }
    }
}

fn parse(text: &str) -> BTreeMap<String, u64> {
    text.lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let count = words.next()?.parse().ok()?;
            Some((words.next()?.to_owned(), count))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_have_names() {
        let text = "\n Counts of crossgate's agents for '3 x':\n\n  \
                    2      execs   # programs\n  0      traps   # calls\n\n";
        let counts = parse(text);
        let names: Vec<_> = counts.iter().map(|(name, n)| (name.as_str(), *n)).collect();
        assert_eq!(names, [("execs", 2), ("traps", 0)]);
    }

    #[test]
    fn no_call_is_no_proof() {
        let names = ["execs", "traps", "patched-mov", "patched-pun", "patched-relocated"];
        let mut stats = Stats(names.map(|name| (name.to_owned(), 0)).into());
        *stats.0.get_mut("execs").unwrap() = 1;
        assert!(stats.prove_hooked(1).is_err());
        *stats.0.get_mut("traps").unwrap() = 1;
        assert!(stats.prove_hooked(1).is_ok());
        assert!(stats.prove_hooked(2).is_err());
    }
}
