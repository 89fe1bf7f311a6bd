//! Loads, replaces, removes and reads back the rules.

use super::figures;
use super::layout::{Counts, JobEntry, PrefixKey, RuleEntry, TextEntry};
use super::ordered::Policy;
use super::set::Set;
use super::table::Rule;
use crate::cgroup;
use crate::object::prepare::{set_job, use_shared};
use crate::object::{libbpf_log, load_error};
use crate::sys::{self, tick_us};
use bytemuck::Pod;
use hotcc_abi::path::PathKey;
use hotcc_abi::pins;
use hotcc_host::bpffs;
use hotcc_host::error::{Error, Result, Tried};
use hotcc_radio_map::share_with_feeders;
use libbpf_rs::query::{ProgInfoIter, ProgInfoQueryOptions};
use libbpf_rs::{Link, Map, MapCore, MapFlags, MapHandle, Object, ObjectBuilder, OpenObject, ProgramMut};
use std::collections::HashMap;
use std::fs;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

pub(super) const OBJECT: &str = "policy";
pub(super) const CHOOSE: &str = "choose";
const RULES: &str = "policy_rules";
const TEXTS: &str = "policy_texts";
const COUNTS: &str = "policy_counts";
const FIGURES: &str = pins::POLICY_FIGURES;
const RECORDS: &str = "policy_records";
/// Size of the ring of records while a canary runs, bytes: more than 10,000 connections between two looks.
const RECORDS_SIZE: u32 = 1 << 20;
pub(crate) const PREFIXES: &str = "policy_prefixes";

fn link_path() -> PathBuf {
    Path::new(pins::POLICY).join("link")
}

/// The rules that apply, as read from the kernel.
#[derive(Debug)]
pub(crate) struct Current {
    program: u32,
    pub(crate) entries: Vec<(RuleEntry, TextEntry)>,
    pub(super) counts: Vec<Counts>,
}

/// What a new policy replaced.
#[derive(Debug)]
pub(crate) enum Replaced {
    /// Rules, given by their program.
    Rules(OwnedFd),
    /// No rules.
    Nothing,
}

/// Returns the rules that apply, or `None` if there are none.
pub(crate) fn current() -> Result<Option<Current>> {
    of_attached(|program| {
        let current = read_current(program)?;
        current.ok_or_else(|| Error::failed("the policy in the kernel is of another version of hotcc"))
    })
}

/// Returns the rules that apply, or `None` if another version of hotcc created them.
pub(crate) fn running() -> Result<Option<Vec<(RuleEntry, TextEntry)>>> {
    let read = of_attached(|program| Ok(read_current(program)?.map(|current| current.entries)))?;
    Ok(read.unwrap_or_else(|| Some(Vec::new())))
}

/// Reads the program that is attached. Commands that only read hold no lock: if another command replaces the program
/// meanwhile, reads the new one.
fn of_attached<T>(read: impl Fn(u32) -> Result<T>) -> Result<Option<T>> {
    loop {
        let Some((_, program)) = attached()? else { return Ok(None) };
        match read(program) {
            Err(_) if attached()?.is_none_or(|(_, now)| now != program) => {}
            read => return read.map(Some),
        }
    }
}

impl Current {
    /// Returns the rules with their sets of prefixes.
    pub(super) fn rules(&self) -> Result<Vec<Rule>> {
        let maps = maps_of(self.program)?;
        let prefixes = maps.iter().find(|map| map.name() == PREFIXES);
        let mut sets: HashMap<u32, Set> = HashMap::new();
        for key in prefixes.iter().flat_map(|map| map.keys()) {
            let value = prefixes.map(|map| map.lookup(&key, MapFlags::empty())).transpose().tried(cannot_read)?;
            let is_in = value.flatten().is_some_and(|value| value.iter().any(|byte| *byte != 0));
            let Ok(key) = bytemuck::try_pod_read_unaligned::<PrefixKey>(&key) else { continue };
            sets.entry(key.set / 2).or_default().put(key.prefix(), is_in);
        }
        let set = |number: u32| sets.get(&number).cloned();
        let rule = |(entry, text): &(RuleEntry, TextEntry)| Rule {
            entry: *entry,
            text: *text,
            remote: set(entry.remote_set),
            local: set(entry.local_set),
            warnings: Vec::new(),
        };
        Ok(self.entries.iter().map(rule).collect())
    }

    /// Returns the ring of records of the connections of a canary.
    pub(super) fn records(&self) -> Result<MapHandle> {
        let found = maps_of(self.program)?.into_iter().find(|map| map.name() == RECORDS);
        found.ok_or_else(|| Error::failed("the policy in the kernel has no ring of records"))
    }
}

/// Returns the link to the root cgroup, and the id of its program.
fn attached() -> Result<Option<(Link, u32)>> {
    let path = link_path();
    if !path.exists() {
        return Ok(None);
    }
    let link = Link::open(&path).tried(|| format!("cannot open {}", path.display()))?;
    let program = link.info().tried(|| format!("cannot read {}", path.display()))?.prog_id;
    Ok(Some((link, program)))
}

