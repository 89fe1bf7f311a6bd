//! The steps of the demo, in order.

use super::cleanup::Loaded;
use super::difference::difference;
use super::iperf::{Flow, Measurements};
use super::path::{self, BURST_BYTES, DELAY_MS, Network, QUEUE_MS, RECEIVER, SENDER, Shaper};
use super::report::{Report, Row};
use super::scrape::Exporter;
use super::tools::{Say, Tools};
use anyhow::{Context, Result, bail, ensure};
use hotcc::registry::Algo;
use hotcc_abi::clock::monotonic_ms32;
use hotcc_abi::pins;
use hotcc_abi::stats::AlgoStats;
use hotcc_channel_model::trace::Trace;
use hotcc_lab::algorithms::is_usable;
use hotcc_radio_map::links;
use hotcc_testbed::netlab::{Process, check, pause};
use serde_json::Value;
use std::path::Path;
use std::time::{Duration, Instant};

/// File name, in the directory for temporary files.
const TRACE: &str = "square.csv";
const TRACE_SECONDS: u64 = 60;
const TUNABLE: &str = "queue";
const TUNED_VALUE: &str = "bandwidth";
/// Prefixes of the exporter's most informative lines, in the order in which the demo prints them.
const SHOWN_METRICS: [&str; 10] = [
    "hotcc_algorithm_loaded",
    "hotcc_algorithm_swaps",
    "hotcc_sockets",
    "hotcc_delivery_sum",
    "hotcc_acked_bytes_total",
    "hotcc_loss_events_total",
    "hotcc_signal_decisions_total",
    "hotcc_radio_sinr_db",
    "hotcc_radio_fresh",
    "hotcc_radio_capacity",
];

struct Walkthrough<'a> {
    say: Say,
    tools: &'a Tools,
    files: &'a Path,
    network: &'a Network,
    report: &'a mut Report,
    seconds: u64,
}

/// Runs the walkthrough. Everything that it created is removed when it returns, even if it fails.
pub fn run(seconds: u64, tools: &Tools, report: &mut Report) -> Result<()> {
    let say = tools.say;
    // values are dropped in reverse order: what depends on another value is declared after it
    let files = tempfile::tempdir().context("cannot create a directory for temporary files")?;
    say.line("Three hosts (network namespaces) on this machine:");
    let network = Network::new()?;
    report.path_has_delay = network.has_delay;
    print_setup(say, &network);

    say.line(
        "\nThe radio: a phone alternates between line of sight and no line of sight; crest and dtcp read its SINR",
    );
    let trace = generate_trace(tools, files.path())?;
    let mut feeder = start_feeder(tools, files.path())?;
    let start = wait_for_radio(&trace)?;
    let shaper = Shaper::start(&network.router, trace, start)?;

    say.line("\nLoad two algorithms");
    let mut loaded = Loaded::new(tools);
    let crest = loaded.load("crest")?;
    let dtcp = loaded.load("dtcp")?;

    let mut walkthrough = Walkthrough { say, tools, files: files.path(), network: &network, report, seconds };
    walkthrough.run_each(&crest, &dtcp)?;
    walkthrough.tune(&dtcp)?;
    walkthrough.swap(&dtcp, &crest)?;

    say.line("\nEnd");
    ensure!(feeder.ended()?.is_none(), "sinr-feeder ended unexpectedly");
    let changes = shaper.finish()?;
    say.line(format!("  the link's rate changed {changes} times"));
    loaded.unload()
}

fn print_setup(say: Say, network: &Network) {
    let delay = if network.has_delay { format!("{DELAY_MS} ms") } else { "none".to_owned() };
    say.line(format!("  sender {SENDER}  --  router  -- radio link -->  receiver {RECEIVER}"));
    let burst_kb = BURST_BYTES / 1000;
    say.line(format!("  radio link: rate from a trace, queue of {QUEUE_MS} ms at this rate plus {burst_kb} kB"));
    let why = if network.has_delay { "" } else { " (this kernel has no netem)" };
    say.line(format!("  path delay: {delay}{why}"));
}

/// Generates the trace of the radio link, and shows where its numbers come from.
fn generate_trace(tools: &Tools, files: &Path) -> Result<Trace> {
    let line = format!("sinr-feeder generate --kind square --seconds {TRACE_SECONDS} --period-ms 100");
    tools.say.line(format!("$ {line} > {TRACE}"));
    let file = files.join(TRACE);
    std::fs::write(&file, tools.run(&line)?).with_context(|| format!("cannot write {}", file.display()))?;
    let trace = Trace::load(&file)?;
    let (lowest, highest, change) = path::rates(&trace);
    let every = change.map_or(String::new(), |t| format!(", changing every {} s", t.as_secs_f64()));
    let (lowest, highest) = (lowest / 1e6, highest / 1e6);
    tools.say.line(format!("  {lowest:.0} to {highest:.0} Mbit/s{every}: the link's rate follows the same file"));
    Ok(trace)
}

