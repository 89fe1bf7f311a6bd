//! The rules: what to try for a group of connections, or why to keep what it has. The first rule that speaks decides.

use super::evidence::{self, Evidence, RandomLoss, Score};
use super::groups::Group;
use serde::Serialize;

/// Groups with fewer bytes get no advice.
pub const DEFAULT_MIN_BYTES: u64 = 1_000_000;

/// Share of the bytes from which on the ends, not the path, limit a group.
const LIMITED: f64 = 0.5;
/// Losses below this share are no reason for a change: the pages have figures from 0.1 % on.
const FEW_LOSSES: f64 = 0.0005;
/// Losses above this share take crest's queue from it.
const MANY_LOSSES: f64 = 0.03;
/// A queue is long if its mean is longer than this, and longer than the least RTT.
const LONG_QUEUE_US: u64 = 20_000;
/// A queue is empty if its mean is shorter than an eighth of the least RTT, than the time between two segments, or than
/// this. Its 95th percentile says less: a window of a few segments waits for delayed ACKs, which looks like a queue.
const EMPTY_QUEUE_US: u64 = 2_000;
/// crest is worth a change from congestion controls with at least this many times its delay.
const MUCH_MORE_DELAY: f64 = 2.0;
/// Largest window, as a share of what single random losses allow, at which the losses may be single.
const SINGLE_LOSSES: f64 = 1.2;
/// crest is preferred to BBR, which leaves longer queues on radio links, if its throughput is at least this share.
const CREST_KEEPS_UP: f64 = 0.98;

/// What must hold if the advice is right, as factors of what the group has now.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Promise {
    /// Throughput is at least this.
    pub throughput_at_least: f64,
    /// The queueing delay's 95th percentile is at most this; `None`: nothing is promised.
    pub queue_p95_at_most: Option<f64>,
}

/// What to try for a group. Part of the schema of `hotcc advise --json`; fields are only ever added.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// The rule that decided.
    pub rule: &'static str,
    /// Congestion control to try; `None`: keep the present one.
    pub try_cc: Option<&'static str>,
    /// What to expect; `None` if there is nothing to try.
    pub expect: Option<Promise>,
    /// Why, in sentences.
    pub why: String,
    /// When the advice is wrong, which the connections do not show.
    pub unless: Option<&'static str>,
    /// The figures behind `why`.
    pub evidence: Vec<Evidence>,
}

fn keep(rule: &'static str, why: String, evidence: Vec<Evidence>) -> Option<Advice> {
    Some(Advice { rule, try_cc: None, expect: None, why, unless: None, evidence })
}

/// Returns the advice for a group.
#[must_use]
pub fn advise(group: &Group, min_bytes: u64) -> Advice {
    let rules = [limited_by_ends, behind_border, long_queue, random_losses, losses_in_bursts];
    few_bytes(group, min_bytes)
        .or_else(|| rules.iter().find_map(|rule| rule(group)))
        .unwrap_or_else(|| nothing_to_gain(group))
}

fn few_bytes(group: &Group, min_bytes: u64) -> Option<Advice> {
    let why = || format!("It moved {:.3} MB, which is too little to judge by.", group.bytes as f64 / 1e6);
    if group.bytes < min_bytes { keep("few-bytes", why(), Vec::new()) } else { None }
}

fn limited_by_ends(group: &Group) -> Option<Advice> {
    let Group { application_limited, receiver_limited, buffer_limited, .. } = *group;
    let all = application_limited + receiver_limited + buffer_limited;
    if all <= LIMITED {
        return None;
    }
    let why = format!(
        "Not the path limited {} of the bytes: the application {}, the receiver's window {}, the send buffer {}. No \
         congestion control changes that.",
        percent(all),
        percent(application_limited),
        percent(receiver_limited),
        percent(buffer_limited)
    );
    keep("limited-by-ends", why, Vec::new())
}

/// A border PEP tells mdcubic which losses are not congestion.
fn behind_border(group: &Group) -> Option<Advice> {
    if !group.pep || group.retransmit_ratio < FEW_LOSSES {
        return None; // the advice is about losses
    }
    let [ours, cubic] = evidence::behind_border();
    if group.cc == "mdcubic" {
        let why = "A border PEP reports on it, and it already runs the one that reads the reports.".to_owned();
        return keep("behind-border", why, Vec::new());
    }
    if group.cc != "cubic" {
        return None;
    }
    Some(Advice {
        rule: "behind-border",
        try_cc: Some("mdcubic"),
        expect: Some(Promise { throughput_at_least: 1.2, queue_p95_at_most: None }),
        why: format!(
            "A border PEP reports on it, and {} of its segments are lost. If they are lost behind the border, mdcubic \
             does not shrink its window for them: with 0.5 % of such losses it had {} Mbit/s, and cubic {}.",
            percent(group.retransmit_ratio),
            ours.value(),
            cubic.value()
        ),
        unless: Some("the losses are before the border: mdcubic then is cubic"),
        evidence: vec![ours, cubic],
    })
}

