//! `run`: takes the links, then publishes each reading when it is due.

use crate::cli::{RunArgs, Source};
use anyhow::{Context, bail};
use hotcc_abi::clock::monotonic_ms32;
use hotcc_abi::radio::{IndexKey, SOURCE_TRACE};
use sinr_feeder::map::{LinkOptions, LinkWriter, MapError, RadioMap};
use sinr_feeder::replay::{Replay, ReplayOptions, Step, default_max_age_ms};
use sinr_feeder::trace::Trace;
use std::io::IsTerminal;
use std::path::Path;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;
use tracing::{info, warn};

pub fn run(args: &RunArgs, pin_root: &Path, verbose: bool) -> anyhow::Result<()> {
    if let Some((i, link)) = args.links.iter().enumerate().find(|(i, link)| args.links[..*i].contains(link)) {
        bail!("cannot feed {link} twice: --link number {} repeats an earlier one; leave it out", i + 1);
    }
    // The trace first: a malformed one must leave nothing behind in the map.
    let Source::Trace(file) = &args.source;
    let trace = Trace::load(file)?;
    if trace.samples().iter().all(|sample| sample.sinr_db.is_none()) {
        warn!("{} holds no SINR: algorithms will find no reading, and do without", file.display());
    }
    let period = trace.period().map(|p| p.div_f64(args.speed));
    let max_age_ms = args.max_age_ms.unwrap_or_else(|| default_max_age_ms(period));
    if period.is_some_and(|p| p.as_millis() > max_age_ms.into()) {
        warn!("readings come less often than the maximum age of {max_age_ms} ms: links will be stale in between");
    }
    let options = LinkOptions {
        source: SOURCE_TRACE,
        max_age_ms,
        period_ms: period.map_or(0, |p| u32::try_from(p.as_millis()).unwrap_or(u32::MAX)),
        take_over: args.take_over,
    };
    let replay = Replay::new(
        &trace,
        ReplayOptions {
            speed: args.speed,
            repeat: args.repeat,
            hold_over: args.hold_over,
            average_time_constant: args.average_time_constant,
            max_age: Duration::from_millis(max_age_ms.into()),
        },
    );
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the timer and signal handling")?;
    runtime.block_on(async {
        let stop = Stop::new().context("cannot handle SIGTERM and SIGINT")?;
        let mut map = RadioMap::open_or_create(pin_root)?;
        let writers = take_links(&mut map, &args.links, &options)?;
        let mut progress = Progress::new(args.quiet, verbose);
        let outcome = publish(replay, &writers, stop, &mut progress).await;
        progress.finish();
        drop(writers);
        let removed = if args.remove_on_exit { remove(&mut map, &args.links) } else { Ok(()) };
        outcome.and(removed.map_err(Into::into))
    })
}

/// All links or none: those that were new are taken out again when one cannot be had.
fn take_links(map: &mut RadioMap, links: &[IndexKey], options: &LinkOptions) -> Result<Vec<LinkWriter>, MapError> {
    let mut writers: Vec<LinkWriter> = Vec::new();
    for link in links {
        match map.take_link(*link, options) {
            Ok(writer) => {
                let found = if writer.is_new() { "new" } else { "found again" };
                info!(%link, slot = writer.slot(), max_age_ms = options.max_age_ms, "{found}");
                writers.push(writer);
            }
            Err(e) => {
                for writer in writers.iter().filter(|w| w.is_new()) {
                    if let Err(e) = map.remove_link(writer.key(), false) {
                        warn!("{e}");
                    }
                }
                return Err(e);
            }
        }
    }
    Ok(writers)
}

/// Removes what it can, and returns the first failure.
fn remove(map: &mut RadioMap, links: &[IndexKey]) -> Result<(), MapError> {
    links.iter().map(|link| map.remove_link(*link, false)).fold(Ok(()), Result::and)
}

async fn publish(
    replay: Replay<'_>,
    writers: &[LinkWriter],
    mut stop: Stop,
    progress: &mut Progress,
) -> anyhow::Result<()> {
    let start = Instant::now();
    for step in replay {
        tokio::select! {
            biased;
            name = stop.requested() => {
                info!("stopped by {name}");
                break;
            }
            () = tokio::time::sleep_until(start + step.at) => {}
        }
        let now_ms = monotonic_ms32();
        for writer in writers {
            writer.publish(&step.reading, now_ms)?;
        }
        progress.show(&step);
    }
    Ok(())
}

struct Stop {
    terminate: Signal,
    interrupt: Signal,
}

impl Stop {
    fn new() -> std::io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn requested(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

/// A line on stderr, at most once a second.
struct Progress {
    wanted: bool,
    terminal: bool,
    shown: Option<Instant>,
    published: u64,
}

impl Progress {
    fn new(quiet: bool, verbose: bool) -> Self {
        let terminal = std::io::stderr().is_terminal();
        Self { wanted: !quiet && (terminal || verbose), terminal, shown: None, published: 0 }
    }

    fn show(&mut self, step: &Step) {
        self.published += 1;
        if !self.wanted || self.shown.is_some_and(|t| t.elapsed() < Duration::from_secs(1)) {
            return;
        }
        self.shown = Some(Instant::now());
        let sinr = step.reading.sinr_db.map_or("no SINR".to_owned(), |db| format!("SINR {db:.1} dB"));
        let average = step.reading.average_db.map_or(String::new(), |db| format!(", average {db:.1} dB"));
        let held = if step.held { " (held over)" } else { "" };
        let line = format!("{:.1} s: {} readings, {sinr}{held}{average}", step.at.as_secs_f64(), self.published);
        if self.terminal {
            eprint!("\r\x1b[K{line}");
        } else {
            eprintln!("{line}");
        }
    }

    fn finish(&self) {
        if self.terminal && self.shown.is_some() {
            eprintln!();
        }
    }
}
