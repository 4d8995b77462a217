//! Errors as a person needs them: the thing, the cause, the way out, in one line; and the
//! exit code that env(1) and strace(1) would give.

use std::fmt;

/// A failure to start or to serve a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// One line for standard error, without a trailing newline.
    pub message: String,
    /// The exit code: 127 not found, 126 found but cannot run, 125 crossgate itself failed.
    pub code: u8,
}

/// The crate's result.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The program was not found.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: 127 }
    }

    /// The program was found but cannot be run.
    pub fn cannot_run(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: 126 }
    }

    /// Crossgate cannot do its part.
    pub fn own(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: 125 }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// The text of an error number, without the "(os error N)" of the standard library.
pub fn reason(errno: nix::errno::Errno) -> &'static str {
    errno.desc()
}
