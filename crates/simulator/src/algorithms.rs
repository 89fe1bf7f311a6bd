//! Which congestion controls can be simulated, and how one is made.

use crate::bbr::Bbr;
use crate::congestion::CongestionControl;
use crate::cubic::Cubic;
use crate::reno::Reno;
use anyhow::{Result, bail};

/// Those of the kernel that are written down here.
pub const OF_THE_KERNEL: [&str; 3] = ["bbr", "cubic", "reno"];

/// One of the kernel's; `seed` decides what it draws by chance.
pub(crate) fn of_the_kernel(name: &str, seed: u64) -> Result<Box<dyn CongestionControl>> {
    match name {
        "bbr" => Ok(Box::new(Bbr::new(seed))),
        "cubic" => Ok(Box::new(Cubic::new())),
        "reno" => Ok(Box::new(Reno)),
        _ => bail!("the simulator does not have congestion control `{name}`; it has {}", OF_THE_KERNEL.join(", ")),
    }
}
