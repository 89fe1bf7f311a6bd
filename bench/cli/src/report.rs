//! `hotcc-bench report`, `diff` and `figures`: pages and tables of results, from the command line.

use anyhow::{Context, Result};
use clap::Args;
use hotcc_lab::results::locate;
use hotcc_report::data::Data;
use hotcc_report::{CHARTS, write_page};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// `report DIR`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  hotcc-bench report lab-results/demo\n  \
    hotcc-bench report --charts 4 --out page.html lab-results/demo\n  \
    hotcc-bench report --json lab-results/dtcp-lte-loss/6.12.95+deb13-cloud-amd64")]
pub struct ReportCommand {
    /// Result directory OUT/NAME/KERNEL; or OUT or OUT/NAME if it contains only one
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// File to write the page to [default: DIR/report.html]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Also print the figures as JSON
    #[arg(long)]
    json: bool,
    /// Draw charts for at most N cases; the tables show all cases
    #[arg(long, value_name = "N", default_value_t = CHARTS)]
    charts: usize,
}

/// `diff A B`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  hotcc-bench diff before/demo after/demo\n  \
    hotcc-bench diff --margin 5 before/demo after/demo\n  hotcc-bench diff --json before/demo after/demo")]
pub struct DiffCommand {
    /// Result directory before the change: OUT/NAME/KERNEL; or OUT or OUT/NAME if it contains only one
    #[arg(value_name = "A")]
    before: PathBuf,
    /// Result directory after the change, likewise
    #[arg(value_name = "B")]
    after: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Report `same` if the interval of the difference includes 0 and lies within plus or minus this share of A's mean, in
    /// per cent
    #[arg(long, value_name = "PERCENT", default_value_t = 2.0, value_parser = percent)]
    margin: f64,
}

/// `figures FILE...`.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  hotcc-bench figures --results lab-results docs/algorithms/figures/*.md\n\nA document marks where its tables belong:\n\n  <!-- figures: dtcp-lte-loss -->\n  \
    <!-- end of figures -->\n\nTo show only some cases, add swept values:\n\n  \
    <!-- figures: dtcp-lte-loss loss=0.01 cc=dtcp cc=cubic -->\n  <!-- end of figures -->\n\nTo show results of `lab \
    --sim`, with these figures side by side for each congestion control:\n\n  \
    <!-- figures: crest-recorded simulated throughput_mbps queue_delay_p95_ms -->\n  <!-- end of figures -->"
)]
pub struct FiguresCommand {
    /// Markdown documents to update in place
    #[arg(required = true, value_name = "FILE")]
    documents: Vec<PathBuf>,
    /// Directory with the results of `hotcc-bench lab`
    #[arg(long, default_value = "lab-results", value_name = "DIR")]
    results: PathBuf,
}

/// `picture DIR`.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  hotcc-bench picture --what \"minutes of recorded links\" --out docs/algorithms/figures/crest.svg \\\n      \
    lab-results/crest-alone/simulator"
)]
pub struct PictureCommand {
    /// Result directory OUT/NAME/KERNEL; or OUT or OUT/NAME if it contains only one
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// SVG file to write
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// The congestion control that the picture is about
    #[arg(long, default_value = "crest")]
    cc: String,
    /// The congestion control that it is compared with
    #[arg(long, default_value = "bbr")]
    over: String,
    /// What the cases are, for the title
    #[arg(long, default_value = "cases")]
    what: String,
}

fn percent(text: &str) -> Result<f64, String> {
    let value: f64 = text.trim_end_matches('%').parse().map_err(|_| "expected a number, e.g. `2`".to_owned())?;
    if value.is_finite() && value >= 0.0 { Ok(value) } else { Err("expected 0 or more".to_owned()) }
}

/// Exit code if a directory contains no results, or if they cannot be read.
const UNREADABLE: u8 = 2;

/// Runs `report`. Exit code 2 if the results cannot be read, 1 if the page cannot be written.
pub fn run_report(command: ReportCommand) -> Result<ExitCode> {
    let read = locate(&command.directory).and_then(|directory| Ok((Data::read(&directory)?, directory)));
    let (data, directory) = match read {
        Ok(read) => read,
        Err(error) => return Ok(unreadable("report", &error)),
    };
    let out = command.out.unwrap_or_else(|| directory.join("report.html"));
    write_page(&data, &out, command.charts)?;
    if command.json {
        let mut json = data.json();
        json["page"] = serde_json::Value::from(out.display().to_string());
        print(&serde_json::to_string_pretty(&json)?);
    } else {
        print(&format!("{}. {}", data.state(), out.display()));
    }
    Ok(ExitCode::SUCCESS)
}

fn unreadable(command: &str, error: &anyhow::Error) -> ExitCode {
    eprintln!("hotcc-bench {command}: {error:#}");
    ExitCode::from(UNREADABLE)
}

/// Runs `picture`.
pub fn run_picture(command: &PictureCommand) -> Result<ExitCode> {
    let data = Data::read(&locate(&command.directory)?)?;
    let simulated = data.results.manifest.is_simulated();
    let drawn = hotcc_report::charts::against::svg(&data.rows, &command.cc, &command.over, &command.what, simulated)?;
    fs::write(&command.out, drawn).with_context(|| format!("cannot write {}", command.out.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// Runs `figures`.
pub fn run_figures(command: &FiguresCommand) -> Result<ExitCode> {
    for path in &command.documents {
        let is_changed = refresh(path, &command.results)?;
        print(&format!("{}: {}", path.display(), if is_changed { "updated" } else { "unchanged" }));
    }
    Ok(ExitCode::SUCCESS)
}

/// Updates a document's tables of figures and of gates, its dossier, and its lines about repeated runs. Returns whether
/// anything changed.
pub fn refresh(path: &Path, results: &Path) -> Result<bool> {
    let old = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let new = hotcc_report::markdown::refreshed(&old, results)
        .and_then(|figures| hotcc_report::gates::refreshed(&figures, results))
        .and_then(|gates| hotcc_report::gates::dossier::refreshed(&gates, results))
        .and_then(|dossier| hotcc_report::repeated::refreshed(&dossier, results))
        .with_context(|| path.display().to_string())?;
    if new != old {
        fs::write(path, &new).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(new != old)
}

/// Runs `diff`. Exit code 0 if nothing is worse, 1 if something is, 2 if the two cannot be compared.
#[must_use]
pub fn run_diff(command: &DiffCommand) -> ExitCode {
    let compare =
        || hotcc_report::diff::compare(&locate(&command.before)?, &locate(&command.after)?, command.margin / 100.0);
    match compare() {
        Ok(diff) => {
            print(&if command.json { diff.json() } else { diff.text() });
            ExitCode::from(u8::from(diff.is_worse()))
        }
        Err(error) => unreadable("diff", &error),
    }
}

fn print(text: &str) {
    // the reader may have closed the pipe
    let _ = writeln!(std::io::stdout(), "{}", text.trim_end());
}
