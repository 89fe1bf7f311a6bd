//! Tests `hotcc status` and `hotcc report`, also about congestion controls that other programs registered.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
use common::*;
use hotcc::object::Source;
use libbpf_rs::MapCore;
use serde_json::Value;

fn other(name: &str) -> Option<Value> {
    let status = json(&["status", "--json"]);
    status["others"].as_array().unwrap().iter().find(|o| o["name"] == name).cloned()
}

#[test]
fn third_party_bpf_is_shown_as_such_without_sockets() {
    let Some(test) = kernel_test("third_party_bpf_is_shown_as_such_without_sockets", &["stranger", "dtcp"]) else {
        return;
    };
    for (links, object, name) in [(true, test.object("stranger"), "stranger"), (false, "dtcp".to_owned(), "dtcp")] {
        // this process registers it, as another program could
        let mut loaded = Source::find(&object).unwrap().open().unwrap().load(links).unwrap();
        let map_id = loaded.ops().unwrap().info().unwrap().info.id;
        assert_eq!(other(name), None, "loaded is not registered");
        let link = loaded.ops().unwrap().attach_struct_ops().unwrap();
        let found = other(name).unwrap();
        assert_eq!((&found["kind"], &found["map_id"]), (&"bpf".into(), &map_id.into()), "links: {links}");
        assert_eq!((&found["registered"], &found["connections"]), (&true.into(), &0.into()));
        assert!(ok(&["status"]).contains(&format!("bpf, not loaded by hotcc (map {map_id})")));
        // the advice does not lead in a circle
        let unload = fails(1, &["unload", name]);
        assert!(unload.contains("It is registered, but not by hotcc") && !unload.contains("Load it"), "{unload}");
        let load = fails(1, &["load", &object]);
        assert!(load.contains("already registered, but not by hotcc"), "{load}");
        drop(link);
    }
    assert_eq!(other("reno").unwrap()["kind"], "kernel");
    assert_eq!(other("reno").unwrap()["map_id"], Value::Null);
}

#[test]
fn where_it_is_the_default_and_what_rollback_restores_is_shown() {
    let Some(_test) = kernel_test("where_it_is_the_default_and_what_rollback_restores_is_shown", &["cc_shown"]) else {
        return;
    };
    let ns = NetNs::new("hotcc-test-shown");
    ok(&["load", "westwoodp", "--as", "cc_shown", "--profile", "paper"]);
    let text = ok(&["status"]);
    assert!(!text.contains("rollback restores") && !text.contains("default in:"), "{text}");
    ns.sh("echo cc_shown > /proc/sys/net/ipv4/tcp_congestion_control");
    ok(&["swap", "cc_shown", "dtcp"]);
    let text = ok(&["status"]);
    let shown = text.split_once("\ncc_shown ").unwrap().1;
    let expected = "    default in: hotcc-test-shown\n    rollback restores: builtin:westwoodp (profile paper)\n";
    assert!(shown.split_once('\n').unwrap().1.starts_with(expected), "{text}");
    assert_eq!(status_of("cc_shown").unwrap()["default_in"], serde_json::json!(["hotcc-test-shown"]));
    // the output explains which default the namespace gets
    let allowed = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_allowed_congestion_control").unwrap();
    let cubic = registered("cubic");
    let refused = cubic && !allowed.split_whitespace().any(|name| name == "cubic");
    let text = ok(&["unload", "cc_shown", "--fallback", if cubic { "cubic" } else { "reno" }]);
    let got = if cubic && !refused { "cubic" } else { "reno" };
    assert!(text.contains(&format!("  default of 1 network namespace(s): now {got}\n")), "{text}");
    assert_eq!(text.contains("  cubic was refused in 1 of them"), refused, "{text}");
    assert_eq!(ns.sh("cat /proc/sys/net/ipv4/tcp_congestion_control"), got);
}

#[test]
fn tunables_that_are_not_the_profiles_are_shown() {
    let Some(_test) = kernel_test("tunables_that_are_not_the_profiles_are_shown", &["cc_set"]) else { return };
    ok(&["load", "fbtcp", "--as", "cc_set", "--profile", "paper", "--set", "c2_add=90"]);
    ok(&["set", "cc_set", "c1_add=60"]);
    let changed = |name: &str, old: &str, new: &str| serde_json::json!({"name": name, "old": old, "new": new});
    let expected = serde_json::json!([changed("c1_add", "120", "60"), changed("c2_add", "100", "90")]);
    assert_eq!(status_of("cc_set").unwrap()["tunables_changed"], expected);
    let text = ok(&["status"]);
    assert!(text.contains("    tunables: c1_add=60 (profile: 120), c2_add=90 (profile: 100)\n"), "{text}");
    ok(&["set", "cc_set", "c1_add=120", "c2_add=100"]);
    assert!(!ok(&["status"]).contains("    tunables: "));
}

