//! The same walkthrough in the lab: a stock kernel in a virtual machine, for users without root and for kernels that
//! cannot load the algorithms.

use super::Options;
use super::difference::difference;
use super::iperf::Measurements;
use super::report::{Report, Row};
use super::tools::Say;
use super::unfit::Unfit;
use anyhow::{Context, Result};
use hotcc_kernels::{Architecture, Kernel, Progress, Selector};
use hotcc_lab::results::{FlowSummary, RunSummary};
use hotcc_lab::run::{self, Backend, Lab};
use hotcc_lab::scenario::{Scenario, Source};
use hotcc_lab::selection::Selection;
use hotcc_lab::vm::{self, Clock, DEFAULT_KERNEL};
use hotcc_testbed::netlab;
use hotcc_testbed::programs;
use std::fs;
use std::io::IsTerminal;
use std::path::Path;

const SCENARIO: &str = include_str!("../../scenarios/demo.toml");
/// Path of the scenario in the workspace.
const SCENARIO_PATH: &str = "bench/scenarios/demo.toml";
/// Duration of a flow in the scenario file, which `--seconds` changes.
const WRITTEN_SECONDS: f64 = 8.0;
/// Keys of the scenario that `--seconds` stretches.
const STRETCHED: [&str; 4] = ["duration_s", "start_s", "stop_s", "at_s"];
/// Descriptions of flows whose names in the scenario are not clear enough.
const CALLED: [(&str, &str); 2] = [("tuned", "dtcp, tuned halfway"), ("swapped", "dtcp, swapped for crest and back")];
/// The flow during which the swaps happen.
const SWAPPED: &str = "swapped";

/// Runs the demo in the lab. `instead_of` is the reason why it does not run on this machine; `None` if the user
/// requested the lab.
pub(super) fn run(options: &Options, say: Say, instead_of: Option<Unfit>) -> Result<bool> {
    let why = instead_of.as_ref().map_or_else(|| "requested with --lab".to_owned(), |unfit| unfit.why.clone());
    say.line("In the lab: a stock kernel in a virtual machine, in virtual time; this machine's kernel is not changed");
    say.line(format!("  reason: {why}"));
    let kernel = match (ready(say), instead_of) {
        (Ok(kernel), _) => kernel,
        (Err(error), None) => return Err(error),
        (Err(error), Some(unfit)) => {
            let why = format!("cannot run on this machine: {}; cannot run in the lab: {error:#}", unfit.why);
            return Err(Unfit { why, ..unfit }.into());
        }
    };
    netlab::catch_interrupts()?;
    let source = Source::parse(Path::new(SCENARIO_PATH), stretched(options.seconds)?)?;
    let case = source.cases()?.into_iter().next().context("the demo's scenario has no case")?;
    introduce(say, &kernel, &case.scenario);
    let files = tempfile::tempdir().context("cannot create a directory for temporary files")?;
    let directory = files.path().join("results");
    let lab = Lab {
        source: &source,
        backend: Backend::Vm(&kernel, Clock::Virtual),
        directory: &directory,
        jobs: 1,
        selection: &Selection { one_seed: true, ..Selection::default() },
    };
    let results = lab.run(&|progress| show(say, progress))?;
    let run = results.runs.first().context("the lab left no results")?;
    let series = fs::read_to_string(directory.join(run.run.path()).join("flows.csv"))
        .context("cannot read the series of the flows")?;

    say.line("\nEvents, by the virtual machine's clock");
    for event in &run.events {
        let (at_s, what) = event.split_once(' ').unwrap_or(("", event));
        say.line(format!("  {at_s} s: {what}"));
    }
    say.line("\nChecks");
    let mut report =
        Report { kernel: results.manifest.kernel.clone(), lab: Some(why), path_has_delay: true, ..Report::default() };
    report.flows = run.flows.iter().map(row).collect();
    report.difference = difference(&report.flows);
    judge(say, &mut report, &case.scenario, run, &series);
    say.line("");
    say.part(&report.text());
    say.line(format!(
        "to repeat it with series and a results page: just build && target/release/hotcc-bench lab {SCENARIO_PATH}"
    ));
    files.close().context("cannot remove the temporary files")?;
    say.line(format!(
        "cleaned up: the virtual machine and its files are removed; kernels and snapshots stay in {} for later runs",
        hotcc_kernels::cache_directory()?.display()
    ));
    if options.json {
        println!("{}", serde_json::to_string_pretty(&report).context("cannot write JSON")?);
    }
    Ok(report.all_hold())
}

