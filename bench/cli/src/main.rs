//! The `hotcc-bench` command: stock kernels, and the tests and measurements on them.

mod cost;
mod dossier;
mod exit;
mod gates;
mod kernels;
mod lab;
mod repeat;
mod report;
mod scoreboard;
mod soak;
mod traces;
mod validate;

use anyhow::Result;
use clap::{CommandFactory, Parser, Subcommand};
use cost::CostCommand;
use dossier::DossierCommand;
use exit::exit_code;
use gates::GatesCommand;
use hotcc_kernels::Selector;
use hotcc_lab::{matrix, native};
use hotcc_lab_proto::job::Row;
use hotcc_testbed::netlab;
use lab::LabCommand;
use repeat::RepeatCommand;
use scoreboard::ScoreboardCommand;
use soak::SoakCommand;
use std::path::PathBuf;
use std::process::ExitCode;
use traces::TracesCommand;
use validate::ValidateCommand;

/// Exit code after an interrupt.
const INTERRUPTED: u8 = 130;

/// Test congestion control on unmodified Debian kernels in QEMU, in virtual time; needs neither root nor KVM
///
/// Exit codes: 0 success, 1 failure, 2 usage error, 3 missing kernel feature, 4 permission denied, 130 interrupted.
#[derive(Parser)]
#[command(
    name = "hotcc-bench",
    version,
    after_help = "Examples:\n  hotcc-bench kernels fetch 6.1 6.12\n  hotcc-bench matrix 6.1 newest\n  \
    hotcc-bench lab --one-seed bench/scenarios/demo.toml\n  \
    hotcc-bench traces list\n  hotcc-bench report lab-results/demo"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Kernels(kernels::KernelsCommand),
    Lab(LabCommand),
    Gates(GatesCommand),
    Scoreboard(ScoreboardCommand),
    Repeat(RepeatCommand),
    Dossier(DossierCommand),
    /// Load, swap, roll back and unload every algorithm under traffic on each kernel
    ///
    /// The peer `bbr3` has a row, too. Two rows test objects that are not part of the project. `stranger` lacks the
    /// project's tags, and the arguments of its `cong_control` hook depend on the kernel. `foreign` predates struct_ops
    /// links: it has the old section names and its own declarations. Two more rows test policy rules and receivers.
    /// Exits with 1 if any row fails.
    #[command(after_help = "Examples:\n  hotcc-bench matrix\n  hotcc-bench matrix 6.1 newest\n  \
        hotcc-bench matrix --bytes 1000000 trixie")]
    Matrix {
        /// Kernels, downloaded if not cached: 6.1, trixie, newest, ...
        #[arg(default_values = ["6.1", "6.12", "6.18", "newest"], value_name = "KERNEL")]
        kernels: Vec<String>,
        /// Bytes of each transfer
        #[arg(long, default_value_t = 10_000_000)]
        bytes: u64,
    },
    Cost(CostCommand),
    /// Write a results page: tables, the papers' figures, charts
    Report(report::ReportCommand),
    /// Update the result tables in documents, between their markers
    Figures(report::FiguresCommand),
    /// Draw throughput and delay of one congestion control as multiples of another's, a dot for each case
    Picture(report::PictureCommand),
    /// One native run: what `lab --lab native` starts for each
    #[command(name = native::COMMAND, hide = true)]
    PlayNatively {
        job: PathBuf,
        results: PathBuf,
    },
    Traces(TracesCommand),
    Soak(SoakCommand),
    Validate(ValidateCommand),
    /// Compare two result directories seed by seed; exit with 1 if B is worse than A in any figure
    Diff(report::DiffCommand),
    /// Print a completion script
    Completions(hotcc_manual::Completions),
    /// Write the manual pages
    #[command(hide = true)]
    Man(hotcc_manual::Man),
}

impl Command {
    /// Returns whether the command starts no runs.
    fn only_prints(&self) -> bool {
        matches!(
            self,
            Self::Kernels(_)
                | Self::Report(_)
                | Self::Figures(_)
                | Self::Picture(_)
                | Self::Traces(_)
                | Self::Diff(_)
                | Self::Completions(_)
                | Self::Man(_)
        )
    }
}

fn main() -> ExitCode {
    hotcc_host::stdout::run("hotcc-bench", run)
}

fn run() -> ExitCode {
    let command = Cli::parse().command;
    if command.only_prints() {
        hotcc::sys::end_quietly_on_closed_pipe();
    }
    match dispatch(command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("hotcc-bench: {error:#}");
            ExitCode::from(if netlab::check().is_err() { INTERRUPTED } else { exit_code(&error) })
        }
    }
}

fn dispatch(command: Command) -> Result<ExitCode> {
    match command {
        Command::Kernels(command) => Ok(kernels::run(command)),
        Command::Lab(command) => command.run(),
        Command::Gates(command) => command.run(),
        Command::Scoreboard(command) => command.run(),
        Command::Repeat(command) => command.run(),
        Command::Dossier(command) => command.run(),
        Command::Matrix { kernels, bytes } => run_matrix(&kernels, bytes),
        Command::PlayNatively { job, results } => native::play_job(&job, &results)
            .map(|()| if netlab::check().is_err() { ExitCode::from(INTERRUPTED) } else { ExitCode::SUCCESS }),
        Command::Cost(command) => command.run(),
        Command::Report(command) => report::run_report(command),
        Command::Figures(command) => report::run_figures(&command),
        Command::Picture(command) => report::run_picture(&command),
        Command::Traces(command) => command.run(),
        Command::Soak(command) => command.run(),
        Command::Validate(command) => command.run(),
        Command::Diff(command) => Ok(report::run_diff(&command)),
        Command::Completions(args) => args.print(Cli::command()).map(|()| ExitCode::SUCCESS).map_err(Into::into),
        Command::Man(args) => args.write(Cli::command()).map(|()| ExitCode::SUCCESS).map_err(Into::into),
    }
}

/// Runs the matrix on each kernel. A kernel on which it fails does not stop the others, but a kernel that cannot be
/// fetched does.
fn run_matrix(names: &[String], bytes: u64) -> Result<ExitCode> {
    let mut columns = Vec::new();
    for name in names {
        let selector: Selector = name.parse()?;
        let kernel = hotcc_kernels::ready(&selector, &mut |progress| eprintln!("{progress}"))?;
        columns.push(matrix::run(&kernel, bytes, &mut |line| eprintln!("  {line}")));
    }
    println!("{}", matrix::table(&columns));
    let passed = columns.iter().all(|c| c.rows.as_ref().is_ok_and(|rows| rows.iter().all(Row::passed)));
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
