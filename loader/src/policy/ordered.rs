//! All rules, and the sets of prefixes that they refer to.

use super::layout::{RuleEntry, TextEntry};
use super::set::Set;
use super::table::Rule;
use hotcc_host::error::{Error, Result};

/// Maximum number of rules.
const MAX_RULES: usize = 256;

/// Rules, in the order in which they are tried.
#[derive(Clone, Debug, Default)]
pub(crate) struct Policy {
    pub(crate) entries: Vec<(RuleEntry, TextEntry)>,
    pub(super) sets: Vec<Set>,
}

impl Policy {
    /// Builds a policy, and numbers the sets of its rules; rules with equal sets share one.
    pub(crate) fn new(rules: Vec<Rule>) -> Result<Self> {
        if rules.len() > MAX_RULES {
            return Err(Error::failed(format!("there are {} policy rules, more than {MAX_RULES}", rules.len())));
        }
        let mut policy = Self::default();
        for Rule { mut entry, text, remote, local, .. } in rules {
            entry.remote_set = policy.number(remote);
            entry.local_set = policy.number(local);
            policy.entries.push((entry, text));
        }
        Ok(policy)
    }

    fn number(&mut self, set: Option<Set>) -> u32 {
        let Some(set) = set.filter(|set| set.single().is_none()) else { return 0 };
        let known = self.sets.iter().position(|other| *other == set);
        let at = known.unwrap_or_else(|| {
            self.sets.push(set);
            self.sets.len() - 1
        });
        at as u32 + 1
    }
}