fn read_current(program: u32) -> Result<Option<Current>> {
    let maps = maps_of(program)?;
    // programs of former builds keep figures elsewhere, and may have other keys in their sets of prefixes
    if !maps.iter().any(|map| map.name() == FIGURES) {
        return Ok(None);
    }
    let (rules, texts, counts) = (read::<RuleEntry>(&maps, RULES)?, read(&maps, TEXTS)?, read(&maps, COUNTS)?);
    let (Some(rules), Some(texts), Some(counts)) = (rules, texts, counts) else { return Ok(None) };
    Ok(Some(Current { program, entries: rules.into_iter().zip(texts).collect(), counts }))
}

fn maps_of(program: u32) -> Result<Vec<MapHandle>> {
    let mut with_maps = ProgInfoIter::with_query_opts(ProgInfoQueryOptions::default().include_map_ids(true));
    let found = with_maps.find(|info| info.id == program);
    let found = found.ok_or_else(|| Error::failed("another process removed the policy while it was read"))?;
    found.map_ids.iter().map(|id| MapHandle::from_map_id(*id)).collect::<libbpf_rs::Result<_>>().tried(cannot_read)
}

fn cannot_read() -> String {
    "cannot read the policy in the kernel".to_owned()
}

/// Returns all values of an array, or `None` if the array is missing or its values have another size.
fn read<T: Pod>(maps: &[MapHandle], name: &str) -> Result<Option<Vec<T>>> {
    let Some(map) = maps.iter().find(|map| map.name() == name) else { return Ok(None) };
    let count = map.info().tried(cannot_read)?.info.max_entries;
    let value = |index: u32| {
        let value = map.lookup(&index.to_ne_bytes(), MapFlags::empty()).tried(cannot_read)?.unwrap_or_default();
        Ok(bytemuck::try_pod_read_unaligned(&value).ok())
    };
    (0..count).map(value).collect()
}

/// Replaces the rules that apply by these, all at once. Returns what was replaced, so that it can be restored.
pub(crate) fn install(policy: &Policy) -> Result<Replaced> {
    let before = attached()?;
    let root = cgroup::open(&cgroup::cgroup2_root()?)?;
    bpffs::make(Path::new(pins::POLICY))?;
    let mut object = load(policy, CHOOSE)?;
    fill(&object, policy)?;
    share_with_feeders()?;
    let before_ids = before.as_ref().map(|(_, program)| read_current(*program)).transpose()?.flatten();
    figures::keep(&map(&object, FIGURES)?, &policy.entries, &before_ids.map_or_else(Vec::new, |c| c.entries))?;
    let texts = map(&object, TEXTS)?.as_fd().try_clone_to_owned().tried(cannot_write)?;
    let program = choose(&mut object)?;
    sys::bind_map(&program, texts).tried(cannot_write)?;
    let tried = || "cannot attach the policy to the root cgroup".to_owned();
    if let Some((mut link, program_before)) = before {
        let old = libbpf_rs::Program::fd_from_id(program_before).tried(tried)?;
        link.update_prog(&program).tried(tried)?;
        return Ok(Replaced::Rules(old));
    }
    let mut link = program.attach_cgroup(root.as_raw_fd()).tried(tried)?;
    link.pin(link_path()).tried(|| format!("cannot pin {}", link_path().display()))?;
    Ok(Replaced::Nothing)
}

/// Removes all rules. They apply until the result is dropped; `put_back` keeps them instead.
pub(crate) fn remove() -> Result<Option<Removed>> {
    let Some((link, _)) = attached()? else { return Ok(None) };
    fs::remove_file(link_path()).tried(|| format!("cannot remove {}", link_path().display()))?;
    Ok(Some(Removed(link)))
}

/// Rules that were removed.
#[derive(Debug)]
pub(crate) struct Removed(Link);

impl Removed {
    pub(crate) fn put_back(mut self) -> Result<()> {
        self.0.pin(link_path()).tried(|| format!("cannot pin {}", link_path().display()))
    }
}

impl Replaced {
    pub(crate) fn put_back(self) -> Result<()> {
        match self {
            Self::Rules(program) => {
                let link = Link::open(link_path()).tried(cannot_read)?;
                sys::link_update_program(&link, &program).tried(|| "cannot attach the former policy".to_owned())
            }
            Self::Nothing => remove().map(|_| ()),
        }
    }
}

