//! Places at which a command may be killed or fail, for the tests that make it: debug builds end themselves with SIGKILL
//! where `HOTCC_KILL_AT` names the place, and fail where `HOTCC_FAIL_AT` does. Release builds know nothing of it.

use hotcc_host::error::Result;

/// A place between two changes of the kernel's state.
#[cfg(debug_assertions)]
pub fn kill(name: &str) {
    if std::env::var_os("HOTCC_KILL_AT").is_some_and(|wanted| wanted == name) {
        let _ = nix::sys::signal::kill(nix::unistd::getpid(), nix::sys::signal::SIGKILL);
    }
}

/// A place between two changes of the kernel's state.
#[cfg(not(debug_assertions))]
pub fn kill(_name: &str) {}

/// A place before a change that the kernel may refuse.
#[cfg(debug_assertions)]
pub fn fail(name: &str) -> Result<()> {
    if std::env::var_os("HOTCC_FAIL_AT").is_some_and(|wanted| wanted == name) {
        return Err(hotcc_host::error::Error::failed("told to fail"));
    }
    Ok(())
}

/// A place before a change that the kernel may refuse.
#[cfg(not(debug_assertions))]
pub fn fail(_name: &str) -> Result<()> {
    Ok(())
}
