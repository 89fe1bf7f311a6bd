//! Scenarios that compare algorithms include CUBIC and BBR.

use crate::files;
use hotcc_lab::scenario::Source;
use std::collections::BTreeSet;
use std::path::Path;

/// Scenarios without CUBIC or without BBR, and the reason.
const WITHOUT: [(&str, &str); 18] = [
    ("arwa-bursts", "compares a receiver that sends hints with one that does not; the sender is the same"),
    ("arwa-coexistence", "a mix of receivers in one cell, as in the paper; one sender for each kind"),
    ("arwa-limits", "values of a tunable, against each other"),
    ("arwa-mixed", "the paper's load of NewReno and video, at several numbers of users: no algorithm is compared"),
    ("arwa-places", "NewReno at places of a cell: no algorithm is compared"),
    ("arwa-queues", "NewReno at several lengths of queue: no algorithm is compared"),
    ("arwa-users", "compares receivers, and the profiles of `arwa`; arwa-fast has the senders"),
    ("arwa-window", "NewReno at several receive windows: no algorithm is compared"),
    ("capacity-age", "readings of several kinds, for one algorithm; crest-recorded has the peers on recorded links"),
    ("crest-alone", "gates against BBR; crest-recorded has CUBIC on links of the same recordings"),
    ("crest-alone-paths", "as crest-alone"),
    (
        "crest-capacity",
        "crest with and without readings of the capacity, on the links of crest-recorded, which has the peers",
    ),
    ("crest-generated", "gates against BBR, as crest-alone"),
    ("crest-handover", "gates of time; BBR shows what the path allows"),
    ("crest-rates", "gates of crest's own phases and queue; no algorithm is compared"),
    (
        "crest-wrong",
        "crest with a right and a wrong SINR, and without; crest-generated and crest-recorded have the peers",
    ),
    ("fbtcp-saturated", "UDP alone: what the radios of the FB-TCP scenarios carry"),
    ("signal-age", "readings of several kinds, of which CUBIC and BBR know nothing; dtcp-signal has the peers"),
];

/// Returns the congestion controls that a scenario names.
fn named(path: &Path) -> BTreeSet<String> {
    let source = Source::read(path).unwrap();
    let cases = source.cases().unwrap();
    let flows = cases.iter().flat_map(|case| &case.scenario.flow);
    flows.filter_map(|flow| flow.cc.as_ref()).map(|cc| cc.get_ref().clone()).collect()
}

#[test]
fn every_scenario_that_compares_algorithms_has_cubic_and_bbr() {
    let mut seen = BTreeSet::new();
    for path in files() {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let named = named(&path);
        let missing: Vec<&str> = ["cubic", "bbr"].into_iter().filter(|peer| !named.contains(*peer)).collect();
        let without = WITHOUT.iter().find(|(scenario, _)| *scenario == name);
        assert_eq!(without.is_none(), missing.is_empty(), "{name} lacks {missing:?}, excepted: {without:?}");
        seen.extend(without.map(|(scenario, _)| *scenario));
    }
    assert_eq!(seen.len(), WITHOUT.len(), "an exception for a scenario that is not there");
}
