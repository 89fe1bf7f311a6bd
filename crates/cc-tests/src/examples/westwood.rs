//! Examples that hold for several algorithms of the Westwood family.

use super::{Alone, Example};
use hotcc_host_algo::ca_state::{LOSS, OPEN, RECOVERY};

/// The kernel asks for no ssthresh and reports no timeout then, and has set W to 1 already.
///
/// # Panics
/// If the algorithm or its model differs from the example.
pub fn a_timeout_within_a_recovery_is_like_any<M: Alone>(c: &mut Example<'_, M>) {
    let time_out = |c: &mut Example<'_, M>| {
        c.sock.snd_ssthresh = c.ssthresh();
        c.enter(RECOVERY);
        c.sock.snd_cwnd = 1;
        c.enter(LOSS);
        let after = c.window();
        c.enter(OPEN);
        after
    };
    assert_eq!(time_out(c), (1, 75)); // no bandwidth yet: half of W
    c.end_round(100_000, 100, Some(100_000), 100_000); // 1,000,000 bytes/s, 100 segments
    c.sock.snd_cwnd = 60;
    assert_eq!(c.ssthresh(), 60);
    assert_eq!(time_out(c), (1, 100)); // eq 4 of that moment
    c.end_round(1000, 1, Some(300_000), 300_000);
    c.assert_field("base_us", 300_000.0); // and RTTmin is measured again
}
