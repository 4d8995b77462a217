//! Everything of the agent that knows the x86-64 instruction set, register names or frame
//! layouts.

#[cfg(target_os = "none")]
pub mod copy;
pub mod encode;
#[cfg(target_os = "none")]
pub mod entry;
pub mod frame;
#[cfg(target_os = "none")]
pub mod library;
#[cfg(target_os = "none")]
pub mod segment;
