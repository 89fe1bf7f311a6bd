//! Places at which a command may be killed, for the tests that kill it there: debug builds end themselves with SIGKILL
//! where `HOTCC_KILL_AT` names the place. Release builds know nothing of it.

/// A place between two changes of the kernel's state.
#[cfg(debug_assertions)]
pub fn killpoint(name: &str) {
    if std::env::var_os("HOTCC_KILL_AT").is_some_and(|wanted| wanted == name) {
        let _ = nix::sys::signal::kill(nix::unistd::getpid(), nix::sys::signal::SIGKILL);
    }
}

/// A place between two changes of the kernel's state.
#[cfg(not(debug_assertions))]
pub fn killpoint(_name: &str) {}
