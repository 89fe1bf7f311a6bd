//! Object files: built in or somebody else's, opened, described, made ready, and loaded into the kernel.

use crate::describe::{Description, Section, describe, member_offset};
use crate::error::{Error, Result, Tried};
use crate::values::Setting;
use crate::{kernel, libbpf_log};
use hotcc_abi::pins;
use hotcc_abi::stats::AlgoStats;
use libbpf_rs::btf::types::{Composite, DataSec, Ptr, Struct, Var};
use libbpf_rs::btf::{Btf, BtfType};
use libbpf_rs::{AsRawLibbpf, MapCore, MapType, Object, ObjectBuilder, OpenObject};
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::fs;
use std::path::Path;

/// Longest congestion control name the kernel takes.
pub const CC_NAME_MAX: usize = 15;

/// Machine of a BPF object, in the ELF header.
const EM_BPF: u16 = 247;

/// An object file's bytes and where they came from.
#[derive(Debug)]
pub struct Source {
    /// `builtin:NAME`, or the path.
    pub origin: String,
    bytes: Cow<'static, [u8]>,
}

impl Source {
    /// Whether it looks like a path: has a `/` or ends in `.o`.
    #[must_use]
    pub fn is_path(name_or_path: &str) -> bool {
        name_or_path.contains('/') || name_or_path.ends_with(".o")
    }

    /// The built-in algorithm of that name, or the file if it looks like a path.
    pub fn find(name_or_path: &str) -> Result<Self> {
        if Self::is_path(name_or_path) {
            return Self::file(Path::new(name_or_path));
        }
        let found = hotcc_bpf::algo(name_or_path).ok_or_else(|| {
            let known: Vec<&str> = hotcc_bpf::ALGOS.iter().map(|o| o.name).collect();
            let known = known.join(", ");
            let path = if Path::new(name_or_path).exists() {
                format!("The file of that name here is ./{name_or_path}")
            } else {
                format!("For a file give its path, as in ./{name_or_path}.bpf.o")
            };
            Error::failed(format!("no built-in algorithm `{name_or_path}`; there are: {known}. {path}"))
        })?;
        Ok(Self::builtin(found))
    }

    /// An embedded object.
    #[must_use]
    pub fn builtin(object: &hotcc_bpf::Object) -> Self {
        Self { origin: format!("builtin:{}", object.name), bytes: Cow::Borrowed(object.bytes) }
    }

    fn file(path: &Path) -> Result<Self> {
        let bytes = fs::read(path).tried(|| format!("cannot read {}", path.display()))?;
        let what = match bytes.get(18..20) {
            _ if !bytes.starts_with(b"\x7fELF") => Some("no ELF file"),
            Some(machine) if machine != EM_BPF.to_le_bytes() => {
                Some("no usable BPF object: an ELF file of another kind")
            }
            _ => None,
        };
        if let Some(what) = what {
            let text = "a BPF object is what `clang -target bpf -g -O2 -c` makes";
            return Err(Error::failed(format!("{} is {what}; {text}", path.display())));
        }
        let origin = path.canonicalize().unwrap_or_else(|_| path.to_owned()).display().to_string();
        Ok(Self { origin, bytes: Cow::Owned(bytes) })
    }

    /// SHA-256 of the file.
    #[must_use]
    pub fn sha256(&self) -> [u8; 32] {
        Sha256::digest(&self.bytes).into()
    }

    /// Parses the object. Needs no privilege.
    pub fn open(&self) -> Result<Opened> {
        let (result, log) = libbpf_log::capture(|| {
            // libbpf would make up a name, which nobody would know in its messages
            ObjectBuilder::default().name(&self.origin).and_then(|builder| builder.open_memory(&self.bytes))
        });
        let object = result.map_err(|e| {
            let hint = log.lines().last().unwrap_or_default();
            Error::failed(format!("{} is no usable BPF object: {e} {hint}", self.origin))
        })?;
        Opened::new(object, self)
    }
}

/// An object that is parsed and not yet in the kernel.
#[derive(Debug)]
pub struct Opened {
    object: OpenObject,
    origin: String,
    /// What it says of itself.
    pub description: Description,
    /// Name it wants to be registered under.
    pub cc_name: String,
    table: OpsTable,
}

