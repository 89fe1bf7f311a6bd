//! The `hotcc` command.

use arguments::{Cli, Command, PathsCommand, RxCommand};
use clap::{CommandFactory, Parser};
use hotcc::ops::{self, Tunables, migrate, run, tune};
use hotcc::{declared, doctor, exporter, paths, report, rx, status};
use hotcc_host::error::{Result, Tried};
use hotcc_host::printable::printable;
use std::io::IsTerminal;
use std::process::ExitCode;
use tracing_subscriber::EnvFilter;

mod advise;
mod arguments;
mod canary;
mod flows;
mod help;
mod interrupt;
mod policy;
mod show;
mod top;
mod trace;

/// Exit code of `hotcc diff` if the kernel is not as declared.
const DIFFERENT: u8 = 5;

fn main() -> ExitCode {
    hotcc_host::stdout::run("hotcc", run)
}

fn run() -> ExitCode {
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn")))
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .without_time()
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
        let (bytes, rtt_us) = (traffic.acked_bytes as f64, traffic.srtt_us_bytes as f64 / traffic.acked_bytes as f64);
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
