//! Commands that run until a signal ends them.

use hotcc_host::error::{Result, Tried};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Returns what becomes true when a signal asks this process to end. Call it once.
pub fn requested() -> Result<Arc<AtomicBool>> {
    let requested = Arc::new(AtomicBool::new(false));
    let by_signal = Arc::clone(&requested);
    ctrlc::set_handler(move || by_signal.store(true, Relaxed)).tried(|| "cannot handle signals".to_owned())?;
    Ok(requested)
}
