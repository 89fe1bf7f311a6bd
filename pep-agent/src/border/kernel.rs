//! Loads and attaches the border's programs and maps, finds them again after a crash, and removes them.

use crate::attach::{self, Attachment, Hook};
use crate::border::config::Config;
use crate::border::ring::{END_POLL, POLL, Ring};
use crate::netlink::is_ethernet;
use crate::object;
use aya::maps::lpm_trie::Key;
use aya::maps::{HashMap, LpmTrie, Map, MapData, MapType, PerCpuArray};
use aya::programs::{ProgramError, SchedClassifier, TcAttachType};
use aya::{Ebpf, EbpfLoader};
use hotcc_abi::border::{COUNTERS, Counters, Flow, FlowKey, Report};
use hotcc_abi::path::PathKey;
use hotcc_host::bpffs;
use hotcc_host::error::{Error, Kind, Result, Tried, chain, io_error};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::libc::{EINVAL, ENOSYS, EOPNOTSUPP};
use std::collections::BTreeSet;
use std::error::Error as StdError;
use std::fmt::{self, Display, Formatter};
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The oldest kernel that has all features that the programs use.
const NEEDS: &str = "this needs Linux 5.17 or later with CONFIG_BPF_SYSCALL and BTF";
/// Number of lines of the verifier's log to show.
const VERIFIER_LINES: usize = 20;

/// The role of a program.
#[derive(Clone, Copy)]
struct Role {
    name: &'static str,
    number: u16,
    program: &'static str,
    ip_program: &'static str,
}

const DATA: Role = Role { name: "data", number: 1, program: "border_data", ip_program: "border_data_ip" };
const ACKS: Role = Role { name: "acks", number: 2, program: "border_acks", ip_program: "border_acks_ip" };

const FLOWS: &str = "flows";
const SERVERS: &str = "servers";
const REPORTS: &str = "reports";
const WAITING: &str = "waiting";
const ALARM: &str = "alarm";
const COUNTERS_MAP: &str = "counters";

/// The attached programs, and the maps that they write.
pub struct Kernel {
    /// The attached programs.
    pub attachments: Vec<Attachment>,
    /// The ring of reports; the thread that sends them takes it.
    pub reports: Option<Ring>,
    /// Counters and flows, readable while the ring is in use.
    pub view: Arc<View>,
    pins: PathBuf,
    _lock: Flock<File>,
}

/// Counters and flows, for metrics.
pub struct View {
    counters: PerCpuArray<MapData, [u64; COUNTERS]>,
    flows: HashMap<MapData, [u8; size_of::<FlowKey>()], [u8; size_of::<Flow>()]>,
    max_flows: u32,
}

impl Kernel {
    /// Loads and attaches the programs. They replace the programs of a killed process, and its maps are reused.
    ///
    /// # Errors
    /// An interface, a permission or a kernel feature is missing, another border runs, or a filter of another program
    /// is in the way.
    pub fn attach(config: &Config, pins: &Path) -> Result<Self> {
        let hooks = hooks(config)?;
        make_directory(pins)?;
        let lock = lock(pins)?;
        let all: Vec<Hook> = hooks.iter().map(|(hook, _)| hook.clone()).collect();
        attach::remove_left_over(pins, &all)?;
        remove_unusable(config, pins)?;
        let mut ebpf = load(config, pins)?;
        // load all programs before their maps are taken out and closed
        let names = hooks.iter().map(|(_, name)| *name).chain([POLL, END_POLL]);
        names.into_iter().try_for_each(|name| program(&mut ebpf, name).map(|_| ()))?;
        let ring = object::take_map(&mut ebpf, REPORTS)?;
        let mut kernel = Self {
            attachments: Vec::new(),
            reports: None,
            view: Arc::new(View::new(&mut ebpf, config)?),
            pins: pins.to_owned(),
            _lock: lock,
        };
        set_servers(object::take_map(&mut ebpf, SERVERS)?, &config.servers)?;
        for (hook, name) in &hooks {
            match attach::attach(program(&mut ebpf, name)?, hook, Some(pins), config.attach) {
                Ok(attachment) => kernel.attachments.push(attachment),
                Err(error) => {
                    // return the first error; the next start removes what is left behind
                    if let Err(error) = kernel.detach() {
                        tracing::warn!("{error:#}");
                    }
                    return Err(error);
                }
            }
        }
        kernel.reports = Some(Ring::new(ring, ebpf, config.gather()));
        Ok(kernel)
    }

    /// Returns what is wrong with the attachments, or `None`. Needs no privilege.
    #[must_use]
    pub fn problem(attachments: &[Attachment]) -> Option<Error> {
        attachments.iter().find_map(Attachment::problem)
    }

    /// Detaches all programs and removes all pins.
    ///
    /// # Errors
    /// Something could not be removed; the rest is removed nevertheless. Returns the first error.
    pub fn detach(self) -> Result<()> {
        let detached = self.attachments.into_iter().map(Attachment::detach).fold(Ok(()), Result::and);
        let removed = fs::remove_dir_all(&self.pins).tried(|| format!("cannot remove {}", self.pins.display()));
        detached.and(removed)
    }
}

