//! A rule as the file has it, and its translation for the kernel.

use super::layout::{CGROUP_LEVELS, RuleEntry, TEXT, TextEntry, criterion, hash_of_name, hash_of_path};
use super::set::Set;
use crate::cgroup;
use bytemuck::Zeroable;
use hotcc_host::cstr::padded;
use hotcc_host::error::{Error, Result, Tried};
use hotcc_host::netns;
use nix::unistd::User;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};
use toml::{Spanned, Value};

/// Length of the longest interface name that the kernel accepts, in bytes.
const INTERFACE_MAX: usize = 15;
/// Range of the SINR of readings, dB.
const SIGNAL_DB: RangeInclusive<f64> = -20.0..=50.0;

/// A `[[policy]]` table. Every key but the congestion control is a condition, and all of them must hold.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RuleTable {
    remote: Option<Spanned<Value>>,
    remote_set: Option<Spanned<PathBuf>>,
    local: Option<Spanned<Value>>,
    local_set: Option<Spanned<PathBuf>>,
    port: Option<Spanned<Value>>,
    cgroup: Option<Spanned<PathBuf>>,
    unit: Option<Spanned<String>>,
    netns: Option<Spanned<String>>,
    uid: Option<Spanned<Value>>,
    interface: Option<Spanned<String>>,
    signal: Option<Spanned<String>>,
    share: Option<Spanned<String>>,
    pub(crate) congestion_control: Spanned<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) tunables: BTreeMap<Spanned<String>, Spanned<Value>>,
    #[serde(default, rename = "override", skip_serializing_if = "std::ops::Not::not")]
    overrides: bool,
}

/// A validated rule.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) entry: RuleEntry,
    pub(crate) text: TextEntry,
    pub(super) remote: Option<Set>,
    pub(super) local: Option<Set>,
    /// Warnings about what the rule cannot match, or cannot match now.
    pub(crate) warnings: Vec<String>,
}

/// An error in a rule, and its place in the file's text.
#[derive(Debug)]
pub(crate) struct RuleError {
    pub(crate) span: Range<usize>,
    pub(crate) error: Error,
}

fn at<T: Clone, R>(value: &Spanned<T>, read: impl FnOnce(&T) -> Result<R>) -> std::result::Result<R, RuleError> {
    read(value.get_ref()).map_err(|error| RuleError { span: value.span(), error })
}

impl RuleTable {
    /// Returns the rule with these conditions.
    pub(super) fn with_conditions(conditions: &toml::Table, congestion_control: &str) -> Result<Self> {
        let mut keys = conditions.clone();
        keys.insert("congestion_control".to_owned(), congestion_control.into());
        let text = toml::to_string(&keys).tried(|| "cannot write a rule as TOML".to_owned())?;
        toml::from_str(&text).map_err(|e| Error::failed(e.message().trim_end()))
    }

