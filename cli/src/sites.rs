//! `crossgate sites`: how each call instruction that a program used was patched, and why
//! not.

use std::collections::BTreeMap;

use clap::Args;
use comfy_table::Table;
use comfy_table::presets::NOTHING;
use crossgate_launch::wire::Record;
use crossgate_launch::{Ending, Error, Observer, Program, SiteKind, SiteReason, SiteReport, Task};
use crossgate_syscalls::x86_64;

use crate::{Target, run, say};

/// Options of `crossgate sites`.
#[derive(Args)]
pub struct Sites {
    #[command(flatten)]
    target: Target,
}

impl Sites {
    /// Runs the program, then prints the table on standard error; gives the exit code.
    pub fn execute(self) -> Result<u8, Error> {
        let program = Program::find(&self.target.program)?;
        let options = crossgate_launch::Options {
            patch_after: 1,
            report_sites: true,
            linger: crossgate_launch::Linger::Wait,
            ..run::pass_options(&self.target)
        };
        let mut seen = Seen::default();
        let ending = crossgate_launch::run(&program, &options, &mut seen)?;
        eprint!("{}", seen.report());
        Ok(ending.code())
    }
}

/// Sites by object and offset: many processes share them.
#[derive(Default)]
struct Seen {
    sites: BTreeMap<(String, u64), SiteReport>,
}

impl Observer for Seen {
    fn record(&mut self, _: Task, _: &Record, _: &[u8]) {}
    fn executed(&mut self, _: i32, _: i32) {}
    fn task_gone(&mut self, _: Task) {}
    fn process_gone(&mut self, _: i32, _: Option<Ending>) {}
    fn site(&mut self, _: i32, report: SiteReport) {
        self.sites.insert((report.object.clone(), report.offset), report);
    }
    fn note(&mut self, text: &str) {
        say(text);
    }
}

fn how(kind: SiteKind) -> &'static str {
    match kind {
        SiteKind::Mov => "mov",
        SiteKind::Pun => "pun",
        SiteKind::Relocated => "relocated",
        SiteKind::Signal => "signal",
    }
}

impl Seen {
    fn report(&self) -> String {
        let mut table = Table::new();
        table.load_style(NOTHING);
        table.set_header(["object", "offset", "call", "patch", "why not"]);
        let mut counts = [0usize; 4];
        for ((object, offset), site) in &self.sites {
            counts[site.kind as usize - 1] += 1;
            let call = site.nr.map_or("any".to_owned(), |nr| {
                x86_64::lookup(nr).map_or_else(|| format!("{nr:#x}"), |call| call.name.to_owned())
            });
            let object = if object.is_empty() { "[anonymous]" } else { object };
            table.add_row([
                object.escape_debug().to_string(),
                format!("{offset:#x}"),
                call,
                how(site.kind).to_owned(),
                SiteReason::text(site.reason).to_owned(),
            ]);
        }
        let [mov, pun, relocated, signal] = counts;
        format!(
            "{table}\n{} sites: {mov} mov, {pun} pun, {relocated} relocated, {signal} signal\n",
            self.sites.len()
        )
    }
}
