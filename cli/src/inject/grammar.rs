//! The language of what to inject: strace's `-e inject=SET:error=…:when=…`, and conditions.
//!
//! Owns: reading an expression into a rule, and writing an effect back as it would be asked
//! for. Never does: start anything.

use std::net::{IpAddr, SocketAddr};

use crossgate_decode::{error_name, error_number, signal_name, signal_number};
use crossgate_launch::wire::arena::CALLS;
use crossgate_launch::wire::inject::{
    AF_ANY, AF_INET, AF_INET6, AF_UNIX, ALWAYS, DELAY_ENTER, DELAY_EXIT, Effect, LOG,
    LONGEST_PATTERN, MOST_RESULTS, Peer, RESULT, Rule, SIGNAL,
};
use crossgate_syscalls::x86_64;

use crate::filter;

/// Calls that cannot have another result: they do not return, or not to where they were made.
const WITHOUT_RESULT: [u64; 3] = [x86_64::RT_SIGRETURN, x86_64::EXIT, x86_64::EXIT_GROUP];

/// Reads `inject=SET:…`, `fault=SET:…`, or what stands behind `inject=` alone.
pub fn rule(expression: &str) -> Result<Rule, String> {
    let wrong = |what: String| format!("{expression}: {what}");
    let (set, options) = expression.split_once(':').unwrap_or((expression, ""));
    let (set, fault) = match set.split_once('=') {
        Some(("inject", set)) => (set, false),
        Some(("fault", set)) => (set, true),
        Some((other, _)) => {
            return Err(wrong(format!(
                "the qualifier {other} is not known; use inject=CALLS:… or fault=CALLS:…"
            )));
        }
        None => (set, false),
    };
    let mut rule = Rule::NONE;
    name_calls(&mut rule, set).map_err(wrong)?;
    for option in options_of(options, &[]) {
        let (key, value) = option.split_once('=').unwrap_or((&option, ""));
        set_option(&mut rule, key, value).map_err(wrong)?;
    }
    if rule.effect.what == 0 && fault {
        // As strace does.
        set_option(&mut rule, "error", "ENOSYS").map_err(wrong)?;
    }
    if rule.effect.what == 0 {
        return Err(wrong(
            "it does not say what to inject; add :error=, :retval=, :signal=, :delay_enter= or \
             :delay_exit="
                .into(),
        ));
    }
    only_with_result(&mut rule).map_err(wrong)?;
    Ok(rule)
}

/// Reads a rule of `crossgate deny`: `CALLS:path=…:peer=…`, and `error=…`, `kill`, `log` or `allow`.
pub fn policy(expression: &str) -> Result<Rule, String> {
    let wrong = |what: String| format!("{expression}: {what}");
    let (set, options) = expression.split_once(':').unwrap_or((expression, ""));
    let mut rule = Rule::NONE;
    name_calls(&mut rule, set).map_err(wrong)?;
    let mut said = false;
    for option in options_of(options, &ACTIONS) {
        let (key, value) = option.split_once('=').unwrap_or((&option, ""));
        let is_condition = matches!(key, "path" | "peer");
        if !is_condition && std::mem::replace(&mut said, true) {
            return Err(wrong(format!("{option}: there is an action before; a rule has one")));
        }
        match option.as_str() {
            "allow" => {}
            "log" => rule.effect.what = LOG,
            "kill" => {
                set_option(&mut rule, "error", "EPERM").map_err(wrong)?;
                set_option(&mut rule, "signal", "KILL").map_err(wrong)?;
            }
            _ if is_condition || key == "error" && !value.contains('|') => {
                set_option(&mut rule, key, value).map_err(wrong)?;
            }
            _ => return Err(wrong(format!("{option}: not known; see crossgate deny --help"))),
        }
    }
    if !said {
        set_option(&mut rule, "error", "EPERM").map_err(wrong)?;
    }
    only_with_result(&mut rule).map_err(wrong)?;
    Ok(rule)
}

fn name_calls(rule: &mut Rule, set: &str) -> Result<(), String> {
    let named = filter::calls(set)?;
    for nr in (0..CALLS).filter(|&nr| named[nr]) {
        rule.calls[nr / 64] |= 1 << (nr % 64);
    }
    Ok(())
}

