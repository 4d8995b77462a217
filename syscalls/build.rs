//! Reads `table.txt` and generates the Rust of this crate from it: the sets, types,
//! behaviour and class words, the calls of each architecture, and the flat plans that the
//! agent links.
//!
//! Owns: the grammar of the table. A word or a number it does not understand ends the build
//! with the line that holds it. Never does: guess. Where the data goes next: the generated
//! file is included by `src/lib.rs`.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::{env, fs, process};

/// An error and the line of the table that it is about.
type Result<T> = std::result::Result<T, String>;

const ARCHES: [&str; 2] = ["x86_64", "aarch64"];

/// A declared word: its line says what it means.
struct Word {
    name: String,
    doc: String,
}

/// How the agent copies what a pointer of this type points to.
#[derive(Clone, Copy, PartialEq)]
enum Copying {
    Plain,
    Vector,
    Message,
    Messages,
    Masked,
    Entries,
}

struct Type {
    name: String,
    /// Bytes of one element, by architecture.
    size: [u16; 2],
    copying: Copying,
    doc: String,
}

#[derive(Clone, Copy, PartialEq)]
enum Direction {
    In,
    Out,
    InOut,
    Late,
}

#[derive(Clone, Copy)]
enum Extent {
    One,
    Count(u16),
    Arg(usize),
    Pointee(usize),
    Result,
    Bits(usize),
    Pages(usize),
    Fcntl(usize),
}

