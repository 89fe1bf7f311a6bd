//! Structures that the program and this crate share. Layout: bpf/progs/policy.h.

use crate::sockets::learned::Learned;
use bytemuck::{Pod, Zeroable};
use hotcc_abi::path::PathKey;

/// Maximum number of names in a cgroup's path that are compared, counted from the root.
pub(super) const CGROUP_LEVELS: usize = 12;
/// Number of bytes of a name that are compared.
pub(super) const CGROUP_NAME: usize = 128;
/// Size of a rule's text, bytes.
pub(super) const TEXT: usize = 2048;
/// Number of bits that `set` adds to a [`PrefixKey`], before those of the address.
pub(super) const SET_BITS: u32 = 32;

/// Bits for the conditions of a rule.
pub(super) mod criterion {
    pub(in crate::policy) const REMOTE: u32 = 1 << 0;
    pub(in crate::policy) const LOCAL: u32 = 1 << 1;
    pub(in crate::policy) const PORT: u32 = 1 << 2;
    pub(in crate::policy) const CGROUP: u32 = 1 << 3;
    pub(in crate::policy) const NETNS: u32 = 1 << 4;
    pub(in crate::policy) const UID: u32 = 1 << 5;
    pub(in crate::policy) const INTERFACE: u32 = 1 << 6;
    pub(in crate::policy) const SIGNAL: u32 = 1 << 7;
    pub(in crate::policy) const SIGNAL_ABOVE: u32 = 1 << 8;
    pub(in crate::policy) const SIGNAL_BELOW: u32 = 1 << 9;
    pub(in crate::policy) const SHARE: u32 = 1 << 10;
}

/// For each criterion, in the order of the bits, the reason why a socket does not fulfil it.
pub(crate) const REASONS: [&str; 11] = [
    "the remote address is not in the rule's prefixes",
    "the local address is not in the rule's prefixes",
    "neither port is the rule's",
    "the cgroup is another one",
    "the network namespace is another one",
    "the user is another one, or not known",
    "the interface is another one, or not known",
    "no fresh radio signal is known",
    "the radio signal is not above the threshold",
    "the radio signal is not below the threshold",
    "the connection's hash is not in the share",
];

/// Bits for the fields of a [`FlowEntry`] that may be unknown.
pub(super) mod known {
    pub(in crate::policy) const PEER: u32 = 1;
    pub(in crate::policy) const UID: u32 = 2;
    pub(in crate::policy) const SIGNAL: u32 = 4;
}

/// `struct policy_rule`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[allow(missing_docs, reason = "described in policy.h")]
pub struct RuleEntry {
    pub remote: [u8; 16],
    pub local: [u8; 16],
    pub interface: [u8; 16],
    pub cc_name: [u8; 16],
    pub id: u64,
    pub cgroup: u64,
    pub cgroup_depth: u32,
    pub remote_len: u32,
    pub local_len: u32,
    pub remote_set: u32,
    pub local_set: u32,
    pub netns: u32,
    pub uid: u32,
    pub signal_q8: i32,
    pub share: u32,
    pub seed: u32,
    pub criteria: u32,
    pub overrides: u32,
    pub port_first: u16,
    pub port_last: u16,
    pub cohort: u32,
}

/// Indices of the two cohorts of a canary; `RuleEntry::cohort` is 1 plus one of them, or 0.
pub(crate) mod cohort {
    pub(crate) const CONTROL: usize = 0;
    pub(crate) const CANARY: usize = 1;
    pub(crate) const NAMES: [&str; super::COHORTS] = ["control", "canary"];
}

/// Number of cohorts.
pub const COHORTS: usize = 2;

/// `CanaryEntry::state`.
pub(crate) mod canary_state {
    pub(crate) const RUNNING: u32 = 1;
    pub(crate) const PROMOTED: u32 = 2;
    pub(crate) const ROLLED_BACK: u32 = 3;
    pub(crate) const ABORTED: u32 = 4;
}

/// `struct policy_canary`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[allow(missing_docs, reason = "described in policy_canary.h")]
pub struct CanaryEntry {
    pub rules: [u64; COHORTS],
    pub expires_ns: u64,
    pub share: u32,
    pub state: u32,
    pub step: u32,
    pub steps: u32,
    pub from: [u8; 16],
    pub to: [u8; 16],
}

/// `struct policy_cohorts`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[allow(missing_docs, reason = "described in policy_canary.h")]
pub struct CohortsEntry {
    pub ended: [u64; COHORTS],
    pub dropped: u64,
}

/// `struct policy_ended`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[allow(missing_docs, reason = "described in policy_figures.h")]
pub struct EndedEntry {
    pub rule: u64,
    pub began_ns: u64,
    pub acked_bytes: u64,
    pub rtt_us: u64,
    pub min_rtt_us: u64,
    pub goodput_kbps: u64,
    pub delivery_kbps: u64,
    pub duration_ms: u64,
    pub segments: u32,
    pub retransmits: u32,
    pub timeouts: u32,
    pub pad: u32,
}

