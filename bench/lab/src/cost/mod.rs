//! The cost of algorithms: instructions per ACK. They are measured in virtual time, in which an instruction takes one
//! nanosecond.

mod table;

use crate::algorithms;
use crate::guest::Boot;
use crate::image::Image;
use crate::planner::plan;
use crate::run::MODULES;
use crate::scenario::Source;
use crate::traces::TraceFiles;
use anyhow::{Context, Result, bail, ensure};
use hotcc_kernels::Kernel;
use hotcc_lab_proto::cost::{CostJob, Counted, Method, Sample, Subject};
use hotcc_lab_proto::job::{Job, Message};
use serde::Serialize;
use std::path::Path;

pub use table::table;

/// The transfer that every algorithm performs, once for each seed.
const TRANSFER: &str = include_str!("transfer.toml");
/// Number of transfers to measure. Between seeds, and between builds of the guest, one transfer's instructions per ACK
/// differ by 2 to 3 % (standard deviation), because other segments are lost.
pub const TRANSFERS: u64 = 12;
const MEMORY_MIB: u32 = 768;

/// An object whose programs do nothing, which shows the cost of the statistics themselves: the object, and its
/// congestion control.
const NOTHING: (&str, &str) = ("empty", "empty_cc");
/// A BPF program that calls the kernel's CUBIC: the reference for the other algorithms.
pub const REFERENCE: &str = "cubic_bpf";
/// The kernel's congestion controls to measure.
const OF_THE_KERNEL: [&str; 3] = ["cubic", "reno", "bbr"];

/// All costs on one kernel.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Costs {
    /// Release of the kernel.
    pub kernel: String,
    /// Instructions per call of a program that are due to the statistics, and are subtracted.
    pub statistics: u64,
    /// Instructions per call of a function that are due to the clocks, and are subtracted. The first value is for
    /// functions of one argument, the second for functions of two, and so on.
    pub clocks: Vec<u64>,
    /// The algorithms.
    pub algorithms: Vec<Cost>,
}

/// The cost of one algorithm.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cost {
    /// Name of the congestion control.
    pub name: String,
    /// How it was measured.
    pub method: Method,
    /// ACKs that the sender got.
    pub acks: u64,
    /// Bytes that arrived.
    pub bytes: u64,
    /// Retransmitted segments.
    pub retransmits: u64,
    /// Instructions per ACK of all parts, except those that run once per connection.
    pub instructions_per_ack: f64,
    /// The programs or functions that were called, in descending order of instructions.
    pub parts: Vec<PartCost>,
}

/// The cost of a program or function.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PartCost {
    /// Name.
    pub name: String,
    /// Number of calls.
    pub calls: u64,
    /// Instructions of all calls.
    pub instructions: i64,
    /// Average instructions per call.
    pub instructions_per_call: f64,
}

impl PartCost {
    /// Returns whether the part runs once per connection (`init` and `release`), so that it costs less per ACK in a
    /// longer transfer.
    #[must_use]
    pub fn is_once(&self) -> bool {
        ["_init", "_release"].iter().any(|hook| self.name.ends_with(hook))
    }
}

impl Costs {
    /// Returns the cost of an algorithm.
    #[must_use]
    pub fn of(&self, name: &str) -> Option<&Cost> {
        self.algorithms.iter().find(|cost| cost.name == name)
    }
}

