//! Finds the signals that an algorithm uses, by the shared maps that its object declares.

use hotcc_abi::pins::{ARWA_HINT, PATH_CLOCK, PATH_GEN, PEP_FLOW, RADIO_INDEX, RADIO_SLOTS};
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{DataSec, Var};
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter};

/// An input of an algorithm from outside its own TCP stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Signal {
    /// Radio readings, from a feeder.
    Radio,
    /// A border PEP's reports about a flow.
    Pep,
    /// Changes of the path.
    Path,
    /// The receiver's hints.
    Hint,
}

/// The signal that each shared map carries.
const CARRIERS: [(&str, Signal); 6] = [
    (RADIO_INDEX, Signal::Radio),
    (RADIO_SLOTS, Signal::Radio),
    (PEP_FLOW, Signal::Pep),
    (PATH_GEN, Signal::Path),
    (PATH_CLOCK, Signal::Path),
    (ARWA_HINT, Signal::Hint),
];

impl Display for Signal {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Radio => "radio",
            Self::Pep => "PEP",
            Self::Path => "path",
            Self::Hint => "hint",
        })
    }
}

/// Returns the signals whose maps the object declares, each once.
pub(super) fn signals(btf: &Btf<'_>) -> Vec<Signal> {
    let mut found = BTreeSet::new();
    for section in btf.type_by_kind::<DataSec<'_>>() {
        if section.name().and_then(|n| n.to_str()) != Some(".maps") {
            continue;
        }
        for map in section.iter().filter_map(|info| btf.type_by_id::<Var<'_>>(info.ty)) {
            let name = map.name().and_then(|n| n.to_str());
            found.extend(CARRIERS.iter().filter(|(carrier, _)| Some(*carrier) == name).map(|(_, signal)| *signal));
        }
    }
    found.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Source;

    #[test]
    fn each_algorithm_shows_the_signals_it_reads() {
        for (name, expected) in [
            ("dtcp", &[Signal::Radio, Signal::Path][..]),
            ("mdcubic", &[Signal::Pep]),
            ("fbtcp", &[Signal::Pep]),
            ("crest", &[Signal::Radio, Signal::Pep, Signal::Path]),
            ("dcm", &[Signal::Path]),
            ("arwa", &[Signal::Hint]),
            ("westwoodp", &[]),
        ] {
            let opened = Source::find(name).and_then(|source| source.open()).unwrap();
            assert_eq!(opened.description.signals, expected, "{name}");
        }
    }
}
