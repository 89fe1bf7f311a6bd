//! What is pinned in bpffs, and what of it serves: all state this project has.
//!
//! ```text
//! /sys/fs/bpf/hotcc/counters              what commands did
//! /sys/fs/bpf/hotcc/algo/NAME/link        the registration; what it points to is the version that serves
//! /sys/fs/bpf/hotcc/algo/NAME/vID/        one version each; ID is its struct_ops map's
//!     map  prog  meta  tunables  constants
//! /sys/fs/bpf/hotcc/algo/NAME/run/        there where it was loaded for `hotcc run` only; locked by each run
//! /sys/fs/bpf/hotcc/algo/NAME/stats       counters of all versions, those included that are gone
//! ```
//! A version directory is complete before its version serves, and the kernel says which one serves, so a command
//! killed anywhere leaves nothing that the next one would misread. Before 6.4 there are no struct_ops links: the
//! map itself is the registration, and its state says whether it serves.

use crate::error::{Error, Result, Tried};
use crate::object::describe::{Description, describe};
use crate::tunables::{Section, Setting, present};
use crate::{registrations, sys, sysctl};
use bytemuck::Zeroable;
use hotcc_abi::pins;
use hotcc_abi::stats::AlgoStats;
use hotcc_abi::version::{Counters, META_VERSION, Meta};
use libbpf_rs::btf::Btf;
use libbpf_rs::query::LinkTypeInfo;
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, MapType, ProgramHandle};
use nix::fcntl::{Flock, FlockArg};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

const KEY: [u8; 4] = [0; 4];
const LOCK_PATIENCE: Duration = Duration::from_secs(10);