/// Leaves out calls that cannot have the result that the rule gives them.
fn only_with_result(rule: &mut Rule) -> Result<(), String> {
    if rule.effect.what & RESULT == 0 {
        return Ok(());
    }
    for nr in WITHOUT_RESULT {
        rule.calls[nr as usize / 64] &= !(1 << (nr % 64));
    }
    if rule.calls.iter().all(|&bits| bits == 0) {
        return Err("these calls do not return, so they have no result".into());
    }
    Ok(())
}

/// Reads the options of an effect alone, as [`text`] writes them.
pub fn effect(options: &str) -> Result<Effect, String> {
    let mut rule = Rule::NONE;
    for option in options_of(options, &[]) {
        let (key, value) = option.split_once('=').unwrap_or((&option, ""));
        set_option(&mut rule, key, value)?;
    }
    Ok(rule.effect)
}

/// What a rule of a policy does, in one word.
const ACTIONS: [&str; 3] = ["kill", "log", "allow"];

/// The options between colons, of which some are the `words` alone. Paths and addresses may hold
/// colons themselves.
fn options_of(text: &str, words: &[&str]) -> Vec<String> {
    const KEYS: [&str; 9] =
        ["error", "retval", "signal", "delay_enter", "delay_exit", "when", "rate", "path", "peer"];
    let mut options: Vec<String> = Vec::new();
    for part in text.split(':').filter(|_| !text.is_empty()) {
        let known = part.split_once('=').is_some_and(|(key, _)| KEYS.contains(&key));
        let known = known || words.contains(&part);
        match options.last_mut() {
            Some(last) if !known && (last.starts_with("path=") || last.starts_with("peer=")) => {
                last.push(':');
                last.push_str(part);
            }
            _ => options.push(part.to_owned()),
        }
    }
    options
}

fn set_option(rule: &mut Rule, key: &str, value: &str) -> Result<(), String> {
    let effect = &mut rule.effect;
    match key {
        "error" => {
            for name in value.split('|') {
                let number =
                    error_of(name).ok_or_else(|| format!("there is no error named {name}"))?;
                add_result(effect, -i64::from(number))?;
            }
        }
        "retval" => {
            for number in value.split('|') {
                let result = integer(number).filter(|&n| n >= 0);
                let result = result
                    .ok_or_else(|| format!("retval={number}: not a number from 0 upwards"))?;
                add_result(effect, result)?;
            }
        }
        "signal" => {
            effect.signal =
                signal_number(value).ok_or_else(|| format!("there is no signal named {value}"))?;
            effect.what |= SIGNAL;
        }
        "delay_enter" => {
            effect.delay_enter = delay(value)?;
            effect.what |= DELAY_ENTER;
        }
        "delay_exit" => {
            effect.delay_exit = delay(value)?;
            effect.what |= DELAY_EXIT;
        }
        "when" => when(rule, value)?,
        "rate" => rule.rate = rate(value)?,
        "path" => {
            if value.is_empty() || value.len() > LONGEST_PATTERN {
                return Err(format!("path={value}: from 1 to {LONGEST_PATTERN} bytes"));
            }
            if !value.starts_with(['/', '*', '?']) {
                return Err(format!(
                    "path={value}: paths are looked at from the root; begin it with / or *"
                ));
            }
            rule.condition.path[..value.len()].copy_from_slice(value.as_bytes());
            rule.condition.path_len = value.len() as u32;
        }
        "peer" => rule.condition.peer = peer(value)?,
        "syscall" | "poke_enter" | "poke_exit" => {
            return Err(format!("{key}= is not supported; write a hook for that"));
        }
        _ => return Err(format!("{key}: not known; see crossgate inject --help")),
    }
    Ok(())
}

fn add_result(effect: &mut Effect, result: i64) -> Result<(), String> {
    let slot = effect.results.get_mut(effect.result_count as usize);
    *slot.ok_or_else(|| format!("more than {MOST_RESULTS} results to choose from"))? = result;
    effect.result_count += 1;
    effect.what |= RESULT;
    Ok(())
}

fn error_of(name: &str) -> Option<u16> {
    let number = name.parse().ok().filter(|n| (1..4096).contains(n));
    number.or_else(|| error_number(name))
}

