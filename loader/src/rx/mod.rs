//! The receiver's side of delay control, on the sockets of one cgroup: `arwa` sends hints to the sender, `drwa` limits
//! the receive window that it advertises.
//!
//! ```text
//! /sys/fs/bpf/hotcc/rx/METHOD/options     link of the sock_ops program; the receiver is loaded while it exists
//! /sys/fs/bpf/hotcc/rx/METHOD/measure     link of the tracing program (arwa only)
//! /sys/fs/bpf/hotcc/rx/METHOD/lift        link of the iterator (drwa only)
//! /sys/fs/bpf/hotcc/rx/METHOD/tunables
//! /sys/fs/bpf/hotcc/rx/rx_counters        counts of all receivers, and of the sender's algorithm
//! ```
//! The state of a connection belongs to its socket, and ends with it.

use crate::object::describe::describe;
use crate::object::{btf, libbpf_log, load_error, prepare};
use crate::registry::begin;
use crate::sockets::walk::walk;
use crate::tunables::present::{self, Value};
use crate::tunables::{Tunable, values};
use crate::{cgroup, registry};
use hotcc_abi::pins;
use hotcc_abi::rx::RxCounters;
use hotcc_host::bpffs;
use hotcc_host::error::{Error, Result, Tried, need_root};
use hotcc_host::netns;
use libbpf_rs::btf::Btf;
use libbpf_rs::query::{LinkTypeInfo, ProgInfoIter, ProgInfoQueryOptions, ProgramInfo};
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, Object, ObjectBuilder, OpenObject};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const OPTIONS: &str = "options";
const LIFT: &str = "lift";
const TUNABLES: &str = "tunables";
const KEY: [u8; 4] = [0; 4];
const UNLOAD_PATIENCE: Duration = Duration::from_secs(5);

/// How a receiver slows down its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// Send hints in a TCP option, to senders that use `arwa`
    Arwa,
    /// Limit the receive window; works with every sender
    Drwa,
}

impl Method {
    const ALL: [Self; 2] = [Self::Arwa, Self::Drwa];

    /// Returns the name, as in commands and pins.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Arwa => "arwa",
            Self::Drwa => "drwa",
        }
    }

    fn dir(self) -> PathBuf {
        Path::new(pins::RX).join(self.name())
    }

    /// Opens the link of its sock_ops program; returns `None` if it is not loaded.
    fn link(self) -> Result<Option<Link>> {
        let path = self.dir().join(OPTIONS);
        if !path.exists() {
            return Ok(None);
        }
        Link::open(&path).map(Some).tried(|| format!("cannot open {}", path.display()))
    }
}

/// A request to load a receiver.
#[derive(Clone, Debug)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// The cgroup whose sockets it applies to; `None`: all sockets of this machine.
    pub cgroup: Option<PathBuf>,
    /// `default` or `paper`.
    pub profile: String,
    /// `tunable=value` assignments, applied after the profile.
    pub set: Vec<String>,
}

/// A loaded receiver, as read from the kernel.
#[derive(Clone, Debug, Serialize)]
pub struct Receiver {
    /// The method.
    pub method: Method,
    /// The cgroup whose sockets it applies to; `None` if the cgroup was removed, in which case it applies to no socket.
    pub cgroup: Option<PathBuf>,
    /// Its tunables.
    pub tunables: Vec<Value>,
}

/// The state of all receivers.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    /// Receivers that are loaded.
    pub receivers: Vec<Receiver>,
    /// Counts so far; `None` if no program that counts was ever loaded.
    pub counters: Option<Counters>,
}

/// [`RxCounters`] for people and programs.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(remote = "RxCounters")]
struct CountersDef {
    flows_agreed: u64,
    hints_made: u64,
    hints_sent: u64,
    hints_without_room: u64,
    hints_received: u64,
    hints_refused: u64,
    hints_applied: u64,
    flows_clamped: u64,
    clamps_set: u64,
    clamps_refused: u64,
}

/// Counts of what the programs did, summed over all CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Counters(#[serde(with = "CountersDef")] pub RxCounters);

/// Loads a receiver. It applies to connections that are opened from then on; sockets that already listen must listen
/// again.
pub fn load(request: &Request) -> Result<Receiver> {
    let _lock = begin("hotcc rx load")?;
    load_locked(request)
}