/// crest keeps queues short that the flows fill themselves.
fn long_queue(group: &Group) -> Option<Advice> {
    let least_us = u64::from(group.least_rtt_us?);
    let (theirs, ours) = (evidence::score(&group.cc)?, evidence::score("crest")?);
    let is_long = group.queue_mean_us >= LONG_QUEUE_US && group.queue_mean_us > least_us;
    if !is_long || theirs.delay.value() < MUCH_MORE_DELAY * ours.delay.value() {
        return None;
    }
    let queue = format!(
        "Packets wait {:.0} ms in a queue on average, {:.1} times the least RTT",
        ms(group.queue_mean_us),
        group.queue_mean_us as f64 / least_us as f64
    );
    if group.retransmit_ratio > MANY_LOSSES {
        let why = format!("{queue}, and {} of its segments are lost. crest has its queue only below 3 %.", {
            percent(group.retransmit_ratio)
        });
        return keep("long-queue", why, Vec::new());
    }
    let Score { throughput, delay } = ours;
    let signal = if group.radio { " crest also reads the radio map, which knows the link." } else { "" };
    Some(Advice {
        rule: "long-queue",
        try_cc: Some("crest"),
        expect: Some(Promise { throughput_at_least: 0.95, queue_p95_at_most: Some(0.5) }),
        why: format!(
            "{queue}. On twelve recorded radio links, crest had a p95 queueing delay of {} ms, and {} % of the \
             possible throughput; {} had {} ms and {} %.{signal}",
            delay.value(),
            throughput.value(),
            group.cc,
            theirs.delay.value(),
            theirs.throughput.value()
        ),
        unless: Some("flows of other hosts fill the queue: crest then gets a small share"),
        evidence: vec![delay, throughput, theirs.delay, theirs.throughput],
    })
}

/// CUBIC takes each random loss for congestion; crest and BBR do not.
fn random_losses(group: &Group) -> Option<Advice> {
    let least_rtt_us = group.least_rtt_us?;
    if group.cc != "cubic" || group.retransmit_ratio < FEW_LOSSES || !has_no_queue(group) || !are_single(group)? {
        return None;
    }
    let row = evidence::random_loss(group.retransmit_ratio, ms(least_rtt_us.into()));
    let RandomLoss { loss, rtt_ms, crest, bbr, cubic } = row;
    let (name, best) = if crest.value() >= CREST_KEEPS_UP * bbr.value() { ("crest", &crest) } else { ("bbr", &bbr) };
    Some(Advice {
        rule: "random-losses",
        try_cc: Some(name),
        expect: Some(Promise { throughput_at_least: 1.2, queue_p95_at_most: None }),
        why: format!(
            "{} of its segments are lost one by one, without a queue, and its window is what cubic has then. With {} \
             of random losses and an RTT of {rtt_ms} ms, {name} had {} of 40 Mbit/s, and cubic {}.",
            percent(group.retransmit_ratio),
            percent(loss),
            best.value(),
            cubic.value()
        ),
        unless: Some("the losses are those of a full link with a very short queue: the gain then is other flows' loss"),
        evidence: if name == "crest" { vec![crest, cubic] } else { vec![bbr, crest, cubic] },
    })
}

/// Losses without a queue that are not single: those of a policer, or of a short queue that is full.
fn losses_in_bursts(group: &Group) -> Option<Advice> {
    if group.retransmit_ratio < FEW_LOSSES || !has_no_queue(group) {
        return None;
    }
    let lost = percent(group.retransmit_ratio);
    if group.cc != "cubic" {
        let why = format!(
            "{lost} of its segments are lost without a queue. Whether at random or by a policer cannot be seen from \
             {}, and what is better for one is worse for the other.",
            group.cc
        );
        return keep("losses-in-bursts", why, Vec::new());
    }
    let [crest, cubic] = evidence::policer();
    let why = format!(
        "{lost} of its segments are lost in bursts, without a queue, as a policer does it. Through a policer of 20 \
         Mbit/s, cubic had {} Mbit/s, and crest {}.",
        cubic.value(),
        crest.value()
    );
    keep("losses-in-bursts", why, vec![crest, cubic])
}

