//! Repeated runs: which of them agree, and the lines in a document.

use crate::fixture::{case, flow, manifest, run, write, write_manifest};
use hotcc_lab::results::{Manifest, RunSummary};
use hotcc_report::repeated::{compare, refreshed};
use std::collections::BTreeMap;

#[test]
fn results_of_another_build_agree_if_only_their_inputs_differ() {
    let scratch = tempfile::tempdir().unwrap();
    let [first, again] = ["first", "again"].map(|name| scratch.path().join(name));
    for (directory, digit) in [(&first, "1"), (&again, "2")] {
        let inputs = BTreeMap::from([("hotcc-bench".to_owned(), digit.repeat(64))]);
        let one = RunSummary { inputs, ..run(case(&[]), 1, vec![flow("dl", "dtcp", 12.5, 30.0)]) };
        write(directory, &[one]);
    }
    let compared = compare(&first, &again).unwrap();
    assert_eq!((compared.repeated, compared.differing.len()), (1, 0), "{}", compared.text());
    assert_eq!(hotcc_report::diff::compare(&first, &again, 0.02).unwrap().identical, 1);
}

#[test]
fn repeats_of_replaced_results_do_not_keep_a_document_from_being_written() {
    let scratch = tempfile::tempdir().unwrap();
    let one = run(case(&[]), 1, vec![flow("dl", "dtcp", 12.5, 30.0)]);
    let first = scratch.path().join("small/6.12");
    write(&first, std::slice::from_ref(&one));
    write(&scratch.path().join("repeated/small/6.12"), std::slice::from_ref(&one));
    write_manifest(&first, &Manifest { scenario_sha256: "f".repeat(64), ..manifest(vec![one.run]) });
    let document = "<!-- repeated: small -->\nold\n<!-- end of repeated -->\n";
    let new = refreshed(document, scratch.path()).unwrap();
    assert!(new.contains("`small` on 6.12: its repeats are not of the present results"), "{new}");
}
