//! The rules of `hotcc advise` in the simulator: for each rule, a case where what it advises wins in the same case, and
//! one where it says to keep what is there.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use hotcc::advise::groups::{Group, Groups, Key, Look, Place};
use hotcc::advise::rules::{Advice, DEFAULT_MIN_BYTES, advise};
use hotcc_lab::planner::plan;
use hotcc_lab::scenario::Source;
use hotcc_lab_proto::plan::{Pace, Plan};
use hotcc_lab_proto::records::AckRecord;
use hotcc_simulator::exec::{Outcome, simulate};
use std::net::SocketAddr;
use std::path::Path;

const BENCH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios");
const LOOK_MS: u64 = 500;
/// Before that, flows start.
const FROM_S: u64 = 5;

/// One case of a scenario of this repository.
struct Case<'a> {
    scenario: &'a str,
    /// Changes of the scenario's text.
    changes: &'a [(&'a str, &'a str)],
    values: &'a [(&'a str, &'a str)],
}

/// What a run of a case showed.
struct Run {
    group: Group,
    queue_p95_ms: f64,
}

impl Case<'_> {
    /// Runs the case with this congestion control.
    fn run(&self, cc: &str) -> Run {
        let path = Path::new(BENCH).join(self.scenario);
        let mut text = std::fs::read_to_string(&path).unwrap();
        for (from, to) in self.changes {
            assert!(text.contains(from), "{}: {from}", self.scenario);
            text = text.replace(from, to);
        }
        let source = Source::parse(&path, text).unwrap();
        let is = |found: &str, wanted: &str| {
            found == wanted || found.parse::<f64>().is_ok_and(|found| wanted.parse() == Ok(found))
        };
        let wanted = |(axis, value): &(&str, &str), found: &hotcc_lab::scenario::Case| is(&found.values[*axis], value);
        let cases = source.cases().unwrap();
        let mut found =
            cases.iter().filter(|case| case.values["cc"] == cc && self.values.iter().all(|value| wanted(value, case)));
        let case = found.next().unwrap_or_else(|| panic!("{}: {cc}, {:?}", self.scenario, self.values));
        assert!(found.next().is_none(), "{}: {:?} are several cases", self.scenario, self.values);
        let planned = plan(&case.scenario, 1, &source.traces()).unwrap();
        let outcome = simulate(&planned.plan, &|_, _, _| Ok(Vec::new())).unwrap();
        let run = Run { group: group(&planned.plan, &outcome), queue_p95_ms: queue_p95_ms(&outcome) };
        let Group { busy_goodput_bps, retransmit_ratio, least_rtt_us, median_rtt_us, queue_mean_us, .. } = run.group;
        println!(
            "{} {:?} {cc}: {:.2} Mbit/s, {:.3} % lost, RTT {median_rtt_us:?} (least {least_rtt_us:?}), queue \
             {queue_mean_us} p95 {} us, of packets {:.1} ms",
            self.scenario,
            self.values,
            busy_goodput_bps as f64 / 1e6,
            100.0 * retransmit_ratio,
            run.group.queue_p95_us,
            run.queue_p95_ms
        );
        run
    }

    /// Checks that a rule advises `try_cc` in place of `cc`, and that it then keeps its promise.
    fn wins(&self, cc: &str, rule: &str, try_cc: &str) {
        let now = self.run(cc);
        let Advice { rule: spoke, try_cc: advised, expect, why, .. } = advise(&now.group, DEFAULT_MIN_BYTES);
        println!("  {spoke}: {advised:?}: {why}");
        assert_eq!((spoke, advised), (rule, Some(try_cc)));
        let (then, promise) = (self.run(try_cc), expect.unwrap());
        let throughput = then.group.busy_goodput_bps as f64 / now.group.busy_goodput_bps as f64;
        let queue = then.queue_p95_ms / now.queue_p95_ms;
        println!("  throughput x {throughput:.3}, p95 of the queue x {queue:.3}");
        assert!(throughput >= promise.throughput_at_least, "{throughput}");
        assert!(promise.queue_p95_at_most.is_none_or(|most| queue <= most), "{queue}");
    }

    /// Checks that a rule says to keep `cc`.
    fn keeps(&self, cc: &str, rule: &str) {
        let Advice { rule: spoke, try_cc, why, .. } = advise(&self.run(cc).group, DEFAULT_MIN_BYTES);
        println!("  {spoke}: {try_cc:?}: {why}");
        assert_eq!((spoke, try_cc), (rule, None));
    }
}

/// Makes the looks that `hotcc advise` would have taken from the records of ACKs.
fn group(plan: &Plan, outcome: &Outcome) -> Group {
    let mut groups = Groups::default();
    let cc = plan.flows[0].cc.clone().unwrap();
    let peer = SocketAddr::from((plan.flows[0].address, 443));
    let local = SocketAddr::from(([10, 0, 0, 1], 443));
    let mut due_ms = FROM_S * 1000;
    for ack in outcome.acks.iter().filter(|ack| ack.flow == 0) {
        let now_ms = ack.time_ns / 1_000_000;
        if now_ms >= due_ms {
            due_ms = now_ms + LOOK_MS;
            let key = Key { netns: "here".to_owned(), place: Place::of(peer.ip()), cc: cc.clone() };
            groups.add(key, ("here".to_owned(), local, peer), look(plan, now_ms, ack));
        }
    }
    groups.finish().remove(0)
}

