//! Records: what the agent tells the supervisor about one call, signal or task.
//!
//! Every record starts with a [`Header`] and is a multiple of eight bytes long, native
//! endian. Enter and exit records end with [`Blob`]s: copies of the program's memory, made
//! at the call's entry or exit, each tied to the argument that points to it.

/// What a record is about.
#[repr(u8)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Fills the end of a ring; no content.
    Pad = 0,
    /// A call begins: number, site, six arguments, blobs.
    Enter = 1,
    /// The call of the last `Enter` of this task ended: result, blobs.
    Exit = 2,
    /// The call of the last `Enter` did not reach the kernel (a signal came first); it will
    /// begin again.
    Cancel = 3,
    /// A signal was delivered: the kernel's 128-byte `siginfo_t`, and 1 if it ends the process.
    Signal = 4,
    /// A task began: the id of the task that made it, as that task sees itself.
    TaskStart = 5,
    /// Something is injected into the call of the last `Enter`: the rule and which of its
    /// results, the number of this call among those of the task, the task's place in the tree.
    Inject = 6,
    /// What a hook library has to say: the library's index, the text.
    Log = 7,
}

impl Kind {
    fn from_u8(n: u8) -> Option<Self> {
        Some(match n {
            0 => Self::Pad,
            1 => Self::Enter,
            2 => Self::Exit,
            3 => Self::Cancel,
            4 => Self::Signal,
            5 => Self::TaskStart,
            6 => Self::Inject,
            7 => Self::Log,
            _ => return None,
        })
    }
}

/// What every record starts with.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Header {
    /// Length of the whole record in bytes, a multiple of eight.
    pub len: u32,
    /// A [`Kind`].
    pub kind: u8,
    /// Zero.
    pub reserved: [u8; 3],
    /// Time stamp counter when the record was made.
    pub tsc: u64,
}

const HEADER: usize = size_of::<Header>();

/// What a blob's bytes are.
#[repr(u8)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BlobKind {
    /// A C string, without its NUL. [`Blob::truncated`] when it goes on.
    Str = 0,
    /// A struct or a buffer. [`Blob::truncated`] when the program's is longer.
    Bytes = 1,
    /// A vector of C strings: for each a `u32` length (top bit: truncated), then its bytes,
    /// without padding. [`Blob::truncated`] when there are more strings.
    StrVec = 2,
    /// The number of strings in a vector, as a `u64`.
    Count = 3,
    /// The contents of a vector of `iovec`: for each a `u32` length copied (top bit: more
    /// was there), a `u32` of zero, the `u64` base and the `u64` length of the iovec, then the
    /// bytes copied, without padding. [`Blob::truncated`] when there are more elements.
    Iovec = 4,
}

impl BlobKind {
    fn from_u8(n: u8) -> Option<Self> {
        Some(match n {
            0 => Self::Str,
            1 => Self::Bytes,
            2 => Self::StrVec,
            3 => Self::Count,
            4 => Self::Iovec,
            _ => return None,
        })
    }
}

const BLOB_TRUNCATED: u8 = 1;
const BLOB_FAULT: u8 = 2;
const BLOB_HEADER: usize = 8;

/// A copy of memory that an argument points to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Blob<'a> {
    /// Index of the argument, 0 to 5.
    pub arg: u8,
    /// What the bytes are.
    pub kind: BlobKind,
    /// There was more than was copied.
    pub truncated: bool,
    /// The memory could not be read; `data` holds what could.
    pub fault: bool,
    /// The copy.
    pub data: &'a [u8],
}

