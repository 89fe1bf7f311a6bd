//! `hotcc-bench kernels`: `kernels list`, `kernels fetch`, `kernels clean`.

use clap::{Args, Subcommand};
use hotcc_kernels::{Flavour, Kernel, Listed, Megabytes, Progress, Result, Selector, Store, Wanted};
use serde::Serialize;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// List, download and delete Debian's stock kernels
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  hotcc-bench kernels list\n  hotcc-bench kernels list trixie-backports --json\n  \
    hotcc-bench kernels fetch 6.1 newest\n  hotcc-bench kernels fetch --generic 6.12\n  hotcc-bench kernels clean")]
pub struct KernelsCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// List the kernels that match SELECTOR, newest first [default: the newest of each supported series]
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        kernels: Selection,
    },
    /// Download the newest kernel that matches each SELECTOR, unless it is cached; print its release and directory
    ///
    /// Without SELECTOR: the newest kernel of each supported series.
    Fetch {
        #[command(flatten)]
        kernels: Selection,
    },
    /// Delete all cached kernels and package indexes
    Clean,
}

#[derive(Args, Debug)]
struct Selection {
    /// A suite (bookworm, trixie, trixie-backports, sid), a series (6.12), `newest`, or a full release;
    /// `6.12-arm64` is for arm64
    #[arg(value_name = "SELECTOR")]
    selectors: Vec<Selector>,
    /// Kernels for physical machines, with wireless and 9p, instead of the smaller ones for virtual machines
    #[arg(long)]
    generic: bool,
}

impl Selection {
    fn selectors(self) -> Vec<Selector> {
        let generic = |selector: Selector| match selector.wanted {
            Wanted::Release(_) => selector,
            _ => Selector { flavour: Flavour::Generic, ..selector },
        };
        if !self.generic {
            self.selectors
        } else if self.selectors.is_empty() {
            Selector::supported().into_iter().map(generic).collect()
        } else {
            self.selectors.into_iter().map(generic).collect()
        }
    }
}

/// Runs the command, and prints errors to stderr. Exit code 1 if anything failed (2 for an invalid selector).
#[must_use]
pub fn run(command: KernelsCommand) -> ExitCode {
    let mut console = Console::default();
    let done = match command.action {
        Action::List { json, kernels } => list(&kernels.selectors(), json, &mut console),
        Action::Fetch { kernels } => fetch(kernels.selectors(), &mut console),
        Action::Clean => clean(&mut console),
    };
    console.end();
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hotcc-bench kernels: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}

/// Progress on stderr: on a terminal, a download updates one line; otherwise it is announced once.
#[derive(Default)]
struct Console {
    open: bool,
    announced: Option<String>,
}

impl Console {
    fn tell(&mut self, progress: &Progress) {
        match progress {
            Progress::Downloading { .. } if std::io::stderr().is_terminal() => {
                eprint!("\r{progress}  ");
                let _ = std::io::stderr().flush();
                self.open = true;
            }
            Progress::Downloading { release, total, .. } => {
                if self.announced.as_ref() != Some(release) {
                    eprintln!("downloading {release}: {}", Megabytes(*total));
                    self.announced = Some(release.clone());
                }
            }
            _ => {
                self.end();
                eprintln!("{progress}");
            }
        }
    }

    fn end(&mut self) {
        if std::mem::take(&mut self.open) {
            eprintln!();
        }
    }
}

/// A line of `list --json`.
#[derive(Serialize)]
struct Row<'a> {
    selector: String,
    release: &'a str,
    version: &'a str,
    suite: &'a str,
    /// Bytes to download.
    size: u64,
    /// Directory; null if not cached.
    cached: &'a Option<PathBuf>,
}

impl<'a> Row<'a> {
    fn new(listed: &'a Listed) -> Self {
        let Listed { selector, package, cached } = listed;
        Self {
            selector: selector.to_string(),
            release: &package.release,
            version: &package.version,
            suite: &package.suite,
            size: package.size(),
            cached,
        }
    }
}

fn print(text: &str) {
    // the reader may have closed the pipe
    let _ = writeln!(std::io::stdout(), "{text}");
}

fn list(selectors: &[Selector], json: bool, console: &mut Console) -> Result<()> {
    let listed = Store::open()?.list(selectors, &mut |progress| {
        // requesting an index is quick and is not reported; a failure is
        if !matches!(progress, Progress::Index { .. }) {
            console.tell(progress);
        }
    })?;
    let rows: Vec<_> = listed.iter().map(Row::new).collect();
    if json {
        print(&serde_json::to_string_pretty(&rows).unwrap_or_default());
        return Ok(());
    }
    print(&format!("{:17} {:33} {:18} {:>9}  CACHED", "SELECTOR", "RELEASE", "VERSION", "DOWNLOAD"));
    for Row { selector, release, version, size, cached, .. } in rows {
        let cached = cached.as_ref().map_or("no".into(), |directory| directory.display().to_string());
        print(&format!("{selector:17} {release:33} {version:18} {:>9}  {cached}", Megabytes(size).to_string()));
    }
    Ok(())
}

fn fetch(selectors: Vec<Selector>, console: &mut Console) -> Result<()> {
    let store = Store::open()?;
    let selectors = if selectors.is_empty() { Selector::supported() } else { selectors };
    for selector in selectors {
        let Kernel { release, dir, .. } = store.fetch(&selector, &mut |progress| console.tell(progress))?;
        console.end();
        print(&format!("{release} {}", dir.display()));
    }
    Ok(())
}

fn clean(console: &mut Console) -> Result<()> {
    let store = Store::open()?;
    let freed = store.clean(&mut |progress| console.tell(progress))?;
    print(&format!("freed {} in {}", Megabytes(freed), store.directory().display()));
    Ok(())
}