/// A number in decimal, or with `0x` in hexadecimal.
fn integer(text: &str) -> Option<i64> {
    match text.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// A delay in microseconds, or with its unit; gives nanoseconds.
fn delay(text: &str) -> Result<u64, String> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let scale: Option<u64> = match unit {
        "s" => Some(1_000_000_000),
        "ms" => Some(1_000_000),
        "" | "us" => Some(1000),
        "ns" => Some(1),
        _ => None,
    };
    let number: Option<u64> = number.parse().ok();
    number
        .zip(scale)
        .and_then(|(number, scale)| number.checked_mul(scale))
        .ok_or_else(|| format!("{text}: not a delay; write a number and s, ms, us or ns"))
}

/// `FIRST`, `FIRST+`, `FIRST+STEP`, `FIRST..LAST`, `FIRST..LAST+STEP`.
fn when(rule: &mut Rule, text: &str) -> Result<(), String> {
    let wrong = || format!("when={text}: write FIRST, FIRST+STEP or FIRST..LAST, counted from 1");
    let number = |text: &str| text.parse::<u32>().ok().filter(|&n| n > 0).ok_or_else(wrong);
    let (range, step) = match text.split_once('+') {
        Some((range, "")) => (range, Some(1)),
        Some((range, step)) => (range, Some(number(step)?)),
        None => (text, None),
    };
    let (first, last) = match range.split_once("..") {
        Some((first, last)) => (number(first)?, Some(number(last)?)),
        None => (number(range)?, None),
    };
    if last.is_some_and(|last| last < first) {
        return Err(wrong());
    }
    rule.first = first;
    rule.last = last.unwrap_or(u32::MAX);
    rule.step = step.unwrap_or(u32::from(last.is_some()));
    Ok(())
}

/// A probability: `0.05` or `5%`.
pub fn rate(text: &str) -> Result<u64, String> {
    let (number, scale) = match text.strip_suffix('%') {
        Some(number) => (number, 100.0),
        None => (text, 1.0),
    };
    let rate = number.parse::<f64>().ok().map(|n| n / scale).filter(|n| (0.0..=1.0).contains(n));
    let rate = rate.ok_or_else(|| format!("{text}: not a rate; write 0.05 or 5%"))?;
    Ok((rate * ALWAYS as f64) as u64)
}

/// `ADDRESS`, `ADDRESS:PORT`, `:PORT`, `[V6]:PORT`, `/a/socket`, `@abstract`.
fn peer(text: &str) -> Result<Peer, String> {
    if text.starts_with(['/', '@']) {
        let mut path = [0; 108];
        let room = path.get_mut(..text.len()).filter(|_| text.len() < 108);
        room.ok_or_else(|| format!("peer={text}: longer than the path of a socket"))?
            .copy_from_slice(text.as_bytes());
        return Ok(Peer { family: AF_UNIX, path, ..Peer::ANY });
    }
    if let Some(port) = text.strip_prefix(':')
        && let Some(port) = port.parse().ok().filter(|&port| port != 0)
    {
        return Ok(Peer { family: AF_ANY, port, ..Peer::ANY });
    }
    let (address, port) = match (text.parse::<SocketAddr>(), text.parse::<IpAddr>()) {
        (Ok(both), _) => (both.ip(), both.port()),
        (_, Ok(address)) => (address, 0),
        _ => {
            return Err(format!(
                "peer={text}: write ADDRESS, ADDRESS:PORT, :PORT, or the path of a socket"
            ));
        }
    };
    let mut bytes = [0; 16];
    let family = match address {
        IpAddr::V4(v4) => {
            bytes[..4].copy_from_slice(&v4.octets());
            AF_INET
        }
        IpAddr::V6(v6) => {
            bytes = v6.octets();
            AF_INET6
        }
    };
    Ok(Peer { family, port, any_address: 0, address: bytes, ..Peer::ANY })
}

