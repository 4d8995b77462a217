//! What is to be injected into calls: the rules that the command line makes and the agents
//! follow, and the names of tasks by which a run can be repeated.
//!
//! Owns: the layout of the rules, matching text with a pattern, and the parts of a decision
//! that both sides must take alike. Never does: look at a program. Where the data goes next:
//! `agent/src/inject.rs`.

use core::sync::atomic::AtomicI32;

use crate::arena::CALLS;

/// Bytes of the arena for [`Rules`].
pub const RULES_SIZE: usize = 640 << 10;
/// Most rules.
pub const MOST_RULES: usize = 64;
/// Most faults that can be repeated.
pub const MOST_REPEATS: usize = 12 << 10;
/// Most results that one rule chooses from.
pub const MOST_RESULTS: usize = 8;
/// Longest pattern of a path.
pub const LONGEST_PATTERN: usize = 256;
/// Calls with a number from here on are counted together.
pub const COUNTED: usize = 512;
/// Tasks that can be executing a program at a time and keep their counts.
pub const MOST_CARRIED: usize = 32;

/// A [`Rule::rate`] that always decides for it.
pub const ALWAYS: u64 = 1 << 32;

/// The call is not made and the program gets one of [`Effect::results`].
pub const RESULT: u32 = 1;
/// [`Effect::signal`] is sent to the task.
pub const SIGNAL: u32 = 2;
/// The task sleeps before the call.
pub const DELAY_ENTER: u32 = 4;
/// The task sleeps after the call.
pub const DELAY_EXIT: u32 = 8;

/// The call is told of, and nothing else is done; with none of these it is not even that.
pub const LOG: u32 = 16;

/// Everything the agents need to know, in the arena.
#[repr(C)]
pub struct Rules {
    /// How many of `rules` are in use.
    pub count: u32,
    /// How many of `repeats` are in use.
    pub repeat_count: u32,
    /// What random decisions depend on.
    pub seed: u64,
    /// The first one that fits a call is taken.
    pub rules: [Rule; MOST_RULES],
    /// Where arguments are that conditions look at, by call number.
    pub operands: [Operands; COUNTED],
    /// Faults of an earlier run, in the order of [`Repeat`].
    pub repeats: [Repeat; MOST_REPEATS],
    /// What tasks that are executing a program take with them.
    pub carried: [Carried; MOST_CARRIED],
}

const _: () = assert!(size_of::<Rules>() <= RULES_SIZE);

/// When something is injected, and what.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// A bit for each call number.
    pub calls: [u64; CALLS / 64],
    /// A [`Condition`].
    pub condition: Condition,
    /// Of the calls of a task that fit so far: the first that is meant, counted from one.
    pub first: u32,
    /// The last.
    pub last: u32,
    /// And from the first on, each so many; zero for the first alone.
    pub step: u32,
    /// How many of 2^32 of these it is done to.
    pub rate: u64,
    /// What is done.
    pub effect: Effect,
}

/// What else must hold of a call.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Length of `path`; zero for no condition.
    pub path_len: u32,
    /// A [`Peer::family`]; zero for no condition.
    pub peer: Peer,
    /// Pattern of a path that the call names, or that one of its descriptors has.
    pub path: [u8; LONGEST_PATTERN],
}

impl Condition {
    /// Holds of every call.
    pub const NONE: Self = Self { path_len: 0, peer: Peer::ANY, path: [0; LONGEST_PATTERN] };

    /// Whether it holds of every call.
    pub fn is_none(&self) -> bool {
        self.path_len == 0 && self.peer.family == 0
    }

    /// The pattern.
    pub fn path(&self) -> &[u8] {
        &self.path[..(self.path_len as usize).min(LONGEST_PATTERN)]
    }
}

/// The other side of a socket.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// [`AF_UNIX`], [`AF_INET`], [`AF_INET6`], [`AF_ANY`] (a port alone), or zero.
    pub family: u16,
    /// Zero for any.
    pub port: u16,
    /// Whether `address` is any.
    pub any_address: u32,
    /// An address of the internet, four or sixteen bytes in network order.
    pub address: [u8; 16],
    /// A path (or an abstract name, which starts with `@`), up to a NUL.
    pub path: [u8; 108],
    /// Zero.
    pub pad: u32,
}

/// A port of either kind of internet address.
pub const AF_ANY: u16 = u16::MAX;
/// `AF_UNIX`.
pub const AF_UNIX: u16 = 1;
/// `AF_INET`.
pub const AF_INET: u16 = 2;
/// `AF_INET6`.
pub const AF_INET6: u16 = 10;

