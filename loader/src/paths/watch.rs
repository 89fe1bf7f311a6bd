//! Watches the routes of a network namespace, and notifies flows whose route changes.
//!
//! A notice from the kernel only triggers a reading of all routes, which are compared with the previous reading. So a
//! change without a notice, or whose notice was lost because the socket was full, is detected at the next notice; and a
//! route that is removed and soon added again is no change.

use super::maps::{Bumped, Chosen, PathMaps};
use super::netlink::Notices;
use super::routes::{Change, Routes};
use hotcc_host::error::Result;
use hotcc_host::netns::{self, NetNs};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Time to wait after a notice, because changes come in bursts.
const SETTLE: Duration = Duration::from_millis(5);
/// Each pause lasts at least this many times as long as the reading before it: readings take at most a fifth of one
/// processor's time, however often routes change.
const PAUSE_FACTOR: u32 = 4;

/// An event of a watch.
#[derive(Clone, Debug, PartialEq)]
pub enum News {
    /// The watch began; this many destinations have a route.
    Began(usize),
    /// Ways changed, and the path maps have been updated.
    Changed(Vec<Change>, Bumped),
}

/// Watches the caller's network namespace, or the named one, until an error occurs.
pub fn watch(ns: Option<&str>, tell: impl Fn(News) -> Result<()> + Send + Sync) -> Result<()> {
    PathMaps::open_or_create()?;
    let Some(name) = ns else { return watch_here(&tell) };
    let ns: NetNs = netns::named(name)?;
    netns::inside(&ns, || watch_here(&tell))
}

fn watch_here(tell: &impl Fn(News) -> Result<()>) -> Result<()> {
    let notices = Notices::open()?; // before the first reading, so that no change in between is missed
    let mut routes = Routes::read()?;
    tell(News::Began(routes.count()))?;
    let mut pause = SETTLE;
    loop {
        notices.wait()?;
        std::thread::sleep(pause);
        notices.drain()?;
        let began = Instant::now();
        let now = Routes::read()?;
        if now != routes {
            if let Some((changes, bumped)) = publish(&routes, &now)? {
                tell(News::Changed(changes, bumped))?;
            }
            routes = now;
        }
        pause = SETTLE.max(began.elapsed() * PAUSE_FACTOR);
    }
}

/// Gives a new generation to the destinations whose way changed; returns `None` if there are none. Opens the maps each
/// time, because they may have been removed and created again meanwhile.
pub fn publish(before: &Routes, now: &Routes) -> Result<Option<(Vec<Change>, Bumped)>> {
    let maps = PathMaps::open_or_create()?;
    let mut changes = Vec::new();
    let bumped = maps.bump(|known| {
        changes = now.changes(before, &known.keys().copied().collect());
        let changed = changes.iter().map(|change| change.destination).collect();
        let kept = if changes.is_empty() { BTreeSet::new() } else { now.unchanged_within(before, &changed) };
        Chosen { changed, kept }
    })?;
    Ok((!changes.is_empty()).then_some((changes, bumped)))
}
