//! Rules that choose a congestion control for a socket. One program on the root cgroup evaluates them.
//!
//! ```text
//! /sys/fs/bpf/hotcc/policy/link          link of the sock_ops program; the rules apply while it exists
//! /sys/fs/bpf/hotcc/policy/policy_socket socket storage: what chose a socket's congestion control, and where the
//!                                        connection stood when a rule chose for it
//! /sys/fs/bpf/hotcc/policy/policy_figures2  what the connections of each rule did
//! /sys/fs/bpf/hotcc/policy/policy_canary    state of `hotcc canary`: its share of the connections, and when it expires
//! /sys/fs/bpf/hotcc/policy/policy_cohorts   counters of the connections of the canary's two rules
//! ```
//! The rules are in maps of the program. New rules come with a new program, which replaces the one behind the link: so
//! all rules change at once.
//!
//! - `table`: a rule as the file has it, translated for the kernel
//! - `ordered`: all rules, and the sets of prefixes that they refer to
//! - `set`: sets of prefixes
//! - `overlap`: warnings about conflicting rules
//! - `kernel`: loads, replaces, removes and reads back the rules
//! - `figures`: what the connections of each rule did
//! - `show`: the rules that apply, with their counters
//! - `explain`: which rule a flow would get, and why
//! - `live`: applies the rules to sockets that are already open
//! - `chosen`: the conditions of a rule as options of a command
//! - `canary`: the two rules of `hotcc canary`

use hotcc_host::error::Result;

pub(crate) mod canary;
mod chosen;
mod explain;
pub mod figures;
mod kernel;
pub mod layout;
mod live;
mod ordered;
mod overlap;
mod set;
mod show;
mod table;

pub use chosen::Chosen;
pub(crate) use chosen::Condition;
pub(crate) use explain::explain_by;
pub use explain::{Explained, FlowQuery, explain};
pub use figures::{Stats, stats};
pub(crate) use kernel::{Removed, Replaced, current, install, remove, running};
pub(crate) use live::move_open;
pub(crate) use ordered::Policy;
pub(crate) use overlap::overlaps;
pub use show::{Shown, ShownRule, line, show};
pub(crate) use table::{Rule, RuleTable, parse_share};

/// Reads the rules that apply and what their connections did, for the exporter: all of one policy.
pub(crate) fn rules_and_figures() -> Result<(Shown, Stats)> {
    let Some(current) = current()? else { return Ok((Shown::default(), Stats::default())) };
    Ok((show::shown(&current)?, figures::figures(&current)?))
}
