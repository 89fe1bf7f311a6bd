//! Properties of the lab's links that only traffic on a stock kernel shows.

use crate::common::machine::stock_kernel;
use crate::common::run_lab;
use std::fs;

/// The same flow through a policer, and through a queue of the policer's rate.
const POLICED: &str = r#"
duration_s = 5
[sweep]
forward = [
    { name = "policed", rate = "40Mbit/s", police = { rate = "4Mbit/s", burst = "20packets" } },
    { name = "queued", rate = "4Mbit/s", police = { rate = "100Mbit/s", burst = "1MB" } },
]
[[host]]
name = "server"
[[host]]
name = "ue"
[[link]]
name = "air"
between = ["server", "ue"]
both = { delay_ms = 10 }
forward = { rate = "$forward.rate", police = "$forward.police" }
[[flow]]
name = "main"
from = "server"
to = "ue"
cc = "cubic"
"#;

#[test]
fn a_policer_drops_what_exceeds_its_rate_and_queues_nothing() {
    if stock_kernel("a_policer_drops_what_exceeds_its_rate_and_queues_nothing", "6.12").is_none() {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let scenario = scratch.path().join("policed.toml");
    fs::write(&scenario, POLICED).unwrap();
    let results = run_lab("vm:6.12", [], &scenario, &scratch.path().join("out"));
    let [policed, queued] = ["policed", "queued"].map(|forward| {
        let run = results.runs.iter().find(|run| run.run.case["forward"] == forward).unwrap();
        assert_eq!(run.invalid, Vec::<String>::new());
        let (link, flow) = (&run.links[0], &run.flows[0]);
        println!("{forward}: {:.2} Mbit/s, {link:?}", flow.throughput_bps / 1e6);
        assert_eq!((link.police_drops, link.queue_drops), (flow.police_drops, flow.queue_drops));
        (link.clone(), flow.throughput_bps)
    });
    // the bucket, which is full at the start, adds 48 kbit/s over 5 s
    assert!((1e6..4.05e6).contains(&policed.1), "{}", policed.1);
    assert!(policed.0.police_drops > 10 && policed.0.queue_drops == 0);
    assert!(policed.0.queue_delay_ms.mean < 0.1 * queued.0.queue_delay_ms.mean);
    assert!(queued.0.police_drops == 0 && queued.0.queue_drops > 0);
}