    /// Validates the rule. Its sockets get the congestion control `cc_name`; paths are relative to `directory`.
    pub(crate) fn compile(&self, directory: &Path, cc_name: &str) -> std::result::Result<Rule, RuleError> {
        let mut entry = RuleEntry { cc_name: padded(cc_name), overrides: self.overrides.into(), ..Zeroable::zeroed() };
        let mut warnings = Vec::new();
        let table = self.with_absolute_paths(directory);
        let remote = prefixes(table.remote.as_ref(), table.remote_set.as_ref())?;
        let local = prefixes(table.local.as_ref(), table.local_set.as_ref())?;
        for (set, asked, address, bits) in [
            (&remote, criterion::REMOTE, &mut entry.remote, &mut entry.remote_len),
            (&local, criterion::LOCAL, &mut entry.local, &mut entry.local_len),
        ] {
            let Some(set) = set else { continue };
            entry.criteria |= asked;
            if let Some(prefix) = set.single() {
                (*address, *bits) = (prefix.addr, prefix.prefix_len);
            }
        }
        if let Some(port) = &self.port {
            (entry.port_first, entry.port_last) = at(port, ports)?;
            entry.criteria |= criterion::PORT;
        }
        if let (Some(_), Some(unit)) = (&self.cgroup, &self.unit) {
            return at(unit, |_| Err(Error::failed("a rule has either `cgroup` or `unit`, which is a cgroup's name")));
        }
        if let Some(path) = &self.cgroup {
            (entry.cgroup, entry.cgroup_depth) = at(path, |path| cgroup_path(path, &mut warnings))?;
            entry.criteria |= criterion::CGROUP;
        }
        if let Some(unit) = &self.unit {
            entry.cgroup = at(unit, |unit| unit_name(unit))?;
            entry.criteria |= criterion::CGROUP;
        }
        if let Some(name) = &table.netns {
            let inode = at(name, |name| Ok(netns::named(name)?.inode))?;
            entry.netns = inode as u32; // nsfs has no larger inode numbers
            entry.criteria |= criterion::NETNS;
        }
        if let Some(user) = &self.uid {
            entry.uid = at(user, uid)?;
            entry.criteria |= criterion::UID;
            warnings.push(
                "`uid` applies to outgoing connections only: others have no user yet when they are set up".to_owned(),
            );
        }
        if let Some(interface) = &self.interface {
            entry.interface = at(interface, |name| interface_name(name))?;
            entry.criteria |= criterion::INTERFACE;
        }
        if let Some(signal) = &self.signal {
            let (asked, threshold_q8) = at(signal, |text| parse_signal(text))?;
            (entry.signal_q8, entry.criteria) = (threshold_q8, entry.criteria | asked);
        }
        if let Some(share) = &self.share {
            let limit = at(share, |text| parse_share(text))?;
            if let Ok(limit) = u32::try_from(limit) {
                (entry.share, entry.criteria) = (limit, entry.criteria | criterion::SHARE);
            }
        }
        entry.seed = seed(&entry);
        let text = table.text(remote.as_ref(), local.as_ref());
        let text = text.map_err(|error| RuleError { span: self.congestion_control.span(), error })?;
        entry.id = id(&text, &entry.cc_name);
        Ok(Rule { entry, text, remote, local, warnings })
    }

    fn with_absolute_paths(&self, directory: &Path) -> Self {
        let absolute = |file: &Option<Spanned<PathBuf>>| {
            let path = file.as_ref().map(|file| (directory.join(file.get_ref()), file.span()));
            path.map(|(path, span)| Spanned::new(span, path))
        };
        let netns = self.netns.as_ref().map(|name| {
            let is_path = name.get_ref().contains('/'); // otherwise it is a name of `ip netns`
            let path = || directory.join(name.get_ref()).display().to_string();
            Spanned::new(name.span(), if is_path { path() } else { name.get_ref().clone() })
        });
        Self { remote_set: absolute(&self.remote_set), local_set: absolute(&self.local_set), netns, ..self.clone() }
    }

    fn text(&self, remote: Option<&Set>, local: Option<&Set>) -> Result<TextEntry> {
        let toml = toml::to_string(self).map_err(|e| Error::failed(format!("cannot write a rule as TOML: {e}")))?;
        let mut entry = TextEntry::zeroed();
        if toml.len() >= TEXT {
            return Err(Error::failed(format!(
                "the rule's text has {} bytes, more than {}; put its prefixes into a file: remote_set = \"FILE\"",
                toml.len(),
                TEXT - 1
            )));
        }
        entry.toml[..toml.len()].copy_from_slice(toml.as_bytes());
        for (set, digest, prefixes) in [
            (remote, &mut entry.remote_digest, &mut entry.remote_prefixes),
            (local, &mut entry.local_digest, &mut entry.local_prefixes),
        ] {
            if let Some(set) = set {
                (*digest, *prefixes) = (set.digest(), set.len() as u32);
            }
        }
        Ok(entry)
    }
}

