//! `hotcc status` about what others registered.
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
fn another_partys_bpf_is_called_that_without_a_socket_too() {
    let Some(test) = kernel_test("another_partys_bpf_is_called_that_without_a_socket_too", &["stranger", "dtcp"])
    else {
        return;
    };
    for (links, object, name) in [(true, test.object("stranger"), "stranger"), (false, "dtcp".to_owned(), "dtcp")] {
        // registered by this process, as any other program might
        let mut loaded = Source::find(&object).unwrap().open().unwrap().load(links).unwrap();
        let map_id = loaded.ops().unwrap().info().unwrap().info.id;
        assert_eq!(other(name), None, "loaded is not registered");
        let link = loaded.ops().unwrap().attach_struct_ops().unwrap();
        let found = other(name).unwrap();
        assert_eq!((&found["kind"], &found["map_id"]), (&"bpf".into(), &map_id.into()), "links: {links}");
        assert_eq!((&found["registered"], &found["connections"]), (&true.into(), &0.into()));
        assert!(ok(&["status"]).contains(&format!("bpf, not ours (map {map_id})")));
        // no advice that leads in a circle
        let unload = fails(1, &["unload", name]);
        assert!(unload.contains("It is registered, but not by hotcc") && !unload.contains("Load it"), "{unload}");
        let load = fails(1, &["load", &object]);
        assert!(load.contains("registered already, not by hotcc"), "{load}");
        drop(link);
    }
    assert_eq!(other("reno").unwrap()["kind"], "kernel");
    assert_eq!(other("reno").unwrap()["map_id"], Value::Null);
}

#[test]
fn what_was_unloaded_in_use_is_called_that() {
    let Some(_test) = kernel_test("what_was_unloaded_in_use_is_called_that", &["cc_gone"]) else { return };
    ok(&["load", "westwoodp", "--as", "cc_gone"]);
    let _open = Connection::new("cc_gone");
    ok(&["unload", "cc_gone"]);
    let found = other("cc_gone").unwrap();
    assert_eq!(
        (&found["kind"], &found["registered"], &found["connections"]),
        (&"bpf".into(), &false.into(), &1.into())
    );
    assert!(ok(&["status"]).contains("bpf, unloaded: its sockets run on"));
}