/// One record, read.
#[derive(Clone, Copy, Debug)]
pub enum Record<'a> {
    /// See [`Kind::Pad`].
    Pad,
    /// See [`Kind::Enter`].
    Enter {
        /// Time stamp counter at entry.
        tsc: u64,
        /// Call number as the program gave it.
        nr: u64,
        /// Address of the call instruction.
        site: u64,
        /// The six argument registers.
        args: [u64; 6],
        /// Memory the arguments point to, as it was at entry.
        blobs: Blobs<'a>,
    },
    /// See [`Kind::Exit`].
    Exit {
        /// Time stamp counter at exit.
        tsc: u64,
        /// The result register: a value or `-errno`.
        result: i64,
        /// Memory the arguments point to, as it was at exit.
        blobs: Blobs<'a>,
    },
    /// See [`Kind::Cancel`].
    Cancel {
        /// Time stamp counter when the call was given up.
        tsc: u64,
    },
    /// See [`Kind::Signal`].
    Signal {
        /// Time stamp counter at delivery.
        tsc: u64,
        /// The kernel's `siginfo_t`: 128 bytes.
        info: &'a [u8],
        /// It ends the process.
        fatal: bool,
    },
    /// See [`Kind::TaskStart`].
    TaskStart {
        /// Time stamp counter when the task ran first.
        tsc: u64,
        /// The task that made it, as that task sees itself.
        parent: i32,
    },
    /// See [`Kind::Inject`].
    Inject {
        /// Time stamp counter of the decision.
        tsc: u64,
        /// Index of the rule.
        rule: u32,
        /// Index of the result among those of the rule.
        result: u32,
        /// Of the calls with this number that the task made, counted from one.
        occurrence: u32,
        /// [`crate::inject::Lineage::text`] of the task.
        task: &'a [u8],
    },
    /// See [`Kind::Log`].
    Log {
        /// Time stamp counter when it was said.
        tsc: u64,
        /// Index of the library.
        hook: u32,
        /// What it says.
        text: &'a [u8],
    },
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

impl<'a> Record<'a> {
    /// Reads the record at the start of `bytes`; gives it and its length. `None` when the
    /// bytes are no record (a damaged ring).
    pub fn parse(bytes: &'a [u8]) -> Option<(Self, usize)> {
        let len = u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
        let kind = Kind::from_u8(*bytes.get(4)?)?;
        if !len.is_multiple_of(8) || len < 8 {
            return None;
        }
        if kind == Kind::Pad {
            return Some((Self::Pad, len));
        }
        let body = bytes.get(..len)?;
        let tsc = word(body, 8)?;
        let record = match kind {
            Kind::Pad => return None,
            Kind::Enter => {
                let mut args = [0; 6];
                for (i, arg) in args.iter_mut().enumerate() {
                    *arg = word(body, HEADER + 16 + i * 8)?;
                }
                Self::Enter {
                    tsc,
                    nr: word(body, HEADER)?,
                    site: word(body, HEADER + 8)?,
                    args,
                    blobs: Blobs(body.get(HEADER + 64..)?),
                }
            }
            Kind::Exit => Self::Exit {
                tsc,
                result: word(body, HEADER)? as i64,
                blobs: Blobs(body.get(HEADER + 8..)?),
            },
            Kind::Cancel => Self::Cancel { tsc },
            Kind::Signal => Self::Signal {
                tsc,
                info: body.get(HEADER..HEADER + 128)?,
                fatal: word(body, HEADER + 128)? != 0,
            },
            Kind::TaskStart => Self::TaskStart { tsc, parent: word(body, HEADER)? as i32 },
            Kind::Inject => {
                let (first, second) = (word(body, HEADER)?, word(body, HEADER + 8)?);
                let from = HEADER + 16;
                Self::Inject {
                    tsc,
                    rule: first as u32,
                    result: (first >> 32) as u32,
                    occurrence: second as u32,
                    task: body.get(from..from + (second >> 32) as usize)?,
                }
            }
            Kind::Log => {
                let first = word(body, HEADER)?;
                let from = HEADER + 8;
                let text = body.get(from..from + (first >> 32) as usize)?;
                Self::Log { tsc, hook: first as u32, text }
            }
        };
        Some((record, len))
    }
}

/// The blobs of a record, in the order they were made.
#[derive(Clone, Copy, Debug)]
pub struct Blobs<'a>(&'a [u8]);

impl Blobs<'_> {
    /// No blobs.
    pub const EMPTY: Blobs<'static> = Blobs(&[]);
}

impl<'a> Iterator for Blobs<'a> {
    type Item = Blob<'a>;

    fn next(&mut self) -> Option<Blob<'a>> {
        let head = self.0.get(..BLOB_HEADER)?;
        let len = u32::from_ne_bytes(head[4..8].try_into().ok()?) as usize;
        let end = (BLOB_HEADER + len).next_multiple_of(8);
        let blob = Blob {
            arg: head[0],
            kind: BlobKind::from_u8(head[1])?,
            truncated: head[2] & BLOB_TRUNCATED != 0,
            fault: head[2] & BLOB_FAULT != 0,
            data: self.0.get(BLOB_HEADER..BLOB_HEADER + len)?,
        };
        self.0 = self.0.get(end..)?;
        Some(blob)
    }
}

/// Writes one record into a piece of memory that is large enough for it.
///
/// The caller gives a buffer, adds words and blobs, and takes the length from
/// [`Writer::finish`]. What does not fit is cut (and marked as truncated), never written
/// past the end.
pub struct Writer<'a> {
    buf: &'a mut [u8],
    len: usize,
    blob: usize,
}

