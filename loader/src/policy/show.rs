//! Reads the rules that apply, for people and programs.

use super::kernel::{Current, current};
use super::layout::{Counts, RuleEntry, TextEntry, cohort};
use crate::registry::need_bpffs;
use crate::sysctl;
use hotcc_host::cstr::text;
use hotcc_host::error::{Error, Result, Tried, need_root};
use serde::Serialize;

/// A rule that applies. Schema of `hotcc policy show --json`.
#[derive(Clone, Debug, Serialize)]
pub struct ShownRule {
    /// Number of the rule, from 1.
    pub rule: usize,
    /// What identifies the rule in every place: a hash of its text, its sets of prefixes and its congestion control.
    /// The two rules of each canary have ids of their own.
    pub id: String,
    /// The keys of its table in the file.
    pub keys: toml::Table,
    /// The congestion control that it chooses; if the rule has tunables, its own registration.
    pub congestion_control: String,
    /// Whether that congestion control is registered now.
    pub loaded: bool,
    /// `canary` or `control`, for the two rules of `hotcc canary`.
    pub cohort: Option<&'static str>,
    /// Number of prefixes for remote addresses.
    pub remote_prefixes: u32,
    /// Number of prefixes for local addresses.
    pub local_prefixes: u32,
    /// Outcomes for sockets that it matched since the rules last changed.
    #[serde(flatten)]
    pub counts: Counts,
}

/// The rules that apply, in the order in which they are tried.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Shown {
    /// Rules.
    pub rules: Vec<ShownRule>,
}

/// Reads the rules that apply.
pub fn show() -> Result<Shown> {
    need_root("hotcc policy show")?;
    need_bpffs()?;
    current()?.as_ref().map_or_else(|| Ok(Shown::default()), shown)
}

/// Returns the rules of a policy.
pub(super) fn shown(current: &Current) -> Result<Shown> {
    let available = sysctl::available()?;
    let rules = current.entries.iter().zip(&current.counts).enumerate();
    let rules = rules.map(|(n, ((entry, text), counts))| shown_rule(n + 1, entry, text, *counts, &available));
    Ok(Shown { rules: rules.collect::<Result<_>>()? })
}

fn shown_rule(
    rule: usize,
    entry: &RuleEntry,
    text_of: &TextEntry,
    counts: Counts,
    available: &[String],
) -> Result<ShownRule> {
    let congestion_control = text(&entry.cc_name);
    Ok(ShownRule {
        rule,
        id: entry.id_text(),
        keys: text_of.keys()?,
        loaded: available.contains(&congestion_control),
        congestion_control,
        cohort: (entry.cohort as usize).checked_sub(1).and_then(|cohort| cohort::NAMES.get(cohort)).copied(),
        remote_prefixes: text_of.remote_prefixes,
        local_prefixes: text_of.local_prefixes,
        counts,
    })
}

impl RuleEntry {
    /// Returns the id as text, because programs that read JSON may round large numbers.
    pub(super) fn id_text(&self) -> String {
        format!("{:016x}", self.id)
    }
}

impl TextEntry {
    /// Returns the rule as TOML, as the file has it.
    pub(crate) fn toml(&self) -> String {
        text(&self.toml)
    }

    pub(crate) fn keys(&self) -> Result<toml::Table> {
        self.toml().parse().tried(|| "cannot read a rule in the kernel".to_owned())
    }

    /// Returns the rule on one line.
    pub(crate) fn line(&self) -> String {
        self.keys().map_or_else(|_: Error| self.toml(), |keys| line(&keys))
    }
}

/// Returns keys and values on one line.
#[must_use]
pub fn line(keys: &toml::Table) -> String {
    keys.iter().map(|(key, value)| format!("{key} = {value}")).collect::<Vec<_>>().join(", ")
}
