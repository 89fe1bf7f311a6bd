//! The library: maps, slots, precedence.

use crate::sandbox::{Sandbox, key, sandbox};
use aya::maps::lpm_trie::Key;
use aya::maps::{Array, LpmTrie, Map, MapData};
use aya::{EbpfLoader, Pod};
use hotcc_abi::clock::monotonic_ms32;
use hotcc_abi::radio::{Capacity, INDEX_ENTRIES, PackedSinr, SLOTS, SOURCE_TRACE, STATE_FREE, STATE_TAKEN};
use hotcc_radio_map::{Freshness, LinkOptions, MapError, RadioMap, RadioSlots, RadioView, Reading};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

pub const OPTIONS: LinkOptions =
    LinkOptions { source: SOURCE_TRACE, max_age_ms: 1000, period_ms: 100, take_over: false };

#[derive(Clone, Copy)]
#[repr(C)]
struct Line([u8; 64]);

// SAFETY: the structure consists of bytes only.
unsafe impl Pod for Line {}

pub fn slots_map(sandbox: &Sandbox) -> MapData {
    MapData::from_pin(sandbox.root.join("signal/radio_slots")).unwrap()
}

fn raw_line(sandbox: &Sandbox, slot: u32) -> Line {
    let array: Array<_, Line> = Map::Array(slots_map(sandbox)).try_into().unwrap();
    array.get(&slot, 0).unwrap()
}

#[test]
fn created_once_and_found_again() {
    let Some(sandbox) = sandbox("created_once_and_found_again") else { return };
    assert!(matches!(RadioView::open(&sandbox.root), Err(MapError::Absent)));
    assert!(matches!(RadioMap::open(&sandbox.root), Err(MapError::Absent)));
    let id = |sandbox: &Sandbox| slots_map(sandbox).info().unwrap().id();
    RadioMap::open_or_create(&sandbox.root).unwrap();
    let first = id(&sandbox);
    RadioMap::open_or_create(&sandbox.root).unwrap();
    assert_eq!(id(&sandbox), first);
    let mode = fs::metadata(sandbox.root.join("signal/radio_index")).unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "feeders have pins of their own");
    // If one pin is lost, it is created again beside the other.
    fs::remove_file(sandbox.root.join("signal/radio_index")).unwrap();
    assert!(matches!(RadioView::open(&sandbox.root), Err(MapError::Absent)));
    RadioMap::open_or_create(&sandbox.root).unwrap();
    assert_eq!(id(&sandbox), first);
}

#[test]
fn many_may_create_at_once() {
    let Some(sandbox) = sandbox("many_may_create_at_once") else { return };
    for round in 0..8 {
        let root = sandbox.root.join(round.to_string());
        fs::create_dir_all(root.join("signal")).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                // Other programs load objects with these maps without our lock, and may lose the race.
                scope.spawn(|| {
                    let object = hotcc_bpf::prog("radio_maps").unwrap();
                    let _ = EbpfLoader::new().default_map_pin_directory(root.join("signal")).load(object.bytes);
                });
            }
            for _ in 0..2 {
                scope.spawn(|| RadioMap::open_or_create(&root).unwrap());
            }
        });
    }
}

