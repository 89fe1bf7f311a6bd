//! The reason why the demo cannot run on a machine.

const KERNEL_LACKS: u8 = 3;

/// The reason why the demo cannot run here, with the exit code.
#[derive(Debug, thiserror::Error)]
#[error("{why}")]
pub(crate) struct Unfit {
    pub code: u8,
    pub why: String,
}

impl Unfit {
    pub fn kernel(why: String) -> Self {
        Self { code: KERNEL_LACKS, why }
    }
}
