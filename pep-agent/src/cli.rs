//! Arguments of the command, and the file that may have them.

use clap::{Args, Parser, Subcommand};
use hotcc_abi::pins;
use hotcc_host::error::{Kind, Result, Tried};
use pep_agent::border::config::BorderArgs;
use pep_agent::server::config::ServerArgs;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};

/// The ACKing border PEP: tell a TCP sender which of its segments reached the border of the access network.
#[derive(Debug, Parser)]
#[command(name = "pep-agent", version, arg_required_else_help = true, after_help = EXIT_CODES)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const EXIT_CODES: &str = "\
Exit codes: 0 done, 1 failed, 2 wrong arguments, 3 the kernel lacks something, 4 not permitted.";

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Watch the segments that pass this router, and report them to their senders. Runs until SIGTERM or SIGINT.
    Border(Border),
    /// Take what borders report of this host's flows, and hand it to their congestion control. Runs until SIGTERM or SIGINT.
    Server(Server),
}

const BORDER_EXAMPLES: &str = "\
Examples:
  pep-agent border --internet eth0 --access ogstun --server 192.0.2.0/24 --server 2001:db8::/32 --dry-run
  pep-agent border --config /etc/hotcc/border.toml

Packets pass unchanged and at once, whatever happens to this program.";

/// Arguments of `border`.
#[derive(Debug, Args)]
#[command(after_help = BORDER_EXAMPLES)]
pub struct Border {
    /// TOML file with any of the options below; those given here go before it.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    #[command(flatten)]
    pub options: BorderArgs,
    /// Send nothing: write the reports to stdout.
    #[arg(long)]
    pub dry_run: bool,
    /// Where programs and maps are pinned.
    #[arg(long, hide = true, default_value = pins::PEP_BORDER)]
    pub pins: PathBuf,
}

const SERVER_EXAMPLES: &str = "\
Examples:
  pep-agent server --key-file /etc/hotcc/pep.keys
  pep-agent server --config /etc/hotcc/pep-server.toml --control-share 5%
  hotcc flows --cc mdcubic        # what it hands over, and what the flows make of it

Without reports, or where they make no sense, flows run as if there were no PEP.";

/// Arguments of `server`.
#[derive(Debug, Args)]
#[command(after_help = SERVER_EXAMPLES)]
pub struct Server {
    /// TOML file with any of the options below; those given here go before it.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    #[command(flatten)]
    pub options: ServerArgs,
}

/// Reads options from a TOML file.
pub fn read_options<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let text = std::fs::read_to_string(path).tried(|| format!("cannot read {}", path.display()))?;
    let options = toml::from_str(&text).tried(|| path.display().to_string());
    options.map_err(|error| error.as_kind(Kind::Usage))
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
