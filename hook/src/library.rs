//! Hook libraries in Rust: `crossgate.h` with types. Without the feature `std` a library has neither
//! libc nor vector registers, and costs the least; with it, it has all that Rust programs have but
//! threads.
//!
//! Owns: the trait that an author implements, safe ways to the program's memory and the kernel,
//! and the macro that makes a library of it. Never does: anything in the agent, which knows
//! libraries by their functions only.
//!
//! ```ignore
//! #![no_std]
//! use crossgate_hook::library::{Argument, Call, Calls, Decision, Errno, Library, Task, library};
//!
//! struct Root;
//!
//! impl Library for Root {
//!     fn start(_: &Task, _: &Argument, calls: &mut Calls) -> Result<Self, Errno> {
//!         calls.subscribe(102)?; // getuid
//!         calls.subscribe(107)?; // geteuid
//!         Ok(Self)
//!     }
//!     fn enter(&self, _: &Task, _: &mut Call) -> Decision {
//!         Decision::Answer(0)
//!     }
//! }
//!
//! library!(Root);
//! ```

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char, c_void};
use core::fmt::{self, Write};
use core::marker::PhantomData;
use core::mem::{MaybeUninit, align_of, size_of};
use core::ptr;

pub use crate::Call;
pub use crate::library_macro as library;

unsafe extern "C" {
    fn crossgate_subscribe(nr: i64) -> i64;
    fn crossgate_read(task: *const Task, to: *mut u8, from: u64, size: usize) -> i64;
    fn crossgate_read_string(task: *const Task, to: *mut u8, from: u64, size: usize) -> i64;
    fn crossgate_write(task: *const Task, to: u64, from: *const u8, size: usize) -> i64;
    fn crossgate_call(task: *const Task, call: *const Call) -> i64;
    fn crossgate_pid(task: *const Task) -> i32;
    fn crossgate_tid(task: *const Task) -> i32;
    fn crossgate_task_state(task: *const Task) -> *mut c_void;
    fn crossgate_log(task: *const Task, text: *const c_char, size: usize);
    fn crossgate_fail(task: *const Task, text: *const c_char, size: usize) -> !;
}

/// An error number of the kernel's, from 1 to 4095.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Errno(pub u16);

impl Errno {
    /// A bad address.
    pub const FAULT: Self = Self(14);

    /// As the result of a call: `-errno`.
    pub fn result(self) -> i64 {
        -i64::from(self.0)
    }

    /// A call's result: a value, or the error that it is.
    pub fn check(result: i64) -> Result<u64, Self> {
        match result {
            -4095..0 => Err(Self(result.unsigned_abs() as u16)),
            value => Ok(value as u64),
        }
    }
}

/// The task that calls. There is one only while the library is asked.
#[repr(C)]
pub struct Task {
    /// Made by the agent only, and neither sent nor shared.
    opaque: [u8; 0],
    nobody_makes_it: PhantomData<*mut ()>,
}

impl Task {
    /// Copies from the program's address `from`; gives how many bytes could be read, at least
    /// one where `into` has room for one.
    pub fn read(&self, from: u64, into: &mut [u8]) -> Result<usize, Errno> {
        // SAFETY: writes to `into` only.
        let got = unsafe { crossgate_read(self, into.as_mut_ptr(), from, into.len()) };
        Errno::check(got).map(|len| len as usize)
    }

    /// Reads a number at the program's address `from`.
    pub fn read_u64(&self, from: u64) -> Result<u64, Errno> {
        let mut bytes = [0; 8];
        if self.read(from, &mut bytes)? < bytes.len() {
            return Err(Errno::FAULT);
        }
        Ok(u64::from_ne_bytes(bytes))
    }