impl Opened {
    fn new(object: OpenObject, source: &Source) -> Result<Self> {
        let btf = btf_of(&object, &source.origin)?;
        let description = describe(&btf);
        if let Some(contradiction) = description.contradiction() {
            return Err(Error::failed(format!("{} contradicts itself: {contradiction}", source.origin)));
        }
        let mut found = ops_tables(&btf);
        drop(btf);
        let table = match found.len() {
            1 => found.swap_remove(0),
            0 => {
                let text = "has no congestion control in it (no struct_ops table of type tcp_congestion_ops)";
                return Err(Error::failed(format!("{} {text}", source.origin)));
            }
            _ => {
                let names: Vec<String> = found.into_iter().map(|t| t.map).collect();
                let text = "has several congestion controls; split it into one object each";
                return Err(Error::failed(format!("{} {text}: {}", source.origin, names.join(", "))));
            }
        };
        let mut opened = Self { object, origin: source.origin.clone(), description, cc_name: String::new(), table };
        let offset = opened.table.name_offset;
        let stored = opened.ops_value()?.get(offset..).unwrap_or_default();
        let end = stored.iter().take(CC_NAME_MAX).position(|&b| b == 0).unwrap_or(stored.len().min(CC_NAME_MAX));
        opened.cc_name = String::from_utf8_lossy(&stored[..end]).into_owned();
        Ok(opened)
    }

    fn ops_value(&mut self) -> Result<&mut [u8]> {
        let name = self.table.map.clone();
        let map = self.object.maps_mut().find(|m| m.name().to_str() == Some(&name));
        // The map hands out a slice that borrows from the object, not from the temporary handle.
        let value = map.and_then(|mut m| m.initial_value_mut().map(|v| (v.as_mut_ptr(), v.len())));
        let (at, len) = value.ok_or_else(|| Error::failed(format!("{}: struct_ops map has no value", self.origin)))?;
        // SAFETY: libbpf owns this buffer for the life of the object, which `self` borrows mutably for as long as
        // the slice lives.
        Ok(unsafe { std::slice::from_raw_parts_mut(at, len) })
    }

    /// Renames the congestion control.
    pub fn rename(&mut self, cc_name: &str) -> Result<()> {
        check_cc_name(cc_name)?;
        let offset = self.table.name_offset;
        let field = self.ops_value()?.get_mut(offset..=offset + CC_NAME_MAX);
        let field = field.ok_or_else(|| Error::failed("the object's tcp_congestion_ops has no 16-byte name"))?;
        field.fill(0);
        field[..cc_name.len()].copy_from_slice(cc_name.as_bytes());
        self.cc_name = cc_name.to_owned();
        Ok(())
    }

    /// What a section holds before anything runs; `None` if there is none.
    #[must_use]
    pub fn initial_values(&self, section: Section) -> Option<Vec<u8>> {
        let map = self.object.maps().find(|m| m.name().to_string_lossy().ends_with(section.name()))?;
        map.initial_value().map(<[u8]>::to_vec)
    }

    /// Writes settings into the object's initial values.
    pub fn apply(&mut self, settings: &[Setting]) -> Result<()> {
        apply(&mut self.object, &self.origin, settings)
    }

