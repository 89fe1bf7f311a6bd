//! Tests what happens to tuned values when one version replaces another.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
use common::*;

#[test]
fn a_swap_reports_changed_tunables_and_keeps_them_on_request() {
    let Some(test) = kernel_test("a_swap_reports_changed_tunables_and_keeps_them_on_request", &["cc_kept"]) else {
        return;
    };
    let values = || ["eta", "g_permille", "queue"].map(|tunable| ok(&["get", "cc_kept", tunable]).trim().to_owned());
    ok(&["load", "dtcp", "--as", "cc_kept"]);
    let first = values();
    ok(&["set", "cc_kept", "eta=3", "g_permille=400", "queue=rtt"]);
    let set = values();
    // by default, values are reset, and the command lists the changes
    let text = ok(&["swap", "cc_kept", "dtcp"]);
    assert!(text.contains("  eta: 3 -> 2\n") && text.contains("  g_permille: 400 -> 500\n"), "{text}");
    assert!(text.contains(&format!("  queue: rtt -> {}\n", first[2])), "{text}");
    assert_eq!(values(), first);
    let back = json(&["rollback", "cc_kept", "--json"]);
    let changed = back["tunables_changed"].as_array().unwrap();
    assert_eq!(changed.len(), 3, "{changed:?}");
    assert!(changed.contains(&serde_json::json!({"name": "eta", "old": "2", "new": "3"})), "{changed:?}");
    assert_eq!(values(), set);
    // kept values take precedence over the profile, but not over --set
    let kept = json(&["swap", "cc_kept", "dtcp", "--keep-tunables", "--json"]);
    assert_eq!(kept["served_already"], true, "what it would become is what serves");
    let kept = json(&[
        "swap",
        "cc_kept",
        "dtcp",
        "--keep-tunables",
        "--profile",
        "paper",
        "--set",
        "g_permille=450",
        "--json",
    ]);
    assert_eq!(
        kept["tunables_changed"],
        serde_json::json!([{"name": "g_permille", "old": "400", "new": "450"}]),
        "the kept ones go before the profile"
    );
    assert_eq!(values(), [&*set[0], "450", &*set[2]]);
    // having no tunable in common is not an error
    let other = json(&["swap", "cc_kept", &test.object("stranger"), "--keep-tunables", "--json"]);
    assert_eq!(other["tunables_changed"], serde_json::json!([]));
}
