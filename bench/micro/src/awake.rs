//! Keeps processors awake. A processor that sleeps wakes up with cold caches, even more so in a virtual machine, and a
//! measurement would mostly show that.

use nix::libc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Keeps all processors busy with idle loops while no other process needs them.
#[derive(Debug)]
pub struct Awake(Arc<AtomicBool>);

impl Awake {
    /// Starts one thread per processor, of a scheduling class (`SCHED_IDLE`) that yields to everything else.
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