/// Returns the kernel to boot, after checking that the lab can run.
fn ready(say: Say) -> Result<Kernel> {
    vm::qemu_version(Architecture::Amd64)?;
    programs::companion_binary("hotcc-guest")?;
    let selector: Selector = DEFAULT_KERNEL.parse()?;
    let mut downloading = false;
    let kernel = hotcc_kernels::ready(&selector, &mut |progress| {
        // reported several times a second
        if !matches!(progress, Progress::Downloading { .. }) || !std::mem::replace(&mut downloading, true) {
            say.line(format!("  {progress}"));
        }
    })?;
    Ok(kernel)
}

/// Returns the scenario with flows of that duration.
fn stretched(seconds: u64) -> Result<String> {
    fn stretch(value: &mut toml::Value, factor: f64) {
        match value {
            toml::Value::Table(table) => {
                for (key, value) in table.iter_mut() {
                    let time = value.as_float().or_else(|| value.as_integer().map(|i| i as f64));
                    match time {
                        Some(time) if STRETCHED.contains(&key.as_str()) => *value = (time * factor).into(),
                        _ => stretch(value, factor),
                    }
                }
            }
            toml::Value::Array(array) => array.iter_mut().for_each(|value| stretch(value, factor)),
            _ => {}
        }
    }
    let table: toml::Table = SCENARIO.parse().context("the demo's scenario is not valid TOML")?;
    let mut value = toml::Value::Table(table);
    stretch(&mut value, seconds as f64 / WRITTEN_SECONDS);
    toml::to_string(&value).context("cannot write the demo's scenario")
}

fn introduce(say: Say, kernel: &Kernel, scenario: &Scenario) {
    let names: Vec<&str> = scenario.host.iter().map(|h| h.name.get_ref().as_str()).collect();
    say.line(format!("\nHosts (network namespaces): {}, on Linux {}", names.join(" -- "), kernel.release));
    say.line(format!("  round-trip time without queueing: {} ms", base_rtt_ms(scenario)));
    say.line("  radio link to the last host: its rate follows a varying SINR, which crest and dtcp read");
    say.line(format!("  {} s of virtual time, independent of this machine's load\n", scenario.duration_s.get_ref()));
}

fn base_rtt_ms(scenario: &Scenario) -> f64 {
    let delay = |link: &hotcc_lab::scenario::Link| link.both.delay_ms.as_ref().map_or(0.0, |ms| *ms.get_ref());
    2.0 * scenario.link.iter().map(delay).sum::<f64>()
}

/// Prints progress: on a terminal, the percentage is updated in one line.
fn show(say: Say, progress: &run::Progress<'_>) {
    let run::Progress::Run { text, .. } = *progress else { return };
    if !text.ends_with('%') {
        // the rest of the text has figures of the whole run, which mean nothing here
        say.line(format!("  {}", text.split_once(':').map_or(text, |(word, _)| word)));
    } else if std::io::stderr().is_terminal() {
        eprint!("  {text}\r");
    }
}

fn row(flow: &FlowSummary) -> Row {
    let called = CALLED.iter().find(|(name, _)| *name == flow.name).map_or(flow.name.as_str(), |(_, called)| called);
    let measured = Measurements {
        cc: flow.cc.clone(),
        mbit_per_s: flow.throughput_bps / 1e6,
        mean_rtt_ms: flow.rtt_ms.mean,
        min_rtt_ms: flow.rtt_ms.min,
        p95_rtt_ms: flow.rtt_ms.p95,
        retransmits: flow.retransmits,
        intervals: Vec::new(),
    };
    Row { flow: called.to_owned(), measured }
}