    /// Reads a string, without its NUL. `ENAMETOOLONG` where it does not fit.
    pub fn read_string<'a>(&self, from: u64, into: &'a mut [u8]) -> Result<&'a [u8], Errno> {
        // SAFETY: writes to `into` only.
        let got = unsafe { crossgate_read_string(self, into.as_mut_ptr(), from, into.len()) };
        Ok(&into[..Errno::check(got)? as usize])
    }

    /// Copies to the program's address `to`; gives how many bytes could be written, at least
    /// one where there are any.
    pub fn write(&self, to: u64, bytes: &[u8]) -> Result<usize, Errno> {
        // SAFETY: reads `bytes` only. What the program makes of it is the author's word.
        let done = unsafe { crossgate_write(self, to, bytes.as_ptr(), bytes.len()) };
        Errno::check(done).map(|len| len as usize)
    }

    /// Makes a call of the library's own, which no hook sees.
    ///
    /// # Safety
    /// The call does to this process what it does: it may unmap memory or end it.
    pub unsafe fn inject(&self, nr: u64, args: [u64; 6]) -> Result<u64, Errno> {
        // SAFETY: as the caller says.
        Errno::check(unsafe { crossgate_call(self, &Call { nr, args, site: 0 }) })
    }

    /// The process's id, as the program sees it.
    pub fn pid(&self) -> i32 {
        // SAFETY: a query.
        unsafe { crossgate_pid(self) }
    }

    /// The thread's id, as the program sees it.
    pub fn tid(&self) -> i32 {
        // SAFETY: a query.
        unsafe { crossgate_tid(self) }
    }

    /// What this library keeps of this task: zeros when the task begins.
    pub fn with_state<S: Zeroable, R>(&self, look: impl FnOnce(&mut S) -> R) -> R {
        const { assert!(size_of::<S>() <= 512 && align_of::<S>() <= 512) };
        // SAFETY: 512 bytes, aligned to 512, of this task and library alone; `Task` is not
        // shared, and `look` has no way back here with the same task but by asking for it.
        look(unsafe { &mut *crossgate_task_state(self).cast::<S>() })
    }

    /// Writes a line to the log of `crossgate run`.
    pub fn log(&self, text: &[u8]) {
        // SAFETY: reads `text` only.
        unsafe { crossgate_log(self, text.as_ptr().cast(), text.len()) }
    }
}

/// Types of which all zeros are a value.
///
/// # Safety
/// They are.
pub unsafe trait Zeroable {}

macro_rules! zeroable {
    ($($t:ty),*) => {
        $(
            // SAFETY: zero is a number.
            unsafe impl Zeroable for $t {}
        )*
    };
}

zeroable!(u8, u16, u32, u64, usize, i8, i16, i32, i64, isize);
// SAFETY: as their elements.
unsafe impl<T: Zeroable, const N: usize> Zeroable for [T; N] {}

/// What follows the colon of `--hook LIBRARY:ARGUMENT`.
pub type Argument = CStr;

/// Where a library says which calls it wants to see.
pub struct Calls(());

impl Calls {
    /// Calls with this number.
    pub fn subscribe(&mut self, nr: u64) -> Result<(), Errno> {
        let nr = i64::try_from(nr).map_err(|_| Errno(22))?;
        // SAFETY: a number.
        Errno::check(unsafe { crossgate_subscribe(nr) }).map(|_| ())
    }

    /// All calls.
    pub fn subscribe_all(&mut self) {
        // SAFETY: a number that stands for all; it cannot fail while a library starts.
        unsafe { crossgate_subscribe(-1) };
    }
}

/// What becomes of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// The kernel gets it as it was.
    Continue,
    /// The program gets this result, a value or `-errno`, and the kernel nothing.
    Answer(i64),
    /// The kernel gets it as it is now, and [`Library::exit`] its result.
    Watch,
    /// The kernel gets it as it is now.
    Change,
}

/// What happened to a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// It is about to run its first instruction.
    TaskBegins,
    /// The same, in a process that fork made: all memory is a copy.
    ProcessBegins,
    /// It makes its last call.
    TaskEnds,
}

/// A hook library. One value lives as long as the program, and is asked by all its threads.
pub trait Library: Sized + Sync {
    /// Called in each program before its first instruction; an error refuses.
    fn start(task: &Task, argument: &Argument, calls: &mut Calls) -> Result<Self, Errno>;

    /// A call that was subscribed to begins.
    fn enter(&self, task: &Task, call: &mut Call) -> Decision;

    /// A call that is watched has ended; gives the result that the program sees. -512: a signal
    /// came, and the call will begin again.
    fn exit(&self, task: &Task, call: &Call, result: i64) -> i64 {
        let _ = (task, call);
        result
    }

    /// Something happened to the task.
    fn task(&self, task: &Task, event: Event) {
        let _ = (task, event);
    }
}

/// The one value of a library; what [`library!`](crate::library_macro) makes a static of.
pub struct Cell<L>(UnsafeCell<MaybeUninit<L>>);

// SAFETY: written once, before the program's first instruction; read only after.
unsafe impl<L: Library> Sync for Cell<L> {}

