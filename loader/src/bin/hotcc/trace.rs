//! `hotcc trace`: records ACKs into a file, and shows progress.

use crate::canary::duration;
use crate::interrupt;
use crate::show::print::{print_json, say};
use hotcc::trace::{self, Format, Options, Summary};
use hotcc_abi::path::PathKey;
use hotcc_host::error::{Error, Result};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

#[derive(clap::Args)]
pub struct TraceArgs {
    /// The file, which is replaced; its extension, .csv or .parquet, is its format; `-`: stdout, as CSV
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Only connections that use this congestion control
    #[arg(long, value_name = "NAME")]
    cc: Option<String>,
    /// Only connections whose peer is in this prefix
    #[arg(long, value_name = "ADDR[/LEN]")]
    to_prefix: Option<PathKey>,
    /// Of each connection's ACKs, record every Nth
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    every: u32,
    /// End after this time: a number with s, m or h [default: when interrupted]
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    limit: Option<Duration>,
    /// Memory for records that are not yet written, KiB; rounded up to a power of two
    #[arg(long, value_name = "KIB", default_value_t = 16_384, value_parser = clap::value_parser!(u32).range(4..=1_048_576))]
    buffer_kib: u32,
    /// Print the summary as JSON
    #[arg(long)]
    json: bool,
}

impl TraceArgs {
    pub fn run(self) -> Result<ExitCode> {
        let Self { out, cc, to_prefix, every, limit, buffer_kib, json } = self;
        let to_stdout = out == Path::new("-");
        if to_stdout && json {
            return Err(Error::usage("--json prints the summary on stdout, where the trace goes; name a file"));
        }
        let format = if to_stdout { Some(Format::Csv) } else { Format::of(&out) };
        let wrong =
            || Error::usage(format!("{}: expected a name that ends with .csv or .parquet, or `-`", out.display()));
        let format = format.ok_or_else(wrong)?;
        let options = Options {
            file: (!to_stdout).then(|| out.clone()),
            format,
            cc,
            to_prefix,
            every,
            limit,
            ring_bytes: buffer_kib * 1024,
        };
        let stop = interrupt::requested()?;
        let shows_progress = std::io::stderr().is_terminal();
        let mut begun = false;
        let summary = trace::trace(&options, &stop, |so_far| {
            if !begun {
                eprintln!("recording; Ctrl-C ends it");
                begun = true;
            } else if shows_progress {
                eprint!("\r{}", line(so_far));
            }
        })?;
        if shows_progress {
            eprintln!();
        }
        if summary.dropped > 0 {
            eprintln!(
                "hotcc: the file lacks ACKs that came faster than they were written: use --every, --cc or --to-prefix"
            );
        }
        match (json, to_stdout) {
            (true, _) => print_json(&summary)?,
            (false, true) => eprintln!("{}", line(&summary)),
            (false, false) => say!("{}: {}", out.display(), line(&summary)),
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn line(summary: &Summary) -> String {
    let Summary { acks, connections, dropped, duration_s } = summary;
    let plural = if *connections == 1 { "" } else { "s" };
    format!("{acks} ACKs of {connections} connection{plural} in {duration_s:.1} s, {dropped} lost")
}
