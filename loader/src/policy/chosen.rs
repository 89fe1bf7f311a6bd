//! The conditions of a rule as options of a command that moves open sockets.

use super::kernel::{PREFIXES, fill_prefixes};
use super::layout::RuleEntry;
use super::set::Set;
use super::table::{cgroup_path, parse_share, ports, prefix_list, uid};
use super::{layout::criterion, table::seed};
use bytemuck::Zeroable;
use hotcc_abi::pins;
use hotcc_host::error::{Error, Result, Tried};
use libbpf_rs::{MapCore, OpenObject};
use std::path::PathBuf;
use toml::Value;

/// Conditions that select open sockets; all of them must hold.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Chosen {
    /// Only sockets whose peer is in this prefix; may be repeated
    #[arg(long, value_name = "PREFIX")]
    pub to_prefix: Vec<String>,
    /// Only sockets with this local or remote port, or one in this range
    #[arg(long, value_name = "PORT|FIRST-LAST")]
    pub port: Option<String>,
    /// Only sockets that processes in this cgroup (v2) or below it made
    #[arg(long, value_name = "PATH")]
    pub cgroup: Option<PathBuf>,
    /// Only sockets of this user
    #[arg(long, value_name = "USER")]
    pub uid: Option<String>,
    /// Only this share of the sockets, chosen by a hash of their addresses and ports
    #[arg(long, value_name = "PERCENT%")]
    pub share: Option<String>,
    /// Move at most this many sockets
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub limit: Option<u64>,
}

/// The same conditions, in the layout that the program reads.
#[derive(Clone, Debug)]
pub(crate) struct Condition {
    pub(crate) entry: RuleEntry,
    set: Option<Set>,
}

impl Chosen {
    pub(crate) fn condition(&self) -> Result<Condition> {
        let mut entry = RuleEntry::zeroed();
        let mut set = None;
        if !self.to_prefix.is_empty() {
            let prefixes = prefix_list(self.to_prefix.iter().map(String::as_str))?;
            entry.criteria |= criterion::REMOTE;
            match prefixes.single() {
                Some(prefix) => (entry.remote, entry.remote_len) = (prefix.addr, prefix.prefix_len),
                None => {
                    entry.remote_set = 1;
                    set = Some(prefixes);
                }
            }
        }
        if let Some(port) = &self.port {
            (entry.port_first, entry.port_last) = ports(&Value::String(port.clone()))?;
            entry.criteria |= criterion::PORT;
        }
        if let Some(path) = &self.cgroup {
            let mut warnings = Vec::new();
            (entry.cgroup, entry.cgroup_depth) = cgroup_path(path, &mut warnings)?;
            if !warnings.is_empty() {
                return Err(Error::failed(format!("cgroup {} does not exist", path.display())));
            }
            entry.criteria |= criterion::CGROUP;
        }
        if let Some(user) = &self.uid {
            entry.uid = uid(&user.parse().map_or_else(|_| Value::String(user.clone()), Value::Integer))?;
            entry.criteria |= criterion::UID;
        }
        if let Some(share) = &self.share
            && let Ok(limit) = u32::try_from(parse_share(share)?)
        {
            (entry.share, entry.criteria) = (limit, entry.criteria | criterion::SHARE);
        }
        entry.seed = seed(&entry);
        Ok(Condition { entry, set })
    }
}

impl Condition {
    /// Prepares the maps of the program. The radio maps are not created, because no condition here needs them.
    pub(crate) fn prepare(&self, open: &mut OpenObject) -> Result<()> {
        for mut map in open.maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            let tried = || format!("cannot prepare the map {name}");
            if name == PREFIXES {
                map.set_max_entries(self.set.as_ref().map_or(1, Set::len) as u32).tried(tried)?;
            } else if [pins::RADIO_INDEX, pins::RADIO_SLOTS].contains(&&*name) {
                map.set_autocreate(false).tried(tried)?;
            } else {
                crate::object::prepare::use_shared(&mut map)?;
            }
        }
        Ok(())
    }

    pub(crate) fn fill(&self, prefixes: &impl MapCore) -> Result<()> {
        fill_prefixes(prefixes, self.set.as_slice())
    }
}
