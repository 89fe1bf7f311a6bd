//! The two rules of `hotcc canary`, which precede all others, and its maps in the kernel.

use super::kernel::{current, install, remove};
use super::layout::{CanaryEntry, CohortsEntry, RuleEntry, TextEntry, cohort};
use super::ordered::Policy;
use super::table::{Rule, RuleTable, id};
use bytemuck::{Pod, Zeroable};
use hotcc_abi::clock::monotonic_ns;
use hotcc_abi::pins;
use hotcc_host::cstr::text;
use hotcc_host::error::{Error, Result, Tried};
use libbpf_rs::{MapCore, MapFlags, MapHandle};

/// Keys of a rule that are conditions, which a canary may have.
const CONDITIONS: [&str; 11] =
    ["remote", "remote_set", "local", "local_set", "port", "cgroup", "unit", "netns", "uid", "interface", "signal"];

/// Parses conditions, each `KEY=VALUE`. Repeated prefixes become a list.
pub(crate) fn conditions(matches: &[String]) -> Result<toml::Table> {
    let mut table = toml::Table::new();
    for text in matches {
        let Some((key, value)) = text.split_once('=') else {
            return Err(Error::usage(format!("invalid condition `{text}`: expected KEY=VALUE, e.g. port=443")));
        };
        let (key, value) = (key.trim(), value.trim());
        if !CONDITIONS.contains(&key) {
            let known = CONDITIONS.join(", ");
            return Err(Error::usage(format!("invalid condition `{text}`: expected one of the keys {known}")));
        }
        // a network namespace or an interface may have a number for a name
        let number = value.parse().ok().filter(|_| ["port", "uid"].contains(&key));
        let value = number.map_or_else(|| toml::Value::from(value), toml::Value::Integer);
        match table.get_mut(key) {
            None => {
                table.insert(key.to_owned(), value);
            }
            Some(before) if ["remote", "local"].contains(&key) => {
                let mut list = before.as_array().cloned().unwrap_or_else(|| vec![before.clone()]);
                list.push(value);
                *before = list.into();
            }
            Some(_) => return Err(Error::usage(format!("the condition `{key}` is given twice"))),
        }
    }
    Ok(table)
}

/// The two rules of a canary.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    control: Rule,
    canary: Rule,
}

impl Pair {
    /// Translates the rules. Paths are relative to the current directory.
    pub(crate) fn new(conditions: &toml::Table, from: &str, to: &str) -> Result<Self> {
        let rule = |cc: &str| {
            let table = RuleTable::with_conditions(conditions, cc)?;
            let directory = std::env::current_dir().tried(|| "cannot find the current directory".to_owned())?;
            table.compile(&directory, cc).map_err(|wrong| wrong.error)
        };
        let mut pair = Self { control: rule(from)?, canary: rule(to)? };
        // of no other canary, so that connections of an earlier one do not count
        let number = monotonic_ns() << 1;
        for (rule, cohort) in [(&mut pair.control, cohort::CONTROL), (&mut pair.canary, cohort::CANARY)] {
            rule.entry.id = number | cohort as u64;
            rule.entry.cohort = 1 + cohort as u32;
        }
        Ok(pair)
    }

    /// Returns the ids of the rules.
    pub(crate) fn ids(&self) -> [u64; 2] {
        [self.control.entry.id, self.canary.entry.id]
    }

    /// Returns the conditions of the rules, with absolute paths, and a congestion control.
    pub(crate) fn keys(&self) -> Result<toml::Table> {
        self.canary.text.keys()
    }

    pub(crate) fn warnings(&self) -> &[String] {
        &self.canary.warnings
    }

    /// Puts the rules before all others, in place of those of an earlier canary.
    pub(crate) fn install(self) -> Result<super::Replaced> {
        let mut rules = vec![self.canary, self.control];
        rules.extend(others()?);
        install(&Policy::new(rules)?)
    }
}

/// Returns the rules that apply, without those of a canary.
fn others() -> Result<Vec<Rule>> {
    let Some(current) = current()? else { return Ok(Vec::new()) };
    Ok(current.rules()?.into_iter().filter(|rule| rule.entry.cohort == 0).collect())
}

/// Returns whether a rule is that of a cohort of the canary.
pub(crate) fn is_of(rule: &RuleEntry, cohort: usize) -> bool {
    rule.cohort == 1 + cohort as u32
}

