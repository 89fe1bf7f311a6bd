//! The module files of a kernel that the lab needs, and the order in which they load.

use super::error::{Error, OnFile, Result};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Path prefixes of modules that the lab can use; other modules are kept only if these depend on them.
const KEPT: [&str; 13] = [
    "kernel/net/",
    "kernel/drivers/net/veth",
    "kernel/drivers/net/ifb",
    "kernel/drivers/net/dummy",
    "kernel/drivers/net/virtio_net",
    "kernel/drivers/net/wireless/mac80211_hwsim",
    "kernel/drivers/net/wireless/virtual/",
    "kernel/drivers/virtio/",
    "kernel/drivers/char/virtio_console",
    "kernel/drivers/char/hw_random/virtio",
    "kernel/drivers/block/virtio",
    "kernel/fs/9p/",
    "kernel/fs/netfs/",
];

/// The modules of a kernel: module files with their dependencies, and built-in modules.
#[derive(Clone, Debug, Default)]
pub(super) struct Modules {
    /// Each module file (relative path) and the files that it depends on, from `modules.dep`.
    needs: BTreeMap<String, Vec<String>>,
    builtin: HashSet<String>,
}

impl Modules {
    /// Reads a directory with `modules.dep` and, optionally, `modules.builtin`.
    pub(super) fn read(directory: &Path) -> Result<Self> {
        let needs = directory.join("modules.dep");
        let needs = fs::read_to_string(&needs).on_file("cannot read", &needs)?;
        let builtin = fs::read_to_string(directory.join("modules.builtin")).unwrap_or_default();
        Ok(Self::parse(&needs, &builtin))
    }

    fn parse(needs: &str, builtin: &str) -> Self {
        let line = |line: &str| {
            let (file, needs) = line.split_once(':')?;
            Some((file.trim().to_owned(), needs.split_whitespace().map(str::to_owned).collect()))
        };
        Self {
            needs: needs.lines().filter_map(line).collect(),
            builtin: builtin.lines().map(|line| name(line.trim())).collect(),
        }
    }

    /// Returns the files to load, in this order, so that `modules` work; built-in modules need no file.
    pub(super) fn closure(&self, release: &str, modules: &[&str]) -> Result<Vec<String>> {
        let files: BTreeMap<String, &String> = self.needs.keys().map(|file| (name(file), file)).collect();
        let mut order = Vec::new();
        let mut seen = BTreeSet::new();
        for module in modules {
            let wanted = name(module);
            match files.get(&wanted) {
                Some(file) => self.visit(file, &mut seen, &mut order),
                None if self.builtin.contains(&wanted) => {}
                None => return Err(Error::NoModule { release: release.into(), module: (*module).into() }),
            }
        }
        Ok(order)
    }

    fn visit(&self, file: &str, seen: &mut BTreeSet<String>, order: &mut Vec<String>) {
        if seen.insert(file.to_owned()) {
            // modules.dep lists dependencies in reverse order of loading
            for needed in self.needs.get(file).into_iter().flatten().rev() {
                self.visit(needed, seen, order);
            }
            order.push(file.to_owned());
        }
    }

    /// Returns the modules that the lab uses, and their dependencies.
    pub(super) fn kept(&self) -> Self {
        let mut order = Vec::new();
        let mut seen = BTreeSet::new();
        let wanted = |file: &&String| KEPT.iter().any(|start| file.starts_with(start));
        self.needs.keys().filter(wanted).for_each(|file| self.visit(file, &mut seen, &mut order));
        let needs = order.into_iter().map(|file| (file.clone(), self.needs.get(&file).cloned().unwrap_or_default()));
        Self { needs: needs.collect(), builtin: self.builtin.clone() }
    }

    /// Returns the files, relative to the directory of `modules.dep`.
    pub(super) fn files(&self) -> impl Iterator<Item = &String> {
        self.needs.keys()
    }

    /// Formats the dependencies as `modules.dep` does.
    pub(super) fn text(&self) -> String {
        let line = |(file, needs): (&String, &Vec<String>)| {
            let needs: String = needs.iter().map(|needed| format!(" {needed}")).collect();
            format!("{file}:{needs}\n")
        };
        self.needs.iter().map(line).collect()
    }
}

/// Returns the kernel's name for the module in a file: `virtio-rng.ko` is `virtio_rng`.
fn name(file: &str) -> String {
    let stem = file.rsplit('/').next().unwrap_or(file);
    stem.split_once(".ko").map_or(stem, |(stem, _)| stem).replace('-', "_")
}

/// Returns all files under `directory` whose names end with `end`.
pub(super) fn files_ending(directory: &Path, end: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut left = vec![directory.to_path_buf()];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(&directory).on_file("cannot read", &directory)? {
            let entry = entry.on_file("cannot read", &directory)?;
            let kind = entry.file_type().on_file("cannot read", &entry.path())?;
            if kind.is_dir() {
                left.push(entry.path());
            } else if kind.is_file() && entry.file_name().as_encoded_bytes().ends_with(end.as_bytes()) {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEEDS: &str = "kernel/net/sched/sch_netem.ko:\n\
        kernel/net/bridge/bridge.ko: kernel/net/802/stp.ko kernel/net/llc/llc.ko\n\
        kernel/net/802/stp.ko: kernel/net/llc/llc.ko\n\
        kernel/net/llc/llc.ko:\n\
        kernel/drivers/char/hw_random/virtio-rng.ko: kernel/drivers/char/hw_random/rng-core.ko\n\
        kernel/drivers/char/hw_random/rng-core.ko:\n\
        kernel/drivers/gpu/drm/drm.ko:\n";

    fn modules() -> Modules {
        Modules::parse(NEEDS, "kernel/drivers/net/veth.ko\nkernel/drivers/virtio/virtio_pci.ko\n")
    }

    #[test]
    fn orders_by_need() {
        let order = modules().closure("6.1", &["sch_netem", "bridge", "stp", "virtio_rng", "virtio-pci"]).unwrap();
        let expected = [
            "kernel/net/sched/sch_netem.ko",
            "kernel/net/llc/llc.ko",
            "kernel/net/802/stp.ko",
            "kernel/net/bridge/bridge.ko",
            "kernel/drivers/char/hw_random/rng-core.ko",
            "kernel/drivers/char/hw_random/virtio-rng.ko",
        ];
        assert_eq!(order, expected);
        assert_eq!(modules().closure("6.1", &["veth"]).unwrap(), [""; 0]);
    }

    #[test]
    fn names_what_is_missing() {
        let error = modules().closure("6.1-x", &["veth", "sch_fq", "bridge"]).unwrap_err();
        assert_eq!(error.to_string(), "kernel 6.1-x lacks `sch_fq`, both as a module and built in");
    }

    #[test]
    fn ends_on_a_cycle() {
        let cycle = Modules::parse("a.ko: b.ko\nb.ko: a.ko\n", "");
        assert_eq!(cycle.closure("6.1", &["a"]).unwrap(), ["b.ko", "a.ko"]);
    }

    #[test]
    fn keeps_what_the_lab_uses_and_what_that_needs() {
        let kept = modules().kept();
        assert_eq!(kept.files().count(), 6);
        assert!(!kept.text().contains("drm"));
        let again = Modules::parse(&kept.text(), "");
        assert_eq!(again.needs, kept.needs);
    }
}
