//! Arguments of the command.

use clap::{Args, Parser, Subcommand};
use hotcc_abi::pins;
use pep_agent::border::config::BorderArgs;
use pep_agent::server::config::ServerArgs;
use std::path::PathBuf;

/// The ACKing border PEP: report to TCP senders which of their segments reached the border of the access network
///
/// The border's agent observes flows and reports them; the server's agent gives the reports to congestion control.
#[derive(Debug, Parser)]
#[command(name = "pep-agent", version, arg_required_else_help = true, after_help = AFTER_HELP)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const AFTER_HELP: &str = "\
Examples:
  pep-agent border --internet eth0 --access ogstun --server 192.0.2.0/24 --dry-run
  pep-agent server --key-file /etc/hotcc/pep.keys
  pep-agent help border

Exit codes: 0 success, 1 failure, 2 usage error, 3 missing kernel feature, 4 permission denied.
RUST_LOG sets the log level: error, warn, info (the default), debug, trace.";

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Observe the flows that pass this router and report them to their senders, until SIGTERM or SIGINT
    Border(Border),
    /// Receive borders' reports of this host's flows and give them to congestion control, until SIGTERM or SIGINT
    Server(Server),
    /// Print a completion script
    Completions(hotcc_manual::Completions),
    /// Write the manual pages
    #[command(hide = true)]
    Man(hotcc_manual::Man),
}

const BORDER_EXAMPLES: &str = "\
Examples:
  # Write reports to stdout instead of sending them
  pep-agent border --internet eth0 --access ogstun --server 192.0.2.0/24 --server 2001:db8::/32 \\
      --dry-run
  # Send reports to the servers as UDP datagrams
  pep-agent border --internet eth0 --access ogstun --server 192.0.2.0/24 \\
      --key-file /etc/hotcc/pep.keys
  # Send reports within the flows, on a router that translates addresses: its firewall needs a rule, see docs/guide/pep.md
  pep-agent border --internet eth0 --access lan0 --server 192.0.2.0/24 \\
      --key-file /etc/hotcc/pep.keys --nat --transport inband
  # Read options from a file, and override one
  pep-agent border --config /etc/hotcc/border.toml --segments 4

Packets pass immediately and unchanged, whatever happens to this program.";

/// Arguments of `border`.
#[derive(Debug, Args)]
#[command(after_help = BORDER_EXAMPLES)]
pub struct Border {
    /// TOML file with any of the options below, with `_` for `-`; command-line options override it
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    #[command(flatten)]
    pub options: BorderArgs,
    /// Send nothing; write the reports to stdout
    #[arg(long)]
    pub dry_run: bool,
    /// Where programs and maps are pinned.
    #[arg(long, hide = true, default_value = pins::PEP_BORDER)]
    pub pins: PathBuf,
}

const SERVER_EXAMPLES: &str = "\
Examples:
  # Receive reports as UDP datagrams on port 4713
  pep-agent server --key-file /etc/hotcc/pep.keys
  # Also take in-band reports from eth0
  pep-agent server --key-file /etc/hotcc/pep.keys --inband eth0
  # Read options from a file, and run 5% of the flows without the PEP, for comparison
  pep-agent server --config /etc/hotcc/pep-server.toml --control-share 5%
  # Show what the border saw of each flow, and how mdcubic uses it
  hotcc flows --cc mdcubic

Without valid reports, flows run as if there were no PEP.";

/// Arguments of `server`.
#[derive(Debug, Args)]
#[command(after_help = SERVER_EXAMPLES)]
pub struct Server {
    /// TOML file with any of the options below, with `_` for `-`; command-line options override it
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    #[command(flatten)]
    pub options: ServerArgs,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn arguments_are_consistent() {
        Cli::command().debug_assert();
    }
}