    /// Loads it: every program through the verifier, every map made; nothing is registered yet. Without `links` (a
    /// kernel before 6.4) the struct_ops map itself will be the registration.
    pub fn load(mut self, links: bool) -> Result<Loaded> {
        let stats_pin = pins::algo_dir(&self.cc_name).join(pins::STATS);
        let mut keeps_stats = false;
        for mut map in self.object.maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            if map.map_type() == MapType::StructOps {
                // an object's ".struct_ops" or ".struct_ops.link" is its author's choice; here the kernel decides
                let link = libbpf_rs::libbpf_sys::BPF_F_LINK;
                let flags = if links { map.map_flags() | link } else { map.map_flags() & !link };
                map.set_map_flags(flags).tried(|| "cannot prepare the struct_ops map".to_owned())?;
            }
            use_shared(&mut map)?;
            // Somebody else's map of that name is somebody else's business.
            if name == pins::STATS
                && self.description.summary.is_some()
                && map.value_size() as usize == size_of::<AlgoStats>()
            {
                keeps_stats = true;
                // One map for all versions of a name: connections of a version that is gone count on in it.
                if stats_pin.exists() {
                    map.reuse_pinned_map(&stats_pin).tried(|| format!("cannot use {}", stats_pin.display()))?;
                }
            }
        }
        self.clear_missing_operations()?;
        self.need_operations()?;
        let (result, log) = libbpf_log::capture(|| self.object.load());
        let object = result.map_err(|e| load_error(&self.cc_name, &self.origin, &e, &log))?;
        Ok(Loaded { object, ops_map: self.table.map, cc_name: self.cc_name, keeps_stats })
    }

    /// The kernel refuses a congestion control without these, and does not say why.
    fn need_operations(&mut self) -> Result<()> {
        let operations = self.table.operations.clone();
        let value = self.ops_value()?;
        let has = |wanted: &str| {
            let place = operations.iter().find(|(member, _)| member == wanted);
            let pointer = place.and_then(|(_, offset)| value.get(*offset..offset + size_of::<u64>()));
            pointer.is_some_and(|pointer| pointer.iter().any(|&byte| byte != 0))
        };
        let mut lacking: Vec<&str> = ["ssthresh", "undo_cwnd"].into_iter().filter(|wanted| !has(wanted)).collect();
        if !has("cong_avoid") && !has("cong_control") {
            lacking.push("cong_avoid (or cong_control)");
        }
        if lacking.is_empty() {
            return Ok(());
        }
        let lacking = lacking.join(", ");
        Err(Error::failed(format!(
            "cannot load {} ({}): its table of operations lacks {lacking}, which the kernel asks of every congestion \
             control",
            self.cc_name, self.origin
        )))
    }

    /// Clears the operations that the running kernel's tcp_congestion_ops does not have; libbpf then leaves their
    /// programs out, and would refuse the whole table otherwise.
    fn clear_missing_operations(&mut self) -> Result<()> {
        let known = &kernel::kernel()?.operations;
        for (member, offset) in self.table.operations.clone() {
            if !known.contains(&member)
                && let Some(pointer) = self.ops_value()?.get_mut(offset..offset + size_of::<u64>())
            {
                pointer.fill(0);
            }
        }
        Ok(())
    }
}

/// An object in the kernel, its congestion control not yet registered.
#[derive(Debug)]
pub struct Loaded {
    /// The object.
    pub object: Object,
    /// Name of the struct_ops map.
    pub ops_map: String,
    /// Name it will be registered under.
    pub cc_name: String,
    /// Whether its map `stats` has the layout of [`AlgoStats`].
    pub keeps_stats: bool,
}

impl Loaded {
    /// The struct_ops map.
    pub fn ops(&mut self) -> Result<libbpf_rs::MapMut<'_>> {
        let name = &self.ops_map;
        self.object
            .maps_mut()
            .find(|m| m.map_type() == MapType::StructOps && m.name().to_str() == Some(name))
            .ok_or_else(|| Error::failed("the loaded object lost its struct_ops map"))
    }
}

/// The BTF that an object carries.
pub(crate) fn btf_of<'a>(object: &'a OpenObject, origin: &str) -> Result<Btf<'a>> {
    // SAFETY: the pointer is libbpf's own object, which lives as long as `object`, from which the BTF borrows.
    let raw = unsafe { object.as_libbpf_object().as_ref() };
    let btf = Btf::from_bpf_object(raw).ok().flatten();
    btf.ok_or_else(|| Error::failed(format!("{origin} carries no BTF; compile it with -g")))
}

/// Writes settings into an object's initial values.
pub(crate) fn apply(object: &mut OpenObject, origin: &str, settings: &[Setting]) -> Result<()> {
    for Setting { tunable, value } in settings {
        let suffix = tunable.section.name();
        let map = object.maps_mut().find(|m| m.name().to_string_lossy().ends_with(suffix));
        let written = map.and_then(|mut m| m.initial_value_mut().and_then(|bytes| tunable.place.write(bytes, *value)));
        written.ok_or_else(|| Error::failed(format!("{origin}: tunable {} has no place in {suffix}", tunable.name)))?;
    }
    Ok(())
}

/// If algorithms share this map with agents, takes the pinned one, or pins it as the first.
pub(crate) fn use_shared(map: &mut libbpf_rs::OpenMapMut<'_>) -> Result<()> {
    let name = map.name().to_string_lossy().into_owned();
    let Some(path) = pins::shared(&name) else { return Ok(()) };
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory).tried(|| format!("cannot make {}", directory.display()))?;
    }
    map.set_pin_path(path).tried(|| format!("cannot use the pinned map {name}"))
}

