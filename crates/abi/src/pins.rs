//! Where maps, programs and links are pinned in bpffs, and the lock files that commands take.

use std::path::PathBuf;

/// Mount point of the BPF file system.
pub const BPFFS: &str = "/sys/fs/bpf";
/// Root of all pins of this project.
pub const ROOT: &str = "/sys/fs/bpf/hotcc";
/// Directory of the signal maps, shared by all algorithms and feeders.
pub const SIGNAL: &str = "/sys/fs/bpf/hotcc/signal";
/// Directory of the maps that the PEP's agents and the algorithms share.
pub const PEP: &str = "/sys/fs/bpf/hotcc/pep";
/// Directory of the programs and maps of the PEP's border.
pub const PEP_BORDER: &str = "/sys/fs/bpf/hotcc/pep/border";
/// Directory of the maps that the receiver's agents and the algorithms share.
pub const RX: &str = "/sys/fs/bpf/hotcc/rx";
/// Directory of the policy's program.
pub const POLICY: &str = "/sys/fs/bpf/hotcc/policy";
/// Directory with one subdirectory for each loaded algorithm.
pub const ALGO: &str = "/sys/fs/bpf/hotcc/algo";
/// Directory of run-time files: locks, verifier logs.
pub const RUN: &str = "/run/hotcc";
/// Directory of what outlives a reboot: the log of `hotcc canary`.
pub const STATE: &str = "/var/lib/hotcc";

/// A BPF file system for feeders that are not root: the radio maps, pinned a second time.
pub const FEEDERS: &str = "/run/hotcc/bpf";

/// Name (and pin name) of the map from address to radio slot.
pub const RADIO_INDEX: &str = "radio_index";
/// Name (and pin name) of the array of radio slots.
pub const RADIO_SLOTS: &str = "radio_slots";
/// Name (and pin name) of the socket storage for what the PEP saw of a flow.
pub const PEP_FLOW: &str = "pep_flow";
/// Name (and pin name) of the socket storage for the hints of a flow's receiver.
pub const ARWA_HINT: &str = "arwa_hint";
/// Name (and pin name) of the counters of the receiver's agents, which also count the results of hints.
pub const RX_COUNTERS: &str = "rx_counters";
/// Name (and pin name) of the socket storage that records what chose a socket's congestion control, and where the
/// connection stood when a rule took it.
pub const POLICY_SOCKET: &str = "policy_socket";
/// Name (and pin name) of the record of what an algorithm learned about a connection that is being moved.
pub const LEARNED: &str = "hotcc_learned";
/// Name (and pin name) of the map of what each rule's connections did.
pub const POLICY_FIGURES: &str = "policy_figures2";
/// Name (and pin name) of the map with the state of `hotcc canary`.
pub const POLICY_CANARY: &str = "policy_canary";
/// Name (and pin name) of the map of what the canary's program counted.
pub const POLICY_COHORTS: &str = "policy_cohorts";

/// Name (and pin name) of the map from destination to the generation of its path.
pub const PATH_GEN: &str = "path_gen";
/// Name (and pin name) of the clock that is incremented when any of these generations changes.
pub const PATH_CLOCK: &str = "path_clock";
/// The signal maps, each pinned below [`SIGNAL`] and shared by all programs that use it.
pub const SIGNAL_MAPS: [&str; 4] = [RADIO_INDEX, RADIO_SLOTS, PATH_GEN, PATH_CLOCK];

/// Name, in [`RUN`], of the lock on changes of the path maps.
pub const PATH_LOCK: &str = "path.lock";
/// Name, in [`RUN`], of the lock that feeders take while they change the radio index.
pub const RADIO_LOCK: &str = "radio.lock";
/// Name (and pin name, below an algorithm's directory) of the map of its counters.
pub const STATS: &str = "stats";

/// Returns the pin directory of the algorithm registered as `cc_name`.
///
/// bpffs rejects dots in names, and the kernel rejects `-` in congestion control names, so `-` replaces the dot.
#[must_use]
pub fn algo_dir(cc_name: &str) -> PathBuf {
    PathBuf::from(ALGO).join(cc_name.replace('.', "-"))
}

/// Returns the congestion control name that a pin directory of [`ALGO`] stands for.
#[must_use]
pub fn cc_name_of(dir_name: &str) -> String {
    dir_name.replace('-', ".")
}

/// Returns the path of a signal map's pin.
#[must_use]
pub fn signal(map: &str) -> PathBuf {
    PathBuf::from(SIGNAL).join(map)
}

/// Returns the path of the pin of a map that algorithms share with agents, or `None` for any other map.
#[must_use]
pub fn shared(map: &str) -> Option<PathBuf> {
    let directory = match map {
        RADIO_INDEX | RADIO_SLOTS | PATH_GEN | PATH_CLOCK => SIGNAL,
        PEP_FLOW => PEP,
        ARWA_HINT | RX_COUNTERS => RX,
        POLICY_SOCKET | POLICY_FIGURES | POLICY_CANARY | POLICY_COHORTS => POLICY,
        LEARNED => ROOT,
        _ => return None,
    };
    Some(PathBuf::from(directory).join(map))
}
