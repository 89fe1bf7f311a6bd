//! `hotcc-bench lab`: scenarios from the command line.

use crate::exit::exit_code;
use crate::traces::TracesDirectory;
use anyhow::{Result, bail, ensure};
use hotcc_kernels::Selector;
use hotcc_lab::estimate;
use hotcc_lab::native::Native;
use hotcc_lab::planner::{check_plans, partly_used};
use hotcc_lab::plural::counted;
use hotcc_lab::results::{SIMULATOR, Wanted};
use hotcc_lab::run::{Backend, Lab, Progress, RunsFailed};
use hotcc_lab::scenario::Source;
use hotcc_lab::selection::{Draw, Selection, SweptValue, Workload};
use hotcc_lab::simulated;
use hotcc_lab::vm::{Clock, DEFAULT_KERNEL};
use hotcc_testbed::netlab;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::IsTerminal;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Instant;

/// Run scenarios and write their results: summaries, series, a report
///
/// docs/reference/scenarios.md describes scenario files. To resume an interrupted lab, run the same command again: it keeps
/// completed runs. Exits with 1 if a file is invalid, if a run fails or is invalid, or if an `at_least` of the scenario
/// does not hold.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:\n  hotcc-bench lab bench/scenarios/dtcp-lte-loss.toml\n  \
    hotcc-bench lab --lab vm:6.1 --jobs 2 --out /tmp/results bench/scenarios/*.toml\n  \
    hotcc-bench lab --one-seed --case cc=dtcp --case loss=0.01 bench/scenarios/dtcp-lte-loss.toml\n  \
    hotcc-bench lab --lab native bench/scenarios/demo.toml\n  \
    hotcc-bench lab --sim bench/scenarios/fbtcp-1-trees.toml\n  \
    hotcc-bench lab --quick bench/scenarios/fbtcp-1-trees.toml\n  \
    hotcc-bench lab --check bench/scenarios/*.toml")]
pub struct LabCommand {
    /// Scenario files
    #[arg(required = true, value_name = "FILE")]
    scenarios: Vec<PathBuf>,
    /// Where to run: `vm:KERNEL` (6.1, trixie, newest, ...) is a stock kernel in virtual time, `vm` is vm:6.12; `native`
    /// is the running kernel (needs root; figures depend on this machine)
    #[arg(long, default_value = "vm", value_name = "BACKEND")]
    lab: BackendChoice,
    /// Simulate the runs instead: less than a second per minute of a flow, without root, QEMU or a kernel; results are marked
    /// as simulated. Fails if a case needs what only a kernel has, e.g. a receiver program
    #[arg(long, conflicts_with_all = ["lab", "real_time"])]
    sim: bool,
    /// Simulate the first seed of each case: the same as `--sim --one-seed`
    #[arg(long, conflicts_with_all = ["lab", "real_time"])]
    quick: bool,
    /// Number of parallel runs; results do not depend on it; always 1 with `--lab native`
    #[arg(long, short, default_value_t = default_jobs())]
    jobs: NonZeroUsize,
    /// Directory for the results; each run writes to SCENARIO/KERNEL/CASE/seed-N in it
    #[arg(long, default_value = "lab-results", value_name = "DIR")]
    out: PathBuf,
    /// Run only the first seed of each scenario, for a quick look
    #[arg(long)]
    one_seed: bool,
    /// Run only cases with this swept value, e.g. cc=dtcp; repeat for other keys, or for more values of the same key
    #[arg(long, value_name = "KEY=VALUE")]
    case: Vec<SweptValue>,
    /// Run only one case in N on average, drawn at random, e.g. to repeat part of a simulated sweep on a kernel
    #[arg(long, value_name = "N")]
    one_in: Option<NonZeroU32>,
    /// Seed of the draw of `--one-in`
    #[arg(long, default_value_t = 1, value_name = "SEED", requires = "one_in")]
    draw_seed: u64,
    /// Validate the files; print the number of runs and about how long they take; do not run them
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    traces: TracesDirectory,
    /// Run guests in real time instead of virtual time; results are then not reproducible
    #[arg(long)]
    real_time: bool,
    /// With --real-time: how QEMU runs the guest
    #[arg(long, value_enum, default_value_t = Accelerator::Tcg, requires = "real_time")]
    accel: Accelerator,
    /// Print the summaries to stdout as JSON
    #[arg(long)]
    json: bool,
}

/// A backend, parsed from its name.
#[derive(Clone, Debug)]
enum BackendChoice {
    Vm(Selector),
    Native,
}

impl FromStr for BackendChoice {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.split_once(':') {
            None if text == "native" => Ok(Self::Native),
            None if text == "vm" => Ok(Self::Vm(DEFAULT_KERNEL.parse()?)),
            Some(("vm", kernel)) => Ok(Self::Vm(kernel.parse()?)),
            _ => bail!("unknown backend `{text}`: expected `vm`, `vm:KERNEL` or `native`, e.g. `vm:6.1`"),
        }
    }
}

/// How QEMU runs a guest.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Accelerator {
    /// Emulate the processor
    Tcg,
    /// Use this machine's processor (needs KVM)
    Kvm,
}

fn default_jobs() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

impl LabCommand {
    /// Runs the scenarios. Exit code 1 if a run failed or is invalid, or if an `at_least` does not hold; if the kernel
    /// lacks a feature or permission is denied, the exit code of that error.
    pub fn run(&self) -> Result<ExitCode> {
        self.run_all(true).map(|(code, _)| ExitCode::from(code))
    }

    /// Runs the scenarios, with or without their tables of figures on stdout. Returns the exit code, and each
    /// scenario's directory of results.
    pub fn run_all(&self, shows_tables: bool) -> Result<(u8, Vec<PathBuf>)> {
        let drawn = self.one_in.map(|one_in| Draw { one_in, seed: self.draw_seed });
        let selection = Selection { one_seed: self.one_seed || self.quick, cases: self.case.clone(), drawn };
        let Some((sources, all)) = self.sources(&selection) else { return Ok((1, Vec::new())) };
        let totals = (sources.len() > 1).then(|| format!("{} scenarios, {}", sources.len(), all.text()));
        if self.check {
            totals.iter().for_each(|line| println!("{line}, {}", self.estimate(&all)));
            return Ok((0, Vec::new()));
        }
        totals.iter().for_each(|line| eprintln!("{line}"));
        let (kernel, native);
        let backend = match &self.lab {
            _ if self.simulates() => Backend::Simulator,
            BackendChoice::Native => {
                native = Native::ready()?;
                eprintln!("{}", native.note());
                Backend::Native(&native)
            }
            BackendChoice::Vm(selector) => {
                kernel = hotcc_kernels::ready(selector, &mut |progress| eprintln!("{progress}"))?;
                Backend::Vm(&kernel, self.clock())
            }
        };
        let backend_name = match backend {
            Backend::Vm(kernel, _) => kernel.release.clone(),
            Backend::Native(native) => format!("native-{}", native.release),
            Backend::Simulator => SIMULATOR.to_owned(),
        };
        netlab::catch_interrupts()?;
        let (mut code, mut directories) = (0, Vec::new());
        for source in &sources {
            let directory = self.out.join(results_name(&source.path)).join(&backend_name);
            match self.run_one(source, backend, &directory, &selection, shows_tables) {
                Ok(passed) => {
                    code = code.max(u8::from(!passed));
                    directories.push(directory);
                }
                Err(why) if why.is::<netlab::Interrupted>() => {
                    bail!("{why}; run the same command again to resume")
                }
                Err(why) => {
                    eprintln!("hotcc-bench: {}: {why:#}", source.path.display());
                    code = code.max(exit_code(&why));
                    if why.is::<RunsFailed>() {
                        directories.push(directory);
                    } // otherwise, results that are there are of an earlier command
                }
            }
        }
        Ok((code, directories))
    }

    /// Runs one scenario. Returns whether all its runs are valid and its limits hold.
    fn run_one(
        &self,
        source: &Source,
        backend: Backend<'_>,
        directory: &Path,
        selection: &Selection,
        shows_tables: bool,
    ) -> Result<bool> {
        let lab = Lab { source, backend, directory, jobs: self.jobs.get(), selection };
        let started = Instant::now();
        let results = match lab.run(&|progress| print_progress(progress)) {
            Err(why) if !why.is::<RunsFailed>() => return Err(why),
            results => results,
        };
        let page = directory.join("report.html");
        let data = hotcc_report::write(directory, &page, hotcc_report::CHARTS);
        let (results, data) = (results?, data?); // if both failed, the runs' error says more
        eprintln!("{} in {:.0} s: {}", source.path.display(), started.elapsed().as_secs_f64(), page.display());
        if shows_tables && self.json {
            println!("{}", serde_json::to_string_pretty(&results.runs)?);
        } else if shows_tables {
            if let Some(reduced) = &data.reduced {
                println!("{reduced}");
            }
            print!("{}", hotcc_report::markdown::text(&data));
        }
        let failures = data.papers.iter().filter(|paper| paper.is_failure());
        let failed = failures.inspect(|paper| eprintln!("does not hold: {}", paper.text())).count();
        Ok(failed == 0 && results.runs.iter().all(|run| run.invalid.is_empty()))
    }

    /// Reads the scenarios. Returns them with the total work, or `None` if any file is invalid, after printing what is
    /// wrong with each.
    fn sources(&self, selection: &Selection) -> Option<(Vec<Source>, Workload)> {
        let (mut sources, mut all, mut all_valid) = (Vec::new(), Workload::default(), true);
        for (place, path) in self.scenarios.iter().enumerate() {
            if let Some(other) = self.scenarios[..place].iter().find(|other| results_name(other) == results_name(path))
            {
                let (path, other) = (path.display(), other.display());
                eprintln!("hotcc-bench: {path}: its results would replace those of {other}: rename one of the files");
                all_valid = false;
                continue;
            }
            match self.source(path, selection) {
                Ok((source, work)) => {
                    all.runs += work.runs;
                    all.seconds += work.seconds;
                    all.real_s += work.real_s;
                    sources.push(source);
                }
                Err(why) => {
                    eprintln!("hotcc-bench: {why:#}");
                    all_valid = false;
                }
            }
        }
        all_valid.then_some((sources, all))
    }

    fn source(&self, path: &Path, selection: &Selection) -> Result<(Source, Workload)> {
        let mut source = Source::read(path)?;
        source.trace_directories = self.traces.directories();
        let mut work = Workload::of(&source, selection)?;
        verify_traces(&source)?;
        if self.simulates() {
            simulated::check_runs(&source, selection)?;
        }
        if self.check {
            check_plans(&source)?;
            work.real_s = self.real_s(&source, &work, selection)?;
            let cases = counted(source.cases()?.len(), "case");
            println!("{}: valid, {cases}, {}, {}", path.display(), work.text(), self.estimate(&work));
            partly_used(&source)?.iter().for_each(|note| println!("{}: {note}", path.display()));
        }
        Ok((source, work))
    }

    /// Returns the seconds of real time that a scenario takes. Runs in real time, in a guest or on this machine, take
    /// as long as the scenario.
    fn real_s(&self, source: &Source, work: &Workload, selection: &Selection) -> Result<f64> {
        if self.simulates() {
            return Ok(work.seconds * simulated::WALL_S_PER_S / self.parallel_runs().min(work.runs.max(1)) as f64);
        }
        if self.real_time || matches!(self.lab, BackendChoice::Native) {
            return Ok(work.seconds / self.parallel_runs().min(work.runs.max(1)) as f64);
        }
        estimate::wall_s(source, selection, self.jobs.get())
    }

    fn estimate(&self, work: &Workload) -> String {
        format!("{} of real time with {} at a time", estimate::words(work.real_s), self.parallel_runs())
    }

    /// Leaves out the scenarios that have no gates, but not those that cannot be read, so that the error is reported.
    pub fn keep_gated_scenarios(&mut self) -> Result<()> {
        let has_gates = |path: &Path| {
            let Ok(source) = Source::read(path) else { return true };
            let cases = source.cases().unwrap_or_default();
            let mut expected = cases.iter().flat_map(|case| &case.scenario.expected);
            expected.any(|expected| matches!(expected.get_ref().wanted, Wanted::Gate(_)))
        };
        self.scenarios.retain(|path| {
            let has = has_gates(path);
            if !has {
                eprintln!("{}: no gates: not run", path.display());
            }
            has
        });
        ensure!(!self.scenarios.is_empty(), "none of the scenarios has a gate: expected an [[expected]] with `gate`");
        Ok(())
    }

    /// Splits off the scenarios that show no bounds, with the same options. Scenarios that cannot be read stay, so that
    /// the error is reported.
    pub fn split_off_unbounded(&mut self) -> Option<Self> {
        let is_unbounded = |path: &PathBuf| {
            let cases = Source::read(path).and_then(|source| source.cases());
            cases.is_ok_and(|cases| cases.iter().any(|case| !case.scenario.bounds.get_ref()))
        };
        let (unbounded, bounded) = self.scenarios.iter().cloned().partition::<Vec<_>, _>(is_unbounded);
        self.scenarios = bounded;
        (!unbounded.is_empty()).then(|| Self { scenarios: unbounded, ..self.clone() })
    }

    /// Returns the command that simulates the same runs.
    #[must_use]
    pub fn simulated(&self) -> Self {
        Self { sim: true, ..self.clone() }
    }

    /// Returns whether the command only checks the scenarios, without running anything.
    pub fn is_check_only(&self) -> bool {
        self.check
    }

    /// Restricts the runs to these swept values, in addition to those that `--case` names.
    pub fn restrict_cases(&mut self, cases: impl IntoIterator<Item = SweptValue>) {
        self.case.extend(cases);
    }

    /// Moves the results to another directory, and draws one case in ten unless `--one-in` chooses otherwise.
    pub fn repeat_into(&mut self, out: PathBuf) {
        self.out = out;
        self.one_in = self.one_in.or(NonZeroU32::new(10));
    }

    /// Returns the names of the scenarios' results in the directory of results.
    pub fn names(&self) -> impl Iterator<Item = &OsStr> {
        self.scenarios.iter().map(|path| results_name(path))
    }

    /// Returns whether stdout is JSON.
    pub fn json(&self) -> bool {
        self.json
    }

    /// Returns the directory of results.
    pub fn out(&self) -> &Path {
        &self.out
    }

    /// Returns whether the runs are simulated.
    pub fn simulates(&self) -> bool {
        self.sim || self.quick
    }

    fn parallel_runs(&self) -> usize {
        if !self.simulates() && matches!(self.lab, BackendChoice::Native) { 1 } else { self.jobs.get() }
    }

    fn clock(&self) -> Clock {
        match (self.real_time, self.accel) {
            (false, _) => Clock::Virtual,
            (true, Accelerator::Tcg) => Clock::RealTranslated,
            (true, Accelerator::Kvm) => Clock::RealKvm,
        }
    }
}

/// Checks the listed traces that a scenario names.
fn verify_traces(source: &Source) -> Result<()> {
    let (traces, cases) = (source.traces(), source.cases()?);
    let files: BTreeSet<&Path> = cases.iter().flat_map(|case| case.scenario.trace_files()).collect();
    files.into_iter().try_for_each(|file| traces.verify(file))
}

/// Returns the name of a scenario's results.
fn results_name(scenario: &Path) -> &OsStr {
    scenario.file_stem().unwrap_or(scenario.as_os_str())
}

/// Prints progress: on a terminal, the percentage of a run updates one line; otherwise only the last message of each
/// run is printed.
fn print_progress(progress: &Progress<'_>) {
    let (run, done, text) = match progress {
        Progress::Note(text) => return eprintln!("{text}"),
        Progress::Run { run, done, text } => (run, done, text),
    };
    let line = format!("[{}/{}] {} seed {}: {text}", done.0, done.1, run.case_name(), run.seed);
    if !text.ends_with('%') {
        eprintln!("{line}");
    } else if std::io::stderr().is_terminal() {
        eprint!("{line}\r");
    }
}
