//! Reads what a file declares: its entries, validated, each with its place in the file.

use super::document::{AlgorithmTable, DefaultTable, ReceiverTable, Text, Tunables};
use super::rules::{self, Rules};
use crate::object::{Source, check_cc_name};
use crate::policy::Policy;
use crate::tunables::{Setting, Tunable, values};
use crate::{cgroup, ops, rx};
use hotcc_host::error::{Error, Kind, Result, Tried};
use hotcc_host::netns::{self, NetNs};
use std::collections::HashMap;
use std::hash::Hash;
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::{Spanned, Value};

const OWN_NETNS: &str = "/proc/self/ns/net";

/// Everything that a file declares.
#[derive(Default)]
pub(super) struct Declared {
    pub(super) algorithms: Vec<Algorithm>,
    pub(super) defaults: Vec<NamespaceDefault>,
    pub(super) receivers: Vec<Receiver>,
    pub(super) policy: Policy,
    /// `FILE:LINE` of each rule's congestion control.
    pub(super) rule_places: Vec<String>,
    /// Problems that are not errors.
    pub(super) warnings: Vec<String>,
}

impl Declared {
    /// Returns whether an algorithm is declared under this name.
    pub(super) fn has_algorithm(&self, name: &str) -> bool {
        self.algorithms.iter().any(|algorithm| algorithm.name == name)
    }
}

/// An algorithm that is declared.
pub(super) struct Algorithm {
    /// `FILE:LINE`.
    pub(super) place: String,
    pub(super) name: String,
    pub(super) request: ops::Request,
    pub(super) source: Source,
    /// Tunables that are declared, by the profile or one by one. An object that does not describe itself may have
    /// further variables, which its own programs may write.
    pub(super) values: Vec<Setting>,
}

/// The declared default of a network namespace.
pub(super) struct NamespaceDefault {
    /// `FILE:LINE`.
    pub(super) place: String,
    pub(super) netns: NetNs,
    pub(super) congestion_control: String,
}

/// A receiver that is declared.
pub(super) struct Receiver {
    pub(super) cgroup: PathBuf,
    pub(super) request: rx::Request,
    pub(super) values: Vec<Setting>,
}

/// Reads a file. Errors name the line. No error is a usage error, because the command line is valid.
pub(super) fn read(file: &Path) -> Result<Declared> {
    let text = Text::read(file)?;
    let document = text.parse()?;
    let mut algorithms: Vec<_> =
        document.algorithm.iter().map(|table| algorithm(&text, table)).collect::<Result<_>>()?;
    let defaults: Vec<_> = document.default.iter().map(|table| default(&text, table)).collect::<Result<_>>()?;
    let receivers = document.receiver.iter().map(|table| receiver(&text, table)).collect::<Result<_>>()?;
    once(algorithms.iter().map(|a| (&a.name, &a.place)), |name| format!("the algorithm `{name}`"))?;
    once(defaults.iter().map(|d| (d.netns.inode, &d.place)), |_| "the default of this network namespace".to_owned())?;
    let methods =
        document.receiver.iter().map(|table| (table.method.get_ref().name(), text.place(&table.method.span())));
    once(methods, |name| format!("the receiver `{name}`"))?;
    let Rules { policy, places: rule_places, warnings } = rules::rules(&text, &document.policy, &mut algorithms)?;
    Ok(Declared { algorithms, defaults, receivers, policy, rule_places, warnings })
}

fn algorithm(text: &Text<'_>, table: &AlgorithmTable) -> Result<Algorithm> {
    let mut object = table.object.get_ref().clone();
    if Source::is_path(&object) {
        let directory = text.file.parent().unwrap_or(Path::new(""));
        object = directory.join(object).display().to_string();
    }
    let place = text.place(&table.object.span());
    let source = Source::find(&object).map_err(|e| in_file(&place, e))?;
    let opened = source.open().map_err(|e| in_file(&place, e))?;
    let name = table.name.as_ref().map_or(&opened.cc_name, Spanned::get_ref).clone();
    let named_at = table.name.as_ref().map_or_else(|| table.object.span(), Spanned::span);
    check_cc_name(&name).map_err(|e| in_file(&text.place(&named_at), e))?;
    let Choice { profile, set, values } =
        choice(text, &opened.description.tunables, table.profile.as_ref(), &table.tunables)?;
    let request = ops::Request { object, cc_name: Some(name.clone()), profile, set };
    Ok(Algorithm { place, name, request, source, values })
}