fn nothing_to_gain(group: &Group) -> Advice {
    let why = format!(
        "Packets wait {:.1} ms in a queue on average, and {} of its segments are lost. No page shows a gain there.",
        ms(group.queue_mean_us),
        percent(group.retransmit_ratio)
    );
    let evidence = match group.cc.as_str() {
        "bbr" => vec![evidence::steady()],
        "cubic" => vec![evidence::no_radio()],
        _ => Vec::new(),
    };
    Advice { rule: "nothing-to-gain", try_cc: None, expect: None, why, unless: None, evidence }
}

fn has_no_queue(group: &Group) -> bool {
    let least_us = u64::from(group.least_rtt_us.unwrap_or_default());
    // a receiver acknowledges every second segment, so that the first of two waits for the other
    let pair_us = (u64::from(group.mss) * 8_000_000).checked_div(group.busy_goodput_bps).unwrap_or(0);
    group.queue_mean_us <= EMPTY_QUEUE_US.max(least_us / 8).max(pair_us)
}

/// Returns whether the window is no larger than single losses allow CUBIC (RFC 9438, section 5). Losses in bursts, as of
/// a policer, allow more, because a burst reduces the window only once.
fn are_single(group: &Group) -> Option<bool> {
    let rtt_s = f64::from(group.median_rtt_us?) / 1e6;
    let window = group.busy_goodput_bps as f64 / 8.0 * rtt_s / f64::from(group.mss);
    let loss = group.retransmit_ratio;
    let cubic = 1.054 * (rtt_s / loss).powf(0.75);
    let reno = (1.5 / loss).sqrt();
    Some(window <= SINGLE_LOSSES * cubic.max(reno))
}

fn ms(us: u64) -> f64 {
    us as f64 / 1e3
}

fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    if percent >= 10.0 { format!("{percent:.0} %") } else { format!("{percent:.2} %") }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A busy group without losses and without a queue.
    fn group(cc: &str) -> Group {
        Group {
            cc: cc.to_owned(),
            to: "192.0.2.0/24".to_owned(),
            connections: 1,
            bytes: 50_000_000,
            goodput_bps: 20_000_000,
            busy_goodput_bps: 20_000_000,
            mss: 1448,
            least_rtt_us: Some(40_000),
            median_rtt_us: Some(41_000),
            queue_mean_us: 1000,
            queue_p95_us: 2000,
            ..Group::default()
        }
    }

    fn advice(group: &Group) -> (&'static str, Option<&'static str>) {
        let Advice { rule, try_cc, expect, why, evidence, .. } = advise(group, DEFAULT_MIN_BYTES);
        assert_eq!(try_cc.is_some(), expect.is_some());
        assert!(try_cc.is_none() || !evidence.is_empty(), "no figure behind: {why}");
        for one in evidence.iter().filter(|_| try_cc.is_some()) {
            // BBR's advice quotes crest only as the one that it beats
            assert!(why.contains(&one.value().to_string()) || (rule, &*one.column) == ("random-losses", "crest"));
        }
        (rule, try_cc)
    }

    #[test]
    fn a_busy_clean_group_is_kept() {
        for cc in ["cubic", "bbr", "crest", "somebody_s"] {
            assert_eq!(advice(&group(cc)), ("nothing-to-gain", None), "{cc}");
        }
    }

    #[test]
    fn few_bytes_are_not_judged() {
        let long = Group { queue_mean_us: 90_000, queue_p95_us: 200_000, ..group("cubic") };
        assert_eq!(advice(&Group { bytes: DEFAULT_MIN_BYTES - 1, ..long.clone() }), ("few-bytes", None));
        assert_eq!(advice(&Group { bytes: DEFAULT_MIN_BYTES, ..long }).1, Some("crest"));
    }

    #[test]
    fn what_the_ends_limit_is_kept() {
        let long = Group { queue_mean_us: 90_000, queue_p95_us: 200_000, ..group("cubic") };
        for limited in [
            Group { application_limited: 0.6, ..long.clone() },
            Group { receiver_limited: 0.6, ..long.clone() },
            Group { buffer_limited: 0.3, application_limited: 0.3, ..long.clone() },
        ] {
            assert_eq!(advice(&limited), ("limited-by-ends", None));
        }
        assert_eq!(advice(&Group { application_limited: 0.4, ..long }).1, Some("crest"));
    }

    #[test]
    fn a_pep_and_losses_ask_for_mdcubic() {
        let behind = |cc: &str, retransmit_ratio| Group { pep: true, retransmit_ratio, ..group(cc) };
        assert_eq!(advice(&behind("cubic", 0.005)), ("behind-border", Some("mdcubic")));
        assert_eq!(advice(&behind("mdcubic", 0.005)), ("behind-border", None));
        assert_eq!(advice(&behind("cubic", 0.0001)), ("nothing-to-gain", None));
    }

    #[test]
    fn a_long_queue_asks_for_crest() {
        let queue = |cc: &str, queue_mean_us| Group {
            queue_mean_us,
            queue_p95_us: 3 * queue_mean_us,
            retransmit_ratio: 0.001,
            ..group(cc)
        };
        for cc in ["cubic", "bbr", "reno", "dtcp", "fbtcp"] {
            assert_eq!(advice(&queue(cc, 41_000)), ("long-queue", Some("crest")), "{cc}");
            assert_eq!(advice(&queue(cc, 40_000)).1, None, "{cc}: not longer than the least RTT");
        }
        for cc in ["crest", "dcmplus", "somebody_s"] {
            assert_eq!(advice(&queue(cc, 41_000)).1, None, "{cc}");
        }
        let short_path = Group { least_rtt_us: Some(1000), ..queue("cubic", 19_000) };
        assert_eq!(advice(&short_path).1, None, "19 ms are not long");
        assert_eq!(advice(&Group { retransmit_ratio: 0.04, ..queue("cubic", 90_000) }), ("long-queue", None));
        assert!(advise(&Group { radio: true, ..queue("cubic", 90_000) }, 0).why.contains("radio map"));
    }

    #[test]
    fn single_losses_ask_for_what_ignores_them() {
        let lossy = |retransmit_ratio, busy_goodput_bps, least_rtt_us: u32| Group {
            retransmit_ratio,
            busy_goodput_bps,
            least_rtt_us: Some(least_rtt_us),
            median_rtt_us: Some(least_rtt_us + 300),
            queue_mean_us: 300,
            queue_p95_us: 900,
            ..group("cubic")
        };
        assert_eq!(advice(&lossy(0.01, 1_750_000, 80_000)), ("random-losses", Some("crest")));
        assert_eq!(advice(&lossy(0.01, 5_870_000, 20_000)), ("random-losses", Some("crest")));
        assert_eq!(advice(&lossy(0.05, 580_000, 80_000)), ("random-losses", Some("crest")));
        assert_eq!(advice(&lossy(0.0002, 30_000_000, 20_000)).1, None, "few losses");
        assert_eq!(advice(&Group { queue_mean_us: 8000, ..lossy(0.01, 1_750_000, 40_000) }).1, None, "a queue");
        assert_eq!(advice(&Group { cc: "bbr".to_owned(), ..lossy(0.03, 36_000_000, 20_000) }).1, None);
    }

    #[test]
    fn losses_in_bursts_are_a_policers() {
        let policed = |cc: &str| Group {
            retransmit_ratio: 0.0125,
            busy_goodput_bps: 19_300_000,
            least_rtt_us: Some(20_000),
            median_rtt_us: Some(20_100),
            queue_p95_us: 500,
            ..group(cc)
        };
        for cc in ["cubic", "bbr"] {
            assert_eq!(advice(&policed(cc)), ("losses-in-bursts", None), "{cc}");
        }
    }

    #[test]
    fn a_connection_without_an_rtt_is_kept() {
        let unknown =
            Group { least_rtt_us: None, median_rtt_us: None, queue_mean_us: 0, queue_p95_us: 0, ..group("cubic") };
        assert_eq!(advice(&Group { retransmit_ratio: 0.01, ..unknown }).1, None);
    }

    #[test]
    fn a_pep_without_losses_does_not_hide_a_long_queue() {
        let queue = |retransmit_ratio| Group {
            pep: true,
            retransmit_ratio,
            queue_mean_us: 90_000,
            queue_p95_us: 200_000,
            ..group("mdcubic")
        };
        assert_eq!(advice(&queue(0.0)), ("long-queue", Some("crest")));
        assert_eq!(advice(&queue(0.005)), ("behind-border", None));
    }
}
