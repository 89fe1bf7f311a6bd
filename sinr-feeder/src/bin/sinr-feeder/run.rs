//! `run`: opens the sources, takes the links, and publishes until the sources end or a signal stops it.

use crate::cli::RunArgs;
use crate::metrics::FeedPages;
use anyhow::{Context, anyhow, bail};
use hotcc_abi::clock::monotonic_ns;
use hotcc_abi::radio::IndexKey;
use hotcc_channel_model::trace::replay::ReplayOptions;
use hotcc_host::error::Error;
use hotcc_host::service::{self, Stop};
use hotcc_host::{capabilities, metrics_server};
use hotcc_radio_map::{RadioMap, default_max_age_ms};
use sinr_feeder::condition::{Conditioning, Pace};
use sinr_feeder::error::SourceError;
use sinr_feeder::feed::sink::SharedFeed;
use sinr_feeder::feed::{Feed, Plan};
use sinr_feeder::publish::Publisher;
use sinr_feeder::source::Source;
use sinr_feeder::source::spec::Spec;
use std::collections::{BTreeMap, HashSet};
use std::io::IsTerminal;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tracing::{info, warn};

/// How often the feed checks for sources that fell silent.
const TICK: Duration = Duration::from_millis(20);

pub fn run(args: &RunArgs, pin_root: &Path, verbose: bool) -> anyhow::Result<()> {
    let plan = plan(args)?;
    // Open the sources first: an invalid one must leave nothing behind in the map.
    let sources = open_sources(args)?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start the event loop")?;
    runtime.block_on(async {
        let stop = Stop::catch()?;
        let publishers: Vec<Box<dyn Publisher>> =
            args.publish.iter().map(|to| to.publisher()).collect::<Result<_, _>>()?;
        let only_forwards = plan.links.is_empty()
            && plan.within.is_empty()
            && plan.ues.iter().all(|(_, l)| l.is_none())
            && !has_keys(args);
        let map =
            if only_forwards && !publishers.is_empty() { None } else { Some(RadioMap::open_or_create(pin_root)?) };
        let listener = args.listen.map(metrics_server::bind).transpose()?;
        let announcement = announcement(args, map.is_some().then_some(pin_root), &publishers)?;
        let feed = SharedFeed::new(Feed::new(plan, map, publishers)?);
        let mut tasks = JoinSet::new();
        for (name, source) in sources {
            let number = feed.lock().add_source(name, source.kind(), source.pace());
            tasks.spawn(source.run(feed.sink(number)));
        }
        if let Some(listener) = listener {
            tokio::spawn(metrics_server::serve(listener, FeedPages(feed.clone())));
        }
        if !args.quiet {
            eprintln!("{announcement}");
        }
        let outcome = feed_until_done(&feed, tasks, stop, Progress::new(args.quiet, verbose)).await;
        let publishers = feed.lock().take_publishers();
        futures_util::future::join_all(publishers.into_iter().map(Publisher::finish)).await;
        let finished = feed.lock().finish(args.remove_on_exit);
        outcome.and(finished.map_err(Into::into)).and_then(|()| something_was_applied(&feed))
    })
}

/// Returns a line that says what it reads, where it writes, and as which user.
fn announcement(args: &RunArgs, pin_root: Option<&Path>, publishers: &[Box<dyn Publisher>]) -> anyhow::Result<String> {
    let sources: Vec<String> = args.sources.iter().chain(&args.subscribe).map(Spec::name).collect();
    let map = pin_root.map(|root| root.display().to_string());
    let targets: Vec<String> = map.into_iter().chain(publishers.iter().map(|publisher| publisher.name())).collect();
    let (sources, targets) = (sources.join(", "), targets.join(", "));
    Ok(format!("reading {sources}; writing to {targets}; running as {}", capabilities::identity()?))
}

/// Whether a source has keys, which name links.
fn has_keys(args: &RunArgs) -> bool {
    args.sources.iter().any(|source| source.name().starts_with("peer:"))
}

