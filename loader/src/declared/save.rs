//! Writes a file that declares what runs.

use super::document::{AlgorithmTable, DefaultTable, Document, ReceiverTable, Tunables, written};
use super::rules::own_name;
use crate::object::Source;
use crate::policy::{self, RuleTable};
use crate::registry::{Algo, Version, need_bpffs, runs};
use crate::tunables::{Section, present, values};
use crate::{cgroup, rx, sysctl};
use hotcc_host::cstr::text;
use hotcc_host::error::{Error, Result, Tried, need_root};
use hotcc_host::netns;
use serde::Serialize;
use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;
use toml::{Spanned, Value};

const HEAD: &str = "# What hotcc had loaded when `hotcc save` wrote this file.\n\n";

/// What was saved.
#[derive(Debug, Serialize)]
pub struct Saved {
    /// The file.
    pub file: PathBuf,
    /// Algorithms in it.
    pub algorithms: usize,
    /// Network namespaces whose default is in it.
    pub defaults: usize,
    /// Receivers in it.
    pub receivers: usize,
    /// Policy rules in it.
    pub rules: usize,
    /// What runs but cannot be declared, or may not be applied at boot.
    pub warnings: Vec<String>,
}

/// Writes a file that declares what runs; an existing file is replaced.
pub fn save(file: &Path) -> Result<Saved> {
    need_root("hotcc save")?;
    need_bpffs()?;
    let mut warnings = Vec::new();
    let policy = policy_rules()?;
    let algorithm = algorithms(&policy, &mut warnings)?;
    check_rules(&policy, &algorithm, &mut warnings)?;
    let document =
        Document { algorithm, default: defaults(&mut warnings)?, policy, receiver: receivers(&mut warnings)? };
    let tables = toml::to_string(&document).tried(|| "cannot write TOML".to_owned())?;
    write(file, &format!("{HEAD}{tables}")).tried(|| format!("cannot write {}", file.display()))?;
    let Document { algorithm, default, policy, receiver } = document;
    let (algorithms, defaults, receivers) = (algorithm.len(), default.len(), receiver.len());
    Ok(Saved { file: file.to_owned(), algorithms, defaults, receivers, rules: policy.len(), warnings })
}

/// Replaces the file atomically: after a crash it has either its old content or the new.
fn write(file: &Path, content: &str) -> std::io::Result<()> {
    let directory = file.parent().filter(|d| !d.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(directory)?;
    let mut new = NamedTempFile::new_in(directory)?;
    new.write_all(content.as_bytes())?;
    new.as_file().set_permissions(Permissions::from_mode(0o644))?;
    new.as_file().sync_all()?;
    new.persist(file)?;
    Ok(())
}

fn policy_rules() -> Result<Vec<RuleTable>> {
    let mut entries = policy::current()?.map(|current| current.entries).unwrap_or_default();
    entries.retain(|(rule, _)| rule.cohort == 0); // a canary is not declared
    let table = |(_, text): &(_, policy::layout::TextEntry)| toml::from_str(&text.toml());
    entries
        .iter()
        .map(table)
        .collect::<std::result::Result<_, _>>()
        .tried(|| "cannot read a rule in the kernel".to_owned())
}

/// Fails if a rule names a congestion control that is not registered, or tunes one that is not loaded: `hotcc apply` would
/// refuse the whole file. Warns of those that a reboot leaves unregistered.
fn check_rules(policy: &[RuleTable], algorithms: &[AlgorithmTable], warnings: &mut Vec<String>) -> Result<()> {
    let (available, default) = (sysctl::available()?, sysctl::default()?);
    let declares =
        |name: &String| algorithms.iter().any(|table| table.name.as_ref().map(Spanned::get_ref) == Some(name));
    let refuse = |what: String| Err(Error::failed(what).and("load it, or remove the rule (see: hotcc policy show)"));
    for (n, rule) in policy.iter().enumerate() {
        let name = own_name(rule);
        if !available.contains(&name) {
            return refuse(format!("rule {} names {name}, which is not registered", n + 1));
        }
        let algorithm = rule.congestion_control.get_ref();
        if !rule.tunables.is_empty() && !declares(algorithm) {
            return refuse(format!("rule {} sets tunables of {algorithm}, which `hotcc load` has not loaded", n + 1));
        }
        if sysctl::has_module(&name) && name != default {
            warnings.push(format!(
                "rule {} names {name}, a kernel module: `hotcc apply` fails after a reboot, unless it is loaded then: \
                 echo tcp_{name} > /etc/modules-load.d/{name}.conf",
                n + 1
            ));
        }
    }
    Ok(())
}

/// Returns the algorithms, without the registrations that belong to rules with tunables: the rules declare those.
fn algorithms(policy: &[RuleTable], warnings: &mut Vec<String>) -> Result<Vec<AlgorithmTable>> {
    let of_rules: Vec<String> = policy.iter().filter(|rule| !rule.tunables.is_empty()).map(own_name).collect();
    let mut tables = Vec::new();
    for algo in Algo::all()? {
        if !runs::is_for_runs(&algo)
            && !of_rules.contains(&algo.name)
            && let Some(serving) = algo.current()?
        {
            let table = algorithm(&algo, &serving).map_err(|e| e.during(&format!("cannot save {}", algo.name)))?;
            let object = Path::new(table.object.get_ref());
            if object.is_absolute() && !object.ancestors().all(is_roots) {
                warnings.push(format!(
                    "another user than root can change or hide {}; hotcc.service may be unable to read it at boot, and \
                     then applies nothing: keep the object in /etc/hotcc",
                    object.display()
                ));
            }
            tables.push(table);
        }
    }
    Ok(tables)
}

fn is_roots(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.uid() == 0)
}

