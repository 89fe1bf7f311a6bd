//! Native micro-benchmarks: the cost of the programs on the running kernel.
//!
//! The machine may be busy with other things, and absolute figures are valid only for it. So where there is a
//! yardstick, it is measured in the same run, in turns, and the bound applies to the ratio. Other bounds are absolute:
//! a busy machine can exceed them. docs/reference/benchmarks.md lists both kinds.

mod ack_cost;
mod apply;
mod awake;
mod border;
mod busy_swaps;
mod crowd;
mod load_guard;
mod many_groups;
mod migrate;
pub mod options;
mod pep_ingest;
mod policy;
mod process;
mod radio;
mod registered;
pub mod report;
mod run_time;
mod rx;
mod sandbox;
mod scrape;
mod shared_map;
mod swap;
mod throughput;
mod wire;

use anyhow::Result;
use hotcc_testbed::netlab;
use options::Options;
use report::{Finding, Machine, Report};

pub use migrate::receive;
pub use sandbox::enter as enter_sandbox;
pub use scrape::{hold, serve_metrics};

/// A measure that can be run by itself.
#[derive(Clone, Copy, Debug)]
pub struct Measure {
    /// Name of the measure for `--only`.
    pub name: &'static str,
    /// What it measures.
    pub about: &'static str,
    run: fn(&Options) -> Result<Vec<Finding>>,
}

/// All measures, in the order in which they run.
pub const MEASURES: [Measure; 14] = [
    Measure {
        name: ack_cost::NAME,
        about: "CPU time per ACK, relative to the kernel's CUBIC called through the same glue",
        run: ack_cost::run,
    },
    Measure {
        name: shared_map::NAME,
        about: "CPU time per ACK of crest with a full map of groups, relative to an empty one",
        run: shared_map::run,
    },
    Measure {
        name: many_groups::NAME,
        about: "CPU time per ACK of crest with 10,000 groups, relative to crest without its map of groups",
        run: many_groups::run,
    },
    Measure {
        name: throughput::NAME,
        about: "throughput of one flow, relative to the kernel's CUBIC",
        run: throughput::run,
    },
    Measure {
        name: rx::NAME,
        about: "CPU time per packet of the ARWA and DRWA receivers, and on other connections",
        run: rx::run,
    },
    Measure { name: radio::NAME, about: "torn reads of the radio map under concurrent writes", run: radio::run },
    Measure {
        name: swap::NAME,
        about: "time from the start of a swap until new flows run the new version",
        run: swap::run,
    },
    Measure {
        name: busy_swaps::NAME,
        about: "stalls, resets and memory with a swap every 100 ms under 200 busy connections",
        run: busy_swaps::run,
    },
    Measure { name: apply::NAME, about: "time of an apply that changes nothing", run: apply::run },
    Measure {
        name: migrate::NAME,
        about: "duration of moving 10,000 open connections, relative to a walk that moves none",
        run: migrate::run,
    },
    Measure { name: policy::NAME, about: "cost of policy rules per connection and per packet", run: policy::run },
    Measure {
        name: border::NAME,
        about: "cost of the PEP's border on a router's forwarding, and latency of its reports",
        run: border::run,
    },
    Measure {
        name: scrape::NAME,
        about: "what a scrape costs: its duration relative to `ss -tin`, processor time, memory",
        run: scrape::run,
    },
    Measure {
        name: pep_ingest::NAME,
        about: "reports per second that the PEP's server writes to sockets on one core",
        run: pep_ingest::run,
    },
];

/// Runs the measures named in `only`, or all if it is empty. Returns an error only if interrupted: a measure that fails
/// is listed in the report.
pub fn run(only: &[String], options: &Options) -> Result<Report> {
    let machine = Machine::here();
    let mut report = Report { machine, quick: options.quick, findings: Vec::new(), failures: Vec::new() };
    for measure in MEASURES.iter().filter(|m| only.is_empty() || only.iter().any(|o| o == m.name)) {
        eprintln!("{}: {}", measure.name, measure.about);
        match (measure.run)(options) {
            Ok(findings) => report.findings.extend(findings),
            Err(error) if netlab::check().is_err() => return Err(error),
            Err(error) => {
                eprintln!("  failed: {error:#}");
                report.failures.push(format!("{}: {error:#}", measure.name));
            }
        }
    }
    Ok(report)
}
