//! Finds conflicting rules: a rule that never applies, because an earlier one matches everything that it matches; and
//! two rules with conditions of the same kinds that both match some sockets, but choose different congestion controls.

use super::layout::{RuleEntry, criterion};
use super::table::Rule;
use hotcc_abi::path::PathKey;
use hotcc_host::cstr::text;

/// Returns warnings about rules, each given with its place in the file.
pub(crate) fn overlaps(rules: &[(String, Rule)]) -> Vec<String> {
    let mut warnings = Vec::new();
    for (n, (later_place, later)) in rules.iter().enumerate() {
        for (earlier_place, earlier) in &rules[..n] {
            let differ = earlier.entry.cc_name != later.entry.cc_name;
            if covers(earlier, later) {
                let also = covers(later, earlier);
                let why = if also && differ {
                    let names = [&earlier.entry, &later.entry].map(|entry| text(&entry.cc_name));
                    format!("contradicts {earlier_place} ({} against {}), and never applies", names[1], names[0])
                } else {
                    format!("never applies: {earlier_place} comes first, and matches everything that it matches")
                };
                warnings.push(format!("{later_place}: the rule {why}"));
                break;
            }
            if differ
                && earlier.entry.criteria == later.entry.criteria
                && intersect(earlier, later)
                && !covers(later, earlier)
            {
                warnings.push(format!(
                    "{later_place}: the rule overlaps with {earlier_place}, which comes first and applies where both match"
                ));
            }
        }
    }
    warnings
}

fn asks(entry: &RuleEntry, criteria: u32) -> bool {
    entry.criteria & criteria != 0
}

fn prefix(address: [u8; 16], bits: u32) -> PathKey {
    PathKey { prefix_len: bits, addr: address }
}

/// Returns, for the remote and for the local address: the criterion, and either the rule's single prefix or the digest
/// of its set.
fn prefixes(rule: &Rule) -> [(u32, Option<PathKey>, Option<[u8; 32]>); 2] {
    let RuleEntry { remote, remote_len, local, local_len, .. } = rule.entry;
    let of = |set: &Option<super::set::Set>, address, bits| match set.as_ref().filter(|set| set.single().is_none()) {
        None => (Some(prefix(address, bits)), None),
        Some(set) => (None, Some(set.digest())),
    };
    let (remote_prefix, remote_set) = of(&rule.remote, remote, remote_len);
    let (local_prefix, local_set) = of(&rule.local, local, local_len);
    [(criterion::REMOTE, remote_prefix, remote_set), (criterion::LOCAL, local_prefix, local_set)]
}

/// Returns whether the earlier rule certainly matches everything that the later one matches.
fn covers(earlier: &Rule, later: &Rule) -> bool {
    let (a, b) = (&earlier.entry, &later.entry);
    // the earlier rule leaves sockets alone that the later one, with `override`, would change
    if b.overrides > a.overrides {
        return false;
    }
    for ((asked, a_prefix, a_set), (_, b_prefix, b_set)) in prefixes(earlier).into_iter().zip(prefixes(later)) {
        if !asks(a, asked) {
            continue;
        }
        let covered = match (a_prefix, b_prefix) {
            (Some(a), Some(b)) => a.covers(b),
            (None, None) => a_set == b_set,
            _ => false,
        };
        if !asks(b, asked) || !covered {
            return false;
        }
    }
    let implied = |asked: u32, implied: bool| !asks(a, asked) || (asks(b, asked) && implied);
    let signal = criterion::SIGNAL | criterion::SIGNAL_ABOVE | criterion::SIGNAL_BELOW;
    implied(criterion::PORT, a.port_first <= b.port_first && a.port_last >= b.port_last)
        && implied(criterion::CGROUP, (a.cgroup, a.cgroup_depth) == (b.cgroup, b.cgroup_depth))
        && implied(criterion::NETNS, a.netns == b.netns)
        && implied(criterion::UID, a.uid == b.uid)
        && implied(criterion::INTERFACE, a.interface == b.interface)
        && (!asks(a, criterion::SIGNAL) || asks(b, signal))
        && implied(criterion::SIGNAL_ABOVE, a.signal_q8 <= b.signal_q8)
        && implied(criterion::SIGNAL_BELOW, a.signal_q8 >= b.signal_q8)
        && implied(criterion::SHARE, a.seed == b.seed && a.share >= b.share)
}

/// Returns whether some socket may match both of two rules with the same criteria. Different sets are assumed to be
/// disjoint, and so are shares.
fn intersect(one: &Rule, other: &Rule) -> bool {
    let (a, b) = (&one.entry, &other.entry);
    if asks(a, criterion::SHARE) {
        return false;
    }
    let prefixes_meet =
        prefixes(one).into_iter().zip(prefixes(other)).all(|((asked, a_prefix, a_set), (_, b_prefix, b_set))| {
            let meet = match (a_prefix, b_prefix) {
                (Some(a), Some(b)) => a.covers(b) || b.covers(a),
                (None, None) => a_set == b_set,
                _ => false,
            };
            !asks(a, asked) || meet
        });
    let same = |asked: u32, same: bool| !asks(a, asked) || same;
    prefixes_meet
        && same(criterion::PORT, a.port_first <= b.port_last && b.port_first <= a.port_last)
        && same(criterion::CGROUP, (a.cgroup, a.cgroup_depth) == (b.cgroup, b.cgroup_depth))
        && same(criterion::NETNS, a.netns == b.netns)
        && same(criterion::UID, a.uid == b.uid)
        && same(criterion::INTERFACE, a.interface == b.interface)
}