/// An effect with the result that was chosen, as options.
pub fn text(effect: &Effect, result: usize) -> String {
    let mut parts = Vec::new();
    if effect.what & RESULT != 0 {
        let result = effect.result(result as u64);
        parts.push(match crossgate_decode::error(result) {
            Some(number) => error_name(number)
                .map_or_else(|| format!("error={number}"), |(name, _)| format!("error={name}")),
            None => format!("retval={result}"),
        });
    }
    if effect.what & SIGNAL != 0 {
        let mut name = String::new();
        signal_name(&mut name, i64::from(effect.signal));
        parts.push(format!("signal={name}"));
    }
    if effect.what & DELAY_ENTER != 0 {
        parts.push(format!("delay_enter={}ns", effect.delay_enter));
    }
    if effect.what & DELAY_EXIT != 0 {
        parts.push(format!("delay_exit={}ns", effect.delay_exit));
    }
    parts.join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn straces_expressions_are_read() {
        let read = rule("inject=read,write:error=EIO:when=2+3").unwrap();
        assert!(read.names(0) && read.names(1) && !read.names(2));
        assert_eq!((read.effect.what, read.effect.results[0]), (RESULT, -5));
        assert_eq!((read.first, read.last, read.step), (2, u32::MAX, 3));
        let fault = rule("fault=openat").unwrap();
        assert_eq!(fault.effect.results[0], -38);
        let range = rule("inject=%file:retval=0:when=3..5").unwrap();
        assert_eq!((range.first, range.last, range.step), (3, 5, 1));
        let once = rule("inject=close:error=9:when=4").unwrap();
        assert_eq!((once.first, once.step), (4, 0));
        let slow = rule("inject=all:delay_enter=5:delay_exit=2ms").unwrap();
        assert_eq!((slow.effect.delay_enter, slow.effect.delay_exit), (5000, 2_000_000));
        let signal = rule("inject=getpid:signal=TERM").unwrap();
        assert_eq!((signal.effect.what, signal.effect.signal), (SIGNAL, 15));
    }

    #[test]
    fn conditions_may_hold_colons() {
        let path = rule("inject=openat:path=/a:b/*:error=EIO").unwrap();
        assert_eq!(path.condition.path(), b"/a:b/*");
        let peer = rule("inject=connect:error=ECONNREFUSED:peer=127.0.0.1:80").unwrap();
        assert_eq!((peer.condition.peer.family, peer.condition.peer.port), (AF_INET, 80));
        let peer = rule("inject=connect:peer=[::1]:80:error=EIO").unwrap().condition.peer;
        assert_eq!((peer.family, peer.port, peer.address[15]), (AF_INET6, 80, 1));
        let peer = rule("inject=connect:peer=:6379:error=EIO").unwrap().condition.peer;
        assert_eq!((peer.family, peer.port), (AF_ANY, 6379));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (expression, what) in [
            ("inject=read", "does not say what to inject"),
            ("inject=raed:error=EIO", "did you mean read"),
            ("inject=read:error=EFOO", "no error named EFOO"),
            ("inject=read:error=EIO:when=0", "counted from 1"),
            ("inject=read:error=EIO:when=5..2", "counted from 1"),
            ("inject=read:delay_enter=5m", "not a delay"),
            ("inject=read:poke_exit=x", "not supported"),
            ("inject=read:error=EIO:colour=red", "colour: not known"),
            ("inject=read:retval=-1", "retval=-1"),
            ("inject=exit_group:error=EIO", "do not return"),
            ("inject=read:error=EIO:rate=2", "not a rate"),
            ("inject=read:error=EIO:path=etc", "from the root"),
            ("inject=read:error=EIO:peer=nobody", "peer=nobody"),
            ("trace=read", "qualifier trace"),
        ] {
            let error = rule(expression).unwrap_err();
            assert!(error.contains(what), "{expression}: {error}");
        }
    }

    #[test]
    fn a_policy_is_read() {
        let denied = policy("openat:path=/etc/").unwrap();
        assert_eq!((denied.effect.what, denied.effect.results[0]), (RESULT, -1));
        assert_eq!(policy("%file:path=/a:b:error=ENOENT").unwrap().effect.results[0], -2);
        assert_eq!(policy("connect:peer=:80:kill").unwrap().effect.what, RESULT | SIGNAL);
        assert_eq!(policy("all:log").unwrap().effect.what, LOG);
        assert_eq!(policy("read:allow").unwrap().effect.what, 0);
        for (expression, what) in [
            ("raed", "did you mean read"),
            ("read:kill:log", "a rule has one"),
            ("read:signal=TERM", "not known"),
            ("read:error=EIO|EPERM", "not known"),
            ("exit_group:kill", "do not return"),
        ] {
            let error = policy(expression).unwrap_err();
            assert!(error.contains(what), "{expression}: {error}");
        }
    }

    #[test]
    fn an_effect_reads_back() {
        for options in [
            "error=EIO",
            "retval=7:signal=SIGTERM",
            "delay_enter=1500ns:delay_exit=1ns",
            "error=4000",
        ] {
            assert_eq!(text(&effect(options).unwrap(), 0), options);
        }
    }
}
