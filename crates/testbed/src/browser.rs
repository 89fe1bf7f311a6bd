//! The browser for tests of pages.

use std::process::Command;

/// Returns the name of an installed Chromium.
#[must_use]
pub fn chromium() -> Option<&'static str> {
    let installed = |name: &&str| Command::new(name).arg("--version").output().is_ok_and(|o| o.status.success());
    ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"].into_iter().find(installed)
}
