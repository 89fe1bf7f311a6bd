//! The default of each network namespace before an algorithm was loaded; unloading restores it.

use super::Algo;
use super::value_map::{create_value_map, read_value_map, write_value_map};
use crate::sysctl;
use bytemuck::{Pod, Zeroable};
use hotcc_host::cstr::{padded, text};
use hotcc_host::error::Result;
use hotcc_host::netns::{self, NetNs};
use std::path::PathBuf;

/// The default of one network namespace.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Entry {
    netns: u64,
    cc_name: [u8; 16],
}

/// The defaults before the algorithm was loaded. The first is of the network namespace that it was loaded from.
pub(crate) struct Defaults(Vec<Entry>);

/// Returns what identifies a network namespace, in which this runs: its cookie, or its inode before Linux 5.14. When a
/// namespace ends, another one may get its inode, but never its cookie.
pub(crate) fn id(ns: &NetNs) -> u64 {
    netns::cookie().unwrap_or(ns.inode)
}

fn path(algo: &Algo) -> PathBuf {
    algo.dir().join("defaults")
}

impl Defaults {
    /// Stores the current defaults.
    pub(crate) fn note(algo: &Algo) -> Result<()> {
        let entry = |ns: &NetNs| Ok(Entry { netns: id(ns), cc_name: padded(&sysctl::default()?) });
        let entries = netns::in_each(entry)?;
        create_value_map(&path(algo), "hotcc_defaults", bytemuck::cast_slice(&entries))
    }

    /// Reads the stored defaults; none if an older version of hotcc loaded the algorithm.
    pub(crate) fn noted(algo: &Algo) -> Result<Self> {
        let bytes = read_value_map(&path(algo))?.unwrap_or_default();
        Ok(Self(bytes.chunks_exact(size_of::<Entry>()).map(bytemuck::pod_read_unaligned).collect()))
    }

    /// Returns the default that a network namespace had; for a namespace that was created later, that of the first
    /// entry.
    pub(crate) fn of(&self, netns: u64) -> Option<String> {
        let entry = self.0.iter().find(|entry| entry.netns == netns).or(self.0.first())?;
        Some(text(&entry.cc_name))
    }

    /// Replaces `gone` by these defaults in what was stored for the other algorithms.
    pub(crate) fn replace_in_others(&self, gone: &str) -> Result<()> {
        for other in Algo::all()?.into_iter().filter(|other| other.name != gone) {
            let mut noted = Self::noted(&other)?;
            for entry in noted.0.iter_mut().filter(|entry| text(&entry.cc_name) == gone) {
                if let Some(before) = self.of(entry.netns) {
                    entry.cc_name = padded(&before);
                }
            }
            if !noted.0.is_empty() {
                write_value_map(&path(&other), "hotcc_defaults", bytemuck::cast_slice(&noted.0))?;
            }
        }
        Ok(())
    }
}
