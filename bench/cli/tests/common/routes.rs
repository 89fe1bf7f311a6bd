//! A flow under DCM whose sender's route changes, and the check whether DCM learns of the change.

use hotcc_lab::results::{RunSummary, locate};
use hotcc_lab_proto::plan::PATH_PUBLISHED;
use std::fs;
use std::path::{Path, PathBuf};

/// The path changes from 3 Mbit/s and 20 ms to 2 Mbit/s and 40 ms. When DCM learns of a new path, it keeps the RTT of
/// the old one.
const SCENARIO: &str = r#"
duration_s = 2.5
[sweep]
watch = [true, false]
[[host]]
name = "server"
watch_paths = "$watch"
[[host]]
name = "before"
[[host]]
name = "after"
[[host]]
name = "client"
[[link]]
name = "to-before"
between = ["server", "before"]
[[link]]
name = "to-after"
between = ["server", "after"]
[[link]]
name = "old"
between = ["before", "client"]
both = { delay_ms = 10 }
forward = { rate = "3Mbit/s", queue = "15kB" }
[[link]]
name = "new"
between = ["after", "client"]
both = { delay_ms = 20 }
forward = { rate = "2Mbit/s", queue = "15kB" }
[[flow]]
name = "download"
from = "server"
to = "client"
cc = "dcm"
watch = "old_path_srtt"
[[event]]
at_s = 1
route = { host = "server", to = "client", via = "after" }
"#;

pub fn write(directory: &Path) -> PathBuf {
    let path = directory.join("route.toml");
    fs::write(&path, SCENARIO).unwrap();
    path
}

/// Asserts that DCM learns of the new path if the sender watches its routes, and only then.
pub fn assert_learned(out: &Path) {
    let directory = locate(out).unwrap();
    for (case, watched) in [("watch=true", true), ("watch=false", false)] {
        let read = |name: &str| fs::read_to_string(directory.join(case).join("seed-1").join(name)).unwrap();
        let summary: RunSummary = serde_json::from_str(&read("summary.json")).unwrap();
        let [event] = &summary.events[..] else { panic!("{case}: {:?}", summary.events) };
        assert_eq!(event.ends_with(PATH_PUBLISHED), watched, "{case}: {event}");
        let old_path_srtt: u32 = read("flows.csv").lines().last().unwrap().rsplit(',').next().unwrap().parse().unwrap();
        assert_eq!(old_path_srtt > 0, watched, "{case}: old_path_srtt {old_path_srtt}");
        let flow = &summary.flows[0];
        assert!(flow.packets * 1448 >= flow.bytes, "{case}: packets of both paths count: {flow:?}");
        assert!(flow.rtt_ms.max > 40.0, "{case}: packets take the new path: {flow:?}");
    }
}
