//! `hotcc top`: a live view of connections, algorithms and radio links in the terminal.
//!
//! `sample` reads the kernel, `state` decides what is shown and what a key does, and `draw` draws it. This file connects
//! them with the terminal.

mod draw;
#[cfg(test)]
mod example;
mod sample;
mod state;

use crate::interrupt;
use crate::show::switched::{migrated_lines, migration_warnings, outcome_lines};
use hotcc::live::paced;
use hotcc::ops::{self, Outcome, Tunables, migrate::migrate};
use hotcc::policy::Chosen;
use hotcc_host::error::{Error, Result, Tried};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event};
use sample::Sampler;
use state::{Action, Next, Top};
use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Longest time without a look at whether a signal has arrived.
const SIGNAL_CHECK: Duration = Duration::from_millis(250);
#[derive(clap::Args)]
pub struct TopArgs {
    /// Time between samples, seconds, 0.1 to 3600; longer if samples would otherwise take over 4 % of a core
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    interval: Duration,
}

pub fn seconds(text: &str) -> std::result::Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.1..=3600.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "expected a number of seconds between 0.1 and 3600".to_owned())
}

pub fn top(args: &TopArgs) -> Result<()> {
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        return Err(Error::usage("`hotcc top` needs a terminal; without one, use `hotcc flows --json`"));
    }
    let sampler = Sampler::new()?;
    let ended = interrupt::requested()?;
    // also restores the terminal if the program panics
    let terminal = ratatui::try_init().tried(|| "cannot set up the terminal".to_owned());
    let result = terminal.and_then(|terminal| run(terminal, &sampler, &ended, args.interval));
    ratatui::restore();
    result
}

fn run(mut terminal: DefaultTerminal, sampler: &Sampler, ended: &AtomicBool, interval: Duration) -> Result<()> {
    let failed = || "cannot use the terminal".to_owned();
    let mut top = Top::new(interval);
    let (mut due, mut at_once) = (Instant::now(), true);
    while !ended.load(Relaxed) {
        if at_once || (!top.paused && Instant::now() >= due) {
            let began = Instant::now();
            let (drawn, every) = paced(interval, || {
                match sampler.take(top.view) {
                    Ok(sample) => top.update(sample),
                    Err(error) => top.message = lines(&error),
                }
                terminal.draw(|frame| draw::draw(frame, &top)).map(drop).tried(failed)
            })?;
            drawn?;
            top.every = every;
            (due, at_once) = (began + every, false);
            hotcc::failpoint::panic("top");
        }
        let wait = if top.paused { SIGNAL_CHECK } else { due.saturating_duration_since(Instant::now()) };
        if !event::poll(wait.min(SIGNAL_CHECK)).tried(failed)? {
            continue;
        }
        if let Event::Key(key) = event::read().tried(failed)?
            && key.is_press()
        {
            match top.key(key) {
                Next::Continue => {}
                Next::Sample => at_once = true,
                Next::Do(action) => {
                    top.message = vec!["working".to_owned()];
                    terminal.draw(|frame| draw::draw(frame, &top)).tried(failed)?;
                    top.message = answer(&action);
                    at_once = true;
                }
                Next::Quit => return Ok(()),
            }
        }
        terminal.draw(|frame| draw::draw(frame, &top)).tried(failed)?;
    }
    Ok(())
}

/// Does what the command of the same name does, and returns what it answers.
fn answer(action: &Action) -> Vec<String> {
    let switched = |verb: &str, outcome: Outcome| [outcome_lines(verb, &outcome), outcome.warnings].concat();
    let answer = match action {
        Action::Swap { name, object, live } => {
            let request =
                ops::Request { object: object.clone(), cc_name: None, profile: "default".to_owned(), set: Vec::new() };
            ops::swap_tuned(name, &request, Tunables::FromRequest, *live).map(|done| switched("swapped", done))
        }
        Action::Rollback { name, live } => ops::rollback(name, *live).map(|done| switched("rolled back", done)),
        Action::Migrate { from, to } => migrate(from, to, &[], &Chosen::default(), false)
            .map(|done| [migrated_lines(&done), migration_warnings(&done)].concat()),
    };
    answer.unwrap_or_else(|error| lines(&error))
}

fn lines(error: &Error) -> Vec<String> {
    format!("{error:#}").lines().map(str::to_owned).collect()
}
