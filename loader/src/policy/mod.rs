//! Rules that choose a congestion control for a socket, as one program on the root cgroup.
//!
//! ```text
//! /sys/fs/bpf/hotcc/policy/link          link of the sock_ops program; there: the rules apply
//! /sys/fs/bpf/hotcc/policy/policy_mark   socket storage: whose choice a socket's congestion control is
//! /sys/fs/bpf/hotcc/policy/policy_start  socket storage: where a connection stood when a rule took it
//! /sys/fs/bpf/hotcc/policy/policy_figures   what the connections of each rule did
//! ```
//! The rules are in maps of the program. Other rules are another program, which takes the place of the one behind the
//! link: so all rules change at once.
//!
//! - `table`: a rule as the file has it, and what it means to the kernel
//! - `ordered`: all rules, and the sets that they name
//! - `set`: sets of prefixes
//! - `overlap`: rules that get in each other's way
//! - `kernel`: rules loaded, replaced, removed, read back
//! - `figures`: what the connections of each rule did
//! - `show`: what applies, for people and programs
//! - `explain`: which rule a flow gets, and why
//! - `live`: rules for sockets that are already open
//! - `chosen`: one rule as options of a command

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
pub use figures::stats;
pub(crate) use figures::tick_us;
pub(crate) use kernel::{Removed, Replaced, current, install, remove, running};
pub(crate) use live::move_open;
pub(crate) use ordered::Policy;
pub(crate) use overlap::overlaps;
pub(crate) use show::shown;
pub use show::{Shown, ShownRule, line, show};
pub(crate) use table::{Rule, RuleTable};
