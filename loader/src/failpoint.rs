//! Failpoints for tests: places at which a debug build kills itself with SIGKILL if `HOTCC_KILL_AT` names the place, or
//! fails if `HOTCC_FAIL_AT` names it, or panics if `HOTCC_PANIC_AT` names it. In release builds they do nothing.

use hotcc_host::error::Result;

/// Marks a place between two changes of the kernel's state.
#[cfg(debug_assertions)]
pub fn kill(name: &str) {
    if std::env::var_os("HOTCC_KILL_AT").is_some_and(|wanted| wanted == name) {
        let _ = nix::sys::signal::kill(nix::unistd::getpid(), nix::sys::signal::SIGKILL);
    }
}

/// Marks a place between two changes of the kernel's state.
#[cfg(not(debug_assertions))]
pub fn kill(_name: &str) {}

/// Marks a place before a change that the kernel may refuse.
#[cfg(debug_assertions)]
pub fn fail(name: &str) -> Result<()> {
    if std::env::var_os("HOTCC_FAIL_AT").is_some_and(|wanted| wanted == name) {
        return Err(hotcc_host::error::Error::failed("told to fail"));
    }
    Ok(())
}

/// Marks a place before a change that the kernel may refuse.
#[cfg(not(debug_assertions))]
pub fn fail(_name: &str) -> Result<()> {
    Ok(())
}

/// Marks a place at which a panic must leave no trace.
#[cfg(debug_assertions)]
pub fn panic(name: &str) {
    if std::env::var_os("HOTCC_PANIC_AT").is_some_and(|wanted| wanted == name) {
        panic!("told to panic");
    }
}

/// Marks a place at which a panic must leave no trace.
#[cfg(not(debug_assertions))]
pub fn panic(_name: &str) {}
