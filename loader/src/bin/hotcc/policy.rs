//! `hotcc policy`: applies, tests and shows rules, and what their connections did.

use crate::{help, show};
use clap::Subcommand;
use hotcc::{declared, policy};
use hotcc_host::error::Result;
use std::net::SocketAddr;
use std::path::PathBuf;

#[derive(Subcommand)]
pub enum Command {
    /// Make the kernel follow the file, as `hotcc apply` does; with --live, open sockets follow the rules too
    #[command(after_help = help::POLICY_APPLY_HELP)]
    Apply {
        /// The file
        #[arg(default_value = declared::FILE)]
        file: PathBuf,
        /// Also give open sockets the congestion control of the first rule that matches
        #[arg(long)]
        live: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show which rule a flow would get, and why the rules before it do not match
    #[command(after_help = help::POLICY_TEST_HELP)]
    Test(TestArgs),
    /// Show the rules that apply, in order, with their counters
    Show {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show what the connections of each rule did: goodput, RTT, retransmissions
    #[command(after_help = help::POLICY_STATS_HELP)]
    Stats {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(clap::Args)]
pub struct TestArgs {
    /// Local address and port
    #[arg(value_name = "LOCAL:PORT")]
    local: SocketAddr,
    /// Address and port of the peer [default: none, the socket listens]
    #[arg(value_name = "REMOTE:PORT")]
    remote: Option<SocketAddr>,
    /// Cgroup (v2) of the socket [default: the root]
    #[arg(long, value_name = "PATH")]
    cgroup: Option<PathBuf>,
    /// Network namespace: a name from `ip netns`, or a path [default: the command's own]
    #[arg(long, value_name = "NAME|PATH")]
    netns: Option<String>,
    /// User that opens the connection [default: not known]
    #[arg(long, value_name = "NUMBER")]
    uid: Option<u32>,
    /// Interface of the route [default: not known]
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
    /// Average SINR of the radio link to the peer [default: not known]
    #[arg(long, value_name = "DB", allow_negative_numbers = true)]
    signal: Option<f64>,
    /// Test the rules in this file instead of those that apply
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Command {
    pub fn run(self) -> Result<()> {
        match self {
            Self::Apply { file, live, json } => {
                let (difference, moved) = declared::apply_live(&file, live)?;
                show::policy::applied(&difference, moved, json)
            }
            Self::Test(args) => test(args),
            Self::Show { json } => show::policy::show(&policy::show()?, json),
            Self::Stats { json } => show::policy::stats(&policy::stats()?, json),
        }
    }
}

fn test(args: TestArgs) -> Result<()> {
    let TestArgs { local, remote, cgroup, netns, uid, interface, signal: signal_db, file, json } = args;
    let query = policy::FlowQuery { local, remote, cgroup, netns, uid, interface, signal_db };
    let explained = match file {
        Some(file) => declared::explain(&file, &query)?,
        None => policy::explain(&query)?,
    };
    show::policy::explained(&explained, json)
}