fn look(plan: &Plan, at_ms: u64, ack: &AckRecord) -> Look {
    let some = |us: u32| (us != 0).then_some(us);
    Look {
        at_ms,
        acked_bytes: ack.bytes_acked,
        retransmits: ack.retransmits,
        mss: 1448,
        srtt_us: some(ack.srtt_us),
        min_rtt_us: some(ack.min_rtt_us),
        app_limited: plan.flows[0].pace.is_some_and(|pace| has_sent_all(pace, ack)),
        busy_ms: at_ms,
        ..Look::default()
    }
}

/// Returns whether all that the application wrote up to 0.1 s before is acknowledged or in flight: it begins to write when
/// it is connected.
fn has_sent_all(pace: Pace, ack: &AckRecord) -> bool {
    let written = ack.time_ns.saturating_sub(100_000_000) / pace.interval_ns * u64::from(pace.write_bytes);
    written <= ack.bytes_acked + u64::from(1448 * ack.in_flight)
}

/// Returns the 95th percentile of the time that the first flow's packets waited.
fn queue_p95_ms(outcome: &Outcome) -> f64 {
    let of_flow = outcome.packets.iter().filter(|packet| packet.flow == 0 && packet.towards_receiver());
    let mut waits: Vec<u64> = of_flow.filter(|p| p.time_ns >= FROM_S * 1_000_000_000).map(|p| p.wait_ns).collect();
    waits.sort_unstable();
    waits[waits.len() * 95 / 100] as f64 / 1e6
}

/// The scenario has no CUBIC: it takes the place of crest without the radio.
const WITH_CUBIC: &[(&str, &str)] =
    &[("cc = [\"crest\", \"bbr\", \"crest-blind\"]", "cc = [\"crest\", \"bbr\", \"cubic\", \"crest-blind\"]")];

fn generated<'a>(values: &'a [(&'a str, &'a str)]) -> Case<'a> {
    Case { scenario: "crest-generated.toml", changes: WITH_CUBIC, values }
}

#[test]
fn a_long_queue_of_cubic_or_bbr_on_a_radio_link_is_crests() {
    for radio in ["street", "avenue", "drive", "square"] {
        generated(&[("radio", radio)]).wins("cubic", "long-queue", "crest");
    }
    generated(&[("radio", "square")]).wins("bbr", "long-queue", "crest");
}

#[test]
fn bbr_and_crest_on_a_steady_link_are_kept() {
    generated(&[("radio", "fixed")]).keeps("bbr", "nothing-to-gain");
    for radio in ["fixed", "street", "square"] {
        generated(&[("radio", radio)]).keeps("crest", "nothing-to-gain");
    }
}

#[test]
fn cubic_with_a_short_queue_is_kept() {
    for queue in ["0.25BDP", "0.5BDP"] {
        for rate in ["10Mbit/s", "40Mbit/s"] {
            let changes = [("40Mbit/s", rate), ("\"2MB\"", &format!("\"{queue}\"")), ("0.001, 0.01", "0.0, 0.01")];
            let values = [("loss", "0"), ("delay_ms", "10")];
            let case = Case { scenario: "crest-loss.toml", changes: &changes, values: &values };
            case.keeps("cubic", "nothing-to-gain");
        }
    }
}

#[test]
fn random_losses_are_crests() {
    let cases = [
        ("10", "0.001"),
        ("10", "0.01"),
        ("10", "0.02"),
        ("10", "0.05"), // three segments: they wait for delayed ACKs, which looks like a queue
        ("40", "0.001"),
        ("40", "0.01"),
        ("40", "0.05"),
    ];
    for (delay_ms, loss) in cases {
        let values = [("delay_ms", delay_ms), ("loss", loss)];
        Case { scenario: "crest-loss.toml", changes: &[], values: &values }.wins("cubic", "random-losses", "crest");
    }
}

#[test]
fn losses_of_a_policer_are_kept() {
    for (delay_ms, policer, cubic) in [
        ("10", "20Mbit", "losses-in-bursts"),
        ("10", "50Mbit", "losses-in-bursts"),
        ("40", "20Mbit", "losses-in-bursts"),
        ("40", "50Mbit", "nothing-to-gain"), // it loses fewer than 0.05 %
    ] {
        let values = [("delay_ms", delay_ms), ("policer", policer)];
        let case = Case { scenario: "crest-policer.toml", changes: &[], values: &values };
        case.keeps("cubic", cubic);
        case.keeps("bbr", "losses-in-bursts");
    }
}

#[test]
fn what_an_application_limits_is_kept() {
    let changes = [("cc = \"$cc\"\n\n[[expected]]", "cc = \"$cc\"\nrate = \"4Mbit/s\"\n\n[[expected]]")];
    let values = [("loss", "0.001"), ("delay_ms", "10")];
    Case { scenario: "crest-loss.toml", changes: &changes, values: &values }.keeps("cubic", "limited-by-ends");
}
