//! `hotcc advise`: says which congestion control to try for the open connections. Changes nothing.

use crate::canary::duration;
use crate::interrupt;
use crate::show;
use hotcc::advise::{Options, look, rules::DEFAULT_MIN_BYTES};
use hotcc_abi::path::PathKey;
use hotcc_host::error::Result;
use std::io::IsTerminal;
use std::time::Duration;

#[derive(clap::Args)]
pub struct AdviseArgs {
    /// How long to look: a number with s, m or h; Ctrl-C ends it earlier
    #[arg(long = "for", value_name = "TIME", default_value = "60s", value_parser = duration)]
    limit: Duration,
    /// Time between looks, seconds, 0.1 to 3600; longer if looks would otherwise take over 4 % of a core
    #[arg(long, value_name = "SECONDS", default_value = "0.5", value_parser = crate::top::seconds)]
    every: Duration,
    /// Give no advice for connections that together move less than this
    #[arg(long, value_name = "BYTES", default_value_t = DEFAULT_MIN_BYTES)]
    min_bytes: u64,
    /// Only connections whose peer is in this prefix
    #[arg(long, value_name = "ADDR[/LEN]")]
    to_prefix: Option<PathKey>,
    /// Only connections with this local or remote port
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// Show no progress on stderr
    #[arg(long)]
    quiet: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl AdviseArgs {
    pub fn run(self) -> Result<()> {
        let Self { limit, every, min_bytes, to_prefix, port, quiet, json } = self;
        let stop = interrupt::requested()?;
        let is_terminal = std::io::stderr().is_terminal();
        let mut begun = false;
        let options = Options { limit, every, min_bytes, to_prefix, port };
        let report = look(&options, &stop, |so_far, connections| {
            let (now, all) = (so_far.as_secs(), limit.as_secs());
            if !quiet && is_terminal {
                eprint!("\r{now} of {all} s, {connections} connections; Ctrl-C ends it ");
            } else if !quiet && !begun {
                eprintln!("looking at open connections for {all} s");
            }
            begun = true;
        })?;
        if !quiet && is_terminal {
            eprintln!();
        }
        if json {
            show::print::print_json(&report)?
        } else {
            show::advise::report(&report, port)
        }
        Ok(())
    }
}
