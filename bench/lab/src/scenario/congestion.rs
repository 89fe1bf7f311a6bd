//! Checks the congestion controls that flows, variants and events name: whether they exist, and whether their settings
//! fit.
//!
//! The content of object files is checked by the planner, because a report reads its scenario even if a file is
//! missing.

use super::field_error::{CheckResult, FieldError, invalid, known, unique};
use super::file::{Event, Flow, Scenario, Swap, Tune, Variant};
use crate::algorithms;
use hotcc::object::check_cc_name;
use std::collections::{BTreeMap, BTreeSet};
use toml::Spanned;

/// Checks the variants, before flows get the values that they stand for.
pub(super) fn check_variants(scenario: &Scenario) -> CheckResult {
    unique(scenario.variant.iter().map(|v| &v.name), "variant")?;
    for variant in &scenario.variant {
        let name = variant.name.get_ref().as_str();
        if algorithms::is_ours(name) || algorithms::OF_THE_KERNEL.contains(&name) {
            return invalid(
                &variant.name,
                format!("invalid variant name `{name}`: a congestion control has this name"),
            );
        }
        if !algorithms::is_object_file(variant.cc.get_ref()) {
            known(&variant.cc, "hotcc algorithm", hotcc_bpf::ALGOS.iter().map(|o| o.name))?;
        }
        check_settings(&variant.cc, variant.profile.as_ref(), &variant.set)?;
    }
    Ok(())
}

fn check_settings(
    cc: &Spanned<String>,
    profile: Option<&Spanned<String>>,
    set: &BTreeMap<String, toml::Value>,
) -> CheckResult {
    profile.map_or(Ok(()), |profile| known(profile, "profile", ["default", "paper"].into_iter()))?;
    if algorithms::is_object_file(cc.get_ref()) {
        return Ok(());
    }
    algorithms::check_tunables(cc.get_ref(), set).or_else(|why| invalid(cc, why))
}

/// Checks a flow's congestion control, and the flow's settings for it.
pub(super) fn check_cc(cc: &Spanned<String>, flow: &Flow) -> CheckResult {
    let name = cc.get_ref();
    if algorithms::is_object_file(name) {
        return check_settings(cc, flow.profile.as_ref(), &flow.set);
    }
    if let Err(why) = check_cc_name(name) {
        return invalid(cc, why.to_string());
    }
    if !algorithms::is_ours(name) {
        if !algorithms::OF_THE_KERNEL.contains(&name.as_str()) {
            let ours = hotcc_bpf::ALGOS.iter().chain(hotcc_bpf::PEERS).map(|o| o.name);
            let all: Vec<&str> = ours.chain(algorithms::OF_THE_KERNEL).collect();
            return known(cc, "congestion control", all.into_iter());
        }
        if let Some(profile) = &flow.profile {
            return invalid(profile, format!("`{name}` is a kernel congestion control and has no profiles"));
        }
        if !flow.set.is_empty() {
            return invalid(cc, format!("`{name}` is a kernel congestion control and has no tunables to set"));
        }
        return Ok(());
    }
    check_settings(cc, flow.profile.as_ref(), &flow.set)
}

/// Checks the names of object files: the kernel must accept them, and each name in a table must refer to a single
/// congestion control.
pub(super) fn check_objects(scenario: &Scenario) -> CheckResult {
    let mut files: BTreeMap<&str, &str> = BTreeMap::new();
    for cc in scenario.flow.iter().filter_map(|flow| flow.cc.as_ref()) {
        let file = cc.get_ref().as_str();
        if !algorithms::is_object_file(file) {
            continue;
        }
        let name = algorithms::object_name(file);
        if let Err(why) = check_cc_name(name) {
            return invalid(
                cc,
                format!("{why}; the lab names an object's congestion control after its file: rename it"),
            );
        }
        let of_variant = |v: &&Variant| v.name.get_ref() == name && v.cc.get_ref() != file;
        let other = if algorithms::is_ours(name) {
            "an algorithm of hotcc".to_owned()
        } else if algorithms::OF_THE_KERNEL.contains(&name) {
            "a congestion control of the kernel".to_owned()
        } else if scenario.variant.iter().any(|v| of_variant(&v)) {
            "a variant".to_owned()
        } else if let Some(other) = files.insert(name, file).filter(|other| *other != file) {
            format!("`{other}`")
        } else {
            continue;
        };
        return invalid(cc, format!("`{file}` needs the name `{name}`, which {other} has already: rename the file"));
    }
    Ok(())
}

pub(super) fn check_swap(swap: &Swap) -> CheckResult {
    if algorithms::is_object_file(swap.new.get_ref()) {
        return Ok(());
    }
    known(&swap.new, "hotcc algorithm", hotcc_bpf::ALGOS.iter().map(|o| o.name))
}

pub(super) fn check_tune(tune: &Tune) -> CheckResult {
    let name = tune.cc.get_ref();
    if !algorithms::is_ours(name) {
        return Ok(());
    }
    algorithms::check_tunables(name, &tune.set).or_else(|why| invalid(&tune.cc, why))
}

/// Checks the fields that flows watch. A field must exist in at least one case: the flow's congestion control may be
/// swept, and the others do not have the field. `state` returns the fields of a congestion control; if it returns
/// `None`, any field may exist. An error includes the index of its case.
pub(super) fn check_watches(
    cases: &[Scenario],
    state: &dyn Fn(&str) -> Option<Vec<String>>,
) -> Result<(), (usize, FieldError)> {
    struct Watched<'a> {
        case: usize,
        field: &'a Spanned<String>,
        /// The fields that exist.
        fields: BTreeSet<String>,
        is_unknown: bool,
    }
    let mut states: BTreeMap<&str, Option<Vec<String>>> = BTreeMap::new();
    let mut watched: BTreeMap<(usize, &str), Watched<'_>> = BTreeMap::new();
    for (case, scenario) in cases.iter().enumerate() {
        for (place, flow) in scenario.flow.iter().enumerate() {
            let Some(field) = &flow.watch else { continue };
            let key = (place, field.get_ref().as_str());
            let one = watched.entry(key).or_insert(Watched { case, field, fields: BTreeSet::new(), is_unknown: false });
            if let Some(cc) = &flow.cc {
                let cc = cc.get_ref().as_str();
                let fields = states.entry(cc).or_insert_with(|| state(cc));
                one.is_unknown |= fields.is_none();
                one.fields.extend(fields.iter().flatten().cloned());
            }
        }
    }
    for Watched { case, field, fields, .. } in watched.into_values().filter(|one| !one.is_unknown) {
        let checked = if fields.is_empty() {
            invalid(field, "`watch` needs a hotcc algorithm: this flow's congestion control has no state to watch")
        } else {
            known(field, "state field", fields.iter().map(String::as_str))
        };
        checked.map_err(|error| (case, error))?;
    }
    Ok(())
}

/// Checks the congestion controls that events swap or tune. Each must exist in at least one case. An error includes the
/// index of its case.
pub(super) fn check_event_ccs(cases: &[Scenario]) -> Result<(), (usize, FieldError)> {
    let in_use: BTreeSet<&str> = cases.iter().flat_map(Scenario::loaded_ccs).collect();
    for (case, scenario) in cases.iter().enumerate() {
        for cc in scenario.event.iter().filter_map(Event::cc) {
            known(cc, "hotcc algorithm of a flow", in_use.iter().copied()).map_err(|error| (case, error))?;
        }
    }
    Ok(())
}
