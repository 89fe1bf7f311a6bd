//! Rules are replaced under traffic.

use crate::common::*;
use crate::ruled::Ruled;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// Connections open, carry data and close while two sets of rules replace each other. In both, the rule that decides is the
/// last of many: a socket that met a part of a set would keep the default. Who reads the rules meanwhile sees one set.
#[test]
fn rules_are_replaced_whole_under_traffic() {
    const REPLACEMENTS: usize = 20;
    let Some(ruled) = Ruled::new("rules_are_replaced_whole_under_traffic") else { return };
    let others: Vec<String> = (0..99).map(|n| format!("remote = '192.0.2.{n}'\ncongestion_control = 'reno'")).collect();
    let sets = ["po_dtcp", "po_west"].map(|cc| {
        let last = format!("congestion_control = '{cc}'");
        others.iter().cloned().chain([last]).collect::<Vec<_>>()
    });
    let apply = |set: &[String]| ruled.apply(&set.iter().map(String::as_str).collect::<Vec<_>>());
    apply(&sets[0]);
    let listener = ruled.listen("10.1.0.1:0");
    let stop = AtomicBool::new(false);
    let seen = std::thread::scope(|scope| {
        let traffic = scope.spawn(|| {
            let mut seen = BTreeMap::<String, u64>::new();
            while !stop.load(Ordering::Relaxed) {
                let [mut client, mut server] = ruled.pair(&listener);
                client.write_all(&[7; 1000]).unwrap();
                server.read_exact(&mut [0; 1000]).unwrap();
                for end in [client, server] {
                    *seen.entry(cc_of(&end)).or_default() += 1;
                }
            }
            seen
        });
        let reader = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let shown = json(&["policy", "show", "--json"]);
                assert_eq!(shown["rules"].as_array().unwrap().len(), others.len() + 1);
            }
        });
        let applied = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for n in 1..=REPLACEMENTS {
                apply(&sets[n % 2]);
            }
        }));
        stop.store(true, Ordering::Relaxed); // also if `apply` failed: otherwise the test would never end
        let seen = traffic.join().unwrap();
        reader.join().unwrap();
        applied.unwrap();
        seen
    });
    println!("{seen:?}, {REPLACEMENTS} replacements");
    assert_eq!(seen.keys().collect::<Vec<_>>(), ["po_dtcp", "po_west"], "{seen:?}");
    assert!(seen.values().sum::<u64>() > 2 * REPLACEMENTS as u64, "too few connections to tell: {seen:?}");
}
