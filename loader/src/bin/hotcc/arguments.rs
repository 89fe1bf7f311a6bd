//! The arguments of the `hotcc` command.

use crate::{advise, canary, flows, help, policy, top, trace};
use clap::{Parser, Subcommand};
use hotcc::{declared, exporter, ops, rx};
use hotcc_abi::path::PathKey;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

/// Load, tune, swap and watch TCP congestion controls written in BPF, without rebuilding the kernel.
///
/// All state is in the kernel (pinned below /sys/fs/bpf/hotcc); no daemon needs to run. Exit codes: 0 done, 1 failed
/// (nothing changed, or the message says what did), 2 usage error, 3 the kernel lacks a feature (see `hotcc doctor`), 4
/// not permitted, 5 a difference (`hotcc diff`).
#[derive(Parser)]
#[command(name = "hotcc", version, after_help = help::EXAMPLES)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

/// Port of `hotcc exporter`.
const DEFAULT_PORT: u16 = 9717;
#[derive(Subcommand)]
pub enum Command {
    /// List the built-in algorithms, or describe one: summary, signals, paper, tunables
    #[command(after_help = help::LIST_HELP)]
    List {
        /// Show only this one, with its tunables and per-flow state
        #[arg(value_name = "NAME|PATH")]
        object: Option<String>,
        /// Show the tunables and per-flow state of all built-in algorithms
        #[arg(long, conflicts_with = "object")]
        all: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Load an algorithm and register it as a congestion control
    #[command(after_help = help::LOAD_HELP)]
    Load(LoadArgs),
    /// Unregister a congestion control; open connections keep it until they close
    #[command(after_help = help::UNLOAD_HELP)]
    Unload {
        /// Congestion control
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        name: Option<String>,
        /// Unload all algorithms and receivers, and remove the policy rules; if a step fails, undo the others
        #[arg(long, conflicts_with = "fallback")]
        all: bool,
        /// New default of network namespaces whose default was NAME [default: what it was
        /// when NAME was loaded; if that is refused: cubic, else reno]
        #[arg(long, value_name = "CC")]
        fallback: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Replace the program behind a name; if the new one fails to load, the old one continues to serve
    #[command(after_help = help::SWAP_HELP)]
    Swap {
        /// Congestion control to replace
        name: String,
        #[command(flatten)]
        new: ObjectArgs,
        /// Move open connections too; otherwise they keep the old version until they close
        #[arg(long)]
        live: bool,
        /// Keep the current values of tunables that the new version has too, if they are within its range; --set takes
        /// precedence
        #[arg(long)]
        keep_tunables: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Undo the last swap; a second rollback redoes it
    #[command(after_help = help::ROLLBACK_HELP)]
    Rollback {
        /// Congestion control
        name: String,
        /// Move open connections too
        #[arg(long)]
        live: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Move open connections from one congestion control to another; loads, swaps and unloads nothing
    #[command(after_help = help::MIGRATE_HELP)]
    Migrate {
        /// Congestion control that the sockets use now; may be one of the kernel's own
        from: String,
        /// Registered congestion control to move them to; may be one of the kernel's own
        to: String,
        /// Only in this network namespace: a name from `ip netns`, or a path; may be repeated [default: all]
        #[arg(long, value_name = "NAME|PATH")]
        netns: Vec<String>,
        #[command(flatten)]
        chosen: hotcc::policy::Chosen,
        /// Only count the sockets that would move, and those that would not, by reason
        #[arg(long)]
        dry_run: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show open connections, with their algorithm's own state
    #[command(after_help = help::FLOWS_HELP)]
    Flows(flows::FlowsArgs),
    /// Watch connections, algorithms and radio links in the terminal, and change algorithms there
    #[command(after_help = help::TOP_HELP)]
    Top(top::TopArgs),
    /// Look at the open connections for a minute, and say which congestion control to try and why; changes nothing
    #[command(after_help = help::ADVISE_HELP)]
    Advise(advise::AdviseArgs),
    /// Write what each ACK found to a file: windows, RTTs, rates, losses of each connection
    #[command(after_help = help::TRACE_HELP)]
    Trace(trace::TraceArgs),
    /// Show a loaded algorithm's tunables and their current values
    #[command(after_help = help::GET_HELP)]
    Get {
        /// Congestion control
        name: String,
        /// Print only the value of this tunable
        tunable: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Set tunables of a running algorithm; if one value is invalid, set none
    #[command(after_help = help::SET_HELP)]
    Set {
        /// Congestion control
        name: String,
        /// Tunables and their new values
        #[arg(required = true, value_name = "TUNABLE=VALUE")]
        assignments: Vec<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the registered algorithms: the object that serves each, since when, and how many sockets use it
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Make the kernel follow a file that declares algorithms, defaults, policy rules and receivers
    #[command(after_help = help::APPLY_HELP)]
    Apply {
        /// The file
        #[arg(default_value = declared::FILE)]
        file: PathBuf,
        /// Only print what would be done
        #[arg(long)]
        dry_run: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Compare the kernel with a file that declares algorithms, defaults, policy rules and receivers; exits with 5 if
    /// they differ
    #[command(after_help = help::DIFF_HELP)]
    Diff {
        /// The file
        #[arg(default_value = declared::FILE)]
        file: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Write the file that declares what hotcc has loaded now
    #[command(after_help = help::SAVE_HELP)]
    Save {
        /// The file; it is replaced
        #[arg(default_value = declared::FILE)]
        file: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Check this machine's kernel and privileges
    Doctor {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print what a report of a problem should contain, as JSON: versions, doctor, status, differences, logs; no secrets
    #[command(after_help = help::REPORT_HELP)]
    Report,
    /// Run a command under a congestion control, loading it for the duration if necessary
    #[command(after_help = help::RUN_HELP)]
    Run {
        /// Congestion control: a registered or built-in name, or the path of a .bpf.o
        #[arg(long, value_name = "NAME|PATH")]
        cc: String,
        /// Set of tunable values to start from: default or paper [default: the current values if the algorithm
        /// is loaded, else default]
        #[arg(long)]
        profile: Option<String>,
        /// Tunable to set before loading, in addition to the profile; may be repeated
        #[arg(long = "set", value_name = "TUNABLE=VALUE")]
        set: Vec<String>,
        /// The command and its arguments
        #[arg(required = true, last = true)]
        command: Vec<String>,
    },
    /// Notify flows when the route to their destination changes
    #[command(after_help = help::PATHS_HELP)]
    Paths {
        #[command(subcommand)]
        command: PathsCommand,
    },
    /// Show and test the rules that choose a congestion control for a socket; `hotcc apply` sets them
    #[command(after_help = help::POLICY_HELP)]
    Policy {
        #[command(subcommand)]
        command: policy::Command,
    },
    /// Give a share of new connections another congestion control; compare them, then promote it or roll it back
    #[command(after_help = help::CANARY_HELP)]
    Canary {
        #[command(subcommand)]
        command: canary::Command,
    },
    /// Slow down senders from the receiver's side, before they fill the path's queue
    #[command(after_help = help::RX_HELP)]
    Rx {
        #[command(subcommand)]
        command: RxCommand,
    },
    /// Serve Prometheus metrics, and a page with a live view
    #[command(after_help = help::EXPORTER_HELP)]
    Exporter {
        /// Address to listen on; a port alone: on 127.0.0.1; an IP address alone: port 9717
        #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9717", value_parser = listen_address)]
        listen: SocketAddr,
        /// Maximum number of radio links to export, and to show on the page
        #[arg(long, default_value_t = 256)]
        max_links: usize,
        /// When to serve a page with a live view at `/`; it shows the addresses of connections, which the metrics do not
        #[arg(long, value_name = "WHEN", default_value = "loopback")]
        page: exporter::PageOn,
    },
    /// Print a completion script
    #[command(after_help = "Example:\n  hotcc completions bash > /etc/bash_completion.d/hotcc")]
    Completions(hotcc_manual::Completions),
    /// Write the manual pages
    #[command(hide = true)]
    Man(hotcc_manual::Man),
}

#[derive(Subcommand)]
pub enum PathsCommand {
    /// Watch the kernel's routes and notify flows whose route changes, until interrupted
    #[command(after_help = help::PATHS_WATCH_HELP)]
    Watch {
        /// Watch this network namespace: a name from `ip netns`, or a path [default: the command's own]
        #[arg(long, value_name = "NAME|PATH")]
        netns: Option<String>,
        /// Print JSON, one line per change
        #[arg(long)]
        json: bool,
    },
    /// Show the destinations whose path has changed, and unchanged ones within them
    Show {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Report a path change to all flows to a destination
    Bump {
        /// Address, or prefix: all destinations in it
        prefix: PathKey,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Subcommand)]
pub enum RxCommand {
    /// Load a receiver; it applies to connections that are opened afterwards
    #[command(after_help = help::RX_LOAD_HELP)]
    Load {
        /// Receiver method
        method: rx::Method,
        /// Only for sockets of processes in this cgroup (v2) and below it [default: all processes]
        #[arg(long, value_name = "PATH")]
        cgroup: Option<PathBuf>,
        /// Set of tunable values to start from: default (recommended) or paper (as published)
        #[arg(long, default_value = "default")]
        profile: String,
        /// Tunable to set before loading, in addition to the profile; may be repeated
        #[arg(long = "set", value_name = "TUNABLE=VALUE")]
        set: Vec<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Unload a receiver; open connections continue without it
    Unload {
        /// Receiver method
        method: rx::Method,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the loaded receivers and their counters
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// `IP:PORT`, `HOST:PORT`, `IP`, `:PORT` or `PORT`.
fn listen_address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = text.strip_prefix(':').unwrap_or(text).parse() {
        return Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    }
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    if let Ok(address) = bare.parse::<IpAddr>() {
        return Ok(SocketAddr::from((address, DEFAULT_PORT)));
    }
    let forms = "expected IP:PORT (IPv6: [IP]:PORT), HOST:PORT, IP, :PORT or PORT";
    let addresses: Vec<SocketAddr> = text.to_socket_addrs().map_err(|why| format!("{why}; {forms}"))?.collect();
    let first = addresses.iter().find(|address| address.is_ipv4()).or(addresses.first());
    first.copied().ok_or_else(|| format!("the host has no address; {forms}"))
}

#[derive(clap::Args)]
pub struct ObjectArgs {
    /// Built-in name, or the path of a .bpf.o; PATH:NAME if the file has several congestion controls
    #[arg(value_name = "NAME|PATH")]
    object: String,
    /// Set of tunable values to start from: default (recommended) or paper (as published)
    #[arg(long, default_value = "default")]
    profile: String,
    /// Tunable to set before loading, in addition to the profile; may be repeated
    #[arg(long = "set", value_name = "TUNABLE=VALUE")]
    set: Vec<String>,
}

#[derive(clap::Args)]
pub struct LoadArgs {
    #[command(flatten)]
    pub object: ObjectArgs,
    /// Register under this name: at most 15 letters, digits, `_` and `.` [default: the object's own name]
    #[arg(long = "as", value_name = "CCNAME")]
    pub cc_name: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

impl ObjectArgs {
    pub fn request(self, cc_name: Option<String>) -> ops::Request {
        ops::Request { object: self.object, cc_name, profile: self.profile, set: self.set }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn arguments_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn addresses_to_listen_on() {
        for (text, address) in [
            ("127.0.0.1:9718", "127.0.0.1:9718"),
            ("0.0.0.0:0", "0.0.0.0:0"),
            ("[::1]:9718", "[::1]:9718"),
            (":9718", "127.0.0.1:9718"),
            ("9718", "127.0.0.1:9718"),
            ("192.0.2.1", "192.0.2.1:9717"),
            ("::1", "[::1]:9717"),
            ("[::1]", "[::1]:9717"),
            ("localhost:9718", "127.0.0.1:9718"),
        ] {
            assert_eq!(listen_address(text), Ok(address.parse().unwrap()), "{text}");
        }
        for text in ["", ":", "localhost", "127.0.0.1:65536", "70000"] {
            let said = listen_address(text).unwrap_err();
            assert!(said.contains("expected IP:PORT"), "{text}: {said}");
        }
    }
}
