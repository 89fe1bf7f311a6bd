//! Both agents of the border PEP and `mdcubic` on the oldest and the newest stock kernel, in virtual time: clsact and TCX,
//! the private device, socket storage, the duplicate ACKs.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{build, obey, stock_kernel};
use hotcc_bench::lab::results::{Results, locate};
use std::fs;
use std::process::Command;

/// Losses behind the border alone, enough to keep CUBIC at a fraction of the link.
const SCENARIO: &str = r#"
duration_s = 6
seeds = [1]

[sweep]
cc = ["cubic", "mdcubic"]

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

[[flow]]
name = "flow"
from = "server"
to = "client"
cc = "$cc"
"#;

#[test]
fn the_pep_places_losses_on_the_oldest_and_the_newest_kernel() {
    const NAME: &str = "the_pep_places_losses_on_the_oldest_and_the_newest_kernel";
    build(&["hotcc", "pep-agent"]);
    let scratch = tempfile::tempdir().unwrap();
    let scenario = scratch.path().join("both.toml");
    fs::write(&scenario, SCENARIO).unwrap();
    for name in ["6.1", "newest"] {
        let Some(kernel) = stock_kernel(NAME, name) else { return };
        let out = scratch.path().join(name);
        let lab = format!("vm:{name}");
        let mut command = Command::new(env!("CARGO_BIN_EXE_hotcc-bench"));
        obey(command.args(["lab", "--lab", &lab, "--jobs", "2", "--out"]).arg(&out).arg(&scenario));
        let results = Results::read(&locate(&out).unwrap()).unwrap();
        let bps = |cc: &str| {
            let run = results.runs.iter().find(|run| run.run.case["cc"] == cc).unwrap();
            assert!(run.invalid.is_empty(), "{cc} on {}: {:?}", kernel.release, run.invalid);
            run.flows[0].throughput_bps
        };
        let (cubic, mdcubic) = (bps("cubic"), bps("mdcubic"));
        println!("{}: {mdcubic:.0} bit/s with the PEP, CUBIC {cubic:.0}", kernel.release);
        assert!(mdcubic > 2.0 * cubic, "on {} the PEP does not help: {mdcubic}, CUBIC {cubic}", kernel.release);
    }
}
