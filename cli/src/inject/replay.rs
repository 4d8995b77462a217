//! Reading the log of a run back, so that the same faults meet the same calls again.
//!
//! Owns: the remark at the end of each line, `# TASK CALL NUMBER EFFECT`. Never does: look at
//! the rest of the line, which is for people.

use std::fs;
use std::path::Path;

use crossgate_launch::Error;
use crossgate_launch::wire::Rules;
use crossgate_launch::wire::inject::{Effect, Lineage, MOST_REPEATS, MOST_RULES, Repeat, Rule};
use crossgate_syscalls::x86_64;

use super::{grammar, plain};

/// Reads `log`; what it says becomes `rules`.
pub fn read(log: &Path, rules: &mut Rules) -> Result<(), Error> {
    let shown = log.display();
    let text = fs::read_to_string(log)
        .map_err(|e| Error::own(format!("{shown}: cannot read the log: {}", plain(&e))))?;
    parse(&text, rules).map_err(|what| Error::own(format!("{shown}: {what}")))
}

fn parse(text: &str, rules: &mut Rules) -> Result<(), String> {
    let mut effects: Vec<Effect> = Vec::new();
    let mut repeats = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let Some((_, remark)) = line.rsplit_once("  # ") else { continue };
        let (key, effect) =
            fault(remark).ok_or_else(|| format!("line {}: it ends with no fault", index + 1))?;
        let rule = effects.iter().position(|known| *known == effect).unwrap_or_else(|| {
            effects.push(effect);
            effects.len() - 1
        });
        let (task, nr, occurrence) = key;
        repeats.push(Repeat { task, nr, occurrence, rule: rule as u32, result: 0 });
    }
    if repeats.is_empty() {
        return Err(
            "no fault in it; it is no log of crossgate inject, or nothing was injected".into()
        );
    }
    if repeats.len() > MOST_REPEATS || effects.len() > MOST_RULES {
        return Err(format!(
            "{} faults of {} kinds; {MOST_REPEATS} of {MOST_RULES} kinds can be repeated",
            repeats.len(),
            effects.len()
        ));
    }
    repeats.sort();
    // They only say what is done: none fits a call by itself.
    for (rule, effect) in rules.rules.iter_mut().zip(&effects) {
        *rule = Rule { effect: *effect, ..Rule::NONE };
    }
    rules.count = effects.len() as u32;
    rules.repeats[..repeats.len()].copy_from_slice(&repeats);
    rules.repeat_count = repeats.len() as u32;
    Ok(())
}

/// The task, the call and its number, and what was done.
fn fault(remark: &str) -> Option<((u64, u32, u32), Effect)> {
    let mut words = remark.split(' ');
    let task = Lineage::parse(words.next()?)?;
    let nr = x86_64::by_name(words.next()?)?;
    let occurrence = words.next()?.parse().ok()?;
    let effect = grammar::effect(words.next()?).ok().filter(|effect| effect.what != 0)?;
    words.next().is_none().then_some(((task.hash, nr as u32, occurrence), effect))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inject::no_rules;

    #[test]
    fn a_log_becomes_what_it_says() {
        let log = "# crossgate inject: seed 7\n\
            12 read(0, 0x1, 1) = -1 EIO (Input/output error) (INJECTED)  # 1.2 read 3 error=EIO\n\
            9 read(0, \"  # \", 1) = 1 (DELAYED)  # 1 read 1 delay_enter=5000ns\n\
            9 read(0, 0x1, 1) = -1 EIO (Input/output error) (INJECTED)  # 1 read 2 error=EIO\n";
        let mut rules = no_rules();
        parse(log, &mut rules).unwrap();
        assert_eq!((rules.count, rules.repeat_count), (2, 3));
        assert!(rules.repeats[..3].is_sorted());
        let hash = Lineage::FIRST.child(2).hash;
        let child = rules.repeats[..3].iter().find(|r| r.task == hash).unwrap();
        assert_eq!((child.nr, child.occurrence), (0, 3));
        assert_eq!(rules.rules[child.rule as usize].effect.results[0], -5);
    }

    #[test]
    fn what_is_no_log_is_refused() {
        for (text, what) in [
            ("", "no fault in it"),
            ("hello\n", "no fault in it"),
            ("x = 0  # 1 read x error=EIO\n", "line 1"),
            ("x = 0  # 1 read 1 when=3\n", "line 1"),
        ] {
            let error = parse(text, &mut no_rules()).unwrap_err();
            assert!(error.contains(what), "{text}: {error}");
        }
    }
}
