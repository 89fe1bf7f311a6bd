//! Metrics of the policy's rules.

use super::{DURATION, Page, RATE, RTT, Scale, labels};
use crate::policy::Shown;
use crate::policy::figures::{RuleStats, Stats, UNITS};
use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

impl Page<'_> {
    pub(super) fn policy(&mut self, shown: &Shown) -> fmt::Result {
        let rules = distinct(&shown.rules, |rule| rule.id.as_str());
        // only this one names the place, because a rule that comes or goes changes the places of those after it
        let places = rules.iter().copied().map(|rule| {
            let mut labels = labels([("id", &rule.id), ("cc", &rule.congestion_control)]);
            labels.push(("rule", Cow::Owned(rule.rule.to_string())));
            labels
        });
        self.info("hotcc_policy_rule", "Place of a policy rule in the order, from 1", places)?;
        let samples = rules.iter().copied().flat_map(|rule| {
            let counts = rule.counts;
            let of_rule = move |(outcome, n)| {
                (labels([("id", &rule.id), ("cc", &rule.congestion_control), ("outcome", outcome)]), n)
            };
            [
                ("connection", counts.connections),
                ("listener", counts.listeners),
                ("left_alone", counts.left_alone),
                ("not_loaded", counts.unavailable),
                ("refused", counts.refused),
            ]
            .map(of_rule)
        });
        self.counters("hotcc_policy_sockets", "Sockets that a policy rule matched, by what became of them", samples)
    }

    pub(super) fn rules(&mut self, stats: &Stats) -> fmt::Result {
        let rules = distinct(&stats.rules, |rule| rule.id.as_str());
        let rules = || rules.iter().map(|rule| (labels([("id", &rule.id), ("cc", &rule.congestion_control)]), *rule));
        type Count = fn(&RuleStats) -> u64;
        let counters: [(&str, &str, Count); 5] = [
            ("hotcc_policy_ended_connections", "Connections of a policy rule that ended", |r| r.connections),
            ("hotcc_policy_acked_bytes", "Bytes acknowledged in these connections", |r| r.acked_bytes),
            ("hotcc_policy_segments", "Data segments sent in these connections", |r| r.segments),
            ("hotcc_policy_retransmitted_segments", "Segments retransmitted in these connections", |r| r.retransmits),
            ("hotcc_policy_timeouts", "Retransmission timeouts in these connections", |r| r.timeouts),
        ];
        for (name, help, count) in counters {
            self.counters(name, help, rules().map(|(labels, rule)| (labels, count(rule))))?;
        }
        let histograms: [(&str, &str, Scale); 5] = [
            ("hotcc_policy_final_srtt_seconds", "Smoothed RTT of a rule's connections, at their end", RTT),
            ("hotcc_policy_min_rtt_seconds", "Minimum RTT of a rule's connections", RTT),
            ("hotcc_policy_goodput_bytes_per_second", "Goodput of a rule's connections while they had data", RATE),
            ("hotcc_policy_delivery_bytes_per_second", "Last delivery rate of a rule's connections", RATE),
            ("hotcc_policy_duration_seconds", "Duration of a rule's connections", DURATION),
        ];
        for (place, ((name, help, scale), unit)) in histograms.iter().zip(UNITS).enumerate() {
            let samples = rules().map(|(labels, rule)| (labels, rule.histograms[place]));
            self.histograms(name, help, (scale, unit), samples)?;
        }
        Ok(())
    }
}

/// Returns the rules without those that are equal to an earlier one: they never apply, and would repeat its series.
fn distinct<R>(rules: &[R], id: fn(&R) -> &str) -> Vec<&R> {
    let mut seen = HashSet::new();
    rules.iter().filter(|&rule| seen.insert(id(rule))).collect()
}