/// `struct policy_flow`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[allow(missing_docs, reason = "described in policy.h")]
pub struct FlowEntry {
    pub remote: [u8; 16],
    pub local: [u8; 16],
    pub interface: [u8; 16],
    pub cgroup: [u64; CGROUP_LEVELS],
    pub netns: u32,
    pub uid: u32,
    pub signal_q8: i32,
    pub known: u32,
    pub remote_port: u16,
    pub local_port: u16,
    pub pad: u32,
}

/// `struct policy_prefix`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[allow(missing_docs, reason = "described in policy.h")]
pub struct PrefixKey {
    pub prefix_len: u32,
    pub set: u32,
    pub addr: [u8; 16],
}

/// Number of bits of a mapped IPv4 address before the address itself.
const MAPPED_LEN: u32 = 96;

impl PrefixKey {
    /// Returns the key of a prefix in the set with that number.
    pub(super) fn of(number: u32, prefix: PathKey) -> Self {
        let (mut addr, mut len) = (prefix.addr, prefix.prefix_len);
        if prefix.is_v4() {
            addr = [0; 16];
            addr[..4].copy_from_slice(&prefix.addr[12..]);
            len -= MAPPED_LEN;
        }
        Self { prefix_len: SET_BITS + len, set: number * 2 + u32::from(prefix.is_v4()), addr }
    }

    /// Returns the prefix.
    pub(super) fn prefix(self) -> PathKey {
        let len = self.prefix_len.saturating_sub(SET_BITS);
        if self.set.is_multiple_of(2) {
            return PathKey { prefix_len: len, addr: self.addr };
        }
        let mut addr = PathKey::ALL_V4.addr;
        addr[12..].copy_from_slice(&self.addr[..4]);
        PathKey { prefix_len: MAPPED_LEN + len, addr }
    }
}

/// `struct policy_text`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[allow(missing_docs, reason = "described in policy.h")]
pub struct TextEntry {
    pub remote_digest: [u8; 32],
    pub local_digest: [u8; 32],
    pub remote_prefixes: u32,
    pub local_prefixes: u32,
    pub toml: [u8; TEXT],
}

/// `struct policy_job`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[allow(missing_docs, reason = "described in policy.h")]
pub struct JobEntry {
    pub rules: u32,
    pub criteria_in_use: u32,
    pub only_count: u32,
    pub tick_us: u32,
}

/// Outcomes for open sockets. `struct policy_moved`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable, serde::Serialize)]
pub struct Moved {
    /// Sockets that got the congestion control of their rule.
    pub moved: u64,
    /// Sockets that ran it already.
    pub same: u64,
    /// Sockets left alone, because the application or `hotcc run` had chosen a congestion control.
    pub left_alone: u64,
    /// Sockets whose rule's congestion control is not loaded.
    pub unavailable: u64,
    /// Sockets for which the kernel refused it.
    pub refused: u64,
    /// Sockets that no rule matches.
    pub unmatched: u64,
    /// Sockets that kept what their former congestion control had learned.
    pub learned: Learned,
}

/// Outcomes for sockets that a rule matched. `struct policy_counts`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable, serde::Serialize)]
pub struct Counts {
    /// Connections that got the rule's congestion control.
    pub connections: u64,
    /// Listeners that got it.
    pub listeners: u64,
    /// Sockets left alone, because the application or `hotcc run` had chosen a congestion control.
    pub left_alone: u64,
    /// Sockets that did not get it, because it was not loaded.
    pub unavailable: u64,
    /// Sockets for which the kernel refused it.
    pub refused: u64,
}

fn mix(hash: u64, word: u64) -> u64 {
    let hash = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash ^ hash >> 32
}

/// Returns the hash of one name in a cgroup's path.
pub(super) fn hash_of_name(name: &str) -> u64 {
    let mut padded = [0; CGROUP_NAME];
    let kept = name.len().min(CGROUP_NAME - 1);
    padded[..kept].copy_from_slice(&name.as_bytes()[..kept]);
    let (words, _) = padded.as_chunks::<8>();
    words.iter().fold(0, |hash, word| mix(hash, u64::from_le_bytes(*word)))
}

/// Returns the hash of a path, computed from the hashes of its names.
pub(super) fn hash_of_path(names: &[u64]) -> u64 {
    names.iter().fold(0, |hash, name| mix(hash, *name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_sets_and_prefixes_convert_both_ways() {
        for (text, len, bits) in
            [("10.2.0.0", 16, 48), ("10.2.3.1", 32, 64), ("0.0.0.0", 0, 32), ("2001:db8::", 32, 64), ("::", 0, 32)]
        {
            let prefix = PathKey::prefix(text.parse().unwrap(), len).unwrap();
            let key = PrefixKey::of(7, prefix);
            assert_eq!((key.prefix_len, key.set), (bits, 14 + u32::from(!text.contains(':'))), "{text}");
            assert_eq!(key.prefix(), prefix, "{text}");
        }
    }
}
