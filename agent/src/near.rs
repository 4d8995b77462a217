//! Memory for trampolines: pages within reach of a jump from the code they serve.
//!
//! Owns: finding free addresses, which pages exist, writing to them. A page is mapped
//! read-execute and is writable only while a trampoline is written. Every page starts with
//! [`POINTERS`] pointers through which trampolines jump to the gate, which may lie too far
//! for a direct jump. Stubs are the code that makes calls itself: they lie in front of the
//! image, where calls are the kernel's, and serve what a jump can reach from there.

use crate::arch::x86_64::encode::{Stub, TRAMPOLINE};
use crate::arch::x86_64::entry;
use crate::image;
use crate::process::PROCESS;
use crate::sys;

/// Bytes of a page.
pub const PAGE: u64 = 4096;
/// Pointers at the start of each page, in the order of [`Target`].
const POINTERS: u64 = 4;
const POOLS: usize = 64;
const POOL_SIZE: u64 = 16 * PAGE;
const PUN_PAGES: usize = 384;
/// Half a cache line: a stub for a known number never crosses one.
const STUB_ALIGNMENT: u64 = 32;
/// A little less than what 32 bits of displacement reach.
const REACH: u64 = 0x7fff_0000;
/// Nothing is mapped below: the usual vm.mmap_min_addr, and page zero stays free.
const LOWEST: u64 = 0x1_0000;
const HIGHEST: u64 = 0x7fff_ffff_f000;
const USABLE: core::ops::Range<u64> = LOWEST..HIGHEST;

/// Where a trampoline goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// Straight to the kernel.
    Pass = 0,
    /// To Rust.
    Enter = 1,
    /// Whichever the call's number says.
    EnterAny = 2,
    /// A call of the host's (`host.rs`).
    Host = 3,
    /// To a hook library, by a stub; to Rust where there can be none.
    Hook = 4,
}

/// Consecutive pages filled from the start.
#[derive(Clone, Copy)]
struct Pool {
    start: u64,
    used: u64,
}

/// A single page whose trampolines lie where jumps happen to lead.
#[derive(Clone, Copy)]
struct PunPage {
    start: u64,
    /// One bit per 8 bytes.
    used: [u64; 8],
}

/// All trampoline memory of an address space.
pub struct Near {
    pools: [Pool; POOLS],
    pool_count: usize,
    puns: [PunPage; PUN_PAGES],
    pun_count: usize,
    /// Bytes of the stubs' range in use.
    stubs_used: u64,
    /// Trampolines and pointers that are writable for the moment.
    window: Window,
    /// Stubs that are.
    stub_window: Window,
}

impl Near {
    /// None yet.
    pub const fn none() -> Self {
        Self {
            pools: [Pool { start: 0, used: 0 }; POOLS],
            pool_count: 0,
            puns: [PunPage { start: 0, used: [0; 8] }; PUN_PAGES],
            pun_count: 0,
            stubs_used: 0,
            window: Window::closed(),
            stub_window: Window::closed(),
        }
    }

    /// Writes to trampoline memory that no task runs yet.
    pub fn write(&mut self, at: u64, bytes: &[u8]) -> bool {
        write_new(&mut self.window, at, bytes)
    }

    /// After the last of some writes.
    pub fn seal(&mut self) {
        self.window.close();
        self.stub_window.close();
    }

    fn write_pointers(&mut self, page: u64) -> bool {
        let mut bytes = [0; POINTERS as usize * 8];
        let host = crate::arch::x86_64::library::host_call();
        let targets = [entry::pass(), entry::enter(), entry::enter_any(), host];
        for (target, address) in targets.iter().enumerate() {
            bytes[target * 8..target * 8 + 8].copy_from_slice(&address.to_le_bytes());
        }
        self.write(page, &bytes)
    }

    /// Unmaps all of it but the stubs, which lie with the image.
    pub fn unmap(&mut self) {
        let pools = self.pools[..self.pool_count].iter().map(|pool| (pool.start, POOL_SIZE));
        let puns = self.puns[..self.pun_count].iter().map(|page| (page.start, PAGE));
        for (start, len) in pools.chain(puns) {
            sys::call2(sys::nr::MUNMAP, start, len);
        }
        (self.pool_count, self.pun_count) = (0, 0);
    }

