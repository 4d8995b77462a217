//! A spin lock for the few structures that the tasks of one address space share.
//!
//! Held only for short stretches in which no signal handler of the program can run (the
//! phase is `Agent`, or every signal is blocked), so a holder never waits for itself. A
//! fork takes the locks first (see `task.rs`), so a child never inherits a held one.

use core::cell::UnsafeCell;
use core::hint::spin_loop;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicBool, Ordering};

use crate::sys;

/// A value behind a lock.
pub struct Lock<T> {
    held: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the value is only reached through the lock.
unsafe impl<T: Send> Sync for Lock<T> {}

/// Proof that the lock is held; releases it when dropped.
pub struct Guard<'a, T>(&'a Lock<T>);

impl<T> Lock<T> {
    /// A lock that nobody holds.
    pub const fn new(value: T) -> Self {
        Self { held: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// Waits for the lock and takes it.
    pub fn lock(&self) -> Guard<'_, T> {
        let mut spins = 0u32;
        while self.held.swap(true, Ordering::Acquire) {
            spins += 1;
            if spins.is_multiple_of(128) {
                sys::call2(sys::nr::SCHED_YIELD, 0, 0);
            }
            spin_loop();
        }
        Guard(self)
    }

    /// Releases the lock in the child of a fork, whose parent holds it.
    pub fn force_unlock(&self) {
        self.held.store(false, Ordering::Release);
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: this guard is the only one.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this guard is the only one.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        self.0.held.store(false, Ordering::Release);
    }
}
