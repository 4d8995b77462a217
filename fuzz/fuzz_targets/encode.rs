//! The bytes of patches, for any bytes and addresses: nothing panics, and the invariants of
//! `agent/tests/invariants` hold.
#![no_main]

#[path = "../../agent/tests/invariants/mod.rs"]
mod invariants;

use invariants::{
    USER_END, check_any_number_load, check_choosing_stub, check_jump, check_number_load,
    check_passing_stub, check_pun_window, check_trampoline,
};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;

/// A site and what is around it.
#[derive(Arbitrary, Debug)]
struct Site<'a> {
    after: u64,
    next: [u8; 3],
    nr: u64,
    /// Distance of the trampoline, and of its pointer from it.
    trampoline: i32,
    pointer: i32,
    far: bool,
    moved: u8,
    before: &'a [u8],
}

fuzz_target!(|site: Site| {
    // Code lies in the lower half, and not at its very ends.
    let after = site.after % (USER_END - 0x200) + 0x100;
    let distance = i64::from(site.trampoline) << if site.far { 16 } else { 0 };
    let at = after.saturating_add_signed(distance).min(USER_END);
    let target = at.saturating_add_signed(i64::from(site.pointer));

    let load = check_number_load(site.before, site.nr);
    if let Some(nr) = check_any_number_load(site.before) {
        check_number_load(site.before, nr);
    }
    let moved = load.map_or(usize::from(site.moved), |load| load.len).min(site.before.len());
    let moved = &site.before[site.before.len() - moved..];
    check_trampoline(at, moved, after, target);
    check_passing_stub(at, moved, after);
    let usual = site.far.then_some(site.nr as u32 >> 1);
    check_choosing_stub(at, usual, site.nr as u32 >> 1, target, after);
    check_jump(after - 2, at);
    check_jump(after.saturating_sub(2 + moved.len() as u64), at);
    check_pun_window(after, site.next);
});
