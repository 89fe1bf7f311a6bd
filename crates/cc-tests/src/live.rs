//! Connections whose events are generated while they run, from the socket's state at that time.

use crate::kernel::{Event, Kernel};
use crate::models::Model;
use crate::random::{self, Random, Script, Totals};
use hotcc_host_algo::{HostAlgo, View};
use hotcc_testbed::soak;

/// A path that a connection runs over.
pub(crate) trait Course {
    /// Draws a path, and the socket at the start of a connection over it.
    fn begin(random: &mut Random) -> (Self, View)
    where
        Self: Sized;

    /// Returns the events of the next step.
    fn step(&mut self, random: &mut Random, sock: &View) -> Vec<Event>;
}

/// Runs `connections` connections of `steps` steps from seeds `seed..`; `model` makes the model for each.
/// Panics at the first difference, with the shortest script found that shows one.
pub(crate) fn check<C: Course, M: Model + Clone>(
    algo: &HostAlgo,
    seed: u64,
    connections: u64,
    steps: usize,
    model: impl Fn(&mut Random) -> M,
) -> Totals {
    let mut totals = Totals::default();
    for seed in soak::seeds(seed, connections) {
        let mut random = Random::new(seed);
        let fresh = model(&mut random);
        let (mut course, start) = C::begin(&mut random);
        let mut script = Script { start, events: Vec::new() };
        let played = Kernel::start(algo, fresh.clone(), script.start).and_then(|mut kernel| {
            for _ in 0..steps {
                for event in course.step(&mut random, &kernel.sock) {
                    script.events.push(event);
                    kernel.apply(event)?;
                }
            }
            kernel.finish()?;
            totals.add(&kernel.counts, &kernel.model);
            Ok(())
        });
        if let Err(difference) = played {
            random::fail(Some(algo), seed, &fresh, script, difference);
        }
    }
    soak::report(&totals.of::<M>());
    totals
}