/// A table of operations in an object.
#[derive(Debug)]
struct OpsTable {
    /// Variable, and struct_ops map, it stands in.
    map: String,
    /// Offset of `name`.
    name_offset: usize,
    /// Name and offset of each member that is a pointer.
    operations: Vec<(String, usize)>,
}

fn ops_tables(btf: &Btf<'_>) -> Vec<OpsTable> {
    let mut found = Vec::new();
    for section in btf.type_by_kind::<DataSec<'_>>() {
        if !matches!(section.name().and_then(|n| n.to_str()), Some(".struct_ops" | ".struct_ops.link")) {
            continue;
        }
        for info in section.iter() {
            found.extend(btf.type_by_id::<Var<'_>>(info.ty).and_then(|var| ops_table(btf, &var)));
        }
    }
    found
}

fn ops_table(btf: &Btf<'_>, var: &Var<'_>) -> Option<OpsTable> {
    let ty = BtfType::skip_mods_and_typedefs(&var.next_type()?);
    // "___something" is a flavour of the same kernel type
    if ty.name()?.to_str()?.split("___").next() != Some("tcp_congestion_ops") {
        return None;
    }
    let table = Composite::try_from(ty).ok().and_then(|c| Struct::try_from(c).ok())?;
    let pointers = table.iter().filter(|m| btf.type_by_id::<Ptr<'_>>(m.ty).is_some());
    let operations = pointers.filter_map(|m| {
        let name = m.name?.to_str()?;
        Some((name.to_owned(), member_offset(&table, name)?))
    });
    Some(OpsTable {
        map: var.name()?.to_str()?.to_owned(),
        name_offset: member_offset(&table, "name")?,
        operations: operations.collect(),
    })
}

/// What the kernel asks of a congestion control's name.
pub fn check_cc_name(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > CC_NAME_MAX {
        return Err(Error::usage(format!(
            "congestion control name `{name}` has {} bytes; the kernel takes 1 to {CC_NAME_MAX}",
            name.len()
        )));
    }
    if let Some(c) = name.chars().find(|c| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '.'))) {
        return Err(Error::usage(format!(
            "congestion control name `{name}` has a `{c}`; the kernel takes letters, digits, `_` and `.`"
        )));
    }
    Ok(())
}

pub(crate) fn load_error(cc_name: &str, origin: &str, error: &libbpf_rs::Error, log: &str) -> Error {
    const SHOWN_LINES: usize = 20;
    let Some(verifier) = libbpf_log::verifier_log(log) else {
        let reason = log.lines().last().unwrap_or_default().trim();
        let hint = kfunc_hint(log).unwrap_or_default();
        let kind = Error::failed(format!("cannot load {cc_name} ({origin}): {error}; {reason}{hint}"));
        return if log.contains("-ENOTSUP") || log.contains("not supported") {
            Error::kernel_lacks(kind.to_string())
        } else {
            kind
        };
    };
    let lines: Vec<&str> = verifier.lines().collect();
    let tail = lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n  ");
    let whole = match libbpf_log::keep(cc_name, verifier) {
        Ok(path) => format!("the whole log ({} lines) is in {}", lines.len(), path.display()),
        Err(why) => format!("the whole log could not be kept: {why}"),
    };
    Error::failed(format!(
        "cannot load {cc_name} ({origin}): the kernel's verifier rejects it ({error}).\n  {tail}\n{whole}"
    ))
}

/// In plain words what libbpf says of a kernel function that the object declares.
fn kfunc_hint(log: &str) -> Option<String> {
    let (name, complaint) = log.split_once("extern (func ksym) '")?.1.split_once("': ")?;
    let hint = if complaint.starts_with("func_proto ") {
        format!(
            "the object declares the kernel function {name} with other arguments, or another result, than it has in \
                 this kernel's BTF; correct its `extern ... {name}(...) __ksym` and compile again"
        )
    } else if complaint.starts_with("not found") {
        format!(
            "this kernel has no function {name} that BPF may call; declare it `__weak` and do without where it is \
                 missing, or boot a kernel that has it"
        )
    } else {
        return None;
    };
    Some(format!("\n  {hint}"))
}
