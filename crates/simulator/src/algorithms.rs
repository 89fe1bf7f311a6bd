//! Which congestion controls can be simulated, and how one is made.

use crate::congestion::CongestionControl;
use crate::reno::Reno;
use anyhow::{Result, bail};

/// Those of the kernel that are written down here.
pub const OF_THE_KERNEL: [&str; 1] = ["reno"];

/// One of the kernel's.
pub(crate) fn of_the_kernel(name: &str) -> Result<Box<dyn CongestionControl>> {
    match name {
        "reno" => Ok(Box::new(Reno)),
        _ => bail!("the simulator does not have congestion control `{name}`; it has {}", OF_THE_KERNEL.join(", ")),
    }
}
