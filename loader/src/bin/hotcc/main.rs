//! The `hotcc` command.

use clap::{CommandFactory, Parser, Subcommand};
use hotcc::ops::{self, Tunables, migrate, run, tune};
use hotcc::{declared, doctor, exporter, paths, report, rx, status};
use hotcc_abi::path::PathKey;
use hotcc_host::error::{Result, Tried};
use hotcc_host::printable::printable;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::process::ExitCode;

mod advise;
mod canary;
mod flows;
mod help;
mod interrupt;
mod policy;
mod show;
mod top;
mod trace;

/// Load, tune, swap and watch TCP congestion controls written in BPF, without rebuilding the kernel.
///
/// All state is in the kernel (pinned below /sys/fs/bpf/hotcc); no daemon needs to run. Exit codes: 0 done, 1 failed
/// (nothing changed), 2 usage error, 3 the kernel lacks a feature (see `hotcc doctor`), 4 not permitted, 5 a difference
/// (`hotcc diff`).
#[derive(Parser)]
#[command(name = "hotcc", version, after_help = help::EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// Port of `hotcc exporter`.
const DEFAULT_PORT: u16 = 9717;
/// Exit code of `hotcc diff` if the kernel is not as declared.
const DIFFERENT: u8 = 5;

#[derive(Subcommand)]
enum Command {
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
        /// Unload all algorithms and receivers; if one cannot be unloaded, load the others again
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
    /// Make the kernel follow a file that declares algorithms, defaults and receivers
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
    /// Compare the kernel with a file that declares algorithms, defaults and receivers; exits with 5 if they differ
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
        /// Address to listen on; without a host, 127.0.0.1; without a port, 9717
        #[arg(long, value_name = "[HOST:]PORT", default_value = "127.0.0.1:9717", value_parser = listen_address)]
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
enum PathsCommand {
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
    /// Show the destinations whose path has changed
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
enum RxCommand {
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
fn listen_address(text: &str) -> std::result::Result<SocketAddr, String> {
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
struct ObjectArgs {
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
struct LoadArgs {
    #[command(flatten)]
    object: ObjectArgs,
    /// Register under this name: at most 15 letters, digits, `_` and `.` [default: the object's own name]
    #[arg(long = "as", value_name = "CCNAME")]
    cc_name: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl ObjectArgs {
    fn request(self, cc_name: Option<String>) -> ops::Request {
        ops::Request { object: self.object, cc_name, profile: self.profile, set: self.set }
    }
}

fn main() -> ExitCode {
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(std::io::stderr)
        .init();
    let command = Cli::parse().command;
    libbpf_rs::set_print(None); // our errors quote libbpf's messages where they help
    if !matches!(command, Command::Exporter { .. } | Command::Run { .. } | Command::Canary { .. }) {
        hotcc::sys::end_quietly_on_closed_pipe();
    }
    match dispatch(command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("hotcc: {}", printable(&format!("{error:#}")));
            ExitCode::from(error.exit_code())
        }
    }
}

fn dispatch(command: Command) -> Result<ExitCode> {
    match command {
        Command::List { object, all, json } => show::list::list(object.as_deref(), all, json)?,
        Command::Load(args) => {
            let outcome = ops::load(&args.object.request(args.cc_name))?;
            show::switched::outcome("loaded", &outcome, args.json)?;
        }
        Command::Unload { name: Some(name), fallback, json, .. } => {
            show::switched::unloaded(&ops::unload(&name, fallback.as_deref())?, json)?;
        }
        Command::Unload { name: None, json, .. } => show::declared::emptied(&declared::unload_all()?, json)?,
        Command::Swap { name, new, live, keep_tunables, json } => {
            let tunables = if keep_tunables { Tunables::Kept } else { Tunables::FromRequest };
            let outcome = ops::swap_tuned(&name, &new.request(None), tunables, live)?;
            show::switched::outcome("swapped", &outcome, json)?;
        }
        Command::Rollback { name, live, json } => {
            show::switched::outcome("rolled back", &ops::rollback(&name, live)?, json)?;
        }
        Command::Migrate { from, to, netns, chosen, dry_run, json } => {
            show::switched::migrated(&migrate::migrate(&from, &to, &netns, &chosen, dry_run)?, json)?;
        }
        Command::Flows(args) => flows::flows(&args)?,
        Command::Advise(args) => args.run()?,
        Command::Trace(args) => return args.run(),
        Command::Top(args) => top::top(&args)?,
        Command::Get { name, tunable, json } => show::tunables::values(&tune::get(&name)?, tunable.as_deref(), json)?,
        Command::Set { name, assignments, json } => {
            show::tunables::set(&name, &assignments, &tune::set(&name, &assignments)?, json)?;
        }
        Command::Status { json } => show::status::status(&status::status()?, json)?,
        Command::Apply { file, dry_run, json } => {
            let difference = if dry_run { declared::diff(&file)? } else { declared::apply(&file)? };
            show::declared::difference(&difference, json)?;
        }
        Command::Diff { file, json } => {
            let difference = declared::diff(&file)?;
            show::declared::difference(&difference, json)?;
            if !difference.steps.is_empty() {
                return Ok(ExitCode::from(DIFFERENT));
            }
        }
        Command::Save { file, json } => show::declared::saved(&declared::save(&file)?, json)?,
        Command::Doctor { json } => {
            let report = doctor::report();
            show::doctor::doctor(&report, json)?;
            return Ok(ExitCode::from(report.exit_code()));
        }
        Command::Report => show::print::print_json(&report::report())?,
        Command::Run { cc, profile, set, command } => {
            return run_command(&run::Choice { cc, profile, set }, &command);
        }
        Command::Paths { command } => match command {
            PathsCommand::Watch { netns, json } => {
                paths::watch::watch(netns.as_deref(), |news| show::paths::news(&news, json))?;
            }
            PathsCommand::Show { json } => show::paths::known(&paths::maps::paths()?, json)?,
            PathsCommand::Bump { prefix, json } => show::paths::bumped(prefix, &paths::maps::bump(prefix)?, json)?,
        },
        Command::Policy { command } => command.run()?,
        Command::Canary { command } => return command.run(),
        Command::Rx { command } => match command {
            RxCommand::Load { method, cgroup, profile, set, json } => {
                show::rx::changed("loaded", &rx::load(&rx::Request { method, cgroup, profile, set })?, json)?;
            }
            RxCommand::Unload { method, json } => show::rx::changed("unloaded", &rx::unload(method)?, json)?,
            RxCommand::Status { json } => show::rx::status(&rx::status()?, json)?,
        },
        Command::Exporter { listen, max_links, page } => {
            exporter::serve(exporter::Options { listen, max_links, page })?
        }
        Command::Completions(args) => {
            args.print(Cli::command()).tried(|| "cannot print the completion script".to_owned())?;
        }
        Command::Man(args) => args.write(Cli::command()).tried(|| "cannot write the manual pages".to_owned())?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs the command, prints a summary on stderr, and returns the command's exit status (128 plus the signal number if a
/// signal ended it).
fn run_command(choice: &run::Choice, command: &[String]) -> Result<ExitCode> {
    use std::os::unix::process::ExitStatusExt;
    let ran = run::run(choice, command)?;
    show::print::warn(&ran.warnings);
    let loaded = if ran.loaded_for_runs { ", loaded for this run" } else { "" };
    let sockets = |n: u64| if n == 1 { "1 socket".to_owned() } else { format!("{n} sockets") };
    eprintln!("hotcc: {} used {}{loaded}", sockets(ran.sockets), ran.cc);
    let traffic = ran.traffic;
    if traffic.acked_bytes > 0 {
        let seconds = traffic.ended_ns.saturating_sub(traffic.began_ns) as f64 / 1e9;
        let (bytes, rtt_us) = (traffic.acked_bytes as f64, traffic.srtt_us as f64 / traffic.ended as f64);
        eprintln!(
            "hotcc: {:.3} MB acknowledged in {seconds:.2} s, {:.2} Mbit/s; RTT {:.2} ms; {} of {} segments sent again",
            bytes / 1e6,
            bytes * 8e-6 / seconds,
            rtt_us / 1e3,
            traffic.retransmitted_segments,
            traffic.sent_segments,
        );
    }
    if ran.changed > 0 {
        eprintln!("hotcc: {} of {} changed to another congestion control later", ran.changed, sockets(ran.sockets));
    }
    if ran.refused > 0 {
        eprintln!("hotcc: the kernel refused {} for {}", ran.cc, sockets(ran.refused));
    }
    let code = ran.status.code().unwrap_or_else(|| 128 + ran.status.signal().unwrap_or(0));
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

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