fn default(text: &Text<'_>, table: &DefaultTable) -> Result<NamespaceDefault> {
    let congestion_control = table.congestion_control.get_ref().clone();
    let place = text.place(&table.congestion_control.span());
    check_cc_name(&congestion_control).map_err(|e| in_file(&place, e))?;
    let netns = match &table.netns {
        Some(name) => netns::named(name.get_ref()).map_err(|e| in_file(&text.place(&name.span()), e))?,
        None => netns::named(OWN_NETNS)?,
    };
    Ok(NamespaceDefault { place, netns, congestion_control })
}

fn receiver(text: &Text<'_>, table: &ReceiverTable) -> Result<Receiver> {
    let method = *table.method.get_ref();
    let cgroup = table.cgroup.as_ref().map(|path| path.get_ref().clone());
    let place = text.place(&table.cgroup.as_ref().map_or_else(|| table.method.span(), Spanned::span));
    let found = cgroup.clone().map_or_else(cgroup::cgroup2_root, Ok).and_then(|path| {
        cgroup::open(&path)?;
        path.canonicalize().tried(|| format!("cannot find the cgroup {}", path.display()))
    });
    let Choice { profile, set, values } =
        choice(text, &rx::tunables(method)?, table.profile.as_ref(), &table.tunables)?;
    let request = rx::Request { method, cgroup, profile, set };
    Ok(Receiver { cgroup: found.map_err(|e| in_file(&place, e))?, request, values })
}

/// The declared values of tunables.
struct Choice {
    profile: String,
    set: Vec<String>,
    values: Vec<Setting>,
}

fn choice(
    text: &Text<'_>,
    known: &[Tunable],
    profile: Option<&Spanned<String>>,
    tunables: &Tunables,
) -> Result<Choice> {
    let at = |span: Range<usize>| move |e| in_file(&text.place(&span), e);
    let name = profile.map_or("default", |profile| profile.get_ref()).to_owned();
    let mut chosen = values::profile(known, &name).map_err(at(profile.map(Spanned::span).unwrap_or_default()))?;
    let mut set = Vec::new();
    for (assignment, setting) in assignments(text, known, tunables)? {
        chosen.retain(|other| other.tunable.name != setting.tunable.name);
        chosen.push(setting);
        set.push(assignment);
    }
    Ok(Choice { profile: name, set, values: chosen })
}

/// Returns tunables both as the `NAME=VALUE` text that `hotcc set` takes, and parsed.
pub(super) fn assignments(text: &Text<'_>, known: &[Tunable], tunables: &Tunables) -> Result<Vec<(String, Setting)>> {
    let at = |span: Range<usize>| move |e| in_file(&text.place(&span), e);
    let assignment = |(tunable, value): (&Spanned<String>, &Spanned<Value>)| {
        let value = match value.get_ref() {
            Value::Integer(number) => number.to_string(),
            Value::String(text) => text.clone(),
            other => {
                let message =
                    format!("invalid value `{other}` for {}: expected a number or a string", tunable.get_ref());
                return Err(at(value.span())(Error::failed(message)));
            }
        };
        let assignment = format!("{}={value}", tunable.get_ref());
        let setting = values::parse(known, &assignment).map_err(at(tunable.span()))?;
        Ok((assignment, setting))
    };
    tunables.iter().map(assignment).collect()
}

/// Fails if two entries declare the same thing.
fn once<K: Copy + Eq + Hash, P: AsRef<str>>(
    entries: impl Iterator<Item = (K, P)>,
    what: impl Fn(K) -> String,
) -> Result<()> {
    let mut first = HashMap::new();
    for (key, place) in entries {
        let (what, place) = (what(key), place.as_ref().to_owned());
        if let Some(before) = first.insert(key, place.clone()) {
            return Err(Error::failed(format!("{place}: {what} is declared twice, first in {before}")));
        }
    }
    Ok(())
}

/// Prefixes an error with its place in the file; a usage error becomes an ordinary failure.
pub(super) fn in_file(place: &str, error: Error) -> Error {
    let kind = if error.kind() == Kind::Usage { Kind::Failed } else { error.kind() };
    error.during(place).as_kind(kind)
}