/// Like [`load`]. Call it with the lock held.
pub(crate) fn load_locked(request: &Request) -> Result<Receiver> {
    let method = request.method;
    let path = request.cgroup.clone().map_or_else(cgroup::cgroup2_root, Ok)?;
    let cgroup = cgroup::open(&path)?;
    let path = path.canonicalize().tried(|| format!("cannot find the cgroup {}", path.display()))?;
    if let Some(link) = method.link()? {
        return Err(loaded_already(method, &link));
    }
    for other in Method::ALL.into_iter().filter(|other| *other != method) {
        let at = other.link()?.as_ref().map(cgroup_of).transpose()?.flatten();
        if let Some(at) = at.filter(|at| at.starts_with(&path) || path.starts_with(at)) {
            let (name, at) = (other.name(), at.display());
            return Err(Error::failed(format!(
                "cannot load {}: {name} is loaded for the cgroup {at}, and a connection can use \
                 only one of them; first run: hotcc rx unload {name}",
                method.name()
            )));
        }
    }
    let dir = method.dir();
    finish(method)?; // remove what a killed command left
    let object = load_object(request)?;
    bpffs::make(&dir)?;
    attach(&object, &cgroup, &dir).inspect_err(|_| {
        let _ = registry::remove_tree(&dir);
    })?;
    drop(object); // so that only what is pinned is read back
    receiver(method)?
        .ok_or_else(|| Error::failed(format!("another process unloaded {} as soon as it was loaded", method.name())))
}

fn loaded_already(method: Method, link: &Link) -> Error {
    let name = method.name();
    let at = match cgroup_of(link) {
        Ok(Some(path)) => format!("for the cgroup {}", path.display()),
        _ => "for a removed cgroup".to_owned(),
    };
    Error::failed(format!("{name} is already loaded {at}; to load it again, first run: hotcc rx unload {name}"))
}

/// Opens a method's object. Returns it with its name and its tunables.
fn open_object(method: Method) -> Result<(OpenObject, String, Vec<Tunable>)> {
    let name = format!("rx_{}", method.name());
    let embedded =
        hotcc_bpf::prog(&name).ok_or_else(|| Error::failed(format!("the program {name} is not built in")))?;
    let opened = ObjectBuilder::default().open_memory(embedded.bytes);
    let opened = opened.tried(|| format!("cannot open the program {name}"))?;
    let tunables = describe(&btf::btf_of(&opened, &name)?, None).tunables;
    Ok((opened, name, tunables))
}

/// Returns a method's tunables.
pub(crate) fn tunables(method: Method) -> Result<Vec<Tunable>> {
    Ok(open_object(method)?.2)
}

fn load_object(request: &Request) -> Result<Object> {
    let (mut open, name, tunables) = open_object(request.method)?;
    let settings = values::settings(&tunables, &request.profile, &[], &request.set)?;
    prepare::apply(&mut open, &name, &settings)?;
    for mut map in open.maps_mut() {
        prepare::use_shared(&mut map)?;
    }
    let (loaded, log) = libbpf_log::capture(|| open.load());
    load_error::explained(loaded, &name, "builtin", &log)
}

/// Attaches and pins the programs. The link that marks the receiver as loaded comes last.
fn attach(object: &Object, cgroup: &File, dir: &Path) -> Result<()> {
    let pinned = |name: &str| (dir.join(name), format!("cannot pin {}", dir.join(name).display()));
    if let Some(data) = object.maps().find(|m| m.name().to_string_lossy().ends_with(".data")) {
        let (path, tried) = pinned(TUNABLES);
        MapHandle::try_from(&data).and_then(|mut map| map.pin(path)).tried(|| tried)?;
    }
    let mut programs: Vec<_> = object.progs_mut().collect();
    programs.sort_by_key(|program| program.name() == OPTIONS);
    for program in programs {
        let name = program.name().to_string_lossy().into_owned();
        let attached = if name == OPTIONS { program.attach_cgroup(cgroup.as_raw_fd()) } else { program.attach() };
        let mut link = attached.tried(|| format!("cannot attach the program {name}"))?;
        let (path, tried) = pinned(&name);
        link.pin(path).tried(|| tried)?;
    }
    Ok(())
}

/// Unloads a receiver, and lifts the window clamps that it set. Connections continue without it. Returns the former
/// receiver.
pub fn unload(method: Method) -> Result<Receiver> {
    let _lock = begin("hotcc rx unload")?;
    unload_locked(method)
}

/// Like [`unload`]. Call it with the lock held.
pub(crate) fn unload_locked(method: Method) -> Result<Receiver> {
    let Some(receiver) = receiver(method)? else {
        finish(method)?; // remove what a killed command left
        return Err(Error::failed(format!("{} is not loaded; see: hotcc rx status", method.name())));
    };
    finish(method)?;
    Ok(receiver)
}

/// Returns the methods of which a killed command left a part.
pub(crate) fn left_over() -> Vec<Method> {
    Method::ALL.into_iter().filter(|m| m.dir().exists() && !m.dir().join(OPTIONS).exists()).collect()
}

