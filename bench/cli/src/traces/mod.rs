//! `hotcc-bench traces`: `traces list`, `traces fetch`, `traces check`, `traces show`.

mod chart;
mod inspect;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use hotcc_channel_model::trace::Trace;
use hotcc_lab::traces::fetch::{Fetched, fetch};
use hotcc_lab::traces::{self, Archived, Entry, List, Listed, TraceFiles};
use inspect::{Facts, Shown};
use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// List, fetch, check and draw recorded links
///
/// docs/reference/traces.md describes the formats. `list`, `check` and `show` never use the network.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  hotcc-bench traces list\n  \
    hotcc-bench traces fetch mahimahi_ATT-LTE-driving-2016.down\n  \
    hotcc-bench traces check drive.csv\n  \
    hotcc-bench traces show drive.csv --svg drive.svg")]
pub struct TracesCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// List public traces, their licences, and which of them are on this machine
    #[command(after_help = "Examples:\n  hotcc-bench traces list\n  hotcc-bench traces list --json")]
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        known: Known,
    },
    /// Download public traces into the cache, unless they are there; print their paths
    ///
    /// Without NAME: all that are not in an archive. A file with a wrong checksum is not kept. Needs curl.
    #[command(after_help = "Examples:\n  hotcc-bench traces fetch mahimahi_ATT-LTE-driving-2016.down\n  \
        hotcc-bench traces fetch")]
    Fetch {
        /// Names from `traces list`
        #[arg(value_name = "NAME")]
        names: Vec<String>,
        /// Another list, in the format of the built-in one
        #[arg(long, value_name = "FILE", hide = true)]
        list: Option<PathBuf>,
    },
    /// Check traces: listed ones by their checksum, and each by reading it
    ///
    /// Without arguments: the listed traces that are on this machine. Exits with 1 if a trace is missing or invalid.
    #[command(
        after_help = "Examples:\n  hotcc-bench traces check\n  hotcc-bench traces check drive.csv walk.csv --json"
    )]
    Check {
        /// Names from `traces list`, or files
        #[arg(value_name = "NAME|FILE")]
        wanted: Vec<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        known: Known,
    },
    /// Draw a trace as text: its capacity, SINR and RTT over time, and how well the SINR predicts the capacity
    #[command(after_help = "Examples:\n  hotcc-bench traces show drive.csv\n  \
        hotcc-bench traces show mahimahi_ATT-LTE-driving-2016.down --svg att.svg")]
    Show {
        /// A file, or a name from `traces list`
        #[arg(value_name = "FILE")]
        trace: String,
        /// Also write a chart to this SVG file
        #[arg(long, value_name = "OUT")]
        svg: Option<PathBuf>,
        /// Print the figures as JSON, without the drawing
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        known: Known,
    },
}

/// The known traces, and where they may be.
#[derive(Args, Debug)]
struct Known {
    /// Another list, in the format of the built-in one
    #[arg(long, value_name = "FILE", hide = true)]
    list: Option<PathBuf>,
    #[command(flatten)]
    traces: TracesDirectory,
}

/// Where recorded traces are, besides the current or the scenario's directory and the cache.
#[derive(Args, Clone, Debug)]
pub struct TracesDirectory {
    /// Directory of recorded traces; searched after the scenario's directory and the cache [default: $HOTCC_TRACES]
    #[arg(long, value_name = "DIR")]
    traces: Option<PathBuf>,
}

impl TracesDirectory {
    /// Returns the directories to search: the cache, then this directory.
    pub fn directories(&self) -> Vec<PathBuf> {
        traces::directories(self.traces.as_deref())
    }
}

impl Known {
    fn list(&self) -> Result<List> {
        list_of(self.list.as_deref())
    }

    /// Returns the path of a listed trace, if it is in the cache or in the directory of traces.
    fn place(&self, name: &str) -> Option<PathBuf> {
        self.traces.directories().iter().map(|directory| directory.join(name)).find(|path| path.exists())
    }

    /// Returns the path of a file or of a listed trace, and its entry in the list.
    fn find<'a>(&self, list: &'a List, name: &str) -> Result<(PathBuf, Option<Entry<'a>>)> {
        let Some(trace) = list.entry(name).filter(|_| !Path::new(name).exists()) else {
            let files = TraceFiles::beside(Path::new(".")).then(&self.traces.directories());
            return Ok((files.find(Path::new(name))?, None));
        };
        let path = self.place(name).with_context(|| format!("cannot find {name}: {}", trace.advice()))?;
        Ok((path, Some(trace)))
    }
}

fn list_of(file: Option<&Path>) -> Result<List> {
    file.map_or_else(List::built_in, List::read)
}

impl TracesCommand {
    /// Runs the command. Exit code 1 if a trace is missing or invalid.
    pub fn run(self) -> Result<ExitCode> {
        match self.action {
            Action::List { json, known } => print_list(&known, json),
            Action::Fetch { names, list } => fetch_all(&names, &list_of(list.as_deref())?),
            Action::Check { wanted, json, known } => check(&wanted, &known, json),
            Action::Show { trace, svg, json, known } => show(&trace, svg.as_deref(), &known, json),
        }
    }
}

