//! Where a plan runs: in the lab's guest, or on this machine.

use hotcc_lab_proto::plan::Plan;
use serde::{Deserialize, Serialize};

/// Where a plan runs.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// The lab's guest: it has one processor and no other users, and everything in it ends with it.
    Guest,
    /// This machine, if its kernel can hold packets until they are due.
    Native,
    /// This machine, if its kernel cannot hold packets: a thread holds them.
    NativeEmulated,
}

impl Stage {
    /// Returns whether a thread holds packets instead of the kernel. The kernel must know at once until when to hold a
    /// packet, which is unknown for links that share the air, and behind a queueing discipline.
    pub(crate) fn emulates(self, plan: &Plan) -> bool {
        self == Self::NativeEmulated || plan.links.iter().any(|link| link.cell.is_some() || link.discipline.is_some())
    }
}
