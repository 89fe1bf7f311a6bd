//! Congestion controls that a scenario can name: ours, those that stock kernels have, and object files of others.

use hotcc::object::Source;
use hotcc::object::describe::Description;
use hotcc::tunables::values;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, setsockopt, socket, sockopt::TcpCongestion};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

/// Those of Debian's kernels; all but cubic and reno are modules there.
pub const OF_THE_KERNEL: [&str; 8] = ["cubic", "reno", "bbr", "highspeed", "bic", "westwood", "vegas", "illinois"];

/// Whether we bring it.
#[must_use]
pub fn is_ours(name: &str) -> bool {
    hotcc_bpf::algo(name).is_some()
}

/// Whether it is the path of an object file.
#[must_use]
pub fn is_object_file(cc: &str) -> bool {
    cc.ends_with(".o")
}

/// The name under which the lab registers an object file: that of the file without `.bpf.o` or `.o`. The name in the object
/// would not do: two versions of an algorithm have the same one. Any other name is returned unchanged.
#[must_use]
pub fn object_name(cc: &str) -> &str {
    let file = cc.rsplit('/').next().unwrap_or(cc);
    match file.strip_suffix(".bpf.o").or_else(|| file.strip_suffix(".o")) {
        Some(name) => name,
        None => cc,
    }
}

/// Whether the lab loads it, as opposed to those of the kernel.
#[must_use]
pub fn is_loaded(cc: &str) -> bool {
    is_ours(cc) || is_object_file(cc)
}

/// What one of ours says of itself.
pub fn description(name: &str) -> hotcc_host::error::Result<Description> {
    Ok(Source::find(name)?.open()?.description)
}

/// What an object file says of itself. Fails if it is missing, or if hotcc could not load it on any kernel.
pub fn description_of_file(path: &Path) -> hotcc_host::error::Result<Description> {
    description(&path.to_string_lossy())
}

/// Fields of its state for each connection; the kernel's have none that could be named. Object files are looked for in
/// `directory`; without one, and for a file that cannot be read, `None`: unknown.
#[must_use]
pub fn state(cc: &str, directory: Option<&Path>) -> Option<Vec<String>> {
    let description = if is_ours(cc) {
        description(cc).unwrap_or_default()
    } else if is_object_file(cc) {
        description_of_file(&directory?.join(cc)).ok()?
    } else {
        Description::default()
    };
    Some(description.state.into_iter().map(|field| field.name).collect())
}

/// What is wrong with values for the tunables of one of ours, if something is.
pub fn check_tunables(name: &str, set: &BTreeMap<String, toml::Value>) -> Result<(), String> {
    let description = description(name).map_err(|e| format!("{e:#}"))?;
    check_values(&description, "default", set)
}

/// What is wrong with a profile and values for the tunables that an object has, if something is.
pub fn check_values(
    description: &Description,
    profile: &str,
    set: &BTreeMap<String, toml::Value>,
) -> Result<(), String> {
    values::profile(&description.tunables, profile).map_err(|e| format!("{e:#}"))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_file_has_the_name_of_its_file() {
        for (cc, name) in [
            ("mine.bpf.o", "mine"),
            ("../out.d/mine_v2.o", "mine_v2"),
            ("/a/b.bpf.o/c.o", "c"),
            ("cubic", "cubic"),
            ("a/b", "a/b"),
        ] {
            assert_eq!(object_name(cc), name);
            assert_eq!(is_object_file(cc), cc.ends_with(".o"));
        }
    }
}
