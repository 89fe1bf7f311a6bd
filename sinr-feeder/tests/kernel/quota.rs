//! Sources whose readings name links without limit.

use crate::map::OPTIONS;
use crate::sandbox::{key, sandbox};
use hotcc_abi::clock::{monotonic_ms32, monotonic_ns};
use hotcc_abi::pins;
use hotcc_abi::radio::{SOURCE_AT, SOURCE_PEER, SOURCE_UDP};
use hotcc_host::lock;
use hotcc_radio_map::{Freshness, LinkOptions, RadioMap, RadioView, Reading};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use sinr_feeder::condition::{Conditioning, Pace};
use sinr_feeder::feed::{Feed, Plan};
use sinr_feeder::reading::{Grant, RawReading, Ue};
use sinr_feeder::reject::Reject;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

const MAX_LINKS: usize = 200;
const SECOND_NS: u64 = 1_000_000_000;

fn reading(sinr_db: f64) -> RawReading {
    RawReading { reading: Reading { sinr_db: Some(sinr_db), ..Reading::default() }, ..RawReading::default() }
}

fn offer(feed: &mut Feed, source: usize, address: [u8; 4], now_ns: u64) -> bool {
    let applied = feed.sources()[source].applied;
    let link = key(&std::net::Ipv4Addr::from(address).to_string());
    feed.offer(source, Ue::Link(link), &reading(7.0), now_ns);
    feed.sources()[source].applied > applied
}

fn no_room(feed: &Feed, source: usize) -> u64 {
    feed.sources()[source].rejections.counts().find(|(reason, _)| *reason == Reject::NoRoom).map_or(0, |(_, n)| n)
}

/// Links in use keep their slots, and other sources and other feeders still find room.
#[test]
fn links_without_end_starve_nobody() {
    let Some(sandbox) = sandbox("links_without_end_starve_nobody") else { return };
    let map = RadioMap::open_or_create(&sandbox.root).unwrap();
    let plan = Plan {
        within: vec![key("10.0.0.0/8")],
        forget_after: Duration::from_secs(600),
        max_links: MAX_LINKS,
        ..Plan::default()
    };
    let mut feed = Feed::new(plan, Some(map), Vec::new()).unwrap();
    let [flooded, other] = ["flooded", "other"].map(|name| feed.add_source(name.to_owned(), SOURCE_UDP, Pace::Unknown));
    let start_ns = monotonic_ns();
    assert!(offer(&mut feed, flooded, [10, 0, 0, 1], start_ns));
    for n in 0..70_000u32 {
        let [_, a, b, c] = n.to_be_bytes();
        offer(&mut feed, flooded, [10, 1 + a, b, c], start_ns + 1);
    }
    assert_eq!(feed.link_count(), MAX_LINKS / 2);
    assert!(no_room(&feed, flooded) > 69_000);
    // another source of this feeder, and another feeder
    assert!((0..MAX_LINKS as u8 / 2).all(|n| offer(&mut feed, other, [10, 200, 0, n], start_ns + 1)));
    let mut neighbour = RadioMap::open(&sandbox.root).unwrap();
    assert!(neighbour.take_link(key("192.0.2.1"), &OPTIONS).is_ok());
    // links in use stay; unused ones make room for new ones
    let mut later_ns = start_ns;
    for round in 0..20u8 {
        later_ns += SECOND_NS / 5;
        assert!(offer(&mut feed, flooded, [10, 0, 0, 1], later_ns), "{round}");
        assert!((0..10).all(|n| offer(&mut feed, other, [10, 200, 0, n], later_ns)), "{round}");
        offer(&mut feed, flooded, [10, 100, round, 1], later_ns);
        feed.tick(later_ns);
    }
    assert!(offer(&mut feed, flooded, [10, 100, 100, 1], later_ns));
    assert!(feed.link_count() <= MAX_LINKS);
}

