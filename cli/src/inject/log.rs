//! The log of what rules did to calls: a line for each of these calls, as strace shows it.
//!
//! Owns: putting the records of a call together, and its line. Never does: decide what was done; the
//! agents did (`agent/src/inject.rs`).

use std::collections::HashMap;

use crossgate_decode as decode;
use crossgate_launch::wire::inject::{DELAY_ENTER, DELAY_EXIT, Effect, RESULT};
use crossgate_launch::wire::record::Blobs;
use crossgate_launch::wire::{Record, Rules};
use crossgate_launch::{Ending, Observer, SiteReport, Task};
use crossgate_syscalls::x86_64;

use super::grammar;
use crate::output::Output;
use crate::say;

/// A call to which something is done.
#[derive(Default)]
struct Touched {
    /// The record of its beginning.
    enter: Vec<u8>,
    remark: String,
    mark: &'static str,
}

/// What a line says behind a call: a mark, and a remark.
pub type Remark = (&'static str, String);

/// What the rule with an index in the rules did to a call.
pub struct Hit<'a> {
    /// The rule's place.
    pub index: usize,
    /// What it does.
    pub effect: &'a Effect,
    /// Which of its results.
    pub result: usize,
    /// The call's number.
    pub nr: u64,
    /// Which of the task's calls with that number.
    pub occurrence: u32,
    /// The task's name, by its place in the tree.
    pub task: &'a [u8],
}

/// The log: a line for each call that a rule did something to.
pub struct Log<'a> {
    out: Output,
    options: decode::Options,
    rules: &'a Rules,
    remark: fn(&Hit) -> Remark,
    calls: HashMap<Task, Touched>,
}

/// What `crossgate inject` remarks: strace's mark, and what [`super::replay`] reads.
pub fn injected(hit: &Hit) -> Remark {
    let mark = if hit.effect.what & RESULT != 0 {
        " (INJECTED)"
    } else if hit.effect.what & (DELAY_ENTER | DELAY_EXIT) != 0 {
        " (DELAYED)"
    } else {
        ""
    };
    let name = String::from_utf8_lossy(hit.task);
    let call = x86_64::lookup(hit.nr).map_or("?", |call| call.name);
    let effect = grammar::text(hit.effect, hit.result);
    (mark, format!("  # {name} {call} {} {effect}", hit.occurrence))
}

impl<'a> Log<'a> {
    /// Written to `out`, with at most so many bytes of each string; `remark` is what a line says
    /// behind the call.
    pub fn new(
        out: Output,
        string_limit: u32,
        rules: &'a Rules,
        remark: fn(&Hit) -> Remark,
    ) -> Self {
        let string_limit = string_limit as usize;
        let options = decode::Options { string_limit, ..decode::Options::default() };
        Self { out, options, rules, remark, calls: HashMap::new() }
    }

    /// Writes a line that is about no call.
    pub fn write(&mut self, line: &str) {
        self.out.write(line.as_bytes());
    }

    /// After the last line.
    pub fn end(self) {
        self.out.end("the log");
    }
    /// The line of a call; `exit` is how it ended, if it did.
    fn line(&mut self, task: Task, exit: Option<decode::Exit>) {
        let Some(touched) = self.calls.remove(&task) else { return };
        let Some((Record::Enter { nr, args, blobs, .. }, _)) = Record::parse(&touched.enter) else {
            return;
        };
        let call = decode::Call { nr, args, blobs };
        let mut line = format!("{:<5} ", task.tid);
        self.options.enter(&mut line, &call);
        let column = line.len();
        match exit {
            Some(exit) => self.options.exit(&mut line, column, &call, &exit),
            None => self.options.no_exit(&mut line, column, &call),
        }
        line.push_str(touched.mark);
        line.push_str(&touched.remark);
        line.push('\n');
        self.out.write(line.as_bytes());
    }

    fn hit(&mut self, task: Task, rule: u32, result: u32, occurrence: u32, name: &[u8]) {
        let Some(call) = self.calls.get_mut(&task) else { return };
        let Some((Record::Enter { nr, .. }, _)) = Record::parse(&call.enter) else { return };
        let index = rule as usize;
        let Some(rule) = self.rules.rules.get(index) else { return };
        let (effect, result) = (&rule.effect, result as usize);
        let hit = Hit { index, effect, result, nr, occurrence, task: name };
        (call.mark, call.remark) = (self.remark)(&hit);
    }
}

impl Observer for Log<'_> {
    fn record(&mut self, task: Task, record: &Record, bytes: &[u8]) {
        match *record {
            Record::Enter { .. } => {
                let enter = bytes.to_vec();
                self.calls.insert(task, Touched { enter, ..Touched::default() });
            }
            Record::Inject { rule, result, occurrence, task: name, .. } => {
                self.hit(task, rule, result, occurrence, name);
            }
            Record::Exit { result, blobs, .. } => {
                self.line(task, Some(decode::Exit { result, blobs }));
            }
            Record::Cancel { .. } => {
                self.calls.remove(&task);
            }
            Record::Signal { .. } | Record::TaskStart { .. } | Record::Log { .. } | Record::Pad => {
            }
        }
    }

    fn executed(&mut self, pid: i32, tid: i32) {
        let exit = decode::Exit { result: 0, blobs: Blobs::EMPTY };
        self.line(Task { pid, tid }, Some(exit));
    }

    fn task_gone(&mut self, task: Task) {
        self.line(task, None);
    }

    fn process_gone(&mut self, pid: i32, _: Option<Ending>) {
        let left: Vec<Task> = self.calls.keys().filter(|task| task.pid == pid).copied().collect();
        for task in left {
            self.line(task, None);
        }
    }

    fn site(&mut self, _: i32, _: SiteReport) {}

    fn pause(&mut self) {
        self.out.flush();
    }

    fn note(&mut self, text: &str) {
        self.pause();
        say(text);
    }
}
