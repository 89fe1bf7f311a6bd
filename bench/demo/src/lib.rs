//! The demo: algorithms loaded, fed, tuned and swapped under real traffic, by the real commands, on one machine; or, if
//! that is not possible, by the same code in the lab's virtual machine.
//!
//! Every number that it prints was read from the kernel or from iperf3, and it has checked every claim that it prints.

mod cleanup;
mod difference;
mod in_lab;
mod iperf;
mod path;
mod report;
mod rtt;
mod scrape;
mod tools;
mod unfit;
mod walkthrough;

use anyhow::{Context, Result};
use cleanup::Before;
use hotcc::doctor::{self, Verdict};
use hotcc_testbed::netlab;
use report::Report;
use std::process::ExitCode;
use tools::{Say, Tools};
use unfit::Unfit;

const FAILED: u8 = 1;
const NOT_PERMITTED: u8 = 4;
const INTERRUPTED: u8 = 130;

/// What the user wants.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Options {
    /// Duration of each flow, in seconds; the swapped flow lasts up to twice as long
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u64).range(2..=3600))]
    pub seconds: u64,
    /// Print the final table to stdout as JSON, and everything else to stderr
    #[arg(long)]
    pub json: bool,
    /// Run in the lab, a stock kernel in a virtual machine, without root; the default if this machine cannot run the demo
    #[arg(long)]
    pub lab: bool,
}

/// Runs the demo.
#[must_use]
pub fn run(options: Options) -> ExitCode {
    let say = Say { to_stderr: options.json };
    match run_where_possible(options, say) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(FAILED),
        // the signal may also have interrupted a command that was starting, in which case that failure is reported
        // first
        Err(_) if netlab::check().is_err() => ExitCode::from(INTERRUPTED),
        Err(error) => {
            eprintln!("hotcc-demo: {error:#}");
            ExitCode::from(error.downcast_ref::<Unfit>().map_or(FAILED, |unfit| unfit.code))
        }
    }
}

fn run_where_possible(options: Options, say: Say) -> Result<bool> {
    if options.lab {
        return in_lab::run(&options, say, None);
    }
    match check_machine() {
        None => {
            check_programs()?;
            play_here(&options, say)
        }
        Some(unfit) => in_lab::run(&options, say, Some(unfit)),
    }
}

fn play_here(options: &Options, say: Say) -> Result<bool> {
    let tools = Tools::new(say)?;
    let before = Before::look()?;
    netlab::catch_interrupts()?;
    let mut report = Report { kernel: doctor::report().kernel, ..Report::default() };
    let outcome = walkthrough::run(options.seconds, &tools, &mut report); // even if it fails, everything is removed
    say.line("");
    match &outcome {
        Ok(()) => say.part(&report.text()),
        Err(error) => say.line(format!("stopped early: {error:#}")),
    }
    let gone = before.remove_first_use().and_then(|()| before.check_all_gone());
    match &gone {
        Ok(()) => say.line("cleaned up: no namespace, algorithm, pin, radio link or process of the demo remains"),
        Err(error) => say.line(format!("NOT CLEAN: {error:#}")),
    }
    outcome?;
    if options.json {
        println!("{}", serde_json::to_string_pretty(&report).context("cannot write JSON")?);
    }
    Ok(report.all_hold() && gone.is_ok())
}

/// Returns why this machine cannot run the demo, if it cannot.
fn check_machine() -> Option<Unfit> {
    if !nix::unistd::geteuid().is_root() {
        let why = "loading BPF programs and creating network namespaces needs root; run the demo with sudo".to_owned();
        return Some(Unfit { code: NOT_PERMITTED, why });
    }
    let report = doctor::report();
    let missing = report.findings.iter().find(|f| f.verdict == Verdict::Missing)?;
    let cure = if missing.cure.is_empty() { String::new() } else { format!("; try: {}", missing.cure) };
    Some(Unfit::kernel(format!("{}: {} ({}){cure}", missing.what, missing.found, missing.without)))
}

fn check_programs() -> Result<()> {
    for (program, version) in [("ip", "-V"), ("tc", "-V"), ("iperf3", "-v")] {
        netlab::output(netlab::quiet(program).arg(version))
            .with_context(|| format!("cannot run {program}; install it with ./setup.sh"))?;
    }
    Ok(())
}
