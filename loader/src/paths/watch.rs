//! Watches the routes of a network namespace and tells flows when theirs became another one.
//!
//! A notice from the kernel only says that it is time to look: the routes are read anew and compared with those before.
//! So what the kernel does without a notice, or while the socket is full, is seen with the next one, and a route that
//! was taken away and put back in the same breath is no change.

use super::maps::{Bumped, PathMaps};
use super::netlink::Notices;
use super::routes::{Change, Routes};
use hotcc_host::error::Result;
use hotcc_host::netns::{self, NetNs};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Changes come in bunches.
const SETTLE: Duration = Duration::from_millis(5);
/// Reading the routes takes at most one part in so many of a processor, however fast they change.
const REST: u32 = 5;

/// What a watch has to tell.
#[derive(Clone, Debug, PartialEq)]
pub enum News {
    /// It began, with so many destinations that have a route.
    Began(usize),
    /// Ways changed, and flows can tell now.
    Changed(Vec<Change>, Bumped),
}

/// Watches until something fails, in the caller's network namespace or the one named.
pub fn watch(ns: Option<&str>, tell: impl Fn(News) -> Result<()> + Send + Sync) -> Result<()> {
    PathMaps::open_or_create()?;
    let Some(name) = ns else { return watch_here(&tell) };
    let ns: NetNs = netns::named(name)?;
    netns::in_these(&[ns], |_| watch_here(&tell)).map(|_| ())
}

fn watch_here(tell: &impl Fn(News) -> Result<()>) -> Result<()> {
    let notices = Notices::open()?; // before the first look: nothing in between is missed
    let mut routes = Routes::read()?;
    tell(News::Began(routes.count()))?;
    let mut rest = SETTLE;
    loop {
        notices.wait()?;
        std::thread::sleep(rest);
        notices.drain()?;
        let began = Instant::now();
        let now = Routes::read()?;
        if now != routes {
            if let Some((changes, bumped)) = publish(&routes, &now)? {
                tell(News::Changed(changes, bumped))?;
            }
            routes = now;
        }
        rest = SETTLE.max(began.elapsed() * (REST - 1));
    }
}

/// Gives the destinations whose way changed a new generation; `None` if there are none. The maps are opened each time: somebody may have removed them and made others meanwhile.
pub fn publish(before: &Routes, now: &Routes) -> Result<Option<(Vec<Change>, Bumped)>> {
    let maps = PathMaps::open_or_create()?;
    let mut changes = Vec::new();
    let bumped = maps.bump(|known| {
        changes = now.changes(before, &known.keys().copied().collect());
        changes.iter().map(|change| change.destination).collect::<BTreeSet<_>>()
    })?;
    Ok((!changes.is_empty()).then_some((changes, bumped)))
}