/// Fails if options are missing or contradict each other. This is a usage error only if no file can have caused it.
fn check(args: &RunArgs) -> Result<(), Error> {
    let Err(what) = find_contradiction(args) else { return Ok(()) };
    Err(match &args.config {
        Some(file) => Error::failed(what).during(&format!("invalid options, with those of {}", file.display())),
        None => Error::usage(what),
    })
}

fn find_contradiction(args: &RunArgs) -> Result<(), String> {
    let mut seen = HashSet::new();
    let named = args.ues.iter().filter_map(|(_, link)| *link);
    if let Some(link) = args.links.iter().copied().chain(named).find(|link| !seen.insert(*link)) {
        return Err(format!("cannot feed {link} twice: --link or --ue repeats it; give each link once"));
    }
    let mut names = HashSet::new();
    if let Some((name, _)) = args.ues.iter().find(|(name, _)| !names.insert(name)) {
        return Err(format!("--ue {name} is given twice: give each UE once, with one link"));
    }
    let ues = args.ues.len() + usize::from(args.own_id.is_some());
    if ues > 1 && args.publish.iter().any(|to| to.is_for_one_ue()) {
        let what =
            "a peer takes the readings of one UE, which its key names: run a feeder with its own key for each UE";
        return Err(what.to_owned());
    }
    if args.sources.is_empty() && args.subscribe.is_empty() {
        return Err("nothing to read: give --source or --subscribe, e.g. `--source udp:127.0.0.1:9000`".to_owned());
    }
    if args.links.is_empty()
        && args.ues.is_empty()
        && args.within.is_empty()
        && args.own_id.is_none()
        && !has_keys(args)
    {
        let how = "give --link, --ue or --within, or --publish and --as; e.g. `--link 10.45.0.0/16`";
        return Err(format!("nowhere to put readings: {how}"));
    }
    Ok(())
}

fn plan(args: &RunArgs) -> Result<Plan, Error> {
    check(args)?;
    for link in args.links.iter().chain(args.ues.iter().filter_map(|(_, link)| link.as_ref())) {
        if is_own_address(*link) {
            warn!("{link} is an address of this host; flows look up the address of their peer");
        }
    }
    Ok(Plan {
        links: args.links.clone(),
        ues: args.ues.clone(),
        within: args.within.clone(),
        own_id: args.own_id.clone(),
        take_over: args.take_over,
        forget_after: args.forget_after,
        max_links: args.max_links as usize,
        conditioning: Conditioning {
            average_time_constant: args.average_time_constant,
            hold_over: args.hold_over,
            max_age_ms: args.max_age_ms,
            outlier_db: args.outlier_db,
            skip_repeats: args.skip_repeats,
            rate: args.capacity,
        },
    })
}

/// Whether a link is a single address of this host, other than loopback's, where both ends of a flow are on this host.
fn is_own_address(link: IndexKey) -> bool {
    let own = nix::ifaddrs::getifaddrs().into_iter().flatten().filter_map(|interface| {
        let address = interface.address?;
        let v4 = address.as_sockaddr_in().map(|a| IpAddr::V4(a.ip()));
        v4.or_else(|| address.as_sockaddr_in6().map(|a| IpAddr::V6(a.ip())))
    });
    own.filter(|address| !address.is_loopback()).any(|address| {
        let bits = if address.is_ipv4() { 32 } else { 128 };
        IndexKey::prefix(address, bits) == Some(link)
    })
}

/// Opens all sources. Returns them with their names, in order of precedence.
fn open_sources(args: &RunArgs) -> anyhow::Result<Vec<(String, Box<dyn Source>)>> {
    let replay = ReplayOptions { speed: args.speed, repeat: args.repeat };
    let mut sources = Vec::new();
    for spec in args.sources.iter().chain(&args.subscribe) {
        let mut source = spec.source(replay)?;
        source.open()?;
        if let Pace::Fixed(period) = source.pace() {
            let max_age_ms = args.max_age_ms.unwrap_or_else(|| default_max_age_ms(Some(period)));
            if period.as_millis() > max_age_ms.into() {
                warn!(
                    "{}: readings are {} ms apart, more than the maximum age of {max_age_ms} ms: links will be stale \
                     between readings; raise --max-age-ms",
                    spec.name(),
                    period.as_millis()
                );
            }
        }
        sources.push((spec.name(), source));
    }
    Ok(sources)
}