fn start_feeder(tools: &Tools, files: &Path) -> Result<Process> {
    let what = format!("--source trace:{TRACE} --link {RECEIVER}/32 --loop --remove-on-exit");
    tools.background(&format!("sinr-feeder run {what} --quiet"), files, "feeder.out")
}

/// Waits for the first reading in the radio map, and returns when the replay began.
fn wait_for_radio(trace: &Trace) -> Result<Instant> {
    let key = path::link_key()?;
    let started = Instant::now();
    loop {
        let links = links(Path::new(pins::ROOT)).unwrap_or_default();
        let snapshot = links.into_iter().find(|l| l.key == key).map(|l| l.snapshot);
        if let Some((s, reading)) = snapshot.and_then(|s| s.sinr.map(|d| (s, d)))
            && s.owner_alive()
        {
            // the feeder uses the same clock, and a reading carries the time at which it was due
            let index = usize::try_from(s.updates.saturating_sub(1)).unwrap_or(usize::MAX);
            let due = trace.samples().get(index).context("the replay is past the end of its trace")?.at;
            let age = Duration::from_millis(reading.age_ms(monotonic_ms32()).into());
            return Instant::now().checked_sub(age + due).context("the replay started before this machine's clock");
        }
        ensure!(started.elapsed() < Duration::from_secs(10), "sinr-feeder published no reading within 10 s");
        pause(Duration::from_millis(5))?;
    }
}