/// Leaves out the maps, which cannot be printed.
impl fmt::Debug for View {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").field("max_flows", &self.max_flows).finish_non_exhaustive()
    }
}

impl View {
    fn new(ebpf: &mut Ebpf, config: &Config) -> Result<Self> {
        Ok(Self {
            counters: object::take_map(ebpf, COUNTERS_MAP)?,
            flows: object::take_map(ebpf, FLOWS)?,
            max_flows: config.flows,
        })
    }

    /// Returns the sum over all CPUs.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn counters(&self) -> Result<Counters> {
        let per_cpu = self.counters.get(&0, 0).tried(|| "cannot read the counters".to_owned())?;
        Ok(Counters::sum(per_cpu.iter()))
    }

    /// Returns the number of tracked flows. Iterates over all of them: a million take about a second.
    #[must_use]
    pub fn flows(&self) -> u64 {
        // an iteration restarts if its current key is deleted; the limit makes sure that it ends
        self.flows.keys().take(self.max_flows as usize).filter(std::result::Result::is_ok).count() as u64
    }
}

/// Returns where to attach each program.
fn hooks(config: &Config) -> Result<Vec<(Hook, &'static str)>> {
    let (ack_interfaces, ack_direction) =
        if config.nat { (&config.internet, TcAttachType::Egress) } else { (&config.access, TcAttachType::Ingress) };
    let data = config.internet.iter().map(|i| (DATA, i, TcAttachType::Ingress));
    let acks = ack_interfaces.iter().map(|i| (ACKS, i, ack_direction));
    let hook = |(role, interface, direction): (Role, &String, TcAttachType)| {
        let hook = Hook { role: role.name, number: role.number, interface: interface.clone(), direction };
        let is_ethernet = is_ethernet(hook.ifindex()?)?;
        Ok((hook, if is_ethernet { role.program } else { role.ip_program }))
    };
    data.chain(acks).map(hook).collect()
}

fn make_directory(pins: &Path) -> Result<()> {
    bpffs::need(pins)?;
    bpffs::make(pins)
}

/// Locks the directory until the process ends, however it ends. Any process that can open the directory can lock it, so
/// only root may open it.
fn lock(pins: &Path) -> Result<Flock<File>> {
    let file = File::open(pins).tried(|| format!("cannot open {}", pins.display()))?;
    let private = file.set_permissions(Permissions::from_mode(0o700));
    private.tried(|| format!("cannot set the permissions of {}", pins.display()))?;
    Flock::lock(file, FlockArg::LockExclusiveNonblock).or_else(|(_, why)| match why {
        Errno::EWOULDBLOCK => {
            Err(Error::failed("another `pep-agent border` runs on this machine").and("stop that one first"))
        }
        why => Err(why).tried(|| format!("cannot lock {}", pins.display())),
    })
}

/// Removes all pinned maps if they cannot be reused: if one has another layout or size, or if `servers` has a prefix
/// that is no longer configured, because flows of its servers would stay tracked.
fn remove_unusable(config: &Config, pins: &Path) -> Result<()> {
    let key = size_of::<FlowKey>() as u32;
    let expected = [
        (FLOWS, MapType::LruHash, key, size_of::<Flow>() as u32, Some(config.flows)),
        (SERVERS, MapType::LpmTrie, 20, 4, None),
        (REPORTS, MapType::RingBuf, 0, 0, Some(config.ring_bytes)),
        (WAITING, MapType::Queue, 0, key + 24, Some(config.waiting())),
        (ALARM, MapType::Array, 4, 16, None),
        (COUNTERS_MAP, MapType::PerCpuArray, 4, size_of::<Counters>() as u32, None),
    ];
    let mut is_stale = false;
    for (name, kind, key, value, entries) in &expected {
        let path = pins.join(name);
        if !path.exists() {
            continue;
        }
        let tried = || format!("cannot open {}", path.display());
        let info = MapData::from_pin(&path).tried(tried)?.info().tried(tried)?;
        is_stale |= (info.map_type().ok(), info.key_size(), info.value_size()) != (Some(*kind), *key, *value)
            || entries.is_some_and(|n| n != info.max_entries());
    }
    if !is_stale && pins.join(SERVERS).exists() {
        let map = MapData::from_pin(pins.join(SERVERS)).tried(|| format!("cannot open the map `{SERVERS}`"))?;
        let wanted = keys(&config.servers);
        is_stale = present(&Map::LpmTrie(map).try_into().tried(|| format!("cannot read the map `{SERVERS}`"))?)?
            .iter()
            .any(|key| !wanted.contains(key));
    }
    if is_stale {
        tracing::info!("discarding the pinned maps and their flows: they have another version, size or set of servers");
        for (name, ..) in expected {
            let path = pins.join(name);
            if path.exists() {
                fs::remove_file(&path).tried(|| format!("cannot remove {}", path.display()))?;
            }
        }
    }
    Ok(())
}

