//! Checks the policy rules that a file declares. Each rule with tunables needs a registration with those tunables,
//! which is added to the algorithms.

use super::document::Text;
use super::wanted::{Algorithm, assignments, in_file};
use crate::object::check_cc_name;
use crate::ops;
use crate::policy::{Policy, Rule, RuleTable, overlaps};
use data_encoding::HEXLOWER;
use hotcc_host::error::{Error, Result, Tried};
use sha2::{Digest, Sha256};

/// Lengths in the name of a rule's own registration: characters of the algorithm's name, and bytes of the hash of the
/// tunables.
const OWN_NAME_LENGTHS: (usize, usize) = (8, 3);

/// Checked rules.
pub(super) struct Rules {
    pub(super) policy: Policy,
    /// `FILE:LINE` of each rule's congestion control.
    pub(super) places: Vec<String>,
    pub(super) warnings: Vec<String>,
}

/// Checks the rules. For each rule with tunables, adds a registration to `algorithms` if it is not there yet.
pub(super) fn rules(text: &Text<'_>, tables: &[RuleTable], algorithms: &mut Vec<Algorithm>) -> Result<Rules> {
    let (mut rules, mut places, mut warnings) = (Vec::new(), Vec::new(), Vec::new());
    let file = std::path::absolute(text.file).tried(|| "cannot find the current directory".to_owned())?;
    let directory = file.parent().unwrap_or(&file);
    for table in tables {
        let place = text.place(&table.congestion_control.span());
        let name = table.congestion_control.get_ref();
        check_cc_name(name).map_err(|e| in_file(&place, e))?;
        let own = own_name(table);
        if own != *name && !algorithms.iter().any(|algorithm| algorithm.name == own) {
            let of_its_own = own_registration(text, table, &own, algorithms)?;
            algorithms.push(of_its_own);
        }
        let rule = table.compile(directory, &own).map_err(|e| in_file(&text.place(&e.span), e.error))?;
        warnings.extend(rule.warnings.iter().map(|warning| format!("{place}: {warning}")));
        rules.push((place.clone(), rule));
        places.push(place);
    }
    warnings.extend(overlaps(&rules));
    let rules: Vec<Rule> = rules.into_iter().map(|(_, rule)| rule).collect();
    let policy = Policy::new(rules).map_err(|e| e.during(&text.file.display().to_string()))?;
    Ok(Rules { policy, places, warnings })
}

/// Returns the name under which a rule's congestion control is registered. Rules with the same congestion control and
/// tunables share a name.
pub(super) fn own_name(table: &RuleTable) -> String {
    let name = table.congestion_control.get_ref();
    if table.tunables.is_empty() {
        return name.clone();
    }
    let mut digest = Sha256::new();
    for (tunable, value) in &table.tunables {
        digest.update(format!("{name} {}={}\n", tunable.get_ref(), value.get_ref()));
    }
    let (of_name, of_hash) = OWN_NAME_LENGTHS;
    let stem: String = name.chars().take(of_name).collect();
    format!("{stem}.{}", HEXLOWER.encode(digest.finalize().get(..of_hash).unwrap_or_default()))
}

fn own_registration(text: &Text<'_>, table: &RuleTable, own: &str, algorithms: &[Algorithm]) -> Result<Algorithm> {
    let name = table.congestion_control.get_ref();
    let place = text.place(&table.congestion_control.span());
    let base = algorithms.iter().find(|algorithm| algorithm.name == *name).ok_or_else(|| {
        let message = format!("a rule with tunables needs its algorithm declared: [[algorithm]] name = \"{name}\"");
        in_file(&place, Error::failed(message))
    })?;
    let known = base.source.open().map_err(|e| in_file(&place, e))?.description.tunables;
    let (mut values, mut set) = (base.values.clone(), base.request.set.clone());
    for (assignment, setting) in assignments(text, &known, &table.tunables)? {
        values.retain(|other| other.tunable.name != setting.tunable.name);
        values.push(setting);
        set.push(assignment);
    }
    let request = ops::Request { cc_name: Some(own.to_owned()), set, ..base.request.clone() };
    Ok(Algorithm { place, name: own.to_owned(), request, source: base.source.clone(), values })
}