#[test]
fn what_is_published_can_be_read() {
    let Some(sandbox) = sandbox("what_is_published_can_be_read") else { return };
    let mut map = RadioMap::open_or_create(&sandbox.root).unwrap();
    let writer = map.take_link(key("10.0.0.0/8"), &OPTIONS).unwrap();
    assert!(writer.is_new());
    let view = RadioView::open(&sandbox.root).unwrap();
    let empty = view.snapshot(writer.slot()).unwrap();
    assert_eq!((empty.freshness(monotonic_ms32()), empty.capacity, empty.cqi), (Freshness::Never, None, None));

    let now = monotonic_ms32();
    let reading = Reading {
        sinr_db: Some(12.5),
        average_db: Some(-3.25),
        capacity_bps: Some(1e9),
        rsrp_dbm: Some(-90.5),
        cqi: Some(9),
        ..Reading::default()
    };
    writer.publish(&reading, now).unwrap();
    let word = PackedSinr { sinr_q8_db: 3200, average_q8_db: -832, time_ms: now }.pack();
    // The raw bytes, as the kernel sees them.
    let raw = raw_line(&sandbox, writer.slot()).0;
    assert_eq!(raw[..8], word.to_ne_bytes());
    assert_eq!(raw[8..16], 1u64.to_ne_bytes());
    assert_eq!(
        (raw[16..20].to_vec(), raw[20..24].to_vec()),
        (1_000_000u32.to_ne_bytes().to_vec(), now.to_ne_bytes().to_vec())
    );
    // The view, as another process maps it.
    let links = view.links().unwrap();
    assert_eq!(links.len(), 1);
    assert_eq!((links[0].key, links[0].slot), (key("10.0.0.0/8"), writer.slot()));
    let s = &links[0].snapshot;
    assert_eq!(s.sinr.map(PackedSinr::pack), Some(word));
    assert_eq!((s.rsrp_dbm, s.rsrq_db, s.cqi, s.mcs), (Some(-90.5), None, Some(9), None));
    assert_eq!((s.max_age_ms, s.period_ms, s.owner_pid), (1000, Some(100), Some(std::process::id())));
    assert_eq!(s.freshness(now.wrapping_add(1000)), Freshness::Fresh);
    assert_eq!(s.freshness(now.wrapping_add(1001)), Freshness::Stale);

    // SINR and capacity each stay unchanged if a reading lacks them.
    let derived = Reading { capacity_bps: Some(2e9), is_capacity_derived: true, ..Reading::default() };
    writer.publish(&derived, now + 5).unwrap();
    let s = view.snapshot(writer.slot()).unwrap();
    let capacity = Capacity { kbit_per_s: 2_000_000, is_derived: true, time_ms: now + 5 };
    assert_eq!((s.sinr.map(PackedSinr::pack), s.updates, s.capacity), (Some(word), 2, Some(capacity)));
    writer.publish(&Reading { rsrp_dbm: Some(-90.0), ..Reading::default() }, now + 9).unwrap();
    let s = view.snapshot(writer.slot()).unwrap();
    assert_eq!((s.sinr.map(PackedSinr::pack), s.capacity), (Some(word), Some(capacity)));
    // a capacity of 0 is useless to algorithms, and is shown as unknown
    writer.publish(&Reading { capacity_bps: Some(0.0), ..Reading::default() }, now + 9).unwrap();
    assert_eq!(view.snapshot(writer.slot()).unwrap().capacity, None);

    // The generation changes when the cell does, but not with the first cell that is named.
    let in_cell = |cell| Reading { cell, ..Reading::default() };
    let generations = [Some(7), None, Some(7), Some(8), Some(7)].map(|cell| {
        writer.publish(&in_cell(cell), now + 9).unwrap();
        view.snapshot(writer.slot()).unwrap().cell
    });
    assert_eq!(generations, [0, 0, 0, 1, 2]);

    // A writer that stops cleanly gives up its claim, and leaves everything else.
    let slot = writer.slot();
    drop(writer);
    let s = view.snapshot(slot).unwrap();
    assert_eq!((s.sinr.map(PackedSinr::pack), s.owner_pid), (Some(word), None));
    let again = map.take_link(key("10.0.0.0/8"), &OPTIONS).unwrap();
    assert_eq!((again.slot(), again.is_new()), (slot, false));
}

#[test]
fn the_longest_prefix_wins() {
    let Some(sandbox) = sandbox("the_longest_prefix_wins") else { return };
    let mut map = RadioMap::open_or_create(&sandbox.root).unwrap();
    let mut slot = |link| map.take_link(key(link), &OPTIONS).unwrap().slot();
    let all = slot("::/0");
    let all_v4 = slot("0.0.0.0/0");
    let host = slot("192.0.2.1");
    let ports = slot("192.0.2.1:4096/6");
    let port = slot("192.0.2.1:4100");
    let v6 = slot("2001:db8::/32");
    for (peer, wanted) in [
        ("192.0.2.1:4100", port),
        ("192.0.2.1:4099", ports),
        ("192.0.2.1:5119", ports),
        ("192.0.2.1:5120", host),
        ("192.0.2.2:4100", all_v4),
        ("[2001:db8::1]:4100", v6),
        ("[2001:db9::1]:4100", all),
    ] {
        assert_eq!(map.view().slot_of(peer.parse().unwrap()).unwrap(), Some(wanted), "{peer}");
    }
    map.remove_link(key("0.0.0.0/0"), false).unwrap();
    assert_eq!(map.view().slot_of("192.0.2.2:1".parse().unwrap()).unwrap(), Some(all));
    // A prefix that only lies within another is not in the map.
    let inside = map.remove_link(key("192.0.2.1:4096/7"), false);
    assert!(matches!(inside, Err(MapError::NoSuchLink { .. })), "{inside:?}");
}