enum Kind {
    /// A kind without parameters: the variant's name in Rust.
    Plain(&'static str),
    /// `Enum`, `Flags` or `Flags64` and the index of the set.
    Set(&'static str, usize),
    Data {
        direction: Direction,
        of: usize,
        extent: Extent,
    },
}

struct Call {
    name: String,
    numbers: [Option<usize>; 2],
    result: &'static str,
    behaviour: u32,
    classes: u32,
    args: Vec<(String, Kind)>,
}

#[derive(Default)]
struct Table {
    behaviours: Vec<Word>,
    classes: Vec<Word>,
    sets: Vec<Word>,
    types: Vec<Type>,
    calls: Vec<Call>,
}

const RESULTS: [(&str, &str); 14] = [
    ("int", "Int"),
    ("uint", "Uint"),
    ("long", "Long"),
    ("size", "Size"),
    ("offset", "Offset"),
    ("hex", "Hex"),
    ("address", "Address"),
    ("mode", "Mode"),
    ("fd", "Fd"),
    ("pid", "Pid"),
    ("uid", "Uid"),
    ("personality", "Personality"),
    ("sched_policy", "SchedPolicy"),
    ("none", "None"),
];

const KINDS: [(&str, &str); 22] = [
    ("int", "Int"),
    ("uint", "Uint"),
    ("long", "Long"),
    ("ulong", "Ulong"),
    ("size", "Size"),
    ("offset", "Offset"),
    ("hex", "Hex"),
    ("hex64", "Hex64"),
    ("address", "Address"),
    ("fd", "Fd"),
    ("dirfd", "DirFd"),
    ("pid", "Pid"),
    ("uid", "Uid"),
    ("mode", "Mode"),
    ("file_mode", "FileMode"),
    ("signal", "Signal"),
    ("device", "Device"),
    ("key", "Key"),
    ("path", "Path"),
    ("string", "Str"),
    ("strings", "Strings"),
    ("string_count", "StringCount"),
];

fn known(list: &[(&str, &'static str)], word: &str) -> Option<&'static str> {
    list.iter().find(|(name, _)| *name == word).map(|(_, rust)| *rust)
}

fn camel(word: &str) -> String {
    word.split('_')
        .map(|part| {
            let mut chars = part.chars();
            chars
                .next()
                .map(|c| c.to_ascii_uppercase())
                .into_iter()
                .chain(chars)
                .collect::<String>()
        })
        .collect()
}

/// Takes the first word off `line`.
fn take<'a>(line: &mut &'a str, what: &str) -> Result<&'a str> {
    let text = line.trim_start();
    let end = text.find(' ').unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    *line = rest;
    if word.is_empty() { Err(format!("{what} is missing")) } else { Ok(word) }
}

/// `head(inner)` as its two parts.
fn parameter(text: &str) -> Option<(&str, &str)> {
    let (head, rest) = text.split_once('(')?;
    Some((head, rest.strip_suffix(')')?))
}

fn position(words: &[Word], name: &str, what: &str) -> Result<usize> {
    words.iter().position(|w| w.name == name).ok_or_else(|| format!("unknown {what} `{name}`"))
}

fn number(text: &str) -> Result<u16> {
    text.parse().map_err(|_| format!("`{text}` is no number"))
}

impl Table {
    fn line(&mut self, mut line: &str) -> Result<()> {
        let first = take(&mut line, "a word")?;
        match first {
            "behaviour" | "class" | "set" => {
                let name = take(&mut line, "the word")?.to_string();
                let doc = line.trim().to_string();
                let list = match first {
                    "behaviour" => &mut self.behaviours,
                    "class" => &mut self.classes,
                    _ => &mut self.sets,
                };
                if doc.is_empty() || list.iter().any(|w| w.name == name) {
                    return Err(format!("`{name}` has no meaning or two"));
                }
                list.push(Word { name, doc });
            }
            "type" => {
                let name = take(&mut line, "the type")?.to_string();
                let size = [
                    number(take(&mut line, "the x86_64 size")?)?,
                    number(take(&mut line, "the aarch64 size")?)?,
                ];
                let copying = match take(&mut line, "how it is copied")? {
                    "plain" => Copying::Plain,
                    "vector" => Copying::Vector,
                    "message" => Copying::Message,
                    "messages" => Copying::Messages,
                    "masked" => Copying::Masked,
                    "entries" => Copying::Entries,
                    word => return Err(format!("unknown way to copy `{word}`")),
                };
                let doc = line.trim().to_string();
                if doc.is_empty() || self.types.iter().any(|t| t.name == name) {
                    return Err(format!("`{name}` has no meaning or two"));
                }
                self.types.push(Type { name, size, copying, doc });
            }
            name => {
                let call = self.call(name, line)?;
                self.calls.push(call);
            }
        }
        Ok(())
    }

    fn call(&self, name: &str, mut line: &str) -> Result<Call> {
        let mut numbers = [None; 2];
        for (slot, arch) in numbers.iter_mut().zip(ARCHES) {
            let word = take(&mut line, arch)?;
            if word != "-" {
                *slot = Some(usize::from(number(word)?));
            }
        }
        let word = take(&mut line, "the result")?;
        let result = known(&RESULTS, word).ok_or_else(|| format!("unknown result `{word}`"))?;
        let behaviour_words = take(&mut line, "the behaviour")?;
        let class_words = take(&mut line, "the classes")?;

        let mut parts = Vec::new();
        for arg in line.split_whitespace() {
            let part = arg.split_once(':').ok_or_else(|| format!("`{arg}` is not name:kind"))?;
            if parts.iter().any(|(other, _)| *other == part.0) {
                return Err(format!("two arguments `{}`", part.0));
            }
            parts.push(part);
        }
        if parts.len() > 6 {
            return Err("more than six arguments".to_string());
        }
        let names: Vec<&str> = parts.iter().map(|(name, _)| *name).collect();
        let args: Vec<(String, Kind)> = parts
            .iter()
            .map(|(name, kind)| Ok(((*name).to_string(), self.kind(kind, &names)?)))
            .collect::<Result<_>>()?;

        let mut behaviour = 0;
        for word in behaviour_words.split(',').filter(|word| *word != "-") {
            let name = match parameter(word) {
                Some((name, arg)) => {
                    if behaviour >> 28 != 0 {
                        return Err("two behaviour words are about an argument".to_string());
                    }
                    // Argument 0 is stored as 1, so that none is 0.
                    behaviour |= (argument(&names, arg)? as u32 + 1) << 28;
                    name
                }
                None => word,
            };
            behaviour |= 1 << position(&self.behaviours, name, "behaviour")?;
        }

        let mut classes = 0;
        for word in class_words.split(',').filter(|word| *word != "-") {
            classes |= 1 << position(&self.classes, word, "class")?;
        }
        if args.iter().any(|(_, kind)| matches!(kind, Kind::Plain("Path"))) {
            classes |= 1 << position(&self.classes, "file", "class")?;
        }
        let network = 1 << position(&self.classes, "network", "class")?;
        let descriptor = result == "Fd"
            || args.iter().any(|(_, kind)| matches!(kind, Kind::Plain("Fd" | "DirFd")));
        if descriptor && classes & network == 0 {
            classes |= 1 << position(&self.classes, "desc", "class")?;
        }
        Ok(Call { name: name.to_string(), numbers, result, behaviour, classes, args })
    }

    fn kind(&self, text: &str, names: &[&str]) -> Result<Kind> {
        if let Some(plain) = known(&KINDS, text) {
            return Ok(Kind::Plain(plain));
        }
        let (head, inner) = parameter(text).ok_or_else(|| format!("unknown kind `{text}`"))?;
        let direction = match head {
            "enum" => return Ok(Kind::Set("Enum", position(&self.sets, inner, "set")?)),
            "flags" => return Ok(Kind::Set("Flags", position(&self.sets, inner, "set")?)),
            "flags64" => return Ok(Kind::Set("Flags64", position(&self.sets, inner, "set")?)),
            "in" => Direction::In,
            "out" => Direction::Out,
            "inout" => Direction::InOut,
            "late" => Direction::Late,
            _ => return Err(format!("unknown kind `{head}`")),
        };
        let (name, extent) = match inner.split_once('[') {
            None => (inner, Extent::One),
            Some((name, extent)) => {
                let extent = extent.strip_suffix(']').ok_or("`[` without `]`")?;
                let extent = match parameter(extent) {
                    Some(("bits", arg)) => Extent::Bits(argument(names, arg)?),
                    Some(("pages", arg)) => Extent::Pages(argument(names, arg)?),
                    Some(("fcntl", arg)) => Extent::Fcntl(argument(names, arg)?),
                    Some((word, _)) => return Err(format!("unknown extent `{word}`")),
                    None if extent == "result" => Extent::Result,
                    None if extent.starts_with(|c: char| c.is_ascii_digit()) => {
                        Extent::Count(number(extent)?)
                    }
                    None => match extent.strip_prefix('*') {
                        Some(arg) => Extent::Pointee(argument(names, arg)?),
                        None => Extent::Arg(argument(names, extent)?),
                    },
                };
                (name, extent)
            }
        };
        let of = self.types.iter().position(|t| t.name == name);
        let of = of.ok_or_else(|| format!("unknown type `{name}`"))?;
        let copying = self.types[of].copying;
        let fits = match copying {
            Copying::Vector | Copying::Messages => matches!(extent, Extent::Arg(_)),
            Copying::Entries => matches!(extent, Extent::Result),
            Copying::Message | Copying::Masked => matches!(extent, Extent::One),
            Copying::Plain => true,
        };
        if !fits {
            return Err(format!("`{name}` cannot have this extent"));
        }
        Ok(Kind::Data { direction, of, extent })
    }

    /// What the whole table must fulfil.
    fn check(&self) -> Result<()> {
        let mut names = BTreeMap::new();
        for (at, call) in self.calls.iter().enumerate() {
            if names.insert(&call.name, at).is_some() {
                return Err(format!("two calls `{}`", call.name));
            }
        }
        for (arch, arch_name) in ARCHES.into_iter().enumerate() {
            let mut seen = BTreeMap::new();
            for call in &self.calls {
                if let Some(nr) = call.numbers[arch]
                    && let Some(other) = seen.insert(nr, &call.name)
                {
                    return Err(format!("{arch_name} number {nr} is {other} and {}", call.name));
                }
            }
        }
        for pair in self.calls.windows(2) {
            if pair[0].numbers[0] > pair[1].numbers[0] && pair[1].numbers[0].is_some() {
                return Err(format!("`{}` is out of order", pair[1].name));
            }
        }
        for (set, word) in self.sets.iter().enumerate() {
            let used = |kind: &Kind| matches!(kind, Kind::Set(_, used) if *used == set);
            if !self.calls.iter().flat_map(|c| &c.args).any(|(_, kind)| used(kind)) {
                return Err(format!("set `{}` is not used", word.name));
            }
        }
        for (at, ty) in self.types.iter().enumerate() {
            let used = |kind: &Kind| matches!(kind, Kind::Data { of, .. } if *of == at);
            if !self.calls.iter().flat_map(|c| &c.args).any(|(_, kind)| used(kind)) {
                return Err(format!("type `{}` is not used", ty.name));
            }
        }
        if self.behaviours.len() > 28 || self.classes.len() > 32 {
            return Err("too many behaviour or class words".to_string());
        }
        Ok(())
    }

    /// What the agent copies for this argument, as `(when, what)` in Rust.
    fn captures(&self, kind: &Kind, arch: usize) -> Vec<(&'static str, String)> {
        let (direction, of, extent) = match kind {
            Kind::Plain("Path" | "Str") => return vec![("Enter", "Str".to_string())],
            Kind::Plain("Strings") => return vec![("Enter", "StrVec".to_string())],
            Kind::Plain("StringCount") => return vec![("Enter", "Count".to_string())],
            Kind::Plain(_) | Kind::Set(..) => return Vec::new(),
            Kind::Data { direction, of, extent } => (*direction, &self.types[*of], *extent),
        };
        let size = of.size[arch];
        let bytes = match extent {
            Extent::One => format!("Fixed({size})"),
            Extent::Count(n) => format!("Fixed({})", size * n),
            Extent::Arg(index) => format!("Arg {{ index: {index}, scale: {size} }}"),
            Extent::Pointee(arg) => format!("Pointee {{ arg: {arg} }}"),
            Extent::Result => format!("Result {{ scale: {size} }}"),
            Extent::Bits(index) => format!("Bits {{ index: {index} }}"),
            Extent::Pages(index) => format!("Pages {{ index: {index} }}"),
            Extent::Fcntl(index) => format!("Fcntl {{ index: {index}, size: {size} }}"),
        };
        let what = |at_exit: bool| match (of.copying, extent) {
            (Copying::Vector, Extent::Arg(count)) => {
                let total = if at_exit { "Result { scale: 1 }" } else { "All" };
                format!("Iovec {{ count_arg: {count}, total: Len::{total} }}")
            }
            (Copying::Message, _) => {
                let total = if at_exit { "Result { scale: 1 }" } else { "All" };
                format!("Message {{ total: Len::{total} }}")
            }
            (Copying::Messages, Extent::Arg(index)) => {
                let count = if at_exit {
                    "Result { scale: 1 }".to_string()
                } else {
                    format!("Arg {{ index: {index}, scale: 1 }}")
                };
                format!("Messages {{ count: Len::{count} }}")
            }
            (Copying::Masked, _) => "SignalMask".to_string(),
            (Copying::Entries, _) => "Entries".to_string(),
            _ => format!("Bytes(Len::{bytes})"),
        };
        // A vector that the kernel fills is worth showing when the call failed, too.
        let exit = if of.copying == Copying::Vector { "Exit" } else { "ExitIfOk" };
        match direction {
            Direction::In => vec![("Enter", what(false))],
            Direction::Out => vec![(exit, what(true))],
            Direction::Late => vec![("Exit", what(true))],
            // Before a receive only the header of a message means something.
            Direction::InOut if of.copying == Copying::Message => {
                vec![("Enter", format!("Bytes(Len::Fixed({size}))")), (exit, what(true))]
            }
            Direction::InOut => vec![("Enter", what(false)), (exit, what(true))],
        }
    }

    fn rust(&self) -> String {
        let mut out = String::new();
        self.words(&mut out);
        for call in &self.calls {
            let mut args = String::new();
            for (name, kind) in &call.args {
                let kind = match kind {
                    Kind::Plain(rust) => (*rust).to_string(),
                    Kind::Set(rust, set) => {
                        format!("{rust}(Set::{})", camel(&self.sets[*set].name))
                    }
                    Kind::Data { direction, of, extent } => {
                        let direction = match direction {
                            Direction::In => "In",
                            Direction::Out => "Out",
                            Direction::InOut => "InOut",
                            Direction::Late => "Late",
                        };
                        let extent = match extent {
                            Extent::One => "One".to_string(),
                            Extent::Count(n) => format!("Count({n})"),
                            Extent::Arg(arg) => format!("Arg({arg})"),
                            Extent::Pointee(arg) => format!("Pointee({arg})"),
                            Extent::Result => "Result".to_string(),
                            Extent::Bits(arg) => format!("Bits({arg})"),
                            Extent::Pages(arg) => format!("Pages({arg})"),
                            Extent::Fcntl(arg) => format!("Fcntl({arg})"),
                        };
                        let of = camel(&self.types[*of].name);
                        format!(
                            "Data {{ direction: Direction::{direction}, of: Type::{of}, \
                             extent: Extent::{extent} }}"
                        )
                    }
                };
                let _ = write!(args, "Arg {{ name: {name:?}, kind: Kind::{kind} }}, ");
            }
            let _ = writeln!(
                out,
                "static CALL_{}: Syscall = Syscall {{ name: {:?}, args: &[{args}], \
                 result: ResultKind::{}, behaviour: Behaviour({:#x}), classes: Classes({:#x}) }};",
                call.name.to_uppercase(),
                call.name,
                call.result,
                call.behaviour,
                call.classes
            );
        }
        for arch in 0..ARCHES.len() {
            self.architecture(&mut out, arch);
        }
        out
    }

    /// The enums and constants for the declared words.
    fn words(&self, out: &mut String) {
        for (owner, words) in [("Behaviour", &self.behaviours), ("Classes", &self.classes)] {
            let _ = writeln!(out, "impl {owner} {{");
            for (bit, word) in words.iter().enumerate() {
                let _ = writeln!(out, "/// {}.", word.doc);
                let name = word.name.to_uppercase();
                let _ = writeln!(out, "pub const {name}: Self = Self(1 << {bit});");
            }
            let _ = writeln!(out, "}}");
        }
        let _ = writeln!(out, "impl Classes {{");
        let _ = writeln!(out, "/// The words of the classes and their bits.");
        let _ = writeln!(out, "pub const NAMES: &[(&str, Self)] = &[");
        for word in &self.classes {
            let _ = writeln!(out, "({:?}, Self::{}),", word.name, word.name.to_uppercase());
        }
        let _ = writeln!(out, "]; }}");
        let sets = self.sets.iter().map(|w| (&w.name, &w.doc)).collect::<Vec<_>>();
        let types = self.types.iter().map(|t| (&t.name, &t.doc)).collect::<Vec<_>>();
        for (name, doc, words) in [
            ("Set", "A set of named values, and where Linux defines them.", sets),
            ("Type", "What a pointer points to.", types),
        ] {
            let _ = writeln!(out, "/// {doc}");
            let _ = writeln!(out, "#[derive(Clone, Copy, PartialEq, Eq, Debug)]");
            let _ = writeln!(out, "pub enum {name} {{");
            for (word, doc) in words {
                let _ = writeln!(out, "/// {doc}.\n{},", camel(word));
            }
            let _ = writeln!(out, "}}");
        }
    }

    fn architecture(&self, out: &mut String, arch: usize) {
        let mut by_number = BTreeMap::new();
        for call in &self.calls {
            if let Some(nr) = call.numbers[arch] {
                by_number.insert(nr, call);
            }
        }
        let count = by_number.keys().next_back().map_or(0, |last| last + 1);
        let name = ARCHES[arch];
        let _ = writeln!(out, "/// The calls of {name}.\npub mod {name} {{\nuse super::*;");
        for (nr, call) in &by_number {
            let _ = writeln!(out, "/// Number of `{}`.", call.name);
            let _ = writeln!(out, "pub const {}: u64 = {nr};", call.name.to_uppercase());
        }
        let _ = writeln!(out, "/// The calls by number.");
        let _ = writeln!(out, "pub static TABLE: [Option<&Syscall>; {count}] = [");
        for nr in 0..count {
            let _ = match by_number.get(&nr) {
                Some(call) => writeln!(out, "Some(&CALL_{}),", call.name.to_uppercase()),
                None => writeln!(out, "None,"),
            };
        }
        let _ = writeln!(out, "];");
        let mut names: Vec<_> = by_number.iter().map(|(nr, call)| (&call.name, nr)).collect();
        names.sort();
        let _ = writeln!(out, "static NAMES: [(&str, u64); {}] = {names:?};", names.len());
        let _ = writeln!(
            out,
            "/// The call of this number.\n\
             pub fn lookup(nr: u64) -> Option<&'static Syscall> {{\n\
             *TABLE.get(usize::try_from(nr).ok()?)? }}\n\
             /// The number of the call with this name.\n\
             pub fn by_name(name: &str) -> Option<u64> {{\n\
             let at = NAMES.binary_search_by(|(other, _)| (*other).cmp(name)).ok()?;\n\
             Some(NAMES[at].1) }}"
        );

        let mut plans: Vec<String> = Vec::new();
        let mut known: HashMap<Vec<String>, usize> = HashMap::new();
        let mut index = String::new();
        let mut behaviours = String::new();
        for nr in 0..count {
            let mut plan = Vec::new();
            if let Some(call) = by_number.get(&nr) {
                for (arg, (_, kind)) in call.args.iter().enumerate() {
                    for (when, what) in self.captures(kind, arch) {
                        plan.push(format!(
                            "Capture {{ arg: {arg}, when: When::{when}, what: What::{what} }}"
                        ));
                    }
                }
            }
            // Calls with the same plan share it.
            let len = plan.len();
            let start = *known.entry(plan.clone()).or_insert_with(|| {
                let start = plans.len();
                plans.append(&mut plan);
                start
            });
            let _ = write!(index, "({start}, {len}), ");
            let behaviour = by_number.get(&nr).map_or(0, |call| call.behaviour);
            let _ = write!(behaviours, "Behaviour({behaviour:#x}), ");
        }
        let _ = writeln!(
            out,
            "/// What the agent needs of {name}: flat arrays of numbers, without names.\n\
             pub mod plan {{\nuse super::*;\n\
             static CAPTURES: [Capture; {}] = [{}];\n\
             static INDEX: [(u16, u8); {count}] = [{index}];\n\
             static BEHAVIOURS: [Behaviour; {count}] = [{behaviours}];",
            plans.len(),
            plans.join(",\n")
        );
        let _ = writeln!(
            out,
            "/// What a hook must know about the call of this number; nothing when unknown.\n\
             #[inline]\n\
             pub fn behaviour(nr: u64) -> Behaviour {{\n\
             usize::try_from(nr).ok().and_then(|nr| BEHAVIOURS.get(nr).copied())\n\
             .unwrap_or(Behaviour::NONE) }}\n\
             /// What to copy for the call of this number, in the order of its arguments.\n\
             #[inline]\n\
             pub fn capture(nr: u64) -> &'static [Capture] {{\n\
             let entry = usize::try_from(nr).ok().and_then(|nr| INDEX.get(nr));\n\
             let Some(&(start, len)) = entry else {{ return &[] }};\n\
             let start = usize::from(start);\n\
             CAPTURES.get(start..start + usize::from(len)).unwrap_or(&[]) }}\n}}\n}}"
        );
    }
}

/// Index of the argument `name`.
fn argument(names: &[&str], name: &str) -> Result<usize> {
    names.iter().position(|n| *n == name).ok_or_else(|| format!("no argument is called `{name}`"))
}

fn generate() -> Result<()> {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").ok_or("no CARGO_MANIFEST_DIR")?);
    let text = fs::read_to_string(root.join("table.txt")).map_err(|e| e.to_string())?;
    let mut table = Table::default();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim_end();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        table.line(line).map_err(|e| format!("table.txt:{}: {e}: {line}", at + 1))?;
    }
    table.check().map_err(|e| format!("table.txt: {e}"))?;
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("no OUT_DIR")?).join("table.rs");
    fs::write(out, table.rust()).map_err(|e| e.to_string())
}

fn main() {
    println!("cargo::rerun-if-changed=table.txt");
    println!("cargo::rerun-if-changed=build.rs");
    if let Err(error) = generate() {
        eprintln!("syscalls: {error}");
        process::exit(1);
    }
}