fn algorithm(algo: &Algo, serving: &Version) -> Result<AlgorithmTable> {
    let meta = serving.meta()?;
    let (origin, profile) = (text(&meta.object), text(&meta.profile));
    let object = match origin.strip_prefix("builtin:") {
        Some(name) => name.to_owned(),
        None if origin.starts_with('/') => origin.clone(),
        None => {
            return Err(Error::failed(format!(
                "the path of its object ends in {origin}, and its beginning is unknown"
            ))
            .and("load it from a shorter path"));
        }
    };
    let source = Source::find(&object)?;
    if source.sha256() != meta.sha256 {
        return Err(Error::failed(format!("{origin} has changed since it was loaded"))
            .and(&format!("load what it is now: hotcc swap {} {object}", algo.name)));
    }
    let mut opened = source.open()?;
    opened.apply(&values::profile(&opened.description.tunables, &profile)?)?;
    let [data, rodata] = [Section::Data, Section::Rodata].map(|section| opened.initial_values(section));
    let before = present::read(&opened.description.tunables, data.as_deref(), rodata.as_deref());
    let changed = present::changed(&before, &serving.settings()?);
    Ok(AlgorithmTable {
        object: written(object),
        name: Some(written(algo.name.clone())),
        profile: Some(written(profile)),
        tunables: tunables(changed.into_iter().map(|change| (change.name, change.new))),
    })
}

/// Returns the default of this network namespace, and the defaults of named network namespaces that are algorithms of
/// hotcc's.
fn defaults(warnings: &mut Vec<String>) -> Result<Vec<DefaultTable>> {
    let here = DefaultTable { congestion_control: written(sysctl::default()?), netns: None };
    let mut tables = vec![here];
    for algo in Algo::all()?.into_iter().filter(|algo| !runs::is_for_runs(algo)) {
        for namespace in sysctl::namespaces_with_default(&algo.name)?.into_iter().filter(|label| label != netns::HERE) {
            if namespace.contains('/') {
                warnings.push(format!(
                    "the default of network namespace {namespace} is {}; it has no name in /run/netns, so it is not saved",
                    algo.name
                ));
                continue;
            }
            let congestion_control = written(algo.name.clone());
            tables.push(DefaultTable { congestion_control, netns: Some(written(namespace)) });
        }
    }
    Ok(tables)
}

fn receivers(warnings: &mut Vec<String>) -> Result<Vec<ReceiverTable>> {
    let mut tables = Vec::new();
    for receiver in rx::loaded()? {
        let method = receiver.method;
        let Some(cgroup) = receiver.cgroup else {
            warnings.push(format!("{} is loaded for a removed cgroup, so it is not saved", method.name()));
            continue;
        };
        let profile = values::profile(&rx::tunables(method)?, "default")?;
        let profile: Vec<present::Value> = profile.into_iter().map(Into::into).collect();
        let changed = receiver
            .tunables
            .into_iter()
            .filter(|now| !profile.iter().any(|p| p.name == now.name && p.value == now.value));
        tables.push(ReceiverTable {
            method: written(method),
            cgroup: (cgroup != cgroup::cgroup2_root()?).then(|| written(cgroup)),
            profile: None,
            tunables: tunables(changed.map(|now| (now.name, now.value))),
        });
    }
    Ok(tables)
}

fn tunables(values: impl Iterator<Item = (String, String)>) -> Tunables {
    let value = |text: String| text.parse().map_or(Value::String(text), Value::Integer);
    values.map(|(name, text)| (written(name), written(value(text)))).collect()
}