/// Removes the rules of the canary.
pub(crate) fn withdraw() -> Result<()> {
    let rules = others()?;
    if rules.is_empty() {
        return remove().map(|_| ());
    }
    install(&Policy::new(rules)?).map(|_| ())
}

/// Replaces the canary's two rules by one, which gives all connections what the canary's got. Returns its text.
pub(crate) fn promote() -> Result<String> {
    let current = current()?.ok_or_else(|| Error::failed("no policy rule applies"))?;
    let mut rules = current.rules()?;
    rules.retain(|rule| rule.entry.cohort != 1 + cohort::CONTROL as u32);
    let mut written = String::new();
    for rule in rules.iter_mut().filter(|rule| rule.entry.cohort != 0) {
        rule.entry.cohort = 0;
        rule.entry.id = id(&rule.text, &rule.entry.cc_name);
        written = rule.text.toml();
    }
    install(&Policy::new(rules)?)?;
    Ok(written)
}

fn open(name: &str) -> Result<Option<MapHandle>> {
    let path = pins::shared(name).ok_or_else(|| Error::failed(format!("no pin of {name}")))?;
    if !path.exists() {
        return Ok(None);
    }
    MapHandle::from_pinned_path(&path).tried(|| format!("cannot open {}", path.display())).map(Some)
}

fn read<T: Pod>(name: &str) -> Result<T> {
    let tried = || "cannot read the state of the canary".to_owned();
    let Some(map) = open(name)? else { return Ok(T::zeroed()) };
    let bytes = map.lookup(&[0; 4], MapFlags::empty()).tried(tried)?.unwrap_or_default();
    let other = |_| Error::failed("the state of the canary is of another version of hotcc");
    bytemuck::try_pod_read_unaligned(&bytes).map_err(other)
}

fn write<T: Pod>(name: &str, value: &T) -> Result<()> {
    let tried = || "cannot write the state of the canary".to_owned();
    let map = open(name)?.ok_or_else(|| Error::failed("no policy applies").during(&tried()))?;
    map.update(&[0; 4], bytemuck::bytes_of(value), MapFlags::ANY).tried(tried)
}

/// Reads the state of the latest canary; zeroes if there was none.
pub(crate) fn state() -> Result<CanaryEntry> {
    read(pins::POLICY_CANARY)
}

/// Reads the state and the rules that apply. While a canary's rules apply, the names are theirs: a `start` that was
/// killed before it wrote the state left those of an earlier canary.
pub(crate) fn named_state() -> Result<(CanaryEntry, Vec<(RuleEntry, TextEntry)>)> {
    let mut entry = state()?;
    let rules = current()?.map(|current| current.entries).unwrap_or_default();
    for (rule, _) in &rules {
        for (cohort, name) in [(cohort::CONTROL, &mut entry.from), (cohort::CANARY, &mut entry.to)] {
            if is_of(rule, cohort) {
                *name = rule.cc_name;
            }
        }
    }
    Ok((entry, rules))
}

pub(crate) fn set_state(state: &CanaryEntry) -> Result<()> {
    write(pins::POLICY_CANARY, state)
}

/// Reads what the programs counted for the latest canary.
pub(crate) fn cohorts() -> Result<CohortsEntry> {
    read(pins::POLICY_COHORTS)
}

pub(crate) fn reset_cohorts() -> Result<()> {
    write(pins::POLICY_COHORTS, &CohortsEntry::zeroed())
}

/// Returns the ring of the records of ended connections.
pub(crate) fn records() -> Result<MapHandle> {
    current()?.ok_or_else(|| Error::failed("no policy rule applies"))?.records()
}

/// Returns the names of both congestion controls.
pub(crate) fn names(state: &CanaryEntry) -> [String; 2] {
    [text(&state.from), text(&state.to)]
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::conditions;

    #[test]
    fn only_ports_and_users_are_numbers() {
        let table = conditions(&["port=443", "uid=1000", "netns=1", "interface=7"].map(str::to_owned)).unwrap();
        assert_eq!(table["port"].as_integer(), Some(443));
        assert_eq!(table["uid"].as_integer(), Some(1000));
        assert_eq!(table["netns"].as_str(), Some("1"));
        assert_eq!(table["interface"].as_str(), Some("7"));
    }
}
