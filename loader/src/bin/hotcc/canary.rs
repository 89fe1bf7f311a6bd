//! `hotcc canary`: starts, shows, promotes and aborts a canary.

use crate::{help, show};
use clap::Subcommand;
use hotcc::canary::{self, Guard, Options, Request, State};
use hotcc_host::error::Result;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

#[derive(Subcommand)]
pub enum Command {
    /// Start a canary, and run until it is promoted (exit code 0), rolled back or aborted (1)
    #[command(after_help = help::CANARY_START_HELP)]
    Start(StartArgs),
    /// Show the latest canary: state, share, expiry, connections
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Give all matching connections the new congestion control now, without waiting for the comparison
    Promote {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// End the canary: new connections get the former congestion control
    Abort {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(clap::Args)]
pub struct StartArgs {
    /// Congestion control that the connections have now
    #[arg(long, value_name = "CC")]
    from: String,
    /// Registered congestion control to try
    #[arg(long, value_name = "CC")]
    to: String,
    /// Share of the new connections in the first step; the next steps are those of 5%, 25% and 100% that are larger
    #[arg(long, value_name = "PERCENT%", default_value = "1%")]
    share: String,
    /// Only connections that meet this condition of policy rules, e.g. port=443; may be repeated with other keys, which
    /// must all hold; `remote` and `local` may also be repeated with other values, one of which must hold
    #[arg(long = "match", value_name = "KEY=VALUE")]
    matches: Vec<String>,
    /// Abort unless the canary is promoted within this time: a number with s, m or h
    #[arg(long = "for", value_name = "TIME", default_value = "30m", value_parser = duration)]
    limit: Duration,
    /// Connections that must have ended in each cohort before a step is decided
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    min_connections: u64,
    /// What must hold to go on, e.g. "rtt_p95 <= 1.1 * control"; may be repeated [default: retransmit_ratio <= 1.2,
    /// rtt_p95 <= 1.1, goodput_p50 >= 0.95]
    #[arg(long = "guard", value_name = "GUARD")]
    guards: Vec<Guard>,
    /// Only print what would be done
    #[arg(long)]
    dry_run: bool,
    /// Print JSON, one line per event
    #[arg(long)]
    json: bool,
    /// The log, one line of JSON per event
    #[arg(long, value_name = "FILE", default_value = canary::LOG)]
    log: PathBuf,
    /// Time after which new connections get the former congestion control if this command is killed
    #[arg(long, value_name = "TIME", hide = true, value_parser = duration)]
    expiry: Option<Duration>,
}

impl Command {
    pub fn run(self) -> Result<ExitCode> {
        match self {
            Self::Start(args) => return start(args),
            Self::Status { json } => show::canary::status(&canary::status()?, json)?,
            Self::Promote { json } => show::canary::promoted(&canary::promote()?, json)?,
            Self::Abort { json } => show::canary::aborted(&canary::abort()?, json)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn start(args: StartArgs) -> Result<ExitCode> {
    let StartArgs { from, to, share, matches, limit, min_connections, mut guards, dry_run, json, log, expiry } = args;
    if guards.is_empty() {
        guards = canary::default_guards();
    }
    let request = Request { from, to, share, matches, limit, min_connections, guards };
    if dry_run {
        show::canary::plan(&canary::dry_run(&request)?, json)?;
        return Ok(ExitCode::SUCCESS);
    }
    let options = Options { request, expiry: expiry.unwrap_or(canary::EXPIRY), log };
    let state = canary::start(&options, |event| show::canary::event(event, json))?;
    Ok(ExitCode::from(u8::from(state != State::Promoted)))
}

/// Parses `90s`, `30m` or `2h`.
pub fn duration(text: &str) -> std::result::Result<Duration, String> {
    let units = [('s', 1), ('m', 60), ('h', 3600)];
    let found = units.iter().find_map(|(unit, seconds)| Some((text.strip_suffix(*unit)?, seconds)));
    let seconds = found.and_then(|(number, seconds)| number.parse::<u32>().ok().map(|n| u64::from(n) * seconds));
    let seconds = seconds.filter(|seconds| *seconds > 0);
    seconds.map(Duration::from_secs).ok_or_else(|| "expected a time like 90s, 30m or 2h".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, seconds) in [("90s", 90), ("30m", 1800), ("2h", 7200)] {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)));
        }
        for text in ["", "s", "0s", "-1s", "30", "1.5h", "1d", "99999999999h"] {
            assert!(duration(text).unwrap_err().contains("30m"), "{text}");
        }
    }
}
