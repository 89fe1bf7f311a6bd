//! What commands that were killed half-way leave behind, and how the next command handles it.

use crate::map::{OPTIONS, slots_map};
use crate::sandbox::{Sandbox, key, sandbox};
use hotcc_abi::clock::monotonic_ms32;
use hotcc_abi::radio::{PackedSinr, SLOTS, STATE_FREE, STATE_TAKEN};
use hotcc_radio_map::{LinkOptions, MapError, RadioMap, RadioSlots, Reading};
use std::process::Command;
use std::sync::atomic::Ordering::Relaxed;

/// Options with a maximum age that no test reaches.
const LONG_LIVED: LinkOptions = LinkOptions { max_age_ms: 30_000, ..OPTIONS };

fn writable(sandbox: &Sandbox) -> RadioSlots {
    RadioSlots::writable(slots_map(sandbox).fd()).unwrap()
}

/// Returns the id of a process that has ended.
fn dead_pid() -> u32 {
    let mut child = Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    child.id()
}

/// Marks every slot except `lost` as taken by this process, which is running.
fn fill_but(slots: &RadioSlots, lost: u32) {
    for line in (1..SLOTS).filter(|i| *i != lost).map(|i| slots.slot(i).unwrap()) {
        line.owner_pid.store(std::process::id(), Relaxed);
        line.state.store(STATE_TAKEN, Relaxed);
    }
}

#[test]
fn readers_are_notified_of_an_existing_link() {
    let Some(sandbox) = sandbox("readers_are_notified_of_an_existing_link") else { return };
    let mut map = RadioMap::open_or_create(&sandbox.root).unwrap();
    let slots = writable(&sandbox);
    let generation = || slots.header().generation.load(Relaxed);
    let start = generation();
    drop(map.take_link(key("10.0.0.1"), &OPTIONS).unwrap());
    slots.header().generation.store(start, Relaxed); // as if killed before it changed the generation
    let again = map.take_link(key("10.0.0.1"), &OPTIONS).unwrap();
    assert!(!again.is_new());
    assert_ne!(generation(), start);
}

#[test]
fn a_slot_taken_for_a_link_that_never_came_is_found_again() {
    let Some(sandbox) = sandbox("a_slot_taken_for_a_link_that_never_came_is_found_again") else { return };
    let mut map = RadioMap::open_or_create(&sandbox.root).unwrap();
    let slots = writable(&sandbox);
    fill_but(&slots, 7);
    let lost = slots.slot(7).unwrap();
    lost.owner_pid.store(dead_pid(), Relaxed);
    lost.state.store(STATE_TAKEN, Relaxed);
    // The slot never had a reading, so there is nothing to wait for.
    let writer = map.take_link(key("10.0.0.1"), &OPTIONS).unwrap();
    assert_eq!((writer.slot(), writer.is_new()), (7, true));
    writer.publish(&Reading { sinr_db: Some(1.0), ..Reading::default() }, monotonic_ms32()).unwrap();
    // A slot of a live process stays taken, and so does a slot to which a link leads, whether it is fed or not.
    drop(writer);
    let refused = map.take_link(key("10.0.0.2"), &OPTIONS);
    assert!(matches!(refused, Err(MapError::NoFreeSlot)), "{refused:?}");
    assert_eq!(map.view().slot_of("10.0.0.1:1".parse().unwrap()).unwrap(), Some(7));
    assert_eq!(lost.state.load(Relaxed), STATE_TAKEN);
}

#[test]
fn a_slot_whose_link_is_gone_rests_and_is_found_again() {
    let Some(sandbox) = sandbox("a_slot_whose_link_is_gone_rests_and_is_found_again") else { return };
    let mut map = RadioMap::open_or_create(&sandbox.root).unwrap();
    let slots = writable(&sandbox);
    let generation = || slots.header().generation.load(Relaxed);
    // Owners: none (a clean stop), a process that is gone, and another process that now has its number.
    let pids = [(0, 0), (dead_pid(), 5), (std::process::id(), 5)];
    for (i, (pid, start)) in pids.into_iter().enumerate() {
        let link = key(&format!("10.0.0.{i}"));
        let writer = map.take_link(link, &LONG_LIVED).unwrap();
        let slot = writer.slot();
        fill_but(&slots, slot);
        writer.publish(&Reading { sinr_db: Some(1.0), ..Reading::default() }, monotonic_ms32()).unwrap();
        // The command was killed right after it removed the link from the index: the line is unchanged.
        let line = slots.slot(slot).unwrap();
        let sinr = line.sinr.load(Relaxed);
        map.remove_link(link, false).unwrap();
        drop(writer);
        line.freed_ms.store(0, Relaxed);
        line.owner_pid.store(pid, Relaxed);
        line.owner_start.store(start, Relaxed);
        line.state.store(STATE_TAKEN, Relaxed);

        let before = generation();
        let refused = map.take_link(key("10.1.0.0"), &LONG_LIVED);
        assert!(matches!(refused, Err(MapError::NoFreeSlot)), "{refused:?}");
        assert_ne!(generation(), before);
        assert_eq!((line.state.load(Relaxed), line.sinr.load(Relaxed)), (STATE_FREE, sinr));
        assert_eq!(line.freed_ms.load(Relaxed), PackedSinr::unpack(sinr).unwrap().time_ms);
        line.freed_ms.store(monotonic_ms32().wrapping_sub(30_001), Relaxed); // as if that time had passed
        assert_eq!(map.take_link(key("10.1.0.0"), &LONG_LIVED).unwrap().slot(), slot);
        map.remove_link(key("10.1.0.0"), false).unwrap();
        line.freed_ms.store(0, Relaxed);
    }
}

#[test]
fn a_reused_process_id_is_another_process() {
    let Some(sandbox) = sandbox("a_reused_process_id_is_another_process") else { return };
    let mut map = RadioMap::open_or_create(&sandbox.root).unwrap();
    let slots = writable(&sandbox);
    let writer = map.take_link(key("10.0.0.1"), &OPTIONS).unwrap();
    let line = slots.slot(writer.slot()).unwrap();
    let mut other = Command::new("sleep").arg("60").spawn().unwrap();
    line.owner_pid.store(other.id(), Relaxed);
    line.owner_start.store(0, Relaxed); // not known: only the process id counts
    let refused = map.take_link(key("10.0.0.1"), &OPTIONS);
    assert!(matches!(refused, Err(MapError::Owned { pid, .. }) if pid == other.id()), "{refused:?}");
    line.owner_start.store(5, Relaxed); // the owner was started long ago
    assert!(!map.view().snapshot(writer.slot()).unwrap().owner_alive());
    let again = map.take_link(key("10.0.0.1"), &OPTIONS).unwrap();
    assert!(map.view().snapshot(again.slot()).unwrap().owner_alive());
    other.kill().unwrap();
    other.wait().unwrap();
    // The same process id in another pid namespace: the later one has the link.
    line.owner_start.store(5, Relaxed);
    let lost = again.publish(&Reading::default(), monotonic_ms32());
    assert!(matches!(lost, Err(MapError::Lost { .. })), "{lost:?}");
    map.remove_link(key("10.0.0.1"), false).unwrap();
}