impl Peer {
    /// No condition.
    pub const ANY: Self =
        Self { family: 0, port: 0, any_address: 1, address: [0; 16], path: [0; 108], pad: 0 };

    /// Whether the `struct sockaddr` in `bytes` is it.
    pub fn is(&self, bytes: &[u8]) -> bool {
        let [low, high, rest @ ..] = bytes else { return false };
        let family = u16::from_ne_bytes([*low, *high]);
        match family {
            AF_INET | AF_INET6 => {
                let (at, len) = if family == AF_INET { (2, 4) } else { (6, 16) };
                let ([a, b, ..], Some(address)) = (rest, rest.get(at..at + len)) else {
                    return false;
                };
                (self.family == family || self.family == AF_ANY)
                    && (self.port == 0 || self.port == u16::from_be_bytes([*a, *b]))
                    && (self.any_address != 0 || self.address[..len] == *address)
            }
            AF_UNIX => {
                let wanted = until_nul(&self.path);
                self.family == AF_UNIX
                    && match (rest, wanted) {
                        ([0, name @ ..], [b'@', wanted @ ..]) => until_nul(name) == wanted,
                        _ => until_nul(rest) == wanted,
                    }
            }
            _ => false,
        }
    }
}

fn until_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|&byte| byte == 0).next().unwrap_or_default()
}

/// What is done to a call.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effect {
    /// [`RESULT`], [`SIGNAL`], [`DELAY_ENTER`], [`DELAY_EXIT`], [`LOG`].
    pub what: u32,
    /// A signal's number.
    pub signal: u32,
    /// Nanoseconds.
    pub delay_enter: u64,
    /// Nanoseconds.
    pub delay_exit: u64,
    /// How many of `results` there are to choose from.
    pub result_count: u32,
    /// Zero.
    pub pad: u32,
    /// Values, or `-errno`.
    pub results: [i64; MOST_RESULTS],
}

impl Effect {
    /// Nothing.
    pub const NONE: Self = Self {
        what: 0,
        signal: 0,
        delay_enter: 0,
        delay_exit: 0,
        result_count: 0,
        pad: 0,
        results: [0; MOST_RESULTS],
    };

    /// The result that the random number `dice` chooses.
    pub fn result(&self, dice: u64) -> i64 {
        let count = (self.result_count as usize).clamp(1, MOST_RESULTS);
        self.results[dice as usize % count]
    }
}

impl Rule {
    /// Fits no call.
    pub const NONE: Self = Self {
        calls: [0; CALLS / 64],
        condition: Condition::NONE,
        first: 1,
        last: u32::MAX,
        step: 1,
        rate: ALWAYS,
        effect: Effect::NONE,
    };

    /// Whether call `nr` is among those that are meant.
    pub fn names(&self, nr: usize) -> bool {
        self.calls.get(nr / 64).is_some_and(|bits| bits & 1 << (nr % 64) != 0)
    }

    /// Whether the `n`th call that fits is meant, counted from one.
    pub fn when(&self, n: u32) -> bool {
        let Some(after) = n.checked_sub(self.first) else { return false };
        n <= self.last && after.checked_rem(self.step).unwrap_or(after) == 0
    }
}

/// Which arguments of a call conditions look at: an index plus one, zero for none.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Operands {
    /// Of paths.
    pub paths: [u8; 2],
    /// Of the descriptors of the folders from which they start.
    pub folders: [u8; 2],
    /// Of a descriptor.
    pub descriptor: u8,
    /// Of a socket address.
    pub address: u8,
    /// Of its length.
    pub address_len: u8,
    /// Zero.
    pub pad: u8,
}

/// One fault of an earlier run.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Repeat {
    /// [`Lineage::hash`] of its task.
    pub task: u64,
    /// Call number.
    pub nr: u32,
    /// Of the calls with this number that the task made, counted from one.
    pub occurrence: u32,
    /// Index of the rule that says what was done.
    pub rule: u32,
    /// Which of its results it was.
    pub result: u32,
}

/// The place of a task in its tree: `1` is the first one, `1.3` the third task that it made.
/// The same in every run of a program that makes its tasks in the same order.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lineage {
    /// What stands for it in decisions.
    pub hash: u64,
    /// How much of `text` is used.
    pub len: u32,
    /// Zero.
    pub pad: u32,
    /// As it is written; `~` and the hash in hexadecimal where it is too long.
    pub text: [u8; 64],
}

impl Lineage {
    /// The first task.
    pub const FIRST: Self = {
        let mut text = [0; 64];
        text[0] = b'1';
        Self { hash: mix(1), len: 1, pad: 0, text }
    };