/// The holder of a key for a wide prefix cannot take the room of the holders of other keys.
#[test]
fn links_without_end_under_one_key_starve_no_other() {
    let Some(sandbox) = sandbox("links_without_end_under_one_key_starve_no_other") else { return };
    let map = RadioMap::open_or_create(&sandbox.root).unwrap();
    let plan = Plan { forget_after: Duration::from_secs(600), max_links: MAX_LINKS, ..Plan::default() };
    let mut feed = Feed::new(plan, Some(map), Vec::new()).unwrap();
    let source = feed.add_source("peer".to_owned(), SOURCE_PEER, Pace::Unknown);
    let now_ns = monotonic_ns();
    let mut makes = |granted: &str, address: [u8; 4]| {
        let applied = feed.sources()[source].applied;
        let (link, grant) = (key(&std::net::Ipv4Addr::from(address).to_string()), Grant { link: key(granted), all: 4 });
        feed.offer(source, Ue::Granted(link, grant), &reading(7.0), now_ns);
        feed.sources()[source].applied > applied
    };
    let made = (0..1000u32).filter(|n| {
        let [.., a, b] = n.to_be_bytes();
        makes("10.1.0.0/16", [10, 1, a, b])
    });
    assert_eq!(made.count(), MAX_LINKS / 4);
    assert!(makes("10.2.0.0/16", [10, 2, 0, 1]) && makes("10.3.0.1", [10, 3, 0, 1]));
}

/// A modem without SINR beside a source of SINR: the age limit of the SINR stays, and the modem counts as silent.
#[test]
fn readings_without_sinr_and_capacity_change_no_age() {
    let Some(sandbox) = sandbox("readings_without_sinr_and_capacity_change_no_age") else { return };
    let map = RadioMap::open_or_create(&sandbox.root).unwrap();
    let view = RadioView::open(&sandbox.root).unwrap();
    let plan = Plan { links: vec![key("10.0.0.0/8")], ..Plan::default() };
    let mut feed = Feed::new(plan, Some(map), Vec::new()).unwrap();
    let modem = feed.add_source("at".to_owned(), SOURCE_AT, Pace::Expected(Duration::from_secs(10)));
    let sinr = feed.add_source("udp".to_owned(), SOURCE_UDP, Pace::Expected(Duration::from_millis(100)));
    let now_ns = monotonic_ns();
    feed.offer(sinr, Ue::Unnamed, &reading(7.0), now_ns);
    let described = || {
        let snapshot = &view.links().unwrap()[0].snapshot;
        (snapshot.source, snapshot.max_age_ms)
    };
    let before = described();
    let weak = Reading { rsrp_dbm: Some(-101.0), ..Reading::default() };
    feed.offer(modem, Ue::Unnamed, &RawReading { reading: weak, ..RawReading::default() }, now_ns + 1);
    assert_eq!(described(), before);
    assert_eq!(feed.sources().iter().map(|source| source.is_up(now_ns + 1)).collect::<Vec<_>>(), [false, true]);
}

#[test]
fn a_link_of_another_feeder_is_no_full_map() {
    let Some(sandbox) = sandbox("a_link_of_another_feeder_is_no_full_map") else { return };
    let source = sandbox.trace("t.csv", "time_s,sinr_db\n0,7\n0.1,7\n");
    let _neighbour = sandbox.feeder(&["--source", &source, "--link", "10.0.0.1", "--loop"]);
    sandbox.wait_for(|link| link["state"] == "fresh");
    let map = RadioMap::open(&sandbox.root).unwrap();
    let plan = Plan { within: vec![key("10.0.0.0/8")], max_links: MAX_LINKS, ..Plan::default() };
    let mut feed = Feed::new(plan, Some(map), Vec::new()).unwrap();
    let source = feed.add_source("udp".to_owned(), SOURCE_UDP, Pace::Unknown);
    let now_ns = monotonic_ns();
    assert!(!offer(&mut feed, source, [10, 0, 0, 1], now_ns));
    assert!(offer(&mut feed, source, [10, 0, 0, 2], now_ns));
}

#[test]
fn a_reading_that_is_not_valid_makes_no_link() {
    let Some(sandbox) = sandbox("a_reading_that_is_not_valid_makes_no_link") else { return };
    let map = RadioMap::open_or_create(&sandbox.root).unwrap();
    let plan = Plan { within: vec![key("10.0.0.0/8")], max_links: MAX_LINKS, ..Plan::default() };
    let mut feed = Feed::new(plan, Some(map), Vec::new()).unwrap();
    let source = feed.add_source("udp".to_owned(), SOURCE_UDP, Pace::Unknown);
    for wrong in [reading(1000.0), RawReading::default()] {
        feed.offer(source, Ue::Link(key("10.0.0.7")), &wrong, monotonic_ns());
        assert_eq!(feed.link_count(), 0, "{wrong:?}");
    }
    assert!(offer(&mut feed, source, [10, 0, 0, 7], monotonic_ns()));
    assert_eq!(feed.link_count(), 1);
}

