//! Where a command writes its trace or log: a file or standard error, behind a buffer.
//!
//! Owns: the first error of writing, after which nothing more is written. Never does: end the
//! program for it; that goes on, and the user is told at the end.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use crossgate_launch::Error;

use crate::{run, say};

/// See the module.
pub struct Output {
    out: BufWriter<Box<dyn Write>>,
    failed: Option<io::Error>,
}

impl Output {
    /// To the file that `-o` named, or to standard error. `what` will be in it.
    pub fn new(path: Option<&Path>, what: &str) -> Result<Self, Error> {
        let out = match path {
            Some(path) => run::create(path, what)?,
            None => Box::new(io::stderr()),
        };
        Ok(Self { out: BufWriter::with_capacity(1 << 16, out), failed: None })
    }

    /// Writes some of it.
    pub fn write(&mut self, bytes: &[u8]) {
        if self.failed.is_none()
            && let Err(e) = self.out.write_all(bytes)
        {
            self.failed = Some(e);
        }
    }

    /// Hands on what has been written.
    pub fn flush(&mut self) {
        if self.failed.is_none()
            && let Err(e) = self.out.flush()
        {
            self.failed = Some(e);
        }
    }

    /// Hands on the rest, and says if `what` is not complete.
    pub fn end(mut self, what: &str) {
        self.flush();
        if let Some(e) = self.failed {
            say(&format!("{what} is not complete: writing it failed: {e}"));
        }
    }
}