    /// The `n`th task that this one makes, counted from one.
    pub fn child(&self, n: u32) -> Self {
        let mut child = *self;
        child.hash = mix(self.hash ^ u64::from(n));
        let mut digits = [0; 10];
        let mut at = digits.len();
        let mut left = n;
        loop {
            at -= 1;
            digits[at] = b'0' + (left % 10) as u8;
            left /= 10;
            if left == 0 {
                break;
            }
        }
        let digits = &digits[at..];
        let from = self.len as usize;
        let to = from + 1 + digits.len();
        if self.text[0] != b'~' && to <= child.text.len() {
            child.text[from] = b'.';
            child.text[from + 1..to].copy_from_slice(digits);
            child.len = to as u32;
        } else {
            child.text[0] = b'~';
            for (i, digit) in child.text[1..17].iter_mut().enumerate() {
                *digit = b"0123456789abcdef"[(child.hash >> (60 - 4 * i)) as usize & 15];
            }
            child.len = 17;
        }
        child
    }

    /// Reads what [`Self::text`] says.
    pub fn parse(text: &str) -> Option<Self> {
        if let Some(hash) = text.strip_prefix('~') {
            let mut lineage = Self::FIRST;
            lineage.hash = u64::from_str_radix(hash, 16).ok()?;
            lineage.text[..text.len()].copy_from_slice(text.as_bytes());
            lineage.len = text.len() as u32;
            return (text.len() == 17).then_some(lineage);
        }
        let mut parts = text.split('.');
        if parts.next() != Some("1") {
            return None;
        }
        parts.try_fold(Self::FIRST, |task, n| Some(task.child(n.parse().ok()?)))
    }

    /// As it is written.
    pub fn text(&self) -> &[u8] {
        &self.text[..(self.len as usize).min(self.text.len())]
    }
}

/// What a task remembers of its calls.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Counts {
    /// Which task it is.
    pub lineage: Lineage,
    /// How many tasks it has made.
    pub children: u32,
    /// Zero.
    pub pad: u32,
    /// Calls made, by number.
    pub calls: [u32; COUNTED],
    /// Calls that fitted, by rule.
    pub fitted: [u32; MOST_RULES],
}

impl Counts {
    /// Of a task that has made no call.
    pub const fn new(lineage: Lineage) -> Self {
        Self { lineage, children: 0, pad: 0, calls: [0; COUNTED], fitted: [0; MOST_RULES] }
    }
}

/// The counts of a task that is executing a program, for the agent in the new program.
#[repr(C)]
pub struct Carried {
    /// The process as the supervisor sees it; zero when free, negative while it is written.
    pub pid: AtomicI32,
    /// Zero.
    pub pad: u32,
    /// What it takes along.
    pub counts: core::cell::UnsafeCell<Counts>,
}

// SAFETY: whoever has put its mark into `pid` is the only one to touch the counts.
unsafe impl Sync for Carried {}

/// A number that looks random and depends on `value` alone (the finalizer of SplitMix64,
/// Steele et al., OOPSLA 2014).
pub const fn mix(value: u64) -> u64 {
    let a = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let b = (a ^ a >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let c = (b ^ b >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    c ^ c >> 31
}

/// The random number of a decision: the same in every run with the same seed.
pub fn dice(seed: u64, task: u64, nr: u32, occurrence: u32, rule: u32) -> u64 {
    mix(seed ^ mix(task ^ mix(u64::from(nr) << 32 | u64::from(occurrence)) ^ u64::from(rule)))
}

/// Whether `text` fits `pattern`, in which `*` stands for any bytes and `?` for one; a
/// pattern that ends with `/` also fits everything below.
pub fn fits(pattern: &[u8], text: &[u8]) -> bool {
    if let [folder @ .., b'/'] = pattern
        && (0..=text.len())
            .filter(|&end| text.get(end).is_none_or(|&byte| byte == b'/'))
            .any(|end| fits_whole(folder, &text[..end]))
    {
        return true;
    }
    fits_whole(pattern, text)
}

fn fits_whole(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // Where the last star was, and how far the text was then.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(&byte) if byte == b'?' || byte == text[t] => {
                p += 1;
                t += 1;
            }
            _ => {
                let Some((at, from)) = star else { return false };
                star = Some((at, from + 1));
                p = at + 1;
                t = from + 1;
            }
        }
    }
    pattern[p..].iter().all(|&byte| byte == b'*')
}