#[test]
fn a_feeder_that_starts_again_applies_the_maximum_age_that_was_asked_for() {
    let Some(sandbox) = sandbox("a_feeder_that_starts_again_applies_the_maximum_age_that_was_asked_for") else {
        return;
    };
    let mut map = RadioMap::open_or_create(&sandbox.root).unwrap();
    let view = RadioView::open(&sandbox.root).unwrap();
    let before = map.take_link(key("10.0.0.0/8"), &LinkOptions { max_age_ms: 20_000, ..OPTIONS }).unwrap();
    let made_ms = monotonic_ms32().wrapping_sub(6000);
    before.publish(&Reading { sinr_db: Some(7.0), ..Reading::default() }, made_ms).unwrap();
    drop(before);
    let conditioning = Conditioning { max_age_ms: Some(20_000), ..Conditioning::default() };
    let plan = Plan { links: vec![key("10.0.0.0/8")], conditioning, ..Plan::default() };
    let _feed = Feed::new(plan, Some(map), Vec::new()).unwrap();
    let links = view.links().unwrap();
    assert_eq!(links[0].snapshot.freshness(links[0].snapshot.taken_ms), Freshness::Fresh);
}

/// Another command that changes links may take long; a service manager kills a feeder that stands still for 10 s.
#[test]
fn a_held_lock_delays_no_reading_of_other_links() {
    let Some(sandbox) = sandbox("a_held_lock_delays_no_reading_of_other_links") else { return };
    let map = RadioMap::open_or_create(&sandbox.root).unwrap();
    let forget_after = Duration::from_secs(600);
    let plan = Plan { within: vec![key("10.0.0.0/8")], forget_after, max_links: MAX_LINKS, ..Plan::default() };
    let mut feed = Feed::new(plan, Some(map), Vec::new()).unwrap();
    // in a mount namespace of its own, this thread has another lock than the other tests
    let held = std::thread::spawn(move || {
        unshare(CloneFlags::CLONE_FS | CloneFlags::CLONE_NEWNS).unwrap();
        mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>).unwrap();
        mount(Some("tmpfs"), pins::RUN, Some("tmpfs"), MsFlags::empty(), Some("mode=0755")).unwrap();
        let source = feed.add_source("any".to_owned(), SOURCE_UDP, Pace::Unknown);
        let start_ns = monotonic_ns();
        assert!(offer(&mut feed, source, [10, 0, 0, 1], start_ns));
        let held = lock::acquire(&Path::new(pins::RUN).join(pins::RADIO_LOCK), 0o660, Duration::ZERO).unwrap();
        let started = Instant::now();
        let log = tempfile::NamedTempFile::new().unwrap();
        let writer = Mutex::new(log.reopen().unwrap());
        let logging = tracing::subscriber::set_default(tracing_subscriber::fmt().with_writer(writer).finish());
        for n in 1..50u8 {
            assert!(!offer(&mut feed, source, [10, 0, 1, n], start_ns + u64::from(n)));
            assert!(offer(&mut feed, source, [10, 0, 0, 1], start_ns + u64::from(n)));
        }
        assert!(started.elapsed() < lock::PATIENCE / 4);
        for second in 1..5 {
            feed.tick(start_ns + second * SECOND_NS);
            assert!(!offer(&mut feed, source, [10, 0, 1, 1], start_ns + second * SECOND_NS));
        }
        assert_eq!(feed.link_count(), 1, "what cannot be removed is not forgotten");
        drop((held, logging));
        let log = std::fs::read_to_string(log.path()).unwrap();
        assert_eq!(log.matches("another hotcc command has been running").count(), 1, "{log}");
        feed.tick(start_ns + 5 * SECOND_NS);
        assert!(offer(&mut feed, source, [10, 0, 1, 1], start_ns + 5 * SECOND_NS));
    });
    held.join().unwrap();
}