#[test]
fn algorithms_unloaded_in_use_are_shown_as_such() {
    let Some(_test) = kernel_test("algorithms_unloaded_in_use_are_shown_as_such", &["cc_gone"]) else { return };
    ok(&["load", "westwoodp", "--as", "cc_gone"]);
    let _open = Connection::new("cc_gone");
    ok(&["unload", "cc_gone"]);
    let found = other("cc_gone").unwrap();
    assert_eq!(
        (&found["kind"], &found["registered"], &found["connections"]),
        (&"bpf".into(), &false.into(), &1.into())
    );
    assert!(ok(&["status"]).contains("bpf, unloaded; open sockets keep it"));
}

#[test]
fn a_report_has_all_parts_and_says_why_one_is_missing() {
    let Some(_test) = kernel_test("a_report_has_all_parts_and_says_why_one_is_missing", &["cc_told"]) else { return };
    ok(&["load", "dtcp", "--as", "cc_told"]);
    let report = json(&["report"]);
    assert_eq!(report["version"], env!("CARGO_PKG_VERSION"));
    let algorithms = report["status"]["algorithms"].as_array().unwrap();
    assert!(algorithms.iter().any(|algorithm| algorithm["name"] == "cc_told"), "{report}");
    assert!(
        !report["doctor"]["findings"].as_array().unwrap().is_empty() && report["receivers"]["receivers"].is_array()
    );
    let difference = &report["difference"];
    match difference["error"].as_str() {
        Some(error) => assert!(error.contains("cannot read /etc/hotcc/hotcc.toml"), "{error}"),
        None => assert!(difference["steps"].is_array(), "{difference}"),
    }
    assert_eq!(report["logs"].as_object().unwrap().len(), 5);
}

#[test]
fn an_algorithm_with_unreadable_metadata_is_shown() {
    let Some(test) = kernel_test("an_algorithm_with_unreadable_metadata_is_shown", &["cc_old", "cc_lost", "cc_good"])
    else {
        return;
    };
    for name in ["cc_old", "cc_lost", "cc_good"] {
        ok(&["load", "westwoodp", "--as", name]);
    }
    let notes = |name: &str| {
        let versions = std::fs::read_dir(format!("/sys/fs/bpf/hotcc/algo/{name}")).unwrap();
        versions.map(|entry| entry.unwrap().path().join("meta")).find(|path| path.exists()).unwrap()
    };
    let map = libbpf_rs::MapHandle::from_pinned_path(notes("cc_old")).unwrap();
    let key = 0_u32.to_ne_bytes();
    let mut value = map.lookup(&key, libbpf_rs::MapFlags::ANY).unwrap().unwrap();
    value[..4].copy_from_slice(&99_u32.to_ne_bytes()); // version of the layout
    map.update(&key, &value, libbpf_rs::MapFlags::ANY).unwrap();
    std::fs::remove_file(notes("cc_lost")).unwrap();

    for (name, why) in [("cc_old", "another version of hotcc (layout 99)"), ("cc_lost", "meta is missing")] {
        let shown = status_of(name).unwrap();
        assert!(shown["problem"].as_str().unwrap().contains(why), "{shown}");
        assert_eq!((&shown["object"], &shown["registered"]), (&"unknown".into(), &true.into()));
        assert_eq!(other(name), None, "it is hotcc's");
        assert!(ok(&["status"]).contains(why));
    }
    assert_eq!(status_of("cc_good").unwrap()["problem"], Value::Null);
    let nothing = test.file("nothing.toml", b"");
    let planned: Value = serde_json::from_slice(&hotcc(&["diff", &nothing, "--json"]).stdout).unwrap();
    for name in ["cc_old", "cc_lost"] {
        let steps = planned["steps"].as_array().unwrap();
        assert!(steps.iter().any(|step| step["name"] == name && step["action"] == "unload"), "{planned}");
    }
    ok(&["unload", "cc_lost"]);
    ok(&["unload", "cc_old"]);
}