#[test]
fn a_freed_slot_rests_and_readers_are_told() {
    let Some(sandbox) = sandbox("a_freed_slot_rests_and_readers_are_told") else { return };
    let mut map = RadioMap::open_or_create(&sandbox.root).unwrap();
    let slots = RadioSlots::read_only(slots_map(&sandbox).fd()).unwrap();
    let generation = || slots.header().generation.load(Relaxed);
    let start = generation();
    let options = LinkOptions { max_age_ms: 2000, ..OPTIONS };
    let writer = map.take_link(key("10.0.0.1"), &options).unwrap();
    writer.publish(&Reading { sinr_db: Some(1.0), ..Reading::default() }, monotonic_ms32()).unwrap();
    assert_eq!(generation(), start + 1);
    let freed = writer.slot();
    map.remove_link(key("10.0.0.1"), false).unwrap();
    assert_eq!(generation(), start + 2);
    let lost = writer.publish(&Reading::default(), monotonic_ms32());
    assert!(lost.unwrap_err().to_string().contains("removed from the radio map"));
    let other = map.take_link(key("10.0.0.2"), &options).unwrap();
    assert_ne!(other.slot(), freed);
    std::thread::sleep(std::time::Duration::from_millis(2050));
    let third = map.take_link(key("10.0.0.3"), &options).unwrap();
    assert_eq!(third.slot(), freed);
    let blank = map.view().snapshot(freed).unwrap();
    assert_eq!((blank.sinr, blank.updates), (None, 0));
    // the writer that had the slot before does not write for the new link, or give it up
    let wrong = writer.publish(&Reading { sinr_db: Some(9.0), ..Reading::default() }, monotonic_ms32());
    assert!(matches!(wrong, Err(MapError::Lost { .. })), "{wrong:?}");
    drop(writer);
    third.publish(&Reading { sinr_db: Some(1.0), ..Reading::default() }, monotonic_ms32()).unwrap();
    assert_eq!(map.view().snapshot(freed).unwrap().sinr_db(), Some(1.0));
}

#[test]
fn full_maps_are_refused() {
    let Some(sandbox) = sandbox("full_maps_are_refused") else { return };
    let mut map = RadioMap::open_or_create(&sandbox.root).unwrap();
    let slots = RadioSlots::writable(slots_map(&sandbox).fd()).unwrap();
    let set_all = |state, owner| {
        for line in (1..SLOTS).map(|i| slots.slot(i).unwrap()) {
            line.owner_pid.store(owner, Relaxed);
            line.state.store(state, Relaxed);
        }
    };
    set_all(STATE_TAKEN, std::process::id());
    let refused = map.take_link(key("10.0.0.1"), &OPTIONS);
    assert!(matches!(refused, Err(MapError::NoFreeSlot)), "{refused:?}");
    set_all(STATE_FREE, 0);
    let index = MapData::from_pin(sandbox.root.join("signal/radio_index")).unwrap();
    let mut index: LpmTrie<_, [u8; 20], u32> = Map::LpmTrie(index).try_into().unwrap();
    for i in 0..INDEX_ENTRIES {
        let mut data = [0xfd; 20];
        data[..4].copy_from_slice(&i.to_be_bytes());
        index.insert(&Key::new(128, data), 1, 0).unwrap();
    }
    let refused = map.take_link(key("10.0.0.1"), &OPTIONS);
    assert!(matches!(refused, Err(MapError::IndexFull)), "{refused:?}");
    assert!((1..SLOTS).all(|i| slots.slot(i).unwrap().state.load(Relaxed) == STATE_FREE));
    // Every link is listed exactly once.
    assert_eq!(map.view().links().unwrap().len(), INDEX_ENTRIES as usize);
}

