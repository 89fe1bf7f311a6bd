//! One version of an algorithm, and its pins.

use crate::object::describe::{Description, describe};
use crate::tunables::{Section, Setting, present};
use hotcc_abi::version::{META_VERSION, Meta};
use hotcc_host::error::{Error, Result, Tried};
use libbpf_rs::btf::Btf;
use libbpf_rs::{MapCore, MapFlags, MapHandle, ProgramHandle};
use std::path::PathBuf;
use std::time::SystemTime;

const KEY: [u8; 4] = [0; 4];

/// One version of an algorithm: an object that was loaded under its name.
#[derive(Clone, Debug)]
pub struct Version {
    /// Id of its struct_ops map.
    pub map_id: u32,
    /// Directory of its pins.
    pub dir: PathBuf,
}

impl Version {
    /// Opens one of its maps; returns `None` if it has no map of that name.
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

    /// Reads its metadata.
    pub fn meta(&self) -> Result<Meta> {
        let value = self
            .need_map("meta")?
            .lookup(&KEY, MapFlags::empty())
            .tried(|| format!("cannot read {}/meta", self.dir.display()))?
            .unwrap_or_default();
        let meta: Meta = bytemuck::try_pod_read_unaligned(&value)
            .map_err(|_| Error::failed(format!("{}/meta has an unexpected size", self.dir.display())))?;
        if meta.version != META_VERSION {
            let text =
                format!("{} was created by another version of hotcc (layout {})", self.dir.display(), meta.version);
            return Err(Error::failed(format!("{text}; unload it, and load it again")));
        }
        Ok(meta)
    }

    /// Writes its metadata.
    pub fn set_meta(&self, meta: &Meta) -> Result<()> {
        self.need_map("meta")?
            .update(&KEY, bytemuck::bytes_of(meta), MapFlags::ANY)
            .tried(|| format!("cannot write {}/meta", self.dir.display()))
    }

    /// Records in the metadata that everything that follows a switch to this version is done.
    pub fn commit(&self, swaps: u64) -> Result<()> {
        let mut meta = self.meta()?;
        meta.activations += 1;
        meta.committed = 1;
        meta.swaps = swaps;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        meta.since_unix_ns = now.map_or(0, |d| d.as_nanos() as u64);
        self.set_meta(&meta)
    }

    /// Records in the metadata that a switch to this version is about to happen: if the command is killed after the
    /// switch, the next command finishes its work.
    pub fn mark_pending(&self) -> Result<()> {
        let meta = self.meta()?;
        self.set_meta(&Meta { committed: 0, ..meta })
    }

    /// Returns its description, from the BTF in the kernel.
    pub fn description(&self) -> Result<Description> {
        let path = self.dir.join("prog");
        let tried = || format!("cannot read the BTF of {}", path.display());
        let program = ProgramHandle::from_pinned_path(&path).tried(tried)?;
        Ok(describe(&Btf::from_prog_id(program.id()).tried(tried)?, None))
    }

    /// Returns the bytes of its `.data` or `.rodata`, or `None` if it has no such section.
    pub(crate) fn section(&self, section: Section) -> Result<Option<Vec<u8>>> {
        let pin = match section {
            Section::Data => "tunables",
            Section::Rodata => "constants",
        };
        let Some(map) = self.map(pin)? else { return Ok(None) };
        map.lookup(&KEY, MapFlags::empty()).tried(|| format!("cannot read {}/{pin}", self.dir.display()))
    }

    /// Returns its tunables and their current values.
    pub(crate) fn settings(&self) -> Result<Vec<Setting>> {
        let [data, rodata] = [self.section(Section::Data)?, self.section(Section::Rodata)?];
        Ok(present::read(&self.description()?.tunables, data.as_deref(), rodata.as_deref()))
    }

    /// Stores values of its tunables. Each value is stored atomically, because the version may be running.
    pub(crate) fn store(&self, settings: &[Setting]) -> Result<()> {
        present::store(settings, &self.need_map("tunables")?, &self.dir)
    }
}
