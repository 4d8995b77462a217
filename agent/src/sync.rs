//! A lock for the few structures that the tasks of one address space share.
//!
//! Held only for short stretches in which no signal handler of the program can run (the
//! phase is `Agent`, or every signal is blocked), so a holder never waits for itself. A
//! fork takes the locks first (see `task.rs`), so a child never inherits one that another
//! task holds.

use core::cell::UnsafeCell;
use core::hint::spin_loop;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU32, Ordering};

use crate::sys;

const FREE: u32 = 0;
const HELD: u32 = 1;
/// Held, and somebody sleeps until it is not.
const AWAITED: u32 = 2;

/// A value behind a lock.
pub struct Lock<T> {
    state: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: the value is only reached through the lock.
unsafe impl<T: Send> Sync for Lock<T> {}

/// Proof that the lock is held; releases it when dropped.
pub struct Guard<'a, T>(&'a Lock<T>);

impl<T> Lock<T> {
    /// A lock that nobody holds.
    pub const fn new(value: T) -> Self {
        Self { state: AtomicU32::new(FREE), value: UnsafeCell::new(value) }
    }

    /// Waits for the lock and takes it.
    pub fn lock(&self) -> Guard<'_, T> {
        // Most are held for less than going to sleep takes.
        const SPINS: u32 = 100;
        let (free, held) = (FREE, HELD);
        for _ in 0..SPINS {
            if self
                .state
                .compare_exchange_weak(free, held, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
            {
                return Guard(self);
            }
            spin_loop();
        }
        while self.state.swap(AWAITED, Ordering::Acquire) != FREE {
            sys::futex_wait(&self.state, AWAITED, 1000);
        }
        Guard(self)
    }

    /// Releases the lock in the child of a fork, whose parent holds it.
    pub fn force_unlock(&self) {
        self.state.store(FREE, Ordering::Release);
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
        if self.0.state.swap(FREE, Ordering::Release) == AWAITED {
            sys::futex_wake(&self.0.state);
        }
    }
}
