//! Rules in the file that declares what runs: `apply`, `diff` and `save`.

use crate::common::*;
use crate::count;
use crate::ruled::{NETNS, Ruled};
use serde_json::Value;
use std::fs;

#[test]
fn rules_are_compared_saved_and_have_tunables_of_their_own() {
    let Some(ruled) = Ruled::new("rules_are_compared_saved_and_have_tunables_of_their_own") else { return };
    let text = format!(
        "[[algorithm]]\nobject = 'dtcp'\nname = 'po_dtcp'\ntunables.n_max = 9\n\
         [[policy]]\nnetns = '{NETNS}'\nremote = '10.1.0.0/16'\ncongestion_control = 'po_dtcp'\ntunables.eta = 3\n\
         [[policy]]\nnetns = '{NETNS}'\ncongestion_control = 'po_dtcp'\n"
    );
    let file = ruled.file(&text);
    let steps = |report: &Value| -> Vec<String> {
        let steps = report["steps"].as_array().unwrap();
        steps.iter().map(|step| step["name"].as_str().unwrap().to_owned()).collect()
    };
    let planned = steps(&json(&["apply", &file, "--dry-run", "--json"]));
    assert_eq!((planned.len(), &*planned[0], &*planned[2]), (3, "po_dtcp", "rules"), "{planned:?}");
    let own = planned[1].clone();
    ok(&["apply", &file]);
    assert_eq!((ruled.at("10.1.0.1:0").0, ruled.at("10.2.0.1:0").0), (own.clone(), "po_dtcp".to_owned()));
    assert_eq!((&*ok(&["get", &own, "eta"]), &*ok(&["get", &own, "n_max"])), ("3\n", "9\n"));
    ok(&["diff", &file]);
    let saved = ruled.test.dir.path().join("saved.toml").display().to_string();
    assert_eq!(json(&["save", &saved, "--json"])["rules"], 2);
    ok(&["diff", &saved]);
    let written = fs::read_to_string(&saved).unwrap();
    assert!(!written.contains(&own), "{written}");

    // one changed rule is one step, which lists that rule as changed
    let other = ruled.file(&text.replace("10.1.0.0/16", "10.2.0.0/16"));
    let report = json(&["apply", &other, "--json"]);
    assert_eq!(steps(&report), ["rules"]);
    let changes = report["steps"][0]["changes"].as_array().unwrap();
    assert_eq!((changes.len(), &changes[0]["name"]), (1, &"rule 1".into()));
    // if a rule's congestion control is unloaded, sockets keep theirs, and the rule counts them
    ok(&["unload", &own]);
    assert_ne!(ruled.at("10.2.0.1:0").0, own);
    assert_eq!(count(1, "unavailable"), 2);
    assert_eq!(json(&["policy", "show", "--json"])["rules"][0]["loaded"], false);
}

#[test]
fn a_file_that_apply_would_refuse_is_not_saved() {
    let Some(ruled) = Ruled::new("a_file_that_apply_would_refuse_is_not_saved") else { return };
    ruled.apply(&["port = 443\ncongestion_control = 'po_west'"]);
    ok(&["unload", "po_west"]);
    let saved = ruled.test.dir.path().join("saved.toml").display().to_string();
    let refused = fails(1, &["save", &saved]);
    assert!(
        refused.contains("rule 1 names po_west, which is not registered; load it, or remove the rule"),
        "{refused}"
    );
    let rule = format!("[[policy]]\nnetns = '{NETNS}'\ncongestion_control = 'po_dtcp'\ntunables.eta = 3\n");
    ok(&["apply", &ruled.file(&format!("[[algorithm]]\nobject = 'dtcp'\nname = 'po_dtcp'\n{rule}"))]);
    ok(&["unload", "po_dtcp"]); // the rule's own registration stays
    let refused = fails(1, &["save", &saved]);
    assert!(refused.contains("rule 1 sets tunables of po_dtcp, which `hotcc load` has not loaded"), "{refused}");
    assert!(!std::path::Path::new(&saved).exists());
}
