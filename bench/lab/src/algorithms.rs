//! Congestion controls that a scenario can name: ours, and those that stock kernels have.

use hotcc::object::Source;
use hotcc::object::describe::Description;
use hotcc::tunables::values;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, setsockopt, socket, sockopt::TcpCongestion};
use std::collections::BTreeMap;
use std::ffi::OsString;

/// Those of Debian's kernels; all but cubic and reno are modules there.
pub const OF_THE_KERNEL: [&str; 8] = ["cubic", "reno", "bbr", "highspeed", "bic", "westwood", "vegas", "illinois"];

/// Whether we bring it.
#[must_use]
pub fn is_ours(name: &str) -> bool {
    hotcc_bpf::algo(name).is_some()
}

/// What one of ours says of itself.
pub fn description(name: &str) -> hotcc_host::error::Result<Description> {
    Ok(Source::find(name)?.open()?.description)
}

/// Fields of its state for each connection; the kernel's have none that could be named.
#[must_use]
pub fn state(name: &str) -> Vec<String> {
    if !is_ours(name) {
        return Vec::new();
    }
    description(name).map_or_else(|_| Vec::new(), |d| d.state.into_iter().map(|field| field.name).collect())
}

/// What is wrong with values for its tunables, if something is.
pub fn check_tunables(name: &str, set: &BTreeMap<String, toml::Value>) -> Result<(), String> {
    let description = description(name).map_err(|e| format!("{e:#}"))?;
    for assignment in assignments(set) {
        values::parse(&description.tunables, &assignment).map_err(|e| format!("{e:#}"))?;
    }
    Ok(())
}

/// As `hotcc set` takes them: `eta=3`.
#[must_use]
pub fn assignments(set: &BTreeMap<String, toml::Value>) -> Vec<String> {
    set.iter().map(|(key, value)| format!("{key}={}", text(value))).collect()
}

/// A value without TOML's quotes.
#[must_use]
pub fn text(value: &toml::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned)
}

/// Whether a socket on this machine can have it. The kernel loads the module for it, if it is in one.
pub fn is_usable(cc: &str) -> nix::Result<bool> {
    let socket = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    Ok(setsockopt(&socket, TcpCongestion, &OsString::from(cc)).is_ok())
}

/// The module that has one of the kernel's; `None` for ours and those that are built in.
#[must_use]
pub fn module(cc: &str) -> Option<&'static str> {
    Some(match cc {
        "bbr" => "tcp_bbr",
        "highspeed" => "tcp_highspeed",
        "bic" => "tcp_bic",
        "westwood" => "tcp_westwood",
        "vegas" => "tcp_vegas",
        "illinois" => "tcp_illinois",
        _ => return None,
    })
}
