//! Both agents of the border PEP and `mdcubic` on the oldest and the newest stock kernel, in virtual time: clsact and
//! TCX, socket storage, duplicate ACKs, and a border that is restarted after kill -9.

use crate::common::machine::{ARM64_KERNELS, stock_kernel};
use crate::common::run_lab;
use hotcc::advise::groups::Group;
use hotcc::advise::rules::advise;
use hotcc_lab::results::FlowSummary;
use hotcc_testbed::command::build;
use hotcc_testbed::soak;
use std::fs;

/// Losses only behind the border, enough to keep CUBIC at a fraction of the link.
const SCENARIO: &str = r#"
duration_s = 6
seeds = [1]

[sweep]
pep = [
    { name = "cubic", cc = "cubic", fault = "none" },
    { name = "mdcubic", cc = "mdcubic", fault = "none" },
    { name = "dies", cc = "mdcubic", fault = "dies" },
]

[[host]]
name = "server"

[[host]]
name = "border"

[[host]]
name = "client"

[[link]]
name = "domain1"
between = ["server", "border"]
both = { delay_ms = 15 }

[[link]]
name = "domain2"
between = ["border", "client"]
both = { delay_ms = 15 }
forward = { rate = "16Mbit/s", queue = "1BDP", loss = 0.02 }

[[pep]]
border = "border"
servers = ["server"]
delay_us = 5000
fault = "$pep.fault"

[[flow]]
name = "flow"
from = "server"
to = "client"
cc = "$pep.cc"
"#;

/// Returns what `hotcc advise` would find of a flow that a PEP reports on.
fn group(flow: &FlowSummary) -> Group {
    let us = |ms: f64| Some((1000.0 * ms) as u32);
    Group {
        cc: flow.cc.clone(),
        connections: 1,
        bytes: flow.bytes,
        goodput_bps: flow.throughput_bps as u64,
        busy_goodput_bps: flow.throughput_bps as u64,
        retransmit_ratio: flow.retransmits as f64 / flow.packets as f64,
        mss: 1448,
        least_rtt_us: us(flow.rtt_ms.min),
        median_rtt_us: us(flow.rtt_ms.p50),
        pep: true,
        ..Group::default()
    }
}

#[test]
fn mdcubic_with_a_pep_outperforms_cubic_on_the_oldest_and_newest_kernel() {
    build(&["hotcc", "pep-agent"]);
    outperforms(&["6.1", "newest"], "mdcubic_with_a_pep_outperforms_cubic_on_the_oldest_and_newest_kernel");
}

#[test]
#[ignore = "needs `just build-arm64`, and takes minutes: just soak"]
fn mdcubic_with_a_pep_outperforms_cubic_on_arm64() {
    outperforms(&ARM64_KERNELS, "mdcubic_with_a_pep_outperforms_cubic_on_arm64");
}

fn outperforms(kernels: &[&str], test: &str) {
    let scratch = tempfile::tempdir().unwrap();
    let scenario = scratch.path().join("both.toml");
    fs::write(&scenario, SCENARIO).unwrap();
    for name in kernels {
        let Some(kernel) = stock_kernel(test, name) else { return };
        let out = scratch.path().join(name);
        let lab = format!("vm:{name}");
        let results = run_lab(&lab, [], &scenario, &out);
        let run = |pep: &str| {
            let run = results.runs.iter().find(|run| run.run.case["pep"] == pep).unwrap();
            assert!(run.invalid.is_empty(), "{pep} on {}: {:?}", kernel.release, run.invalid);
            run
        };
        let [cubic, mdcubic, dies] = ["cubic", "mdcubic", "dies"].map(|pep| run(pep).flows[0].throughput_bps);
        println!("{}: bit/s with the PEP {mdcubic:.0}, one that dies {dies:.0}, CUBIC {cubic:.0}", kernel.release);
        soak::report(&format!(
            "{}: mdcubic with a PEP has {:.1} of CUBIC's throughput",
            kernel.release,
            mdcubic / cubic
        ));
        assert!(mdcubic > 2.0 * cubic, "on {} the PEP does not help: {mdcubic}, CUBIC {cubic}", kernel.release);
        let advice = advise(&group(&run("cubic").flows[0]), 0);
        assert_eq!((advice.rule, advice.try_cc), ("behind-border", Some("mdcubic")), "{}", advice.why);
        assert!(mdcubic > advice.expect.unwrap().throughput_at_least * cubic);
        assert_eq!(advise(&group(&run("mdcubic").flows[0]), 0).try_cc, None);
        // the border's agent is down for a third of the time
        let events = &run("dies").events;
        assert!(events.len() == 2 && !events.iter().any(|event| event.contains("fail")), "{events:?}");
        assert!(dies > 1.3 * cubic, "on {} the border does not recover: {dies}, CUBIC {cubic}", kernel.release);
    }
}
