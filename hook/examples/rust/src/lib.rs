//! Lets a program believe that it is another user: the one whose number is the argument.
//!
//! `crossgate run --hook ./libfake_uid.so:4321 -- id -u`
#![no_std]

use crossgate_hook::library::{Argument, Call, Calls, Decision, Errno, Library, Task, library};

const GETUID: u64 = 102;
const GETEUID: u64 = 107;

struct FakeUid(u32);

impl Library for FakeUid {
    fn start(_: &Task, argument: &Argument, calls: &mut Calls) -> Result<Self, Errno> {
        const EINVAL: Errno = Errno(22);
        let text = argument.to_str().map_err(|_| EINVAL)?;
        let uid = if text.is_empty() { 0 } else { text.parse().map_err(|_| EINVAL)? };
        calls.subscribe(GETUID)?;
        calls.subscribe(GETEUID)?;
        Ok(Self(uid))
    }

    fn enter(&self, _: &Task, _: &mut Call) -> Decision {
        assert!(self.0 != 666, "no user {}", self.0);
        Decision::Answer(self.0.into())
    }
}

library!(FakeUid);