impl Walkthrough<'_> {
    fn run_each(&mut self, crest: &str, dtcp: &str) -> Result<()> {
        self.say.line(format!("\nOne flow each: {} s of iperf3 per congestion control", self.seconds));
        for (flow, cc) in [("crest", crest), ("bbr", "bbr"), ("cubic", "cubic"), ("dtcp", dtcp)] {
            if !is_usable(cc)? {
                self.say.line(format!("  {flow:<5} not available in this kernel"));
                continue;
            }
            self.say.part(&format!("  {flow:<5} ..."));
            let measured = Flow::start(self.network, cc, self.seconds, self.files)?.finish()?;
            self.say.line(format!(" {}", summary(&measured)));
            self.add_flow(flow.to_owned(), cc, measured)?;
        }
        let stats = closed_stats(dtcp)?;
        let AlgoStats { signal_fresh: fresh, signal_stale: stale, signal_absent: absent, .. } = stats;
        let what = format!("{dtcp} used the SINR in {fresh} decisions (too old in {stale}, absent in {absent})");
        self.report.add_fact(self.say, fresh > 0, what);
        Ok(())
    }

    /// Keeps a flow's measurements, after checking that it ended on congestion control `cc`.
    fn add_flow(&mut self, flow: String, cc: &str, measured: Measurements) -> Result<()> {
        ensure!(measured.cc == cc, "iperf3's socket ended on {}, expected {cc}", measured.cc);
        self.report.flows.push(Row { flow, measured });
        self.report.difference = difference(&self.report.flows);
        Ok(())
    }

    fn tune(&mut self, dtcp: &str) -> Result<()> {
        self.say.line(format!(
            "\nTune {dtcp} during a flow: estimate the queue from the bandwidth only, as in its paper, not from the RTT"
        ));
        let flow = Flow::start(self.network, dtcp, self.seconds, self.files)?;
        let before = self.tools.show(&format!("hotcc get {dtcp} {TUNABLE}"))?;
        flow.wait_until(self.seconds as f64 / 2.0)?;
        self.tools.show(&format!("hotcc set {dtcp} {TUNABLE}={TUNED_VALUE}"))?;
        let set_s = flow.elapsed_s();
        let after = self.tools.show(&format!("hotcc get {dtcp} {TUNABLE}"))?;
        let measured = flow.finish()?;
        let (first, second) =
            (measured.retransmission_rate(0.0, set_s), measured.retransmission_rate(set_s, f64::INFINITY));
        self.say.line(format!("  retransmissions per second: {first:.0} before, {second:.0} after"));
        let (before, after) = (before.trim(), after.trim());
        let what = format!(
            "the tunable `{TUNABLE}` of {dtcp} changed from {before} to {after}: set and read back during a flow"
        );
        self.report.add_fact(self.say, after == TUNED_VALUE && before != TUNED_VALUE, what);
        self.add_flow(format!("{dtcp}, tuned halfway"), dtcp, measured)
    }

    fn swap(&mut self, name: &str, crest: &str) -> Result<()> {
        let seconds = self.seconds * 2;
        self.say.line(format!("\nSwap {name} during a flow of {seconds} s, and roll back"));
        let quarter = seconds as f64 / 4.0;
        let flow = Flow::start(self.network, name, seconds, self.files)?;
        flow.wait_until(quarter)?;
        let swap_s = flow.elapsed_s();
        self.tools.show(&format!("hotcc swap {name} crest --live"))?;
        let swapped_s = flow.elapsed_s();
        self.check_serving(name, "builtin:crest", 1)?;
        // relative to now: on a busy machine, the commands may have taken longer than a quarter of the flow
        flow.wait_until(flow.elapsed_s() + quarter)?;
        let rollback_s = flow.elapsed_s();
        self.tools.show(&format!("hotcc rollback {name} --live"))?;
        let rolled_back_s = flow.elapsed_s();
        self.check_serving(name, "builtin:dtcp", 2)?;
        self.scrape(name, crest)?;
        let measured = flow.finish()?;
        let bytes = [
            measured.bytes_between(0.0, swap_s),
            measured.bytes_between(swapped_s, rollback_s),
            measured.bytes_between(rolled_back_s, f64::INFINITY),
        ];
        let megabytes = bytes.map(|b| format!("{:.1}", b as f64 / 1e6)).join(", ");
        // whether the flow paused is not checked: other work may occupy the processors for longer than a swap takes;
        // the lab shows it
        let what = format!(
            "the connection survived both swaps; MB before the swap, after it, after the swap back: {megabytes}"
        );
        self.say.line("");
        self.report.add_fact(self.say, bytes.iter().all(|&b| b > 0), what);
        self.add_flow(format!("{name}, swapped for crest and back"), name, measured)
    }

    /// Checks which object serves under `name`, and which version its sockets use.
    fn check_serving(&mut self, name: &str, object: &str, swaps: u64) -> Result<()> {
        self.say.line("$ hotcc status --json");
        let status: Value = serde_json::from_str(&self.tools.run("hotcc status --json")?)
            .context("cannot parse the output of hotcc status")?;
        let all = status["algorithms"].as_array().map(Vec::as_slice).unwrap_or_default();
        let Some(found) = all.iter().find(|a| a["name"] == name) else { bail!("hotcc status does not show {name}") };
        let (serves, count) = (found["object"].as_str().unwrap_or_default(), &found["swaps"]);
        let (current, older) = (&found["connections_current"], &found["connections_older"]);
        let holds = serves == object && *count == swaps && current.as_u64() > Some(0) && *older == 0;
        let what = format!(
            "{name} runs {serves} after {count} swap(s); sockets (both ends): {current} on this version, {older} on older ones"
        );
        self.report.add_fact(self.say, holds, what);
        Ok(())
    }

    fn scrape(&mut self, name: &str, crest: &str) -> Result<()> {
        self.say.line("\nMetrics for Prometheus during the flow (selected lines, zeros omitted)");
        let exporter = Exporter::start(self.tools, self.files)?;
        check()?;
        self.say.line(format!("$ curl {}", exporter.url()));
        let page = exporter.scrape()?;
        let labels = [name, crest].map(|cc| format!("cc=\"{cc}\""));
        let ours = |line: &str| labels.iter().any(|l| line.contains(l)) || line.contains(RECEIVER);
        let zero = |line: &str| line.ends_with(" 0") || line.ends_with(" 0.0");
        for start in SHOWN_METRICS {
            for line in page.iter().filter(|l| l.starts_with(start) && ours(l) && !zero(l)) {
                self.say.line(format!("  {line}"));
            }
        }
        let wanted = [
            format!("hotcc_algorithm_swaps{{cc=\"{name}\"}} 2"),
            format!("hotcc_algorithm_loaded{{cc=\"{crest}\"}} 1"),
        ];
        let holds = wanted.iter().all(|w| page.contains(w));
        let what = format!("the exporter's page ({} series) shows both algorithms and both swaps", page.len());
        self.report.add_fact(self.say, holds, what);
        Ok(())
    }
}

fn summary(m: &Measurements) -> String {
    format!("{:.1} Mbit/s, p95 RTT {:.1} ms, {} retransmissions", m.mbit_per_s, m.p95_rtt_ms, m.retransmits)
}

/// Returns an algorithm's counters after all its flows have closed: a flow's counts are added when the flow is
/// released.
fn closed_stats(name: &str) -> Result<AlgoStats> {
    let mut tries = 100;
    loop {
        let stats = Algo::named(name).stats()?.with_context(|| format!("{name} keeps no counters"))?;
        tries -= 1;
        if stats.flows_closed >= stats.flows_opened || tries == 0 {
            return Ok(stats);
        }
        pause(Duration::from_millis(20))?;
    }
}