fn print_list(known: &Known, json: bool) -> Result<ExitCode> {
    #[derive(Serialize)]
    struct Row<T> {
        #[serde(flatten)]
        trace: T,
        file: Option<PathBuf>,
    }
    let list = known.list()?;
    let (fetched, archived) = (list.traces.iter(), list.archived.iter());
    let fetched: Vec<Row<&Listed>> = fetched.map(|trace| Row { trace, file: known.place(&trace.name) }).collect();
    let archived: Vec<Row<&Archived>> = archived.map(|trace| Row { trace, file: known.place(&trace.name) }).collect();
    if json {
        let values = fetched.iter().map(serde_json::to_value).chain(archived.iter().map(serde_json::to_value));
        println!("{}", serde_json::to_string_pretty(&values.collect::<Result<Vec<_>, _>>()?)?);
        return Ok(ExitCode::SUCCESS);
    }
    let here = |file: &Option<PathBuf>| if file.is_some() { "yes" } else { "no" };
    println!("{:36} {:8} {:>8}  {:7} SUMMARY", "NAME", "LICENCE", "SIZE", "HERE");
    for Row { trace, file } in fetched {
        let size = format!("{:.1} MB", trace.bytes as f64 / 1e6);
        println!("{:36} {:8} {size:>8}  {:7} {}", trace.name, trace.licence, here(&file), trace.summary);
    }
    for Row { trace, file } in archived {
        println!("{:36} {:8} {:>8}  {:7} {}", trace.name, trace.licence, "archive", here(&file), trace.summary);
    }
    if !list.archived.is_empty() {
        println!("\nFor a trace in an archive, `hotcc-bench traces fetch NAME` prints what to do by hand.");
    }
    Ok(ExitCode::SUCCESS)
}

/// Fetches traces. A trace that cannot be fetched does not stop the others.
fn fetch_all(names: &[String], list: &List) -> Result<ExitCode> {
    let directory = traces::cache()?;
    let wanted: Vec<&Listed> = if names.is_empty() {
        list.traces.iter().collect()
    } else {
        names.iter().map(|name| list.get(name)).collect::<Result<_>>()?
    };
    let mut all = true;
    for trace in wanted {
        match fetch(trace, &directory) {
            Ok(Fetched::New(path) | Fetched::Cached(path)) => println!("{}", path.display()),
            Err(why) => {
                eprintln!("hotcc-bench: {why:#}");
                all = false;
            }
        }
    }
    Ok(if all { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn check(names: &[String], known: &Known, json: bool) -> Result<ExitCode> {
    let list = known.list()?;
    let here = list.entries().filter_map(|trace| known.place(trace.name()).map(|path| (trace, path)));
    let checked: Vec<Result<Facts>> = if names.is_empty() {
        here.map(|(trace, path)| examine(trace.name(), &path, Some(trace))).collect()
    } else {
        let found = |name: &String| known.find(&list, name).and_then(|(path, of)| examine(name, &path, of));
        names.iter().map(found).collect()
    };
    if checked.is_empty() {
        eprintln!("none of the listed traces is on this machine; `hotcc-bench traces fetch` downloads them");
    }
    let (mut rows, mut valid) = (Vec::new(), true);
    for checked in checked {
        match checked {
            Ok(facts) => rows.push(facts),
            Err(why) => {
                eprintln!("hotcc-bench: {why:#}");
                valid = false;
            }
        }
    }
    if json {
        println!("{}", serde_json::to_string_pretty(&rows)?);
    } else {
        rows.iter().for_each(|facts| println!("{}", facts.line()));
    }
    Ok(if valid { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn examine(name: &str, path: &Path, listed: Option<Entry<'_>>) -> Result<Facts> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    if let Some(trace) = listed {
        let advice = || format!("cannot use {}; delete it and {}", path.display(), trace.advice());
        trace.verify(path, &bytes).with_context(advice)?;
    }
    Ok(Facts::of(name, path, listed.is_some(), &Trace::parse(path, &bytes)?))
}

fn show(name: &str, svg: Option<&Path>, known: &Known, json: bool) -> Result<ExitCode> {
    let list = known.list()?;
    let (path, _) = known.find(&list, name)?;
    let trace = Trace::load(&path)?;
    let shown = Shown::of(name, &path, &trace);
    if json {
        println!("{}", serde_json::to_string_pretty(&shown)?);
    } else {
        print!("{}", chart::text(&shown, &trace));
    }
    if let Some(out) = svg {
        let drawn = chart::svg(&shown, &trace)?;
        fs::write(out, drawn).with_context(|| format!("cannot write {}", out.display()))?;
        eprintln!("chart in {}", out.display());
    }
    Ok(ExitCode::SUCCESS)
}