/// Takes `//`, `.` and `..` out of an absolute path, in place, as far as the text alone tells;
/// gives its new length.
pub fn normalise(path: &mut [u8]) -> usize {
    let (mut from, mut len) = (0, 0);
    while from < path.len() {
        let end = path[from..].iter().position(|&b| b == b'/').map_or(path.len(), |at| from + at);
        match &path[from..end] {
            b"" | b"." => {}
            b".." => len = path[..len].iter().rposition(|&b| b == b'/').unwrap_or(0),
            _ => {
                path.copy_within(from..end, len + 1);
                path[len] = b'/';
                len += 1 + end - from;
            }
        }
        from = end + 1;
    }
    if len == 0 && !path.is_empty() {
        path[0] = b'/';
        len = 1;
    }
    len
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_whole_texts_and_what_lies_below_folders() {
        for (pattern, text, fit) in [
            ("/etc/passwd", "/etc/passwd", true),
            ("/etc/passwd", "/etc/passwd2", false),
            ("/etc/*", "/etc/ssl/certs", true),
            ("*.conf", "/etc/a.conf", true),
            ("*.conf", "/etc/a.config", false),
            ("/a/?/c", "/a/b/c", true),
            ("/tmp/", "/tmp", true),
            ("/tmp/", "/tmp/a/b", true),
            ("/tmp/", "/tmpfile", false),
            ("/*/lib/", "/usr/lib/x", true),
            ("", "", true),
            ("*", "", true),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
        ] {
            assert_eq!(fits(pattern.as_bytes(), text.as_bytes()), fit, "{pattern} {text}");
        }
    }

    #[test]
    fn a_path_is_normalised_by_its_text() {
        for (path, want) in [
            ("/etc/passwd", "/etc/passwd"),
            ("/etc//./ssl/../passwd", "/etc/passwd"),
            ("/../..", "/"),
            ("/", "/"),
            ("//a/", "/a"),
            ("", ""),
        ] {
            let mut bytes = [0; 32];
            bytes[..path.len()].copy_from_slice(path.as_bytes());
            let len = normalise(&mut bytes[..path.len()]);
            assert_eq!(&bytes[..len], want.as_bytes(), "{path}");
        }
    }

    #[test]
    fn a_lineage_reads_back() {
        let task = Lineage::FIRST.child(2).child(13);
        assert_eq!(task.text(), b"1.2.13");
        assert_eq!(Lineage::parse("1.2.13"), Some(task));
        let mut deep = Lineage::FIRST;
        for _ in 0..40 {
            deep = deep.child(7);
        }
        assert_eq!(deep.text()[0], b'~');
        let text = core::str::from_utf8(deep.text()).unwrap();
        assert_eq!(Lineage::parse(text).unwrap().hash, deep.hash);
        for bad in ["", "2", "1.", "1.x", "~12"] {
            assert_eq!(Lineage::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn when_counts_from_the_first() {
        let rule = Rule { first: 3, last: 9, step: 2, ..Rule::NONE };
        let met: [bool; 10] = core::array::from_fn(|n| rule.when(n as u32 + 1));
        assert_eq!(met.map(u8::from), [0, 0, 1, 0, 1, 0, 1, 0, 1, 0]);
        let once = Rule { first: 2, last: u32::MAX, step: 0, ..Rule::NONE };
        assert!(!once.when(1) && once.when(2) && !once.when(3));
    }

    #[test]
    fn a_peer_is_recognised_by_what_is_said_of_it() {
        let here = [2, 0, 0x18, 0xeb, 127, 0, 0, 1];
        let port = Peer { family: AF_ANY, port: 6379, ..Peer::ANY };
        assert!(port.is(&here));
        assert!(!Peer { port: 80, ..port }.is(&here));
        let mut address = [0; 16];
        address[..4].copy_from_slice(&[127, 0, 0, 1]);
        let host = Peer { family: AF_INET, any_address: 0, address, ..Peer::ANY };
        assert!(host.is(&here));
        assert!(!host.is(&[2, 0, 0x18, 0xeb, 127, 0, 0, 2]));
        assert!(!host.is(&[2, 0, 0x18]));
        let mut path = [0; 108];
        path[..4].copy_from_slice(b"/a/b");
        let socket = Peer { family: AF_UNIX, path, ..Peer::ANY };
        assert!(socket.is(b"\x01\0/a/b\0"));
        assert!(!socket.is(b"\x01\0/a/bc"));
        path[..4].copy_from_slice(b"@x\0\0");
        assert!(Peer { path, ..socket }.is(b"\x01\0\0x"));
    }
}
