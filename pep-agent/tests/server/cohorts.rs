//! Flows of the control cohort, which run without the PEP, for comparison.

use crate::host::*;
use pep_agent::report::Transport;
use pep_agent::server::{Options, RecordFate};
use std::sync::atomic::Ordering::Relaxed;
use std::thread::sleep;
use std::time::Duration;

#[test]
fn both_arms_are_counted_and_only_one_gets_records() {
    let (name, cc) = ("both_arms_are_counted_and_only_one_gets_records", "mdcubic_arms");
    let Some(test) = kernel_test(name, cc, &[]) else { return };
    let hosts = Hosts::new();
    let keys = test.key_file(&[(1, "a5")]);
    let agent = Agent::start(&hosts, &keys, Options { control_share: 0.5, ..options() });
    let mut border = hosts.border(&keys);
    let flows: Vec<Flow> = (0..40).map(|_| Flow::open(&hosts, SERVER, cc)).collect();
    let readers: Vec<_> = flows.iter().map(Flow::read_at_client).collect();
    let known =
        || agent.records(RecordFate::Control) + agent.records(RecordFate::Written) + agent.records(RecordFate::Clocked);
    // with a flow that does not exist: some of the reports sent meanwhile may be processed later, and must not count
    // for our flows
    let mut stranger = flows[0].seen_to(flows[0].first);
    stranger.key.client.set_port(1);
    wait(
        "the border's proof",
        || agent.told(),
        || {
            border.send(std::slice::from_ref(&stranger), now_us());
            sleep(Duration::from_millis(10));
            agent.records(RecordFate::UnknownFlow) > 0
        },
    );
    let report_all = |border: &mut pep_agent::transport::Udp| {
        let (before, views) = (known(), flows.iter().map(|f| f.border_view().report()).collect::<Vec<_>>());
        border.send(&views, now_us());
        wait("all flows' records", || agent.told(), || known() >= before + 40);
    };
    report_all(&mut border);
    let with_record = flows.iter().filter(|f| f.connection().pep.is_some()).count();
    assert!((5..35).contains(&with_record), "{with_record} of 40 with a record");
    for flow in &flows {
        flow.send(100_000);
    }
    sleep(Duration::from_millis(50));
    report_all(&mut border);
    for (flow, reader) in flows.iter().zip(readers) {
        flow.end();
        assert_eq!(reader.join().unwrap(), 100_000);
    }
    drop(flows);
    let [pep, control] = &agent.counters.cohorts;
    let both = |value: fn(&pep_agent::server::CohortCounters) -> u64| (value(pep), value(control));
    let ended = || both(|cohort| cohort.flows.load(Relaxed));
    wait("the flows' end", || format!("{:?}", ended()), || ended().0 + ended().1 == 40);
    assert_eq!(ended(), (with_record as u64, 40 - with_record as u64));
    assert_eq!(both(|cohort| cohort.acked_bytes.load(Relaxed) / cohort.flows.load(Relaxed) / 1000), (100, 100));
    let each_ms = both(|cohort| cohort.active_ns.load(Relaxed) / cohort.flows.load(Relaxed) / 1_000_000);
    assert!(each_ms.0 >= 50 && each_ms.1 >= 50, "{each_ms:?}");
}
