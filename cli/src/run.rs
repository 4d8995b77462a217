//! `crossgate run`: a program with the agent inside and no hook. What it costs is the cost
//! of the mechanism; that it behaves is the proof of it.

use clap::Args;
use crossgate_launch::wire::arena::Geometry;
use crossgate_launch::wire::{Record, arena::CALLS};
use crossgate_launch::{
    Ending, Error, HookKind, Linger, Observer, Options, Program, SiteReport, Task,
};

use crate::{Target, say};

/// A site is patched when it is caught for this many times: a patch (two pages made writable
/// and back, one of them copied) costs about as much as this many signals.
pub const PATCH_AFTER: u32 = 6;

/// Options of `crossgate run`.
#[derive(Args)]
pub struct Run {
    #[command(flatten)]
    target: Target,
}

impl Run {
    /// Runs the program; gives its exit code.
    pub fn execute(self) -> Result<u8, Error> {
        let program = Program::find(&self.target.program)?;
        let options = pass_options(&self.target);
        Ok(crossgate_launch::run(&program, &options, &mut Silent)?.code())
    }
}

/// Options for a run in which no hook sees anything.
pub fn pass_options(target: &Target) -> Options {
    Options {
        mode: target.mode.mode(),
        hook: HookKind::Pass,
        follow: !target.no_follow,
        string_limit: 0,
        patch_after: PATCH_AFTER,
        report_sites: false,
        interest: Box::new([false; CALLS]),
        geometry: Geometry { rings: 0, ring_size: 0 },
        linger: Linger::Background,
    }
}

/// Sees nothing but what the user must know.
struct Silent;

impl Observer for Silent {
    fn record(&mut self, _: Task, _: &Record, _: &[u8]) {}
    fn executed(&mut self, _: i32, _: i32) {}
    fn task_gone(&mut self, _: Task) {}
    fn process_gone(&mut self, _: i32, _: Option<Ending>) {}
    fn site(&mut self, _: i32, _: SiteReport) {}
    fn note(&mut self, text: &str) {
        say(text);
    }
}
