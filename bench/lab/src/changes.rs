//! The differences between the manifests of two result directories.

use crate::results::Manifest;
use serde::Serialize;

/// A fact of the manifest that differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// Name of the fact.
    pub what: String,
    /// Value in A; absent if A does not have it.
    pub a: Option<String>,
    /// Value in B; absent if B does not have it.
    pub b: Option<String>,
}

/// Returns the differences between two manifests, except for their runs.
#[must_use]
pub fn changes(a: &Manifest, b: &Manifest) -> Vec<Change> {
    let facts = |m: &Manifest| -> Vec<(String, String)> {
        let fixed = [
            ("scenario", &m.scenario),
            ("scenario's SHA-256", &m.scenario_sha256),
            ("backend", &m.backend),
            ("kernel", &m.kernel),
            ("kernel image's SHA-256", &m.kernel_sha256),
            ("QEMU", &m.qemu),
            ("CPU", &m.cpu),
        ];
        let objects = m.objects.iter().map(|(name, sum)| (format!("object {name}"), sum.clone()));
        let files = m.files.iter().map(|(name, sum)| (format!("file {name}"), sum.clone()));
        fixed.into_iter().map(|(name, value)| (name.to_owned(), value.clone())).chain(files).chain(objects).collect()
    };
    let (of_a, of_b) = (facts(a), facts(b));
    let value = |facts: &[(String, String)], what: &str| facts.iter().find(|f| f.0 == what).map(|f| f.1.clone());
    let only_b = of_b.iter().filter(|fact| value(&of_a, &fact.0).is_none());
    let all: Vec<&String> = of_a.iter().chain(only_b).map(|fact| &fact.0).collect();
    let changed =
        all.into_iter().map(|what| Change { what: what.clone(), a: value(&of_a, what), b: value(&of_b, what) });
    changed.filter(|change| change.a != change.b).collect()
}
