//! The congestion controls that a scenario can name: hotcc's own, those of stock kernels, and object files of third
//! parties.

use hotcc::object::Source;
use hotcc::object::describe::Description;
use hotcc::tunables::values;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, setsockopt, socket, sockopt::TcpCongestion};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

/// Congestion controls of Debian's kernels. All except cubic and reno are modules there.
pub const OF_THE_KERNEL: [&str; 9] =
    ["cubic", "reno", "bbr", "highspeed", "bic", "westwood", "vegas", "illinois", "veno"];

/// Returns whether hotcc contains this algorithm.
#[must_use]
pub fn is_ours(name: &str) -> bool {
    hotcc_bpf::algo(name).is_some()
}

/// Returns whether this is the path of an object file.
#[must_use]
pub fn is_object_file(cc: &str) -> bool {
    cc.ends_with(".o")
}

/// Returns the name under which the lab registers an object file: that of the file, without `.bpf.o` or `.o`. The lab
/// does not use the name in the object, because two versions of an algorithm share it. Any other name is returned
/// unchanged.
#[must_use]
pub fn object_name(cc: &str) -> &str {
    let file = cc.rsplit('/').next().unwrap_or(cc);
    match file.strip_suffix(".bpf.o").or_else(|| file.strip_suffix(".o")) {
        Some(name) => name,
        None => cc,
    }
}

/// Returns whether the lab loads this congestion control, rather than the kernel providing it.
#[must_use]
pub fn is_loaded(cc: &str) -> bool {
    is_ours(cc) || is_object_file(cc)
}

/// Returns the description that one of hotcc's algorithms contains.
pub fn description(name: &str) -> hotcc_host::error::Result<Description> {
    Ok(Source::find(name)?.open()?.description)
}

/// Returns the description that an object file contains. Fails if the file is missing, or if hotcc could not load it on
/// any kernel.
pub fn description_of_file(path: &Path) -> hotcc_host::error::Result<Description> {
    description(&path.to_string_lossy())
}

/// Returns the names of the fields in the algorithm's per-connection state. For the kernel's congestion controls the
/// list is empty. Object files are looked up in `directory`. Returns `None` (unknown) for an object file if there is no
/// `directory` or the file cannot be read.
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

/// Checks values for the tunables of one of hotcc's algorithms. Returns what is wrong.
pub fn check_tunables(name: &str, set: &BTreeMap<String, toml::Value>) -> Result<(), String> {
    let description = description(name).map_err(|e| format!("{e:#}"))?;
    check_values(&description, "default", set)
}

/// Checks a profile and values for the tunables of an object. Returns what is wrong.
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

/// Returns the assignments in the form that `hotcc set` accepts: `eta=3`.
#[must_use]
pub fn assignments(set: &BTreeMap<String, toml::Value>) -> Vec<String> {
    set.iter().map(|(key, value)| format!("{key}={}", text(value))).collect()
}

/// Returns a value as text, without TOML's quotes.
#[must_use]
pub fn text(value: &toml::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned)
}

/// Returns whether a socket on this machine can use this congestion control. The kernel loads its module if necessary.
pub fn is_usable(cc: &str) -> nix::Result<bool> {
    let socket = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    Ok(setsockopt(&socket, TcpCongestion, &OsString::from(cc)).is_ok())
}

/// Returns the module of one of the kernel's congestion controls; `None` for hotcc's algorithms and for built-in ones.
#[must_use]
pub fn module(cc: &str) -> Option<&'static str> {
    Some(match cc {
        "bbr" => "tcp_bbr",
        "highspeed" => "tcp_highspeed",
        "bic" => "tcp_bic",
        "westwood" => "tcp_westwood",
        "vegas" => "tcp_vegas",
        "illinois" => "tcp_illinois",
        "veno" => "tcp_veno",
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
