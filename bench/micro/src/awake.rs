//! Processors that do not go to sleep: one that does wakes up with cold caches, in a virtual machine all the more, and
//! what is then measured is mostly that.

use nix::libc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Keeps all processors busy with nothing, for as long as nobody else wants them.
#[derive(Debug)]
pub struct Awake(Arc<AtomicBool>);

impl Awake {
    /// One thread per processor, of a class that anything else comes before.
    pub fn keep() -> Self {
        let stop = Arc::<AtomicBool>::default();
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                let parameters = libc::sched_param { sched_priority: 0 };
                // SAFETY: 0 is the calling thread; the kernel only reads `parameters`, which lives beyond the call.
                let result = unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameters) };
                while result == 0 && !stop.load(Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        Self(stop)
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}