/// Removes a loaded receiver, or what a killed command left of one. If it fails, it can be called again.
pub(crate) fn finish(method: Method) -> Result<()> {
    let dir = method.dir();
    if !dir.exists() {
        return Ok(());
    }
    detach(&dir)?;
    let lift = dir.join(LIFT);
    if lift.exists() {
        let lift = Link::open(&lift).tried(|| format!("cannot open {}", lift.display()))?;
        let lifted = netns::in_each(|ns| walk(&lift, ns, &mut Vec::new()));
        lifted.map_err(|e| e.and("drwa is unloaded, but connections may keep their last clamp; unload it again"))?;
    }
    registry::remove_tree(&dir)
}

/// Detaches the programs that act by themselves, and waits until the kernel has removed them.
fn detach(dir: &Path) -> Result<()> {
    let mut programs = Vec::new();
    let tried = || format!("cannot list {}", dir.display());
    for entry in fs::read_dir(dir).tried(tried)? {
        let path = entry.tried(tried)?.path();
        if ![TUNABLES, LIFT].iter().any(|other| path.ends_with(other)) {
            programs.push(Link::open(&path).and_then(|link| link.info()).tried(tried)?.prog_id);
            fs::remove_file(&path).tried(|| format!("cannot remove {}", path.display()))?;
        }
    }
    // A killed command may have removed the pin of a program that the kernel still has. Such a program is found by this
    // map, which it uses.
    let data = dir.join(TUNABLES);
    let data = if data.exists() {
        let map = MapHandle::from_pinned_path(&data).and_then(|map| map.info());
        Some(map.tried(|| format!("cannot read {}", data.display()))?.info.id)
    } else {
        None // it is pinned first, so no program was pinned
    };
    let started = Instant::now();
    // the kernel frees a link's id before it detaches the link, but its program's id after that; so this waits for the
    // programs
    let is_ours = |program: &ProgramInfo| {
        programs.contains(&program.id) || data.is_some_and(|data| program.map_ids.contains(&data))
    };
    let with_maps = || ProgInfoIter::with_query_opts(ProgInfoQueryOptions::default().include_map_ids(true));
    while with_maps().any(|program| is_ours(&program)) {
        if started.elapsed() > UNLOAD_PATIENCE {
            return Err(Error::failed(
                "the kernel still has the programs attached after 5 s: another process holds their links, or the kernel \
                 is still detaching them",
            )
            .and("unload it again"));
        }
        std::thread::sleep(Duration::from_millis(5)); // the kernel removes them asynchronously
    }
    Ok(())
}

/// Returns the loaded receivers, and the counts of all.
pub fn status() -> Result<Status> {
    need_root("hotcc rx status")?;
    registry::need_bpffs()?;
    Ok(Status { receivers: loaded()?, counters: counters()?.map(Counters) })
}

/// Returns the loaded receivers.
pub(crate) fn loaded() -> Result<Vec<Receiver>> {
    Method::ALL.into_iter().filter_map(|method| receiver(method).transpose()).collect()
}

/// Returns the counts so far, summed over all CPUs, or `None` if no program that counts was ever loaded.
pub fn counters() -> Result<Option<RxCounters>> {
    let path = Path::new(pins::RX).join(pins::RX_COUNTERS);
    if !path.exists() {
        return Ok(None);
    }
    let tried = || format!("cannot read {}", path.display());
    let map = MapHandle::from_pinned_path(&path).tried(tried)?;
    let mut sum = RxCounters::default();
    for value in map.lookup_percpu(&KEY, MapFlags::empty()).tried(tried)?.unwrap_or_default() {
        let one = bytemuck::try_pod_read_unaligned(&value);
        sum.add(
            &one.map_err(|_| Error::failed(format!("{} was created by another version of hotcc", path.display())))?,
        );
    }
    Ok(Some(sum))
}

fn receiver(method: Method) -> Result<Option<Receiver>> {
    let Some(link) = method.link()? else { return Ok(None) };
    let path = method.dir().join(TUNABLES);
    let tried = || format!("cannot read {}", path.display());
    let map = MapHandle::from_pinned_path(&path).tried(tried)?;
    let data = map.lookup(&KEY, MapFlags::empty()).tried(tried)?;
    let btf = Btf::from_prog_id(link.info().tried(tried)?.prog_id).tried(tried)?;
    // a receiver's tunables are fixed while it is loaded
    let value = |setting| Value { settable: false, ..Value::from(setting) };
    let tunables =
        present::read(&describe(&btf, None).tunables, data.as_deref(), None).into_iter().map(value).collect();
    Ok(Some(Receiver { method, cgroup: cgroup_of(&link)?, tunables }))
}

fn cgroup_of(link: &Link) -> Result<Option<PathBuf>> {
    match link.info().tried(|| "cannot read the link's cgroup".to_owned())?.info {
        LinkTypeInfo::Cgroup(info) => cgroup::path_of(info.cgroup_id),
        _ => Ok(None),
    }
}
