//! The receive window: granted so that the sender's queue stays short.

use crate::common::kernel_test;
use crate::path::*;
use std::time::Duration;

#[test]
fn granted_windows_keep_the_queue_short_whatever_the_sender_runs() {
    let name = "granted_windows_keep_the_queue_short_whatever_the_sender_runs";
    let Some(_test) = kernel_test(name, &[]) else { return };
    let (path, cgroup) = (Path::new(), Cgroup::new("hotcc-test-rx"));
    let observe = |cc: &str| {
        let flow = Flow::open(&path, &cgroup, Enrolled::ReceiverOnly, RECEIVER_V4, cc);
        let transfer = Transfer::start(flow, cc);
        std::thread::sleep(Duration::from_secs(1));
        transfer.observe(15)
    };
    for cc in ["reno", "cubic"] {
        let plain = observe(cc);
        let _loaded = Loaded::new("drwa", &["--cgroup", cgroup.path()]);
        let before = Before::now();
        let steered = observe(cc);
        println!("{cc}: without {plain:?}, with {steered:?}");
        assert_eq!(before.added("flows_clamped"), 1);
        assert!(before.added("clamps_set") > 10);
        assert_eq!(before.added("clamps_refused"), 0);
        assert!(steered.0 * 4 < plain.0, "{cc}: {} us, {} us without", steered.0, plain.0);
        assert!(steered.1 > plain.1 * 0.5, "{cc}: {} bytes/s, {} without", steered.1, plain.1);
    }
}