/// Compares the demo's claims with the results of the run.
fn judge(say: Say, report: &mut Report, scenario: &Scenario, run: &RunSummary, series: &str) {
    let found = if run.invalid.is_empty() { "none".to_owned() } else { run.invalid.join("; ") };
    report.add_fact(
        say,
        run.invalid.is_empty(),
        format!("no failed flows, lost records or overloaded processor; found: {found}"),
    );

    let ran = |flow: &&FlowSummary| {
        let wanted = scenario.flow.iter().find(|f| *f.name.get_ref() == flow.name).and_then(|f| f.cc.as_ref());
        wanted.is_some_and(|cc| *cc.get_ref() == flow.cc) && flow.throughput_bps > 0.0
    };
    let (moved, all) = (run.flows.iter().filter(ran).count(), run.flows.len());
    let what = format!("{moved} of {all} flows carried data and ended on the configured congestion control");
    report.add_fact(say, moved == all && all == scenario.flow.len(), what);

    let base = base_rtt_ms(scenario);
    let least = run.flows.iter().map(|f| f.rtt_ms.min).fold(f64::INFINITY, f64::min);
    report.add_fact(
        say,
        least >= base,
        format!("the path delays packets: the minimum RTT is {least:.2} ms, expected at least {base} ms"),
    );

    let fresh = details(series, "dtcp").max().unwrap_or(0);
    let what = format!("dtcp used fresh SINR readings: its state counted up to {fresh} such epochs");
    report.add_fact(say, fresh > 0, what);

    let event = |text: &str| run.events.iter().find(|e| e.contains(text)).map_or("", |e| e.as_str());
    let tuned = event(" set dtcp queue=bandwidth (was ");
    report.add_fact(
        say,
        !tuned.is_empty(),
        "the tunable `queue` of dtcp was set and read back during a flow".to_owned(),
    );
    for (new, old) in [("crest", "dtcp"), ("dtcp", "crest")] {
        let swapped = event(&format!(" swap dtcp -> {new}: "));
        let moved = swapped.rsplit(": ").next().and_then(|text| text.strip_suffix(" connections moved"));
        let moved = moved.and_then(|count| count.parse::<u64>().ok()).unwrap_or(0);
        let what =
            format!("{new} replaced {old} under the name dtcp and under traffic: {moved} open connection(s) moved");
        report.add_fact(say, moved > 0, what);
    }
    let at = scenario.event.iter().filter(|e| e.swap.is_some()).map(|e| *e.at_s.get_ref());
    let times: Vec<f64> = std::iter::once(0.0).chain(at).chain(std::iter::once(f64::INFINITY)).collect();
    let period_s = *scenario.series_ms.get_ref() as f64 / 1e3;
    let bytes: Vec<f64> = times.windows(2).map(|w| delivered_bytes(series, SWAPPED, w[0], w[1], period_s)).collect();
    let megabytes = bytes.iter().map(|b| format!("{:.1}", b / 1e6)).collect::<Vec<_>>().join(", ");
    let what =
        format!("the connection survived both swaps; MB before the swap, after it, after the swap back: {megabytes}");
    report.add_fact(say, bytes.len() == 3 && bytes.iter().all(|b| *b > 0.0), what);
}

/// Returns the rows of a flow in `flows.csv`, as cells.
fn rows<'a>(series: &'a str, flow: &'a str) -> impl Iterator<Item = Vec<&'a str>> {
    series.lines().map(|line| line.split(',').collect::<Vec<_>>()).filter(move |cells| cells.get(1) == Some(&flow))
}

fn column(name: &str) -> usize {
    hotcc_lab::results::FLOW_COLUMNS.iter().position(|c| *c == name).unwrap_or(usize::MAX)
}

/// Returns the algorithm's own counter (`detail`) in each period.
fn details<'a>(series: &'a str, flow: &'a str) -> impl Iterator<Item = u64> {
    rows(series, flow).filter_map(|cells| cells.get(column("detail"))?.parse().ok())
}

/// Returns the bytes that the sender learned were received, by cumulative ACKs, in the periods within a span of time.
fn delivered_bytes(series: &str, flow: &str, from_s: f64, to_s: f64, period_s: f64) -> f64 {
    let of = |cells: Vec<&str>| {
        let end_s: f64 = cells.first()?.parse().ok()?;
        let bps: f64 = cells.get(column("delivery_rate_bps"))?.parse().ok()?;
        (end_s - period_s >= from_s && end_s <= to_s).then_some(bps / 8.0 * period_s)
    };
    rows(series, flow).filter_map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scenario_is_right_at_any_length_and_only_its_times_change() {
        for seconds in [2, 8, 100] {
            let source = Source::parse(Path::new(SCENARIO_PATH), stretched(seconds).unwrap()).unwrap();
            let scenario = source.cases().unwrap().remove(0).scenario;
            let first = &scenario.flow[0];
            assert_eq!(*first.stop_s.as_ref().unwrap().get_ref(), seconds as f64);
            assert_eq!(*scenario.event[0].at_s.get_ref(), 5.0 * seconds as f64);
            assert_eq!(base_rtt_ms(&scenario), 40.0);
        }
    }

    #[test]
    fn bytes_are_those_of_whole_periods_of_one_flow() {
        let header = hotcc_lab::results::FLOW_COLUMNS.join(",");
        let series = format!("{header}\n1,a,,,,,,,,800,,,5\n1,b,,,,,,,,8,,,\n2,a,,,,,,,,1600,,,7\n3,a,,,,,,,,80,,,\n");
        assert_eq!(delivered_bytes(&series, "a", 0.0, 2.0, 1.0), 300.0);
        assert_eq!(delivered_bytes(&series, "a", 1.5, f64::INFINITY, 1.0), 10.0);
        assert_eq!(details(&series, "a").collect::<Vec<_>>(), [5, 7]);
    }
}
