//! Creates a radio from its description.

use crate::error::RadioError;
use crate::radio::{Radio, STEP};
use crate::spec::RadioSpec;
use crate::{series, umi};
use std::path::Path;
use std::time::Duration;

/// Maximum length of a radio that [`RadioSpec::realise`] creates.
pub const LONGEST: Duration = Duration::from_secs(24 * 3600);

impl RadioSpec {
    /// Creates the radio, with `ceil(duration / STEP)` entries per series. The same arguments and the same trace file
    /// give the same bytes on every machine. Relative paths of trace files are relative to `base_dir`.
    ///
    /// # Errors
    /// What [`RadioSpec::check`] finds; a duration above [`LONGEST`]; a trace file that cannot be read or
    /// lacks what the description needs.
    pub fn realise(&self, base_dir: &Path, seed: u64, duration: Duration) -> Result<Radio, RadioError> {
        self.check()?;
        if duration > LONGEST {
            return Err(RadioError::Value {
                key: "duration".into(),
                value: format!("{} s", duration.as_secs()),
                what: format!("must be at most {} s", LONGEST.as_secs()),
            });
        }
        let steps = duration.as_nanos().div_ceil(STEP.as_nanos()) as usize;
        let name = self.name();
        match self {
            Self::Trace(spec) => series::trace(name, spec, base_dir, steps),
            Self::Constant(spec) => Ok(series::constant(name, spec, steps)),
            Self::Steps(spec) => Ok(series::steps(name, spec, steps)),
            Self::Umi(spec) => Ok(umi::realise(name, spec, seed, steps)),
        }
    }
}
