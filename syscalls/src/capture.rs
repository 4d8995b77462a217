//! The words of a capture plan: which memory of the program the agent copies for a call.
//!
//! Owns: the vocabulary that `build.rs` fills and the agent obeys. Never does: copy. Where
//! the data goes next: each capture becomes one or more blobs of a record
//! (`wire/src/record.rs`), tied to the argument by its index, and `decode` prints them.
//!
//! All lengths are what the program asked for; the agent cuts them to its own limit and says
//! so in the blob. A null pointer has nothing to copy.

/// One copy to make.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capture {
    /// Index of the argument that points to the memory, 0 to 5.
    pub arg: u8,
    /// When to copy.
    pub when: When,
    /// What to copy.
    pub what: What,
}

/// The moment of a copy.
#[repr(u8)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// Before the call.
    Enter,
    /// After the call, whatever its result.
    Exit,
    /// After the call unless the result is an error (-4095 to -1).
    ExitIfOk,
}

/// What the argument points to, and the blobs that it becomes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// A C string: one `Str` blob.
    Str,
    /// A vector of C strings that ends with a null pointer: one `StrVec` blob.
    StrVec,
    /// Such a vector, of which only the number of strings is wanted: one `Count` blob.
    Count,
    /// Memory: one `Bytes` blob of this length.
    Bytes(Len),
    /// An array of `struct iovec`: one `Iovec` blob with the contents.
    Iovec {
        /// Index of the argument that says how many elements the array has.
        count_arg: u8,
        /// How many bytes of the elements' memory mean something, over all elements.
        total: Len,
    },
    /// A `struct user_msghdr`: a `Bytes` blob with the header (56 bytes), then `Bytes` with
    /// the name, `Iovec` with the contents and `Bytes` with the control data. All four
    /// blobs are made, empty where the header has a null pointer or a length of zero.
    Message {
        /// How many bytes of the elements' memory mean something, over all elements.
        total: Len,
    },
    /// An array of `struct mmsghdr` (64 bytes each): for each the four blobs of
    /// [`What::Message`], the first one being the whole 64 bytes.
    Messages {
        /// How many elements the array has.
        count: Len,
    },
    /// A pair of pointer and size: a `Bytes` blob with the pair (16 bytes) and, where the
    /// pointer is not null, a `Bytes` blob with the signal set (8 bytes) it points to.
    SignalMask,
    /// Directory entries, as many bytes as the result says: one `Count` blob. An entry's
    /// length is the `u16` at its offset 16.
    Entries,
}

/// Whether the third argument of fcntl is a pointer for this command: the locks, the owners
/// and the hints (include/uapi/asm-generic/fcntl.h, include/uapi/linux/fcntl.h). For the
/// others it is a number.
pub fn fcntl_takes_pointer(command: u32) -> bool {
    matches!(command, 5..=7 | 12..=17 | 36..=38 | 1035..=1038)
}

/// A length in bytes, or in elements where the user of it says so.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Len {
    /// This many bytes.
    Fixed(u16),
    /// The value of an argument times `scale`.
    Arg {
        /// Index of the argument.
        index: u8,
        /// Bytes per unit.
        scale: u16,
    },
    /// The result times `scale`; nothing when the result is negative.
    Result {
        /// Bytes per unit.
        scale: u16,
    },
    /// The `u32` that an argument points to (a `socklen_t`), as it is at the time of the copy.
    Pointee {
        /// Index of the argument that points to the length.
        arg: u8,
    },
    /// As many 64-bit words as hold the number of bits that the argument says, in bytes;
    /// nothing when it is negative.
    Bits {
        /// Index of the argument.
        index: u8,
    },
    /// One byte for each page of 4096 bytes that the argument begins.
    Pages {
        /// Index of the argument.
        index: u8,
    },
    /// `size` where the argument is a command of fcntl that takes a pointer
    /// ([`fcntl_takes_pointer`]), else nothing.
    Fcntl {
        /// Index of the argument.
        index: u8,
        /// Bytes.
        size: u16,
    },
    /// Everything there is.
    All,
}
