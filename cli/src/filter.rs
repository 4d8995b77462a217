//! The calls a user names with `-e trace=`: names, `%classes`, `all`, `none`, `!` for the
//! rest, as in strace(1).

use crossgate_launch::Error;
use crossgate_launch::wire::arena::CALLS;
use crossgate_syscalls::{Classes, x86_64};

/// Which calls are shown.
pub type Set = Box<[bool; CALLS]>;

/// Every call.
pub fn all() -> Set {
    Box::new([true; CALLS])
}

/// Reads `trace=…`, `t=…`, or the part behind it alone.
pub fn parse(expression: &str) -> Result<Set, Error> {
    let list = match expression.split_once('=') {
        Some(("trace" | "t", list)) => list,
        Some((other, _)) => {
            return Err(Error::own(format!(
                "-e {expression}: the qualifier {other} is not known; use -e trace=CALLS"
            )));
        }
        None => expression,
    };
    calls(list).map_err(|what| Error::own(format!("-e {expression}: {what}")))
}

/// Reads the list alone; what is wrong with it is said without the expression.
pub fn calls(list: &str) -> Result<Set, String> {
    let (negate, list) = match list.strip_prefix('!') {
        Some(rest) => (true, rest),
        None => (false, list),
    };
    let mut set = Box::new([false; CALLS]);
    for word in list.split(',') {
        add(&mut set, word.trim())?;
    }
    if negate {
        set.iter_mut().for_each(|shown| *shown = !*shown);
    }
    Ok(set)
}

fn add(set: &mut [bool; CALLS], word: &str) -> Result<(), String> {
    match word {
        "all" => set.fill(true),
        "none" => {}
        _ => {
            // A question mark excuses a name that does not exist.
            let (word, excused) = match word.strip_prefix('?') {
                Some(rest) => (rest, true),
                None => (word, false),
            };
            if let Some(class) = word.strip_prefix('%').and_then(Classes::by_name) {
                for (nr, shown) in set.iter_mut().enumerate() {
                    let call = x86_64::lookup(nr as u64);
                    *shown |= call.is_some_and(|call| call.classes.has_any(class));
                }
            } else if let Some(nr) = x86_64::by_name(word) {
                set[nr as usize] = true;
            } else if !excused {
                return Err(format!("there is no call named {word}{}", nearest(word)));
            }
        }
    }
    Ok(())
}

fn nearest(word: &str) -> String {
    let calls = (0..CALLS as u64).filter_map(x86_64::lookup).map(|c| c.name.to_owned());
    let classes = Classes::NAMES.iter().map(|(name, _)| format!("%{name}"));
    calls
        .chain(classes)
        .map(|name| (strsim::osa_distance(word, &name), name))
        .min()
        .map(|(_, name)| format!("; did you mean {name}?"))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_classes_and_negation_select_calls() {
        let set = parse("trace=read,write").unwrap();
        assert!(set[0] && set[1] && !set[2]);
        let files = parse("%file").unwrap();
        assert!(files[2] && files[257] && !files[0]);
        let rest = parse("trace=!read").unwrap();
        assert!(!rest[0] && rest[1] && rest[CALLS - 1]);
        assert!(parse("none").unwrap().iter().all(|shown| !shown));
        assert!(parse("?nosuchcall").is_ok());
    }

    #[test]
    fn a_misspelt_name_is_answered_with_the_nearest() {
        let error = parse("trace=opennat").unwrap_err();
        assert!(error.message.ends_with("there is no call named opennat; did you mean openat?"));
        assert!(parse("inject=read").is_err());
    }
}