/// Held by every command that changes something.
#[derive(Debug)]
pub struct Lock(#[allow(dead_code, reason = "held, not read")] Flock<File>);

/// Takes the lock; waits a while for another command to finish.
pub fn lock() -> Result<Lock> {
    fs::create_dir_all(pins::RUN).tried(|| format!("cannot make {}", pins::RUN))?;
    let path = Path::new(pins::RUN).join("lock");
    let mut file = File::create(&path).tried(|| format!("cannot open {}", path.display()))?;
    let started = Instant::now();
    loop {
        file = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(held) => return Ok(Lock(held)),
            Err((_, why)) if why != nix::errno::Errno::EWOULDBLOCK => {
                return Err(why).tried(|| format!("cannot lock {}", path.display()));
            }
            Err((back, _)) => back,
        };
        if started.elapsed() > LOCK_PATIENCE {
            let text = "another hotcc command has been at work for 10 s; wait for it, or see who holds";
            return Err(Error::failed(format!("{text} {} (fuser)", path.display())));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// How to get a BPF file system; and where not to, which looks just the same.
pub(crate) const MOUNT_BPFFS: &str =
    "mount -t bpf bpf /sys/fs/bpf (inside `ip netns exec`, which hides it, do not: use nsenter --net=/run/netns/NAME)";

/// Stops early where there is no BPF file system.
pub fn need_bpffs() -> Result<()> {
    const BPF_FS_MAGIC: i64 = 0xcafe_4a11;
    let found = nix::sys::statfs::statfs(pins::BPFFS).is_ok_and(|s| s.filesystem_type().0 == BPF_FS_MAGIC);
    if found {
        return Ok(());
    }
    Err(Error::kernel_lacks(format!("no BPF file system at {}; mount it: {MOUNT_BPFFS}", pins::BPFFS)))
}

/// A registered algorithm of ours.
#[derive(Clone, Debug)]
pub struct Algo {
    /// Name of the congestion control.
    pub name: String,
    dir: PathBuf,
}

/// One version of an algorithm: an object that was loaded under its name.
#[derive(Clone, Debug)]
pub struct Version {
    /// Id of its struct_ops map.
    pub map_id: u32,
    /// Its pins.
    pub dir: PathBuf,
}

impl Algo {
    /// All that are pinned, by name.
    pub fn all() -> Result<Vec<Self>> {
        let mut found = Vec::new();
        for dir in subdirectories(Path::new(pins::ALGO))? {
            let name = dir.file_name().and_then(|n| n.to_str()).map(pins::cc_name_of).unwrap_or_default();
            found.push(Self { name, dir });
        }
        found.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }

    /// The one of that name, whether or not it is there.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self { name: name.to_owned(), dir: pins::algo_dir(name) }
    }

    /// The one of that name, if it serves.
    pub fn serving(name: &str) -> Result<(Self, Version)> {
        need_bpffs()?;
        let algo = Self::named(name);
        if let Some(version) = algo.current()? {
            return Ok((algo, version));
        }
        let advice = hotcc_bpf::algo(name).map(|_| format!(". Load it: hotcc load {name}"));
        Err(Self::not_serving(name, &advice.unwrap_or_default())?)
    }

    /// Why there is nothing to take away.
    pub(crate) fn nothing_to_unload(name: &str) -> Result<Error> {
        Self::not_serving(name, "; there is nothing to unload")
    }

    /// What to say where hotcc has none of that name; `advice` where nobody has.
    fn not_serving(name: &str, advice: &str) -> Result<Error> {
        let loaded: Vec<String> =
            Self::all()?.into_iter().filter(|a| matches!(a.current(), Ok(Some(_)))).map(|a| a.name).collect();
        let loaded = if loaded.is_empty() { "nothing is".to_owned() } else { format!("loaded: {}", loaded.join(", ")) };
        let hint = if sysctl::is_registered(name)? {
            ". It is registered, but not by hotcc: hotcc status shows what it is".to_owned()
        } else {
            advice.to_owned()
        };
        Ok(Error::failed(format!("`{name}` is not loaded by hotcc; {loaded}{hint}")))
    }

    /// Pin directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Where the registration is pinned.
    #[must_use]
    pub fn link_path(&self) -> PathBuf {
        self.dir.join("link")
    }

    /// What marks it as loaded for runs only.
    #[must_use]
    pub fn runs_path(&self) -> PathBuf {
        self.dir.join("run")
    }

    /// All versions, oldest first.
    pub fn versions(&self) -> Result<Vec<Version>> {
        let mut found: Vec<Version> = subdirectories(&self.dir)?
            .into_iter()
            .filter_map(|dir| {
                let map_id = dir.file_name()?.to_str()?.strip_prefix('v')?.parse().ok()?;
                Some(Version { map_id, dir })
            })
            .collect();
        found.sort_by_key(|v| v.map_id);
        Ok(found)
    }

    /// The version that serves, as the kernel says; `None` if none does.
    pub fn current(&self) -> Result<Option<Version>> {
        let versions = self.versions()?;
        let link_path = self.link_path();
        if link_path.exists() {
            let link = Link::open(&link_path).tried(|| format!("cannot open {}", link_path.display()))?;
            let info = link.info().tried(|| format!("cannot read {}", link_path.display()))?;
            let LinkTypeInfo::StructOps(ops) = info.info else { return Ok(None) };
            return Ok(versions.into_iter().find(|v| v.map_id == ops.map_id));
        }
        Ok(versions.into_iter().find(Version::is_registered_map))
    }

    /// The version that served before the current one.
    pub fn previous(&self) -> Result<Option<Version>> {
        let Some(current) = self.current()? else { return Ok(None) };
        let others = self.versions()?.into_iter().filter(|v| v.map_id != current.map_id);
        let mut served: Vec<(u64, Version)> =
            others.filter_map(|v| v.meta().ok().filter(|m| m.activations > 0).map(|m| (m.since_unix_ns, v))).collect();
        served.sort_by_key(|(since, _)| *since);
        Ok(served.pop().map(|(_, v)| v))
    }

    /// Removes what a killed command left, and versions older than the previous one. Call with the lock held.
    pub fn tidy(&self) -> Result<()> {
        if !self.dir.exists() {
            return Ok(());
        }
        let Some(current) = self.current()? else {
            return remove_tree(&self.dir);
        };
        if current.meta()?.settled == 0 {
            // a command was killed after the kernel had switched, and before all was done
            let versions = self.versions()?;
            let swaps = versions.iter().filter_map(|v| v.meta().ok()).map(|m| m.swaps).max().unwrap_or(0);
            sysctl::replace_defaults(&self.name, &[&self.name])?;
            current.settle(swaps + u64::from(versions.len() > 1))?;
        }
        let previous = self.previous()?.map(|v| v.map_id);
        for version in self.versions()? {
            if version.map_id != current.map_id && Some(version.map_id) != previous {
                remove_tree(&version.dir)?;
            }
        }
        Ok(())
    }

    /// Where the counters of all its versions are pinned.
    #[must_use]
    pub fn stats_path(&self) -> PathBuf {
        self.dir.join(pins::STATS)
    }

    /// Monotonic counters of all versions since the name was loaded, summed over CPUs; `None` if no version kept any.
    pub fn stats(&self) -> Result<Option<AlgoStats>> {
        let path = self.stats_path();
        if !path.exists() {
            return Ok(None);
        }
        let tried = || format!("cannot read {}", path.display());
        let map = MapHandle::from_pinned_path(&path).tried(tried)?;
        let mut sum: AlgoStats = Zeroable::zeroed();
        for value in map.lookup_percpu(&KEY, MapFlags::empty()).tried(tried)?.unwrap_or_default() {
            if let Ok(one) = bytemuck::try_pod_read_unaligned(&value) {
                sum.add(&one);
            }
        }
        Ok(Some(sum))
    }
}

impl Version {
    /// Opens one of its maps; `None` if it has none of that name.
    pub fn map(&self, pin: &str) -> Result<Option<MapHandle>> {
        let path = self.dir.join(pin);
        if !path.exists() {
            return Ok(None);
        }
        MapHandle::from_pinned_path(&path).map(Some).tried(|| format!("cannot open {}", path.display()))
    }

    /// Opens a map that every version has.
    pub fn need_map(&self, pin: &str) -> Result<MapHandle> {
        self.map(pin)?.ok_or_else(|| Error::failed(format!("{} is missing", self.dir.join(pin).display())))
    }

    fn is_registered_map(&self) -> bool {
        let value = self.map("map").ok().flatten().and_then(|m| m.lookup(&KEY, MapFlags::empty()).ok().flatten());
        value.is_some_and(|v| registrations::is_in_use(&v))
    }

    /// What is known of it.
    pub fn meta(&self) -> Result<Meta> {
        let value = self
            .need_map("meta")?
            .lookup(&KEY, MapFlags::empty())
            .tried(|| format!("cannot read {}/meta", self.dir.display()))?
            .unwrap_or_default();
        let meta: Meta = bytemuck::try_pod_read_unaligned(&value)
            .map_err(|_| Error::failed(format!("{}/meta has another size", self.dir.display())))?;
        if meta.version != META_VERSION {
            let text = format!("{} was made by another version of hotcc ({})", self.dir.display(), meta.version);
            return Err(Error::failed(format!("{text}; unload it with that version")));
        }
        Ok(meta)
    }

    /// Writes what is known of it.
    pub fn set_meta(&self, meta: &Meta) -> Result<()> {
        self.need_map("meta")?
            .update(&KEY, bytemuck::bytes_of(meta), MapFlags::ANY)
            .tried(|| format!("cannot write {}/meta", self.dir.display()))
    }

    /// Notes that all that follows a switch to it is done.
    pub fn settle(&self, swaps: u64) -> Result<()> {
        let mut meta = self.meta()?;
        meta.activations += 1;
        meta.settled = 1;
        meta.swaps = swaps;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        meta.since_unix_ns = now.map_or(0, |d| d.as_nanos() as u64);
        self.set_meta(&meta)
    }

    /// Notes that a switch to it is about to happen: if this command is killed after it, the next one finishes.
    pub fn unsettle(&self) -> Result<()> {
        let meta = self.meta()?;
        self.set_meta(&Meta { settled: 0, ..meta })
    }

    /// What it says of itself, from the BTF the kernel holds.
    pub fn description(&self) -> Result<Description> {
        let path = self.dir.join("prog");
        let tried = || format!("cannot read the BTF of {}", path.display());
        let program = ProgramHandle::from_pinned_path(&path).tried(tried)?;
        Ok(describe(&Btf::from_prog_id(program.id()).tried(tried)?))
    }

    /// Bytes of its `.data` or `.rodata`; `None` if it has none.
    pub(crate) fn section(&self, section: Section) -> Result<Option<Vec<u8>>> {
        let pin = match section {
            Section::Data => "tunables",
            Section::Rodata => "constants",
        };
        let Some(map) = self.map(pin)? else { return Ok(None) };
        map.lookup(&KEY, MapFlags::empty()).tried(|| format!("cannot read {}/{pin}", self.dir.display()))
    }

    /// Its tunables and their present values.
    pub(crate) fn settings(&self) -> Result<Vec<Setting>> {
        let [data, rodata] = [self.section(Section::Data)?, self.section(Section::Rodata)?];
        Ok(present::read(&self.description()?.tunables, data.as_deref(), rodata.as_deref()))
    }

    /// Stores values of its tunables, each in one piece; it may be running meanwhile.
    pub(crate) fn store(&self, settings: &[Setting]) -> Result<()> {
        present::store(settings, &self.need_map("tunables")?, &self.dir)
    }
}

/// Makes and pins a one-entry array.
pub fn create_cell(path: &Path, name: &str, value: &[u8]) -> Result<()> {
    let options = libbpf_rs::libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_rs::libbpf_sys::bpf_map_create_opts>() as libbpf_rs::libbpf_sys::size_t,
        ..Default::default()
    };
    let tried = || format!("cannot make {}", path.display());
    let mut map = MapHandle::create(MapType::Array, Some(name), 4, value.len() as u32, 1, &options).tried(tried)?;
    map.update(&KEY, value, MapFlags::ANY).tried(tried)?;
    map.pin(path).tried(tried)
}

/// Value of a pinned one-entry array; `None` where there is none.
fn read_cell(path: &Path) -> Result<Option<Vec<u8>>> {
    if !path.exists() {
        return Ok(None);
    }
    let map = MapHandle::from_pinned_path(path);
    map.and_then(|m| m.lookup(&KEY, MapFlags::empty())).tried(|| format!("cannot read {}", path.display()))
}

/// Writes a pinned one-entry array, and makes it where there is none.
fn write_cell(path: &Path, name: &str, value: &[u8]) -> Result<()> {
    if !path.exists() {
        return create_cell(path, name, value);
    }
    let map = MapHandle::from_pinned_path(path);
    map.and_then(|m| m.update(&KEY, value, MapFlags::ANY)).tried(|| format!("cannot write {}", path.display()))
}

/// What commands did so far; zeros where nothing was ever done.
pub fn counters() -> Result<Counters> {
    let value = read_cell(&Path::new(pins::ROOT).join("counters"))?;
    Ok(value.and_then(|v| bytemuck::try_pod_read_unaligned(&v).ok()).unwrap_or_default())
}

/// Counts something. Call with the lock held.
pub fn count(what: impl FnOnce(&mut Counters)) -> Result<()> {
    let mut value = counters()?;
    value.version = u64::from(META_VERSION);
    what(&mut value);
    fs::create_dir_all(pins::ROOT).tried(|| format!("cannot make {}", pins::ROOT))?;
    write_cell(&Path::new(pins::ROOT).join("counters"), "hotcc_counters", bytemuck::bytes_of(&value))
}

/// The pinned link, as a descriptor.
pub fn open_link(algo: &Algo) -> Result<Option<std::os::fd::OwnedFd>> {
    let path = algo.link_path();
    if !path.exists() {
        return Ok(None);
    }
    sys::obj_get(&path).map(Some).tried(|| format!("cannot open {}", path.display()))
}

fn subdirectories(dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(dir) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.tried(|| format!("cannot list {}", dir.display()))?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.tried(|| format!("cannot list {}", dir.display()))?;
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// Removes a directory of pins.
pub fn remove_tree(dir: &Path) -> Result<()> {
    fs::remove_dir_all(dir).tried(|| format!("cannot remove {}", dir.display()))
}
