//! The comparison, as the command prints it.

use crate::fixture::{self, case, flow, manifest, run};
use hotcc_lab::results::RunSummary;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Runs `diff`. Returns its exit code, stdout and stderr.
fn diff(a: &Path, b: &Path, more: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hotcc-bench"));
    let output = command.arg("diff").arg(a).arg(b).args(more).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn runs(mbps: &[f64]) -> Vec<RunSummary> {
    let one = |(k, mbps): (usize, &f64)| run(case(&[]), k as u64 + 1, vec![flow("bulk", "dtcp", *mbps, 40.0)]);
    mbps.iter().enumerate().map(one).collect()
}

fn directories(a: &[RunSummary], b: &[RunSummary]) -> (tempfile::TempDir, tempfile::TempDir) {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fixture::write(one.path(), a);
    fixture::write(other.path(), b);
    (one, other)
}

fn figure<'a>(json: &'a Value, metric: &str) -> &'a Value {
    json["cases"][0]["figures"].as_array().unwrap().iter().find(|f| f["metric"] == metric).unwrap()
}

#[test]
fn paired_by_seed() {
    let (a, b) = directories(&runs(&[10.0, 20.0, 30.0]), &runs(&[12.0, 22.5, 33.0]));
    let (code, out, _) = diff(a.path(), b.path(), &["--json"]);
    let json: Value = serde_json::from_str(&out).unwrap();
    let throughput = figure(&json, "throughput_mbps");
    assert_eq!((code, throughput["verdict"].as_str()), (0, Some("better")));
    assert_eq!((throughput["a"].as_f64(), throughput["b"].as_f64()), (Some(20.0), Some(22.5)));
    // deviation 0.5, t(2) = 4.302653
    let half = throughput["difference"]["half_width"].as_f64().unwrap();
    assert!((half - 4.302_652_729_911_275 * 0.5 / 3f64.sqrt()).abs() < 1e-9);
    assert_eq!(throughput["better"], "higher");
    assert_eq!(figure(&json, "rtt_mean_ms")["verdict"], "same");
    let (code, out, _) = diff(b.path(), a.path(), &[]);
    assert_eq!(code, 1);
    let line = out.lines().find(|line| line.contains("throughput_mbps")).unwrap();
    let fields: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(
        fields,
        ["throughput_mbps", "higher", "22.5", "20", "-2.5", "[-3.742,", "-1.258]", "-11.1", "%", "worse"],
        "{out}"
    );
    assert!(out.contains("chance alone"), "{out}");
}

#[test]
fn the_margin_is_the_users() {
    let (a, b) = directories(&runs(&[10.0, 20.0, 30.0]), &runs(&[10.5, 19.4, 30.2]));
    let verdict = |margin: &str| {
        let json: Value = serde_json::from_str(&diff(a.path(), b.path(), &["--json", "--margin", margin]).1).unwrap();
        figure(&json, "throughput_mbps")["verdict"].as_str().unwrap().to_owned()
    };
    assert_eq!(verdict("2"), "cannot_tell");
    assert_eq!(verdict("8%"), "same");
    assert_eq!(diff(a.path(), b.path(), &["--margin", "-1"]).0, 2);
}

#[test]
fn one_seed_cannot_tell_unless_nothing_changed() {
    let (a, b) = directories(&runs(&[10.0]), &runs(&[5.0]));
    let (code, out, _) = diff(a.path(), b.path(), &[]);
    assert_eq!(code, 0);
    assert!(out.contains("one seed is not enough") && !out.contains("better\n"), "{out}");
    let (code, out, _) = diff(a.path(), a.path(), &[]);
    assert_eq!(code, 0);
    assert!(out.contains("all runs are identical, byte for byte") && out.contains("manifests are the same"), "{out}");
    assert!(!out.contains("cannot tell"), "{out}");
}

#[test]
fn series_count_for_identity() {
    let (a, b) = directories(&runs(&[10.0, 11.0]), &runs(&[10.0, 11.0]));
    assert!(diff(a.path(), b.path(), &[]).1.contains("identical, byte for byte"));
    for (directory, period) in [(&a, 0.1), (&b, 0.2)] {
        fixture::write_series(directory.path(), &runs(&[10.0])[0], period);
    }
    let (code, out, _) = diff(a.path(), b.path(), &[]);
    assert_eq!(code, 0);
    assert!(out.contains("1 of them identical, byte for byte"), "{out}");
}

#[test]
fn what_differs_between_the_manifests_is_said() {
    let (a, b) = directories(&runs(&[10.0, 11.0]), &runs(&[10.0, 11.0]));
    let mut other = manifest(runs(&[10.0, 11.0]).iter().map(|r| r.run.clone()).collect());
    other.kernel = "6.18.1+deb14-cloud-amd64".to_owned();
    other.objects.insert("dtcp".to_owned(), "9".repeat(64));
    other.objects.insert("bbr".to_owned(), "8".repeat(64));
    fixture::write_manifest(b.path(), &other);
    let (_, out, _) = diff(a.path(), b.path(), &[]);
    assert!(out.contains("differs: kernel: 6.12.57+deb13-cloud-amd64 -> 6.18.1+deb14-cloud-amd64"), "{out}");
    assert!(out.contains("differs: object dtcp: cccccccccccc… -> 999999999999…"), "{out}");
    assert!(out.contains("differs: object bbr: none -> 888888888888…"), "{out}");
    assert!(!out.contains("differs: QEMU"));
}

#[test]
fn runs_without_a_partner_are_left_out() {
    let mut one_invalid = runs(&[10.0, 11.0, 12.0]);
    one_invalid[1].invalid = vec!["clock ran backwards".to_owned()];
    let (a, b) = directories(&runs(&[10.0, 11.0, 12.0, 13.0]), &one_invalid);
    let (code, out, _) = diff(a.path(), b.path(), &[]);
    assert_eq!(code, 0);
    assert!(out.contains("left out: all, seed 2: B: invalid (clock ran backwards)"), "{out}");
    assert!(out.contains("left out: all, seed 4: B: no such run"), "{out}");
    assert!(out.contains("2 runs compared"), "{out}");
}

#[test]
fn each_flow_is_compared_too() {
    let pair = |seed, first, second| {
        run(case(&[]), seed, vec![flow("a", "dtcp", first, 40.0), flow("b", "cubic", second, 40.0)])
    };
    // the mean stays; one flow gains what the other loses
    let (a, b) = directories(&[pair(1, 10.0, 10.0), pair(2, 11.0, 11.0)], &[pair(1, 14.0, 6.0), pair(2, 15.0, 7.0)]);
    let (code, out, _) = diff(a.path(), b.path(), &[]);
    assert_eq!(code, 1);
    assert!(out.contains("  a throughput_mbps") && out.contains("  b throughput_mbps"), "{out}");
}

#[test]
fn what_cannot_be_compared_is_a_usage_error() {
    let (a, b) = directories(&runs(&[10.0]), &[run(case(&[("loss", "1")]), 1, vec![flow("bulk", "dtcp", 1.0, 40.0)])]);
    let (code, _, error) = diff(a.path(), b.path(), &[]);
    assert_eq!(code, 2);
    assert!(error.contains("have no valid run of the same case and seed"), "{error}");
    let (code, _, error) = diff(a.path(), Path::new("/nowhere"), &[]);
    assert_eq!(code, 2);
    assert!(error.contains("cannot read"), "{error}");
    fs::remove_file(a.path().join("all/seed-1/summary.json")).unwrap();
    let (code, _, error) = diff(a.path(), a.path(), &[]);
    assert_eq!(code, 2);
    assert!(error.contains("not finished"), "{error}");
}