impl<'a> Writer<'a> {
    /// Begins a record in `buf`, which is 8-aligned and at least 192 bytes long.
    pub fn new(buf: &'a mut [u8], kind: Kind, tsc: u64) -> Self {
        let mut writer = Self { buf, len: 0, blob: 0 };
        writer.word(kind as u64 * (1 << 32));
        writer.word(tsc);
        writer
    }

    /// Adds eight bytes.
    #[inline]
    pub fn word(&mut self, value: u64) {
        if let Some(slot) = self.buf.get_mut(self.len..self.len + 8) {
            slot.copy_from_slice(&value.to_ne_bytes());
            self.len += 8;
        }
    }

    /// Adds bytes as they are; `bytes.len()` is a multiple of eight.
    pub fn bytes(&mut self, bytes: &[u8]) {
        if let Some(slot) = self.buf.get_mut(self.len..self.len + bytes.len()) {
            slot.copy_from_slice(bytes);
            self.len += bytes.len();
        }
    }

    /// Begins a blob: gives the free rest of the buffer, of which the caller fills a first
    /// part and then calls [`Writer::end_blob`]. `None` when not even a header fits.
    pub fn begin_blob(&mut self) -> Option<&mut [u8]> {
        self.blob = self.len;
        let from = self.len + BLOB_HEADER;
        // Room for the padding that `end_blob` may add.
        let to = self.buf.len().checked_sub(8)?;
        if from >= to { None } else { Some(&mut self.buf[from..to]) }
    }

    /// Ends the blob begun last, of which `len` bytes were filled.
    pub fn end_blob(&mut self, arg: u8, kind: BlobKind, len: usize, truncated: bool, fault: bool) {
        let flags = if truncated { BLOB_TRUNCATED } else { 0 } | if fault { BLOB_FAULT } else { 0 };
        let head = &mut self.buf[self.blob..self.blob + BLOB_HEADER];
        head[..4].copy_from_slice(&[arg, kind as u8, flags, 0]);
        head[4..].copy_from_slice(&(len as u32).to_ne_bytes());
        self.len = self.blob + (BLOB_HEADER + len).next_multiple_of(8);
    }

    /// Sets the record's length and returns it.
    pub fn finish(self) -> usize {
        self.buf[..4].copy_from_slice(&(self.len as u32).to_ne_bytes());
        self.len
    }
}

/// Writes a [`Kind::Pad`] record of `len` bytes (a multiple of eight) at the start of `buf`.
pub fn write_pad(buf: &mut [u8], len: usize) {
    buf[..4].copy_from_slice(&(len as u32).to_ne_bytes());
    buf[4..8].copy_from_slice(&[Kind::Pad as u8, 0, 0, 0]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_enter_record_reads_back_as_it_was_written() {
        let mut buf = [0u8; 512];
        let mut w = Writer::new(&mut buf, Kind::Enter, 42);
        w.word(257);
        w.word(0x401000);
        for i in 0..6 {
            w.word(i);
        }
        let space = w.begin_blob().unwrap();
        space[..4].copy_from_slice(b"/etc");
        w.end_blob(1, BlobKind::Str, 4, true, false);
        let len = w.finish();
        let (record, read) = Record::parse(&buf).unwrap();
        assert_eq!(read, len);
        let Record::Enter { tsc, nr, site, args, mut blobs } = record else { panic!("{record:?}") };
        assert_eq!((tsc, nr, site, args), (42, 257, 0x401000, [0, 1, 2, 3, 4, 5]));
        let blob = blobs.next().unwrap();
        assert_eq!((blob.arg, blob.data, blob.truncated), (1, &b"/etc"[..], true));
        assert!(blobs.next().is_none());
    }

    #[test]
    fn damaged_bytes_are_no_record() {
        assert!(Record::parse(&[0; 4]).is_none());
        assert!(Record::parse(&[7, 0, 0, 0, 1, 0, 0, 0]).is_none());
        assert!(Record::parse(&[64, 0, 0, 0, 9, 0, 0, 0]).is_none());
        assert!(Record::parse(&[64, 0, 0, 0, 1, 0, 0, 0]).is_none());
    }

    #[test]
    fn a_blob_that_does_not_fit_is_not_begun() {
        let mut buf = [0u8; 24];
        let mut w = Writer::new(&mut buf, Kind::Exit, 0);
        w.word(0);
        assert!(w.begin_blob().is_none());
        assert_eq!(w.finish(), 24);
    }
}
