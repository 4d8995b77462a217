//! io_uring: the parameters of a new ring.
//!
//! Owns: the layout of `struct io_uring_params` and the names of `linux/io_uring.h`. Never
//! does: look into a ring. Where the data goes next: the call's printer in `special.rs`.

use crate::bytes::u32_at;
use crate::flags::{self, Names, names};
use crate::put;

const SETUP: Names = names! { "IORING_SETUP_???":
    IORING_SETUP_IOPOLL = 1, IORING_SETUP_SQPOLL = 2, IORING_SETUP_SQ_AFF = 4,
    IORING_SETUP_CQSIZE = 8, IORING_SETUP_CLAMP = 0x10, IORING_SETUP_ATTACH_WQ = 0x20,
    IORING_SETUP_R_DISABLED = 0x40, IORING_SETUP_SUBMIT_ALL = 0x80,
    IORING_SETUP_COOP_TASKRUN = 0x100, IORING_SETUP_TASKRUN_FLAG = 0x200,
    IORING_SETUP_SQE128 = 0x400, IORING_SETUP_CQE32 = 0x800,
    IORING_SETUP_SINGLE_ISSUER = 0x1000, IORING_SETUP_DEFER_TASKRUN = 0x2000,
};

const FEATURES: Names = names! { "IORING_FEAT_???":
    IORING_FEAT_SINGLE_MMAP = 1, IORING_FEAT_NODROP = 2, IORING_FEAT_SUBMIT_STABLE = 4,
    IORING_FEAT_RW_CUR_POS = 8, IORING_FEAT_CUR_PERSONALITY = 0x10,
    IORING_FEAT_FAST_POLL = 0x20, IORING_FEAT_POLL_32BITS = 0x40,
    IORING_FEAT_SQPOLL_NONFIXED = 0x80, IORING_FEAT_EXT_ARG = 0x100,
    IORING_FEAT_NATIVE_WORKERS = 0x200, IORING_FEAT_RSRC_TAGS = 0x400,
    IORING_FEAT_CQE_SKIP = 0x800, IORING_FEAT_LINKED_FILE = 0x1000,
};

/// What the program asks for, without the closing brace.
pub fn asked(out: &mut String, bytes: &[u8]) -> Option<()> {
    let wanted = u32_at(bytes, 8)?;
    out.push_str("{flags=");
    flags::bits(out, &SETUP, wanted.into());
    put!(out, ", sq_thread_cpu={}, ", u32_at(bytes, 12)?);
    put!(out, "sq_thread_idle={}", u32_at(bytes, 16)?);
    if wanted & 0x20 != 0 {
        put!(out, ", wq_fd={}", u32_at(bytes, 24)? as i32);
    }
    Some(())
}

/// What the kernel answers, to follow [`asked`], without the closing brace.
pub fn answered(out: &mut String, bytes: &[u8]) -> Option<()> {
    put!(out, ", sq_entries={}, cq_entries={}", u32_at(bytes, 0)?, u32_at(bytes, 4)?);
    out.push_str(", features=");
    flags::bits(out, &FEATURES, u32_at(bytes, 20)?.into());
    let submission = ["head", "tail", "ring_mask", "ring_entries", "flags", "dropped", "array"];
    let completion = ["head", "tail", "ring_mask", "ring_entries", "overflow", "cqes", "flags"];
    for (name, fields, start) in [("sq_off", submission, 40), ("cq_off", completion, 80)] {
        put!(out, ", {name}={{");
        for (index, field) in fields.iter().enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            put!(out, "{comma}{field}={}", u32_at(bytes, start + index * 4)?);
        }
        out.push('}');
    }
    Some(())
}
