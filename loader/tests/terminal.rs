//! Tests that control characters in untrusted text never reach a terminal.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
use common::*;
use std::process::Output;

/// Returns an object in which `from` is replaced by `to`, of the same length.
fn with(object: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let mut other = object.to_vec();
    let places: Vec<usize> = (0..other.len() - from.len()).filter(|&at| other[at..].starts_with(from)).collect();
    assert!(!places.is_empty());
    places.into_iter().for_each(|at| other[at..at + to.len()].copy_from_slice(to));
    other
}

fn is_plain(what: &str, output: &Output) {
    for text in [&output.stdout, &output.stderr] {
        let text = String::from_utf8(text.clone()).unwrap_or_else(|e| panic!("{what}: {e}"));
        let raw = text.chars().find(|c| c.is_control() && !matches!(c, '\n' | '\t'));
        assert_eq!(raw, None, "{what}: {text:?}");
    }
}

#[test]
fn control_characters_of_objects_and_paths_are_escaped() {
    let Some(test) = kernel_test("control_characters_of_objects_and_paths_are_escaped", &["foreign"]) else { return };
    let dtcp = hotcc_bpf::algo("dtcp").unwrap().bytes;
    let described = test.file("described.bpf.o", &with(dtcp, b"D-TCP", b"\x1b[31m"));
    let named = test.file("named\u{1b}[31m\u{9b}1m.bpf.o", b"no object");
    let loadable = test.file("fine\u{1b}[31m.bpf.o", &std::fs::read(test.object("foreign")).unwrap());
    for arguments in [
        &["list", &*described][..],
        &["list", &described, "--json"],
        &["load", &named],
        &["load", "no\u{1b}such"],
        &["unload", "no\u{1b}such"],
        &["load", &loadable],
        &["status"],
        &["status", "--json"],
        &["unload", "foreign"],
    ] {
        is_plain(&format!("{arguments:?}"), &hotcc(arguments));
    }
}

/// libbpf's messages quote names from the object, which need not be valid UTF-8.
#[test]
fn libbpfs_messages_may_contain_any_byte() {
    let Some(test) = kernel_test("libbpfs_messages_may_contain_any_byte", &["foreign"]) else { return };
    let object = std::fs::read(test.object("foreign")).unwrap();
    let other = with(&object, b"tcp_reno_ssthresh", b"tcp_reno\xff\x1b\x9bthresh");
    let path = test.file("other.bpf.o", &other);
    let output = hotcc(&["load", &path]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    is_plain("load", &output);
}