async fn feed_until_done(
    feed: &SharedFeed,
    mut tasks: JoinSet<Result<(), SourceError>>,
    mut stop: Stop,
    mut progress: Progress,
) -> anyhow::Result<()> {
    let watchdog = service::watchdog();
    service::ready();
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut fed_dog = Instant::now();
    let outcome = loop {
        tokio::select! {
            name = stop.requested() => {
                info!("received {name}, stopping");
                break Ok(());
            }
            () = feed.failed() => break Ok(()), // `Feed::finish` returns the reason
            ended = tasks.join_next() => match ended {
                None => break Ok(()),
                Some(Ok(Ok(()))) => {}
                Some(Ok(Err(e))) => break Err(e.into()),
                Some(Err(e)) => break Err(anyhow!("a source task failed: {e}")),
            },
            _ = ticks.tick() => {
                feed.lock().tick(monotonic_ns());
                progress.show(feed);
                if watchdog.is_some_and(|within| fed_dog.elapsed() > within / 3) {
                    service::alive();
                    fed_dog = Instant::now();
                }
            }
        }
    };
    service::stopping();
    progress.finish();
    outcome
}

/// Returns an error if readings arrived but none was applied: then the source or the options are wrong.
fn something_was_applied(feed: &SharedFeed) -> anyhow::Result<()> {
    let feed = feed.lock();
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for (reason, count) in feed.sources().iter().flat_map(|source| source.rejections.counts()) {
        *counts.entry(reason.label()).or_default() += count;
    }
    counts.retain(|_, count| *count > 0);
    if counts.is_empty() || feed.sources().iter().any(|source| source.applied > 0) {
        return Ok(());
    }
    let counts: Vec<String> = counts.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
    bail!("no reading was applied: {}", counts.join(", "))
}

/// A progress line on stderr, at most once a second.
struct Progress {
    wanted: bool,
    terminal: bool,
    start: Instant,
    shown: Option<Instant>,
}

impl Progress {
    fn new(quiet: bool, verbose: bool) -> Self {
        let terminal = std::io::stderr().is_terminal();
        Self { wanted: !quiet && (terminal || verbose), terminal, start: Instant::now(), shown: None }
    }

    fn show(&mut self, feed: &SharedFeed) {
        if !self.wanted || self.shown.is_some_and(|t| t.elapsed() < Duration::from_secs(1)) {
            return;
        }
        self.shown = Some(Instant::now());
        let feed = feed.lock();
        let sum = |count: fn(&sinr_feeder::feed::SourceState) -> u64| feed.sources().iter().map(count).sum::<u64>();
        let applied = sum(|source| source.applied);
        let rejected = sum(|source| source.rejections.counts().map(|(_, count)| count).sum());
        let reading = feed.latest().map(|latest| latest.reading).unwrap_or_default();
        let sinr = reading.sinr_db.map_or("no SINR".to_owned(), |db| format!("SINR {db:.1} dB"));
        let average = reading.average_db.map_or(String::new(), |db| format!(", average {db:.1} dB"));
        let capacity = reading.capacity_bps.map_or(String::new(), |bps| {
            let origin = if reading.is_capacity_derived { " derived from the SINR" } else { "" };
            format!(", capacity {:.2} Mbit/s{origin}", bps / 1e6)
        });
        let seconds = self.start.elapsed().as_secs_f64();
        let line = format!("{seconds:.1} s: {applied} readings, {rejected} not applied, {sinr}{average}{capacity}");
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