    /// Whether `address` lies in trampoline memory.
    pub fn contains(&self, address: u64) -> bool {
        image::stubs().contains(&address)
            || self.pools[..self.pool_count]
                .iter()
                .any(|p| address.wrapping_sub(p.start) < POOL_SIZE)
            || self.puns[..self.pun_count].iter().any(|p| address.wrapping_sub(p.start) < PAGE)
    }

    /// Where the next stub goes, if it can be reached from `address` and back.
    pub fn next_stub(&self, address: u64) -> Option<u64> {
        let at = image::stubs().start + self.stubs_used;
        (at.abs_diff(address) < REACH).then_some(at)
    }

    /// Whether the stub at `at` is just this one.
    pub fn has(&self, at: u64, stub: &Stub) -> bool {
        // SAFETY: `at` was given by `next_stub` and written to: it is mapped and readable.
        let there = unsafe { core::slice::from_raw_parts(at as *const u8, stub.len) };
        there == &stub.code[..stub.len]
    }

    /// Writes the next stub; whether there was room for it.
    pub fn write_stub(&mut self, stub: &Stub) -> bool {
        let code = &stub.code[..stub.len];
        let after = self.stubs_used + (stub.len as u64).next_multiple_of(STUB_ALIGNMENT);
        let at = image::stubs().start + self.stubs_used;
        let fits = at + stub.len as u64 <= image::stubs().end;
        if !fits || !write_new(&mut self.stub_window, at, code) {
            return false;
        }
        self.stubs_used = after;
        true
    }

    /// A place for one trampoline within reach of `address`.
    pub fn take_near(&mut self, address: u64) -> Option<u64> {
        for index in 0..self.pool_count {
            let pool = &mut self.pools[index];
            let at = pool.start + pool.used;
            if at.abs_diff(address) < REACH && pool.used + TRAMPOLINE as u64 <= POOL_SIZE {
                // A trampoline never crosses a page, and the first slot of a page holds the
                // pointers.
                pool.used += TRAMPOLINE as u64;
                if pool.used.is_multiple_of(PAGE) {
                    pool.used += POINTERS_SIZE;
                }
                let page = at & !(PAGE - 1);
                if at == page + POINTERS_SIZE && !self.write_pointers(page) {
                    return None;
                }
                return Some(at);
            }
        }
        if self.pool_count == POOLS {
            return None;
        }
        let start = find_free(address, POOL_SIZE)?;
        self.pools[self.pool_count] = Pool { start, used: POINTERS_SIZE };
        self.pool_count += 1;
        self.take_near(address)
    }

    /// A place for a trampoline of `len` bytes at one of the 256 addresses from `window` on.
    pub fn take_pun(&mut self, window: u64, len: u64) -> Option<u64> {
        let last = window.checked_add(255)?;
        for page in [window & !(PAGE - 1), last & !(PAGE - 1)] {
            if !USABLE.contains(&page) || PROCESS.may_grow_to(page) {
                continue;
            }
            let Some(index) = self.pun_page(page) else { continue };
            let start = window.max(page + POINTERS_SIZE).next_multiple_of(8);
            let end = (last + 1).min(page + PAGE - len);
            let mut at = start;
            while at < end {
                if self.puns[index].take(at - page, len) {
                    return Some(at);
                }
                at += 8;
            }
            if page == last & !(PAGE - 1) {
                break;
            }
        }
        None
    }

    /// The one place at `at`, if it is free.
    pub fn take_exact(&mut self, at: u64, len: u64) -> Option<u64> {
        let page = at & !(PAGE - 1);
        let fits = at - page >= POINTERS_SIZE && at + len <= page + PAGE;
        if !fits || !USABLE.contains(&page) || PROCESS.may_grow_to(page) {
            return None;
        }
        let index = self.pun_page(page)?;
        self.puns[index].take(at - page, len).then_some(at)
    }