fn load(config: &Config, pins: &Path) -> Result<Ebpf> {
    let result = EbpfLoader::new()
        .default_map_pin_directory(pins)
        .map_max_entries(FLOWS, config.flows)
        .map_max_entries(REPORTS, config.ring_bytes)
        .map_max_entries(WAITING, config.waiting())
        .override_global("report_segments", &config.segments, true)
        .override_global("report_delay_us", &config.delay_us, true)
        .load(object::bytes("pep_border")?);
    loaded(result)
}

fn program<'a>(ebpf: &'a mut Ebpf, name: &str) -> Result<&'a mut SchedClassifier> {
    let program: &mut SchedClassifier = object::program_mut(ebpf, name)?;
    match program.load() {
        Err(ProgramError::AlreadyLoaded) => Ok(program),
        result => loaded(result).map(|()| program),
    }
}

fn loaded<T, E: StdError + Send + Sync + 'static>(result: std::result::Result<T, E>) -> Result<T> {
    explained(result, "cannot load the border's programs", NEEDS)
}

/// Adds to an error what was tried, and what the kernel needs if it lacks a feature.
pub(crate) fn explained<T, E: StdError + Send + Sync + 'static>(
    result: std::result::Result<T, E>,
    tried: &str,
    needs: &str,
) -> Result<T> {
    let result = result.map_err(AyaError).tried(|| tried.to_owned());
    result.map_err(|error| match error.io().and_then(std::io::Error::raw_os_error) {
        Some(EINVAL | EOPNOTSUPP | ENOSYS) => error.as_kind(Kind::KernelLacks).and(needs),
        _ => error,
    })
}

/// An error from aya. Its text includes its causes; if the text is long, it is shortened to its first and last lines.
/// Its `source()` is the system's error.
#[derive(Debug)]
struct AyaError<E>(E);

impl<E: StdError + 'static> Display for AyaError<E> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&shortened(&chain(&self.0)))
    }
}

impl<E: StdError + 'static> StdError for AyaError<E> {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        io_error(&self.0).map(|error| error as _)
    }
}

/// Shortens a text to its first line and its last lines. The verifier's log may have thousands of lines; the last ones
/// state the reason.
fn shortened(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    match lines.len().checked_sub(VERIFIER_LINES) {
        Some(left_out @ 1..) => format!("{}\n[{left_out} lines left out]\n{}", lines[0], lines[left_out..].join("\n")),
        _ => text.to_owned(),
    }
}

type Servers = LpmTrie<MapData, [u8; 16], u32>;

fn keys(servers: &[PathKey]) -> BTreeSet<(u32, [u8; 16])> {
    servers.iter().map(|s| (s.prefix_len, s.addr)).collect()
}

fn present(map: &Servers) -> Result<BTreeSet<(u32, [u8; 16])>> {
    let keys: std::result::Result<_, _> = map.keys().map(|k| k.map(|k| (k.prefix_len(), k.data()))).collect();
    keys.tried(|| "cannot read the prefixes of the servers".to_owned())
}

/// Adds the missing prefixes; [`remove_unusable`] made sure that the map has no others.
fn set_servers(mut map: Servers, servers: &[PathKey]) -> Result<()> {
    let tried = || "cannot write the prefixes of the servers".to_owned();
    for (length, address) in keys(servers).difference(&present(&map)?) {
        map.insert(&Key::new(*length, *address), 1, 0).tried(tried)?;
    }
    Ok(())
}

const _: () = assert!(size_of::<Report>().is_multiple_of(8));

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    /// Like aya's errors, each of which repeats its cause's text.
    #[derive(Debug, thiserror::Error)]
    #[error("the program failed: {0}")]
    struct Outer(#[source] Inner);

    #[derive(Debug, thiserror::Error)]
    #[error("the call failed. Verifier output: {log}")]
    struct Inner {
        #[source]
        system: io::Error,
        log: String,
    }

    #[test]
    fn of_a_long_log_the_ends_are_shown_and_the_system_s_error_once() {
        let log: Vec<String> = (0..1000).map(|line| format!("line {line}")).collect();
        let inner = Inner { system: io::Error::from_raw_os_error(EINVAL), log: log.join("\n") };
        let error = loaded(Err::<(), _>(Outer(inner))).unwrap_err();
        let text = format!("{error:#}");
        assert!(text.starts_with("cannot load the border's programs: the program failed: the call failed."), "{text}");
        assert!(text.contains("line 999") && !text.contains("line 900"), "{text}");
        assert!(text.ends_with(&format!("Invalid argument (os error 22); {NEEDS}")), "{text}");
        assert_eq!(text.lines().count(), VERIFIER_LINES + 2, "{text}");
        assert_eq!((error.kind(), error.exit_code()), (Kind::KernelLacks, 3));
        assert!(error.io().is_some());
    }
}
