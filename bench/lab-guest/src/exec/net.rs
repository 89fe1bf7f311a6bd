//! The plan's hosts and cables, as network namespaces and veth pairs.

use crate::stage::Stage;
use anyhow::{Context, Result, bail};
use hotcc_lab_proto::plan::{Plan, PlannedCable, mac};
use hotcc_testbed::netlab;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, setns, unshare};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const NAMED: &str = "/run/netns";
/// Prefix of the names of the lab's namespaces.
pub const PREFIX: &str = "hotcc-lab";
/// The fq queueing discipline with options to only send packets first in, first out, each at the time that the link's
/// program stamped on it.
pub const RELEASE_AT_STAMP: &str = "fq nopacing limit 10000000 flow_limit 10000000 horizon 4000s timer_slack 0";

/// A named network namespace. Its name is removed when the value is dropped.
#[derive(Debug)]
pub(super) struct Namespace {
    name: String,
    path: PathBuf,
    file: File,
}

impl Namespace {
    fn create(name: String) -> Result<Self> {
        fs::create_dir_all(NAMED)?;
        let path = Path::new(NAMED).join(&name);
        File::create_new(&path).with_context(|| format!("cannot create {}", path.display()))?;
        let make = || -> Result<()> {
            unshare(CloneFlags::CLONE_NEWNET)?;
            mount(Some("/proc/thread-self/ns/net"), &path, None::<&str>, MsFlags::MS_BIND, None::<&str>)?;
            Ok(())
        };
        let made = std::thread::scope(|scope| scope.spawn(make).join().map_err(|_| anyhow::anyhow!("panicked"))?);
        if let Err(why) = made {
            let _ = fs::remove_file(&path);
            return Err(why.context(format!("cannot create network namespace {name}")));
        }
        Ok(Self { file: File::open(&path)?, name, path })
    }

    /// Runs `work` on a thread in the namespace. Sockets that `work` creates belong to the namespace.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        let there = || {
            enter(&self.file).with_context(|| format!("cannot enter {}", self.name))?;
            Ok(work())
        };
        std::thread::scope(|scope| match scope.spawn(there).join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    }

    /// Returns the inode number by which the kernel identifies the namespace.
    pub fn inode(&self) -> Result<u32> {
        let inode = self.file.metadata().with_context(|| format!("cannot stat {}", self.name))?.ino();
        Ok(u32::try_from(inode)?)
    }

    /// Returns an open file of the namespace, for a thread that enters it later.
    pub fn file(&self) -> Result<File> {
        self.file.try_clone().with_context(|| format!("cannot keep {} open", self.name))
    }

    /// Passes lines to `ip` or `tc`. Fails if any of them fails.
    pub fn batch(&self, program: &str, lines: &[String]) -> Result<()> {
        let mut command = Command::new(program);
        command.args(["-n", &self.name, "-batch", "-"]).stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("cannot run {program}"))?;
        let written = child.stdin.take().context("no stdin")?.write_all((lines.join("\n") + "\n").as_bytes());
        let output = child.wait_with_output()?;
        // before the result of writing: a program that fails does not read the lines after the failed one
        if !output.status.success() {
            bail!("{program} on {}: {}", self.name, String::from_utf8_lossy(&output.stderr).trim());
        }
        written.with_context(|| format!("cannot write to {program} on {}", self.name))
    }

    fn sysctl(&self, key: &str, value: &str) -> Result<()> {
        let path = Path::new("/proc/sys").join(key.replace('.', "/"));
        let written = self.enter(|| fs::write(&path, value))?;
        written.with_context(|| format!("cannot set {key}={value} on {}", self.name))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = umount2(&self.path, MntFlags::MNT_DETACH).and_then(|()| nix::unistd::unlink(&self.path));
    }
}

/// Moves the calling thread into a namespace.
pub(super) fn enter(namespace: &File) -> nix::Result<()> {
    setns(namespace, CloneFlags::CLONE_NEWNET)
}

