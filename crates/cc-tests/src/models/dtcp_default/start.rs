//! HyStart++ (RFC 9406), based on the least RTT of the path.

use super::state::{Choices, State, World};
use hotcc_host_algo::View;

/// RTT samples that a round needs.
const SAMPLES: u32 = 8;
/// Rounds at a quarter of the growth before slow start ends.
const ROUNDS: u32 = 5;

impl State {
    /// Checks slow start: a longer RTT slows it down; five rounds of that, or a queue of alpha, end it.
    pub(super) fn watch_start(&mut self, world: &World, sock: &View, delivered: u32, choices: &mut Choices) {
        // in a recovery or the loss state, the RTTs are those of the window before it
        if !sock.in_slow_start() || !sock.may_grow() {
            self.css_rounds = 0;
            return;
        }
        let (Some(base), Some(least)) = (self.base.us, self.base.least_us()) else { return };
        if world.tunables.slow_start == 1 || delivered < SAMPLES {
            return;
        }
        if least < base + (base / 8).clamp(4000, 16_000) {
            self.coverage.css_left += u64::from(self.css_rounds > 0);
            self.css_rounds = 0;
            return;
        }
        let short = self.base.queue(Some(least)).is_below(world.alpha());
        if self.css_rounds < ROUNDS && choices.decide(short) {
            self.coverage.css_entered += u64::from(self.css_rounds == 0);
            self.css_rounds += 1;
            return;
        }
        self.coverage.css_exits += 1;
        self.css_rounds = 0;
        self.lower_window(self.window_without_queue(least));
        self.ssthresh = self.window.map(|w| w.max(2.0));
    }
}