/// Returns the number that identifies a rule in every policy: a hash of its text, its sets of prefixes and its congestion
/// control.
pub(super) fn id(text: &TextEntry, cc_name: &[u8; 16]) -> u64 {
    let digest = Sha256::new().chain_update(bytemuck::bytes_of(text)).chain_update(cc_name).finalize();
    let (words, _) = digest.as_chunks::<8>();
    words.first().map_or(0, |word| u64::from_le_bytes(*word)) | 1 // 0 means no rule
}

/// Returns the seed of the rule's hash. It is the same for rules that differ only in their share, congestion control or
/// `override`, so that a larger share includes the connections of a smaller one.
pub(super) fn seed(entry: &RuleEntry) -> u32 {
    let conditions = RuleEntry { share: 0, seed: 0, cc_name: [0; 16], overrides: 0, ..*entry };
    let words: &[u64] = bytemuck::cast_slice(std::slice::from_ref(&conditions));
    hash_of_path(words) as u32 | 1
}

fn prefixes(
    listed: Option<&Spanned<Value>>,
    file: Option<&Spanned<PathBuf>>,
) -> std::result::Result<Option<Set>, RuleError> {
    match (listed, file) {
        (None, None) => Ok(None),
        (None, Some(file)) => at(file, |file| Set::read(file)).map(Some),
        (Some(listed), None) => at(listed, list).map(Some),
        (Some(_), Some(file)) => {
            at(file, |_| Err(Error::failed("a rule has either a list of prefixes or a file of them")))
        }
    }
}

fn list(value: &Value) -> Result<Set> {
    let one = std::slice::from_ref(value);
    let values = value.as_array().map_or(one, Vec::as_slice);
    let text = |value: &Value| match value.as_str() {
        Some(text) => Ok(text.to_owned()),
        None => Err(Error::failed(format!("invalid prefix `{value}`: expected a string"))),
    };
    let texts: Vec<String> = values.iter().map(text).collect::<Result<_>>()?;
    prefix_list(texts.iter().map(String::as_str))
}

/// Returns the set of the listed prefixes; fails if the list is empty.
pub(super) fn prefix_list<'a>(texts: impl Iterator<Item = &'a str>) -> Result<Set> {
    let mut set = Set::default();
    for text in texts {
        set.add(text)?;
    }
    if set.len() == 0 {
        return Err(Error::failed("the list of prefixes is empty"));
    }
    set.check().map(|()| set)
}