/// The links are left by a killed feeder, and the next one does not name them.
#[test]
fn links_that_nobody_feeds_make_room_the_oldest_first() {
    let Some(sandbox) = sandbox("links_that_nobody_feeds_make_room_the_oldest_first") else { return };
    let mut map = RadioMap::open_or_create(&sandbox.root).unwrap();
    let slots = RadioSlots::writable(slots_map(&sandbox).fd()).unwrap();
    let fed = map.take_link(key("10.0.0.1"), &OPTIONS).unwrap();
    let abandoned: Vec<_> = (2..6).map(|n| map.take_link(key(&format!("10.0.0.{n}")), &OPTIONS).unwrap()).collect();
    let now_ms = monotonic_ms32();
    for (writer, age_ms) in abandoned.iter().zip([40_000, 20_000, 60_000, 50_000u32]) {
        writer.publish(&Reading { sinr_db: Some(1.0), ..Reading::default() }, now_ms.wrapping_sub(age_ms)).unwrap();
    }
    drop(abandoned);
    let taken = |slot: u32| slots.slot(slot).unwrap().state.load(Relaxed) == STATE_TAKEN;
    for slot in (1..SLOTS).filter(|slot| !taken(*slot)) {
        let line = slots.slot(slot).unwrap();
        line.owner_pid.store(std::process::id(), Relaxed);
        line.state.store(STATE_TAKEN, Relaxed);
    }
    let new = map.take_link(key("10.0.1.1"), &OPTIONS).unwrap();
    let mut links: Vec<String> = map.view().links().unwrap().iter().map(|link| link.key.to_string()).collect();
    links.sort();
    assert_eq!(links, ["10.0.0.1/32", "10.0.0.3/32", "10.0.1.1/32"], "what is fed, what may be used, what is new");
    fed.publish(&Reading { sinr_db: Some(2.0), ..Reading::default() }, now_ms).unwrap();
    new.publish(&Reading { sinr_db: Some(2.0), ..Reading::default() }, now_ms).unwrap();
}

#[test]
fn another_version_is_refused() {
    let Some(sandbox) = sandbox("another_version_is_refused") else { return };
    drop(RadioMap::open_or_create(&sandbox.root).unwrap());
    let header = RadioSlots::writable(slots_map(&sandbox).fd()).unwrap();
    header.header().version.store(1, Relaxed); // as before an upgrade
    for refused in [RadioMap::open_or_create(&sandbox.root).map(drop), RadioView::open(&sandbox.root).map(drop)] {
        let error = refused.unwrap_err();
        assert!(matches!(error, MapError::Version(_)), "{error:?}");
        let text = error.to_string();
        assert!(text.contains("version 1; this program uses version 2"), "{text}");
        assert!(text.contains("remove its pins (radio_index, radio_slots) and load the algorithms again"), "{text}");
    }
    let pin = sandbox.root.join("signal/radio_slots");
    fs::remove_file(&pin).unwrap();
    let mmapable = 1 << 10;
    let other = Array::<MapData, [u8; 32]>::create(SLOTS, mmapable).unwrap();
    other.pin(&pin).unwrap();
    let error = RadioMap::open_or_create(&sandbox.root).unwrap_err().to_string();
    assert!(error.contains("another layout: Array, key 4 bytes, value 32 bytes"), "{error}");
}

#[test]
fn many_links_are_found_again_as_soon_as_they_were_made() {
    let Some(sandbox) = sandbox("many_links_are_found_again_as_soon_as_they_were_made") else { return };
    let links: Vec<_> = (0..3000u16).map(|i| key(&format!("10.0.{}.{}", i / 256, i % 256))).collect();
    let take_all = || {
        let mut map = RadioMap::open_or_create(&sandbox.root).unwrap();
        let start = Instant::now();
        let slots: Vec<u32> = links.iter().map(|link| map.take_link(*link, &OPTIONS).unwrap().slot()).collect();
        (start.elapsed(), slots)
    };
    let ((made, slots), (found, again)) = (take_all(), take_all());
    assert_eq!(slots, again);
    assert!(found < made * 5, "made in {made:?}, found in {found:?}");
}
