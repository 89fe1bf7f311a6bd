//! Simulates canaries by drawing connections from those in recorded.csv: how many are rolled back, and after how many
//! connections. `cargo test --workspace --test canaries -- --nocapture` prints them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use hotcc_canary::{ALPHA, Cohort, Connection, Guard, Judge, Verdict, default_guards};
use std::rc::Rc;
use std::thread;

/// How canaries are run.
struct Course {
    guards: Vec<Guard>,
    /// Shares of connections that the canary gets. A last step with all of them would have no control.
    shares: &'static [f64],
    /// The caller looks after each batch: this many, of about so many connections of the canary each.
    batches: &'static [(usize, f64)],
    canaries: u64,
}

/// The course of `hotcc canary` with its defaults.
fn default_course() -> Course {
    Course {
        guards: default_guards(),
        shares: &[0.01, 0.05, 0.25],
        batches: &[(10, 200.0), (10, 1000.0), (100, 4000.0)],
        canaries: 1000,
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    RolledBack { step: usize },
    Promoted,
    Undecided { step: usize },
}

/// What became of a canary, and its connections in each step.
struct Run {
    fate: Fate,
    connections: Vec<u64>,
}

fn recorded() -> Vec<Connection> {
    let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(include_str!("recorded.csv").as_bytes());
    let rows = reader.deserialize().map(|row| -> (u64, u64, u64, u64, u32, u32, u64, u64) { row.unwrap() });
    rows.map(|row| Connection {
        acked_bytes: row.0,
        segments: row.1,
        retransmits: row.2,
        timeouts: row.3,
        rtt_us: Some(row.4),
        min_rtt_us: Some(row.5),
        goodput_kbps: Some(row.6),
        delivery_kbps: None,
        duration_ms: row.7,
    })
    .collect()
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `end`, each with the same probability.
    fn below(&mut self, end: usize) -> usize {
        (((self.next() >> 32) * end as u64) >> 32) as usize
    }
}

/// A Poisson distribution: its cumulative probabilities, and for each 256th of probability the number to start from.
struct Poisson(Vec<f64>, Vec<u64>);

impl Poisson {
    fn new(mean: f64) -> Self {
        let most = (mean + 12.0 * mean.sqrt() + 20.0) as u64;
        let probability = |k: u64| (k as f64 * mean.ln() - mean - libm::lgamma(k as f64 + 1.0)).exp();
        let cumulative: Vec<f64> = (0..most)
            .scan(0.0, |sum, k| {
                *sum += probability(k);
                Some(*sum)
            })
            .collect();
        let starts = (0..256).map(|part| cumulative.partition_point(|sum| *sum * 256.0 <= f64::from(part)) as u64);
        let starts = starts.collect();
        Self(cumulative, starts)
    }

    fn draw(&self, random: &mut Random) -> u64 {
        let bits = random.next() >> 11;
        let uniform = bits as f64 / (1u64 << 53) as f64;
        let start = self.1[(bits >> 45) as usize];
        start + self.0[start as usize..].iter().take_while(|sum| **sum <= uniform).count() as u64
    }
}

/// Adds one batch to both cohorts, and returns the number of the canary's connections.
///
/// Connections arrive as a Poisson process, and each goes to a cohort by chance. Then the cohorts are independent.
/// Drawing how often each recorded connection arrives is the same as drawing connections one by one: faster for many,
/// slower for few.
fn batch(
    judge: &mut Judge,
    [control, canary]: [&[Connection]; 2],
    arrivals: &[Poisson; 2],
    random: &mut Random,
) -> u64 {
    for connection in control {
        judge.add_times(Cohort::Control, connection, arrivals[0].draw(random));
    }
    let count = arrivals[1].draw(random);
    (0..count).for_each(|_| judge.add(Cohort::Canary, &canary[random.below(canary.len())]));
    count
}

impl Course {
    /// Runs one canary. The connections of each cohort are drawn from `cohorts`: control, canary.
    fn run(&self, cohorts: [&[Connection]; 2], seed: u64) -> Run {
        let mut random = Random(seed << 32);
        let mut judge = Judge::new(self.guards.clone(), 200, self.shares.len() as u32);
        let mut connections = Vec::new();
        for (step, share) in self.shares.iter().enumerate() {
            connections.push(0);
            let batches = self.batches.iter().flat_map(|(count, size)| {
                let of_control = size * (1.0 - share) / share / cohorts[0].len() as f64;
                let arrivals = Rc::new([Poisson::new(of_control), Poisson::new(*size)]);
                (0..*count).map(move |_| arrivals.clone())
            });
            let mut verdicts = batches.map(|arrivals| {
                connections[step] += batch(&mut judge, cohorts, &arrivals, &mut random);
                judge.verdict()
            });
            match verdicts.find(|verdict| !matches!(verdict, Verdict::Continue(_))) {
                Some(Verdict::Fail(_)) => return Run { fate: Fate::RolledBack { step }, connections },
                Some(_) => judge.next_step(),
                None => return Run { fate: Fate::Undecided { step }, connections },
            }
        }
        Run { fate: Fate::Promoted, connections }
    }

    /// Runs all canaries, whose connections are the control's after `change`, and prints how they ended.
    fn runs(&self, name: &str, change: impl Fn(&mut Connection)) -> Vec<Run> {
        let control = recorded();
        let mut canary = control.clone();
        canary.iter_mut().for_each(change);
        let threads = thread::available_parallelism().unwrap().get() as u64;
        let part = |first| -> Vec<Run> {
            (first..self.canaries).step_by(threads as usize).map(|seed| self.run([&control, &canary], seed)).collect()
        };
        let part = &part;
        let runs: Vec<Run> = thread::scope(|scope| {
            let parts: Vec<_> = (0..threads).map(|first| scope.spawn(move || part(first))).collect();
            parts.into_iter().flat_map(|part| part.join().unwrap()).collect()
        });
        let mut text = format!("{name}: {} of {} promoted\n", ended(&runs, |f| f == Fate::Promoted), runs.len());
        for (step, share) in self.shares.iter().enumerate() {
            if let Some([median, p95]) = connections(&runs, step) {
                let rolled_back = ended(&runs, |f| f == Fate::RolledBack { step });
                let undecided = ended(&runs, |f| f == Fate::Undecided { step });
                let share = share * 100.0;
                text += &format!(
                    "  {share:2} %: {rolled_back} rolled back, {undecided} undecided; canary's connections: \
                     median {median}, p95 {p95}\n"
                );
            }
        }
        print!("{text}");
        runs
    }
}

/// Returns how many runs ended so.
fn ended(runs: &[Run], so: impl Fn(Fate) -> bool) -> usize {
    runs.iter().filter(|run| so(run.fate)).count()
}

/// Returns the median and the 95th percentile of the canary's connections in a step; `None` if no run reached it.
fn connections(runs: &[Run], step: usize) -> Option<[u64; 2]> {
    let mut needed: Vec<u64> = runs.iter().filter_map(|run| run.connections.get(step).copied()).collect();
    needed.sort_unstable();
    let last = needed.len().checked_sub(1)?;
    Some([needed[last / 2], needed[last * 95 / 100]])
}

fn slower(connection: &mut Connection, percent: u64) {
    connection.goodput_kbps = connection.goodput_kbps.map(|kbps| kbps * (100 - percent) / 100);
    connection.duration_ms = connection.duration_ms * 100 / (100 - percent);
}

#[test]
fn equals_are_promoted() {
    let runs = default_course().runs("equal", |_| {});
    let rolled_back = ended(&runs, |f| matches!(f, Fate::RolledBack { .. }));
    assert!(rolled_back * 100 <= runs.len(), "{rolled_back} of {} rolled back", runs.len());
    let promoted = ended(&runs, |f| f == Fate::Promoted);
    assert!(promoted * 100 >= runs.len() * 95, "{promoted} of {} promoted", runs.len());
}

#[test]
fn a_tenth_less_goodput_is_rolled_back_before_the_canary_gets_a_quarter() {
    let runs = default_course().runs("10 % less goodput", |c| slower(c, 10));
    let rolled_back = ended(&runs, |f| matches!(f, Fate::RolledBack { step: 0 | 1 }));
    assert!(rolled_back * 100 >= runs.len() * 95, "{rolled_back} of {} rolled back", runs.len());
}

/// With a factor of 1, equals are exactly at the limit, where mistakes are most frequent.
#[test]
fn mistakes_at_the_limit_are_as_rare_as_promised() {
    for guard in [
        "retransmit_ratio <= 1 * control",
        "retransmit_ratio >= 1 * control",
        "timeout_ratio <= 1 * control",
        "rtt_p95 <= 1 * control",
        "goodput_p50 >= 1 * control",
        "min_rtt_p5 <= 1 * control",
        "duration_p99 <= 1 * control",
    ] {
        for shares in [&[0.01], &[0.5]] {
            let guards = vec![guard.parse().unwrap()];
            let course = Course { guards, shares, batches: &[(15, 200.0), (7, 1000.0)], canaries: 200 };
            let runs = course.runs(guard, |_| {});
            let wrong = ended(&runs, |f| !matches!(f, Fate::Undecided { .. }));
            assert!(wrong as f64 <= ALPHA * runs.len() as f64, "{guard}: {wrong} of {} decided", runs.len());
        }
    }
}

/// The figures of the manual page's table.
#[test]
fn a_limit_further_from_the_truth_needs_fewer_connections() {
    let course = |guard: &str| Course {
        guards: vec![guard.parse().unwrap()],
        shares: &[0.05],
        batches: &[(20, 100.0), (10, 500.0), (100, 3000.0)],
        canaries: 100,
    };
    let median = |runs: &[Run]| connections(runs, 0).unwrap()[0];
    for guards in [
        ["goodput_p50 >= 0.95 * control", "goodput_p50 >= 0.9 * control", "goodput_p50 >= 0.8 * control"],
        ["rtt_p95 <= 1.05 * control", "rtt_p95 <= 1.1 * control", "rtt_p95 <= 1.2 * control"],
        ["retransmit_ratio <= 1.1 * control", "retransmit_ratio <= 1.2 * control", "retransmit_ratio <= 1.5 * control"],
    ] {
        let needed = guards.map(|guard| median(&course(guard).runs(&format!("equal, {guard}"), |_| {})));
        assert!(needed.is_sorted_by(|a, b| a > b), "{guards:?}: {needed:?}");
    }
    let needed = [10, 20, 50].map(|percent| {
        let name = format!("{percent} % less goodput, goodput_p50 >= 0.95 * control");
        median(&course("goodput_p50 >= 0.95 * control").runs(&name, |c| slower(c, percent)))
    });
    assert!(needed.is_sorted_by(|a, b| a > b), "{needed:?}");
}