pub(super) fn ports(value: &Value) -> Result<(u16, u16)> {
    let port = |text: &str| text.trim().parse::<u16>().ok().filter(|port| *port != 0);
    let found = match value {
        Value::Integer(number) => port(&number.to_string()).map(|port| (port, port)),
        Value::String(text) => match text.split_once('-') {
            Some((first, last)) => port(first).zip(port(last)),
            None => port(text).map(|port| (port, port)),
        },
        _ => None,
    };
    found.filter(|(first, last)| first <= last).ok_or_else(|| {
        Error::failed(format!("invalid port `{}`: expected 1 to 65535, or a range like \"8000-8999\"", plain(value)))
    })
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Returns the hashes of the names in a cgroup's path, from the top, as the program in the kernel computes them.
pub(super) fn cgroup_names(path: &Path) -> Result<Vec<u64>> {
    let root = cgroup::cgroup2_root()?;
    let relative = path.strip_prefix(&root).map_err(|_| {
        Error::failed(format!("{} is not a cgroup (v2): those are below {}", path.display(), root.display()))
    })?;
    Ok(relative.iter().map(|name| hash_of_name(&name.to_string_lossy())).collect())
}

pub(super) fn cgroup_path(path: &Path, warnings: &mut Vec<String>) -> Result<(u64, u32)> {
    let names = cgroup_names(path)?;
    if names.is_empty() || names.len() > CGROUP_LEVELS {
        return Err(Error::failed(format!(
            "{} is {} cgroups below the root; a rule can name one that is 1 to {CGROUP_LEVELS} below it",
            path.display(),
            names.len()
        )));
    }
    if !path.exists() {
        warnings.push(format!("cgroup {} does not exist now; the rule applies once it does", path.display()));
    }
    Ok((hash_of_path(&names), names.len() as u32))
}

fn unit_name(unit: &str) -> Result<u64> {
    let is_unit = |suffix| unit.len() > str::len(suffix) && unit.ends_with(suffix);
    if unit.contains('/') || ![".service", ".slice", ".scope", ".socket"].into_iter().any(is_unit) {
        return Err(Error::failed(format!(
            "invalid unit `{unit}`: expected a name that ends in .service, .slice, .scope or .socket"
        )));
    }
    Ok(hash_of_name(unit))
}

pub(super) fn uid(value: &Value) -> Result<u32> {
    let number = value.as_integer().and_then(|number| u32::try_from(number).ok());
    let named = || User::from_name(value.as_str()?).ok()?.map(|user| user.uid.as_raw());
    let found = number.or_else(named);
    found.ok_or_else(|| Error::failed(format!("no user `{}`: expected a number or a user's name", plain(value))))
}

pub(super) fn interface_name(name: &str) -> Result<[u8; 16]> {
    if name.is_empty() || name.len() > INTERFACE_MAX || name.contains(['/', ' ']) {
        let expected = format!("expected 1 to {INTERFACE_MAX} bytes without `/` and spaces");
        return Err(Error::failed(format!("invalid interface name `{name}`: {expected}")));
    }
    Ok(padded(name))
}

/// Parses `known`, `above DB` or `below DB`. Returns the criterion and the threshold in 1/256 dB.
fn parse_signal(text: &str) -> Result<(u32, i32)> {
    let threshold = |text: &str| text.trim().parse::<f64>().ok().filter(|db| SIGNAL_DB.contains(db));
    let q8 = |db: f64| (db * 256.0).round() as i32;
    let found = if text == "known" {
        Some((criterion::SIGNAL, 0))
    } else if let Some(db) = text.strip_prefix("above ").and_then(threshold) {
        Some((criterion::SIGNAL_ABOVE, q8(db)))
    } else {
        text.strip_prefix("below ").and_then(threshold).map(|db| (criterion::SIGNAL_BELOW, q8(db)))
    };
    found.ok_or_else(|| {
        Error::failed(format!("invalid signal `{text}`: expected `known`, `above DB` or `below DB`, with -20 to 50 dB"))
    })
}

/// Parses a share like `5%`. Returns the limit below which a connection's hash, of 32 bits, must be.
pub(crate) fn parse_share(text: &str) -> Result<u64> {
    let percent = text.strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    let percent = percent.filter(|percent| *percent > 0.0 && *percent <= 100.0);
    let percent = percent
        .ok_or_else(|| Error::failed(format!("invalid share `{text}`: expected more than 0% and at most 100%")))?;
    // a share above 0 must not round to none
    Ok(((percent / 100.0 * (1u64 << 32) as f64).round() as u64).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_above_zero_is_never_none_and_all_is_all() {
        assert_eq!(parse_share("0.00000001%").unwrap(), 1);
        assert_eq!((parse_share("50%").unwrap(), parse_share("100%").unwrap()), (1 << 31, 1 << 32));
        for text in ["0%", "-1%", "101%", "nan%", "5"] {
            assert!(parse_share(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_relative_path_of_a_namespace_is_relative_to_the_file() {
        let rule = |text: &str| toml::from_str::<RuleTable>(text).unwrap().with_absolute_paths(Path::new("/etc/hotcc"));
        let netns = |text: &str| rule(text).netns.unwrap().into_inner();
        assert_eq!(netns("netns = 'ns/web'\ncongestion_control = 'reno'"), "/etc/hotcc/ns/web");
        assert_eq!(netns("netns = '/proc/1/ns/net'\ncongestion_control = 'reno'"), "/proc/1/ns/net");
        assert_eq!(netns("netns = 'web'\ncongestion_control = 'reno'"), "web");
    }
}
