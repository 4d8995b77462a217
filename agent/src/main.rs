//! The agent's image: the library, and what happens when it finds a mistake of its own.
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(target_os = "none")]
#[panic_handler]
fn panic(info: &core::panic::PanicInfo) -> ! {
    use crossgate_agent::sys;
    // Formatting would cost more than the rest of the image: file and line only.
    sys::complain(b"crossgate: internal error in the agent at ");
    if let Some(location) = info.location() {
        sys::complain(location.file().as_bytes());
        sys::complain(b":");
        sys::complain(sys::decimal(location.line(), &mut [0; 10]));
    }
    sys::complain(b"; please report it\n");
    sys::exit_process(134)
}

/// On a host with an operating system there is nothing to run; the image is built for
/// `x86_64-unknown-none` by `launch/build.rs`.
#[cfg(not(target_os = "none"))]
fn main() {}