/// Loads the object with one of its programs, and with maps of the size that these rules need.
pub(super) fn load(policy: &Policy, program: &str) -> Result<Object> {
    let mut open = open(program)?;
    set_job(&mut open, &job(&policy.entries, false)?)?;
    let has_canary = policy.entries.iter().any(|(rule, _)| rule.cohort != 0);
    let prefixes: usize = policy.sets.iter().map(Set::len).sum();
    for mut map in open.maps_mut() {
        let count = match map.name().to_str() {
            Some(RULES | TEXTS | COUNTS) => policy.entries.len(),
            Some(PREFIXES) => prefixes.max(1),
            Some(RECORDS) if has_canary => RECORDS_SIZE as usize,
            _ => {
                use_shared(&mut map)?;
                continue;
            }
        };
        map.set_max_entries(count as u32).tried(|| "cannot size the policy's maps".to_owned())?;
    }
    let (loaded, log) = libbpf_log::capture(|| open.load());
    load_error::explained(loaded, OBJECT, "builtin", &log)
}

/// Returns the parameters of the programs for these rules.
fn job(entries: &[(RuleEntry, TextEntry)], only_count: bool) -> Result<JobEntry> {
    let criteria_in_use = entries.iter().fold(0, |asked, (entry, _)| asked | entry.criteria);
    Ok(JobEntry { rules: entries.len() as u32, criteria_in_use, only_count: only_count.into(), tick_us: tick_us()? })
}

/// Prepares an object, with one of its programs, to use the rules that apply.
pub(super) fn prepare_for_current(open: &mut OpenObject, current: &Current, only_count: bool) -> Result<()> {
    set_job(open, &job(&current.entries, only_count)?)?;
    let maps = maps_of(current.program)?;
    for mut map in open.maps_mut() {
        match maps
            .iter()
            .find(|other| [RULES, PREFIXES].contains(&&*other.name().to_string_lossy()) && other.name() == map.name())
        {
            Some(other) => map.reuse_fd(other.as_fd()).tried(cannot_read)?,
            None => use_shared(&mut map)?,
        }
    }
    Ok(())
}

/// Loads the object with one of its programs, for the rules that apply.
pub(super) fn load_for_current(current: &Current, program: &str) -> Result<Object> {
    let mut open = open(program)?;
    prepare_for_current(&mut open, current, false)?;
    let (loaded, log) = libbpf_log::capture(|| open.load());
    load_error::explained(loaded, OBJECT, "builtin", &log)
}

/// Excludes all programs of an object but one from loading.
pub(super) fn only(open: &mut OpenObject, program: &str) {
    for mut other in open.progs_mut() {
        let wanted = other.name() == program;
        other.set_autoload(wanted);
    }
}

fn open(program: &str) -> Result<OpenObject> {
    let embedded =
        hotcc_bpf::prog(OBJECT).ok_or_else(|| Error::failed(format!("the program {OBJECT} is not built in")))?;
    let opened = ObjectBuilder::default().open_memory(embedded.bytes);
    let mut open = opened.tried(|| format!("cannot open the program {OBJECT}"))?;
    only(&mut open, program);
    Ok(open)
}

fn choose(object: &mut Object) -> Result<ProgramMut<'_>> {
    let found = object.progs_mut().find(|program| program.name() == CHOOSE);
    found.ok_or_else(|| Error::failed(format!("the object {OBJECT} has no program {CHOOSE}")))
}

fn map<'a>(object: &'a Object, name: &str) -> Result<Map<'a>> {
    let found = object.maps().find(|map| map.name() == name);
    found.ok_or_else(|| Error::failed(format!("the object {OBJECT} has no map {name}")))
}

fn cannot_write() -> String {
    "cannot write the policy's rules".to_owned()
}

/// Writes the rules. Call it before any program reads them.
pub(super) fn fill(object: &Object, policy: &Policy) -> Result<()> {
    let (rules, texts) = (map(object, RULES)?, map(object, TEXTS)?);
    for (index, (rule, text)) in (0u32..).zip(&policy.entries) {
        rules.update(&index.to_ne_bytes(), bytemuck::bytes_of(rule), MapFlags::ANY).tried(cannot_write)?;
        texts.update(&index.to_ne_bytes(), bytemuck::bytes_of(text), MapFlags::ANY).tried(cannot_write)?;
    }
    fill_prefixes(&map(object, PREFIXES)?, &policy.sets)
}

/// Writes the prefixes of the sets, which are numbered from 1.
pub(crate) fn fill_prefixes(map: &impl MapCore, sets: &[Set]) -> Result<()> {
    for (number, set) in (1u32..).zip(sets) {
        let key = |(prefix, is_in): (PathKey, bool)| (PrefixKey::of(number, prefix), u32::from(is_in));
        let (keys, values): (Vec<_>, Vec<_>) = set.iter().map(key).unzip();
        let (keys, values) = (bytemuck::cast_slice(&keys), bytemuck::cast_slice::<u32, u8>(&values));
        let written = map.update_batch(keys, values, set.len() as u32, MapFlags::ANY, MapFlags::ANY);
        written.tried(|| "cannot write the policy's prefixes".to_owned())?;
    }
    Ok(())
}