impl<L: Library> Cell<L> {
    /// None yet.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Self {
        Self(UnsafeCell::new(MaybeUninit::uninit()))
    }

    /// `crossgate_hook_init`.
    ///
    /// # Safety
    /// Called by the agent, once.
    pub unsafe fn init(&self, task: *const Task, argument: *const c_char) -> i32 {
        // The program is stopped in the middle of a call: nothing is unwound through it.
        #[cfg(feature = "std")]
        std::panic::set_hook(std::boxed::Box::new(|info| give_up(info)));
        // SAFETY: both are what `crossgate.h` says; nobody reads the cell yet.
        let started = unsafe { L::start(&*task, CStr::from_ptr(argument), &mut Calls(())) };
        match started {
            Ok(library) => {
                // SAFETY: as above.
                unsafe { (*self.0.get()).write(library) };
                0
            }
            Err(errno) => errno.result() as i32,
        }
    }

    /// # Safety
    /// `init` has given 0.
    unsafe fn get(&self) -> &L {
        // SAFETY: it was written then, and is not written again.
        unsafe { (*self.0.get()).assume_init_ref() }
    }

    /// `crossgate_hook_enter`.
    ///
    /// # Safety
    /// Called by the agent.
    pub unsafe fn enter(&self, task: *const Task, call: *mut Call, result: *mut i64) -> i32 {
        // SAFETY: the agent asks a library only that has started, with pointers to what they
        // are of.
        let (library, task, call) = unsafe { (self.get(), &*task, &mut *call) };
        match library.enter(task, call) {
            Decision::Continue => 0,
            Decision::Answer(answer) => {
                // SAFETY: as above.
                unsafe { *result = answer };
                1
            }
            Decision::Watch => 2,
            Decision::Change => 3,
        }
    }

    /// `crossgate_hook_exit`.
    ///
    /// # Safety
    /// Called by the agent.
    pub unsafe fn exit(&self, task: *const Task, call: *const Call, result: i64) -> i64 {
        // SAFETY: as in `enter`.
        let (library, task, call) = unsafe { (self.get(), &*task, &*call) };
        library.exit(task, call, result)
    }

    /// `crossgate_hook_task`.
    ///
    /// # Safety
    /// Called by the agent.
    pub unsafe fn task(&self, task: *const Task, event: i32) {
        let event = match event {
            1 => Event::TaskBegins,
            2 => Event::ProcessBegins,
            3 => Event::TaskEnds,
            _ => return,
        };
        // SAFETY: as in `enter`.
        let (library, task) = unsafe { (self.get(), &*task) };
        library.task(task, event);
    }
}

/// Gives the library up with what a panic says.
#[cfg(not(feature = "std"))]
pub fn panicked(info: &core::panic::PanicInfo) -> ! {
    give_up(info)
}

fn give_up(info: &impl fmt::Display) -> ! {
    struct Line([u8; 512], usize);
    impl Write for Line {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            let take = text.len().min(self.0.len() - self.1);
            self.0[self.1..self.1 + take].copy_from_slice(&text.as_bytes()[..take]);
            self.1 += take;
            Ok(())
        }
    }
    let mut line = Line([0; 512], 0);
    // It cannot fail: what does not fit is left out.
    let _ = write!(line, "{info}");
    // SAFETY: reads the line; without a task, the current one.
    unsafe { crossgate_fail(ptr::null(), line.0.as_ptr().cast(), line.1) }
}

/// Makes a hook library of a type that implements [`Library`].
#[macro_export]
#[doc(hidden)]
macro_rules! library_macro {
    ($library:ty) => {
        static LIBRARY: $crate::library::Cell<$library> = $crate::library::Cell::new();

        const _: () = {
            use core::ffi::c_char;
            use $crate::library::{Call, Task};

            #[unsafe(no_mangle)]
            unsafe extern "C" fn crossgate_hook_init(
                task: *const Task,
                argument: *const c_char,
            ) -> i32 {
                // SAFETY: the agent calls.
                unsafe { LIBRARY.init(task, argument) }
            }

            #[unsafe(no_mangle)]
            unsafe extern "C" fn crossgate_hook_enter(
                task: *const Task,
                call: *mut Call,
                result: *mut i64,
            ) -> i32 {
                // SAFETY: the agent calls.
                unsafe { LIBRARY.enter(task, call, result) }
            }

            #[unsafe(no_mangle)]
            unsafe extern "C" fn crossgate_hook_exit(
                task: *const Task,
                call: *const Call,
                result: i64,
            ) -> i64 {
                // SAFETY: the agent calls.
                unsafe { LIBRARY.exit(task, call, result) }
            }

            #[unsafe(no_mangle)]
            unsafe extern "C" fn crossgate_hook_task(task: *const Task, event: i32) {
                // SAFETY: the agent calls.
                unsafe { LIBRARY.task(task, event) }
            }

            $crate::panic_handler_macro!();
        };
    };
}

/// What a library without `std` must have.
#[cfg(not(feature = "std"))]
#[macro_export]
#[doc(hidden)]
macro_rules! panic_handler_macro {
    () => {
        #[panic_handler]
        fn panic(info: &core::panic::PanicInfo) -> ! {
            $crate::library::panicked(info)
        }
    };
}

/// With `std`, a hook of its own does it: see [`library::Cell::init`].
#[cfg(feature = "std")]
#[macro_export]
#[doc(hidden)]
macro_rules! panic_handler_macro {
    () => {};
}
