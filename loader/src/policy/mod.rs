//! Rules that choose a congestion control for a socket, as one program on the root cgroup.
//!
//! ```text
//! /sys/fs/bpf/hotcc/policy/link          link of the sock_ops program; there: the rules apply
//! /sys/fs/bpf/hotcc/policy/policy_mark   socket storage: whose choice a socket's congestion control is
//! ```
//! The rules are in maps of the program. Other rules are another program, which takes the place of the one behind the
//! link: so all rules change at once.
//!
//! - `table`: a rule as the file has it, and what it means to the kernel
//! - `set`: sets of prefixes
//! - `overlap`: rules that get in each other's way
//! - `kernel`: rules loaded, replaced, removed, read back
//! - `show`: what applies, for people and programs
//! - `explain`: which rule a flow gets, and why
//! - `live`: rules for sockets that are already open
//! - `chosen`: one rule as options of a command

mod chosen;
mod explain;
mod kernel;
pub mod layout;
mod live;
mod overlap;
mod set;
mod show;
mod table;

pub use chosen::Chosen;
pub(crate) use chosen::Condition;
pub(crate) use explain::explain_by;
pub use explain::{Explained, Question, explain};
pub(crate) use kernel::{Removed, Replaced, current, install, remove, running};
pub(crate) use live::move_open;
pub(crate) use overlap::overlaps;
pub(crate) use show::shown;
pub use show::{Shown, ShownRule, line, show};
pub(crate) use table::{Rule, RuleTable};

use hotcc_host::error::{Error, Result};
use layout::{RuleEntry, TextEntry};
use set::Set;

/// The most rules there may be.
pub const MAX_RULES: usize = 256;

/// Rules, in the order in which they are tried.
#[derive(Clone, Debug, Default)]
pub(crate) struct Policy {
    pub(crate) entries: Vec<(RuleEntry, TextEntry)>,
    sets: Vec<Set>,
}

impl Policy {
    /// Numbers the sets of the rules; rules with equal sets share one.
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
