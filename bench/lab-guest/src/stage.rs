//! Where a plan is carried out: in the lab's guest, or on this machine.

use hotcc_lab_proto::plan::Plan;
use serde::{Deserialize, Serialize};

/// Where a plan is carried out.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// The lab's guest: one processor, nobody else, and its end is the end of everything.
    Guest,
    /// This machine, whose kernel holds packets until they are due.
    Native,
    /// This machine, where a thread holds them, as the kernel cannot.
    NativeEmulated,
}

impl Stage {
    /// Whether a thread holds packets, and not the kernel, which has to know at once until when: of links that share the
    /// air, nobody does.
    pub(crate) fn emulates(self, plan: &Plan) -> bool {
        self == Self::NativeEmulated || plan.links.iter().any(|link| link.cell.is_some())
    }
}
