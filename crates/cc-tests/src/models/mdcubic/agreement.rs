//! Compares the algorithm's private state with the model.

use super::*;

/// Bits of the field `flags`.
const FRESH: u64 = 1;
const CLOCKED: u64 = 1 << 1;
const DOMAIN_2: u64 = 1 << 2;
const FALLEN_BACK: u64 = 1 << 3;
const WAS_FULL: u64 = 1 << 11;

impl Mdcubic {
    pub(super) fn compare(&mut self, want: &View, got: &View, flow: &Flow<'_>) -> Result<(), String> {
        if want != got {
            return Err(format!("{}; the model has {}", show(got), show(want)));
        }
        let flags = flow.private("flags");
        let mut expected = vec![
            ("d2_segments", u64::from(self.d2_segments), flow.private("d2_segments")),
            // no tunable needs more than this, however wide the field
            ("events", u64::from(self.events.min(0xffff)), flow.private("events").min(0xffff)),
            ("losses_d1", u64::from(self.losses[0]), flow.private("losses_d1")),
            ("losses_d2", u64::from(self.losses[1]), flow.private("losses_d2")),
            ("clocked", u64::from(self.clocked), flags & CLOCKED),
            ("taken for domain 2", u64::from(self.in_domain_2), flags & DOMAIN_2),
            ("fallen back", u64::from(self.fallen_back), flags & FALLEN_BACK),
            ("was full", u64::from(self.was_full), flags & WAS_FULL),
        ];
        if self.clocked {
            expected.push(("covered_to", u64::from(self.covered_to), flow.private("covered_to")));
        }
        if std::mem::take(&mut self.looked) && !self.fallen_back {
            expected.push(("fresh", u64::from(self.usable), flags & FRESH));
        }
        for (name, want, got) in expected {
            let flag = matches!(name, "clocked" | "taken for domain 2" | "fallen back" | "was full" | "fresh");
            if if flag { (want != 0) != (got != 0) } else { want != got } {
                return Err(format!("{name} is {got}, the model's {want}"));
            }
        }
        Ok(())
    }
}