    fn pun_page(&mut self, start: u64) -> Option<usize> {
        if let Some(index) = self.puns[..self.pun_count].iter().position(|p| p.start == start) {
            return Some(index);
        }
        if self.pun_count == PUN_PAGES || !self.window.map(start, PAGE) {
            return None;
        }
        if !self.write_pointers(start) {
            self.window.close();
            sys::call2(sys::nr::MUNMAP, start, PAGE);
            return None;
        }
        self.puns[self.pun_count] = PunPage { start, used: [0; 8] };
        self.pun_count += 1;
        Some(self.pun_count - 1)
    }
}

/// Writes code that no task runs yet.
fn write_new(window: &mut Window, at: u64, code: &[u8]) -> bool {
    if !window.open(at, code.len() as u64) {
        return false;
    }
    // SAFETY: memory for trampolines and stubs is ours, and was made writable.
    unsafe { core::ptr::copy_nonoverlapping(code.as_ptr(), at as *mut u8, code.len()) };
    true
}

impl PunPage {
    fn take(&mut self, offset: u64, len: u64) -> bool {
        let slots = (offset / 8)..(offset + len).div_ceil(8);
        if slots.clone().any(|s| self.used[s as usize / 64] & 1 << (s % 64) != 0) {
            return false;
        }
        for s in slots {
            self.used[s as usize / 64] |= 1 << (s % 64);
        }
        true
    }
}

const POINTERS_SIZE: u64 = TRAMPOLINE as u64;
const _: () = assert!(POINTERS * 8 <= POINTERS_SIZE);

/// Address of the pointer to `target` for a trampoline at `at`.
pub fn pointer(at: u64, target: Target) -> u64 {
    (at & !(PAGE - 1)) + target as u64 * 8
}

/// Pages of code that are writable for the moment. One range at a time, so that patches that
/// follow each other on a page change its protection once.
pub struct Window {
    range: Option<(u64, u64)>,
}

impl Window {
    /// None.
    pub const fn closed() -> Self {
        Self { range: None }
    }

    /// Makes the pages of `[at, at + len)` writable, and those that were before not. They
    /// stay executable: other tasks may be running there.
    pub fn open(&mut self, at: u64, len: u64) -> bool {
        let start = at & !(PAGE - 1);
        let len = (at + len).next_multiple_of(PAGE) - start;
        if self.holds(start) && self.holds(start + len - 1) {
            return true;
        }
        self.close();
        let opened = sys::protect(start, len, sys::READ | sys::WRITE | sys::EXEC);
        self.range = opened.then_some((start, len));
        opened
    }

    /// Maps new pages, which are writable from the start.
    fn map(&mut self, start: u64, len: u64) -> bool {
        let mapped = sys::map_at(start, len, sys::READ | sys::WRITE | sys::EXEC);
        if mapped {
            self.close();
            self.range = Some((start, len));
        }
        mapped
    }

    /// Whether the page of `at` is writable only because of this.
    pub fn holds(&self, at: u64) -> bool {
        self.range.is_some_and(|(start, len)| at.wrapping_sub(start) < len)
    }

    /// Takes the permission to write away again.
    pub fn close(&mut self) {
        if let Some((start, len)) = self.range.take() {
            sys::protect(start, len, sys::READ | sys::EXEC);
        }
    }
}

/// Maps `len` bytes somewhere within reach of `address`. Below it where possible: above a
/// program lies its heap, above the libraries its stack.
fn find_free(address: u64, len: u64) -> Option<u64> {
    const NEAR: u64 = 16 << 20;
    let map = |at: u64| {
        let usable = at >= LOWEST && at < HIGHEST - len && !PROCESS.may_grow_to(at);
        usable && sys::map_at(at, len, sys::READ | sys::EXEC)
    };
    let base = address & !(POOL_SIZE - 1);
    if base < 2 * NEAR {
        // A program at a fixed low address: the space below it is small but usually free.
        let mut at = LOWEST;
        while at + len <= base {
            if map(at) {
                return Some(at);
            }
            at += POOL_SIZE;
        }
    }
    let mut distance = NEAR;
    while distance < REACH {
        for at in [base.checked_sub(distance), base.checked_add(distance)].into_iter().flatten() {
            if map(at) {
                return Some(at);
            }
        }
        distance += NEAR;
    }
    None
}