/// Measures costs in this number of transfers on one kernel, in a machine that stays on processor `cpu` of this one:
/// first [`REFERENCE`], then the algorithms named in `only`, or all if it is empty. Reports progress to `say`.
pub fn run(
    kernel: &Kernel,
    only: &[String],
    transfers: u64,
    cpu: Option<usize>,
    say: &mut dyn FnMut(&str),
) -> Result<Costs> {
    let all: Vec<&str> = hotcc_bpf::ALGOS.iter().map(|object| object.name).chain(OF_THE_KERNEL).collect();
    if let Some(unknown) = only.iter().find(|name| !all.contains(&name.as_str())) {
        bail!("no algorithm is called {unknown}; there are {}", all.join(", "));
    }
    let counted = |name: &&str| only.is_empty() || only.iter().any(|one| one == name);
    let source = Source::parse(Path::new("transfer.toml"), TRANSFER.to_owned())?;
    let case = source.cases()?.into_iter().next().context("a scenario without a case")?;
    let traces = TraceFiles::beside(Path::new("."));
    let plans = (1..=transfers).map(|seed| Ok(plan(&case.scenario, seed, &traces)?.plan)).collect::<Result<_>>()?;
    let ours = hotcc_bpf::ALGOS.iter().map(|object| object.name).filter(counted);
    let mut subjects = vec![Subject { cc: NOTHING.1.to_owned(), object: Some(NOTHING.0.to_owned()) }];
    for object in [REFERENCE].into_iter().chain(ours) {
        subjects.push(Subject { cc: object.to_owned(), object: Some(object.to_owned()) });
    }
    let of_the_kernel = OF_THE_KERNEL.into_iter().filter(counted);
    subjects.extend(of_the_kernel.map(|cc| Subject { cc: cc.to_owned(), object: None }));
    let expected = subjects.len();
    let modules: Vec<&str> =
        MODULES.into_iter().chain(OF_THE_KERNEL.into_iter().filter_map(algorithms::module)).collect();
    let (mut clocks, mut samples) = (Vec::new(), Vec::new());
    let boot = Boot { image: Image::default(), kernel, modules: &modules, memory_mib: MEMORY_MIB, cpu };
    boot.run(&Job::Cost(Box::new(CostJob { plans, subjects })), |message| {
        match message {
            Message::Booted { release, uptime_s } => {
                say(&format!("{release} booted after {uptime_s:.1} s of guest time"));
            }
            Message::Progress(text) if text.ends_with('%') => {}
            Message::Progress(text) => say(text),
            Message::Counted(Counted::Clocks { arguments, ns }) => {
                ensure!(
                    *arguments == clocks.len() as u64 + 1,
                    "the guest reported the clocks of {arguments} arguments out of order"
                );
                clocks.push(*ns);
            }
            Message::Counted(Counted::Sample(sample)) => samples.push(sample.clone()),
            Message::Row(_) | Message::Output(_) | Message::Done { .. } | Message::Failed(_) => {}
        }
        Ok(())
    })?;
    ensure!(samples.len() == expected, "the guest counted {} of {expected} algorithms", samples.len());
    net(&kernel.release, clocks, samples)
}

/// Subtracts the cost of the measurement. The first sample must be that of the programs that do nothing.
fn net(kernel: &str, clocks: Vec<u64>, samples: Vec<Sample>) -> Result<Costs> {
    let nothing = samples.first().context("nothing was counted")?;
    let busiest = nothing.parts.iter().max_by_key(|part| part.calls).filter(|part| part.calls > 0);
    let busiest = busiest.context("the empty programs were not called")?;
    let statistics = (busiest.ns + busiest.calls / 2) / busiest.calls;
    let mut algorithms = Vec::new();
    for sample in &samples[1..] {
        ensure!(sample.acks > 0, "{} received no ACK", sample.cc);
        let mut parts = Vec::new();
        for part in sample.parts.iter().filter(|part| part.calls > 0) {
            let taken_off = match sample.method {
                Method::Statistics => statistics,
                Method::Clocks => {
                    let place = usize::try_from(part.arguments)?.checked_sub(1);
                    *place
                        .and_then(|p| clocks.get(p))
                        .with_context(|| format!("no clock was measured for the arguments of {}", part.name))?
                }
            };
            let instructions = i64::try_from(part.ns)? - i64::try_from(part.calls * taken_off)?;
            parts.push(PartCost {
                name: part.name.clone(),
                calls: part.calls,
                instructions,
                instructions_per_call: instructions as f64 / part.calls as f64,
            });
        }
        parts.sort_by_key(|part| std::cmp::Reverse(part.instructions));
        let all: i64 = parts.iter().filter(|part| !part.is_once()).map(|part| part.instructions).sum();
        algorithms.push(Cost {
            name: sample.cc.clone(),
            method: sample.method,
            acks: sample.acks,
            bytes: sample.bytes,
            retransmits: sample.retransmits,
            instructions_per_ack: all as f64 / sample.acks as f64,
            parts,
        });
    }
    Ok(Costs { kernel: kernel.to_owned(), statistics, clocks, algorithms })
}