/// The network of a plan.
#[derive(Debug)]
pub(super) struct Net {
    /// The hosts, in the plan's order.
    pub hosts: Vec<Namespace>,
    /// The namespace with the middles of the cables.
    pub cables: Namespace,
    /// The cables' devices in that namespace: for each cable, the device towards its first host and the one towards its
    /// second.
    pub cable_devices: Vec<[CableDevice; 2]>,
}

/// A cable's device in the namespace of cables.
#[derive(Clone, Copy, Debug)]
pub(super) struct CableDevice {
    pub ifindex: i32,
    /// Index in the plan of the link of packets that leave through this device.
    pub link: usize,
}

impl Net {
    pub fn build(plan: &Plan, stage: Stage) -> Result<Self> {
        let full = |name: &str| netlab::stem(PREFIX) + name;
        let cables = Namespace::create(full("CABLES"))?;
        cables.sysctl("net.ipv6.conf.default.disable_ipv6", "1")?;
        let hosts = plan.hosts.iter().map(|h| Namespace::create(full(&h.name))).collect::<Result<Vec<_>>>()?;
        for (host, planned) in hosts.iter().zip(&plan.hosts) {
            host.sysctl("net.ipv6.conf.default.disable_ipv6", "1")?;
            for (key, value) in &planned.sysctls {
                host.sysctl(key, value)?;
            }
        }
        let (mut ip, mut tc) = (Vec::new(), Vec::new());
        for (number, cable) in plan.cables.iter().enumerate() {
            for side in 0..2 {
                ip.push(veth(number, side, cable, &hosts[cable.ends[side].host].name));
                ip.push(format!("link set dev {} up", device(number, side)));
                tc.push(format!("qdisc replace dev {} root {RELEASE_AT_STAMP}", device(number, side)));
            }
        }
        cables.batch("ip", &ip)?;
        if !stage.emulates(plan) {
            cables.batch("tc", &tc)?;
        }
        for (place, host) in hosts.iter().enumerate() {
            let mut lines = Vec::new();
            for end in plan.cables.iter().flat_map(|w| w.ends.iter().map(move |e| (w, e))) {
                if end.1.host == place {
                    lines.push(format!("link set dev {} gso_max_segs {}", end.1.device, end.0.offload_segments));
                }
            }
            lines.extend(plan.hosts[place].setup.iter().cloned());
            host.batch("ip", &lines)?;
        }
        let cable_devices = cables.enter(|| {
            let index = |number: usize, side: usize, cable: &PlannedCable| -> Result<CableDevice> {
                let ifindex = nix::net::if_::if_nametoindex(device(number, side).as_str())?;
                Ok(CableDevice { ifindex: ifindex.cast_signed(), link: cable.ends[side].receives })
            };
            let both = |(n, w): (usize, &PlannedCable)| Ok([index(n, 0, w)?, index(n, 1, w)?]);
            plan.cables.iter().enumerate().map(both).collect::<Result<Vec<_>>>()
        })??;
        Ok(Self { hosts, cables, cable_devices })
    }
}

/// Returns the name of a cable's device in the namespace of cables, towards its first or its second host.
fn device(number: usize, side: usize) -> String {
    format!("w{number}{}", ["a", "b"][side])
}

fn veth(number: usize, side: usize, cable: &PlannedCable, host: &str) -> String {
    let (middle, end, mtu) = (device(number, side), &cable.ends[side].device, cable.mtu);
    let mac = mac(number, side);
    format!("link add name {middle} mtu {mtu} type veth peer name {end} mtu {mtu} address {mac} netns {host}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_batch_that_fails_early_is_reported_with_the_programs_message() {
        let scratch = tempfile::tempdir().unwrap();
        let program = scratch.path().join("ip");
        fs::write(&program, "#!/bin/sh\necho 'Cannot find device \"w0a\"' >&2\nexit 1\n").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let path = scratch.path().join("no-mount");
        let namespace = Namespace { name: "x".to_owned(), file: File::open("/dev/null").unwrap(), path };
        // more than a pipe holds
        let lines = vec!["link set dev w0a up".to_owned(); 100_000];
        let error = namespace.batch(&program.to_string_lossy(), &lines).unwrap_err().to_string();
        assert!(error.ends_with("ip on x: Cannot find device \"w0a\""), "{error}");
    }
}
