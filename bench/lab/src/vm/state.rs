//! The state of a machine that waits for its job: saves it to a file, and resumes the machine from the file.
//!
//! The guest stops the machine by an instruction of its own, so the saved state is the same each time. The guest's
//! memory is a file, which a resumed machine maps privately: pages are read when they are used, and nothing is copied
//! in advance. The devices' state is written by a request that QEMU has for Xen, but which does not need Xen. It is
//! read as an incoming migration. An outgoing migration does not work while QEMU records: its thread reads clocks that
//! only the threads that take turns may read. The monitor's protocol (QMP) is documented in QEMU's
//! `docs/interop/qmp-spec.txt`.

use super::process::{Heard, Process};
use super::{Machine, command, option_value};
use anyhow::{Context, Result};
use hotcc_lab_proto::job::{JOB_FILE, Message};
use hotcc_testbed::netlab::Interrupted;
use serde_json::{Value, json};
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

/// QEMU cannot save or resume a machine; the guest is not the cause.
#[derive(Debug, thiserror::Error)]
#[error("QEMU cannot {tried} the machine's state: {why}")]
pub struct Unusable {
    tried: &'static str,
    why: String,
    /// Whether QEMU refuses the request, so that a retry would not succeed either.
    pub refused: bool,
}

/// Boots the machine from `initramfs`, which must contain no job, until the guest waits for one. Its memory is saved to
/// the file `memory`, which must have the memory's size, and the state of its devices to the file `devices`.
pub fn save(machine: &Machine, initramfs: &Path, scratch: &Path, memory: &File, devices: &Path) -> Result<()> {
    let mut monitored = Monitored::start(machine, scratch, memory, "save", "on", |command| {
        command.arg("-initrd").arg(initramfs);
    })?;
    monitored.wait_for(|event| event["event"] == "GUEST_PANICKED")?;
    monitored.ask("xen-save-devices-state", json!({"filename": path(devices)?}))
}

/// Resumes the machine that [`save`] has saved, with the files of the archive `job`, and continues like
/// [`run`](super::run). The file `state` begins with the memory; the devices' state is read from its current position.
/// Until the guest runs, a failure of QEMU is [`Unusable`].
pub fn resume(
    machine: &Machine,
    state: &File,
    job: &Path,
    scratch: &Path,
    each: impl FnMut(&Message) -> Result<()>,
) -> Result<()> {
    let mut monitored = Monitored::start(machine, scratch, state, "resume", "off", |command| {
        // the stream has only the devices, without a configuration section
        command.args(["-S", "-incoming", "defer", "-global", "migration.send-configuration=off", "-fw_cfg"]);
        command.arg(format!("name={JOB_FILE},file={}", option_value(&job.to_string_lossy())));
    })?;
    let events = json!([{"capability": "events", "state": true}]);
    monitored.ask("migrate-set-capabilities", json!({"capabilities": events}))?;
    monitored.ask("migrate-incoming", json!({"uri": format!("fd:{}", state.as_raw_fd())}))?;
    monitored.wait_for(|event| event["event"] == "MIGRATION" && event["data"]["status"] == "completed")?;
    monitored.ask("cont", json!({}))?;
    monitored.process.converse(each)
}

fn path(path: &Path) -> Result<&str> {
    path.to_str().with_context(|| format!("the path {} is not UTF-8", path.display()))
}

/// A machine whose monitor is in use.
struct Monitored {
    process: Process,
    monitor: UnixStream,
    tried: &'static str,
}

impl Monitored {
    /// Starts QEMU with this memory, and waits for its monitor.
    fn start(
        machine: &Machine,
        scratch: &Path,
        memory: &File,
        tried: &'static str,
        share: &str,
        more: impl FnOnce(&mut Command),
    ) -> Result<Self> {
        let (monitor, theirs) = UnixStream::pair().context("cannot create a socket pair")?;
        let mut command = command(machine, scratch);
        // a path that needs no quoting, and also works for a file without a name
        let path = format!("/proc/{}/fd/{}", std::process::id(), memory.as_raw_fd());
        command
            .args(["-device", "pvpanic", "-action", "panic=pause", "-mon", "chardev=monitor,mode=control", "-chardev"])
            .arg(format!("socket,id=monitor,fd={}", theirs.as_raw_fd()))
            .args(["-machine", "memory-backend=memory", "-object"])
            .arg(format!("memory-backend-file,id=memory,size={}M,mem-path={path},share={share}", machine.memory_mib));
        more(&mut command);
        let ours = monitor.try_clone().context("cannot clone a socket")?;
        let inherited = [theirs.as_fd(), memory.as_fd()];
        let process = Process::start(command, machine, scratch, &inherited, Some(Box::new(ours)))?;
        let mut monitored = Self { process, monitor, tried };
        monitored.ask("qmp_capabilities", json!({}))?;
        Ok(monitored)
    }

    fn unusable(&self, why: impl Into<String>, refused: bool) -> anyhow::Error {
        Unusable { tried: self.tried, why: why.into(), refused }.into()
    }

    /// Sends a request, and waits for its success.
    fn ask(&mut self, request: &str, arguments: Value) -> Result<()> {
        let request = json!({"execute": request, "arguments": arguments});
        if let Err(why) = self.monitor.write_all(format!("{request}\n").as_bytes()) {
            return Err(self.ended(why.into()));
        }
        self.wait_for(|answer| answer.get("return").is_some())
    }

    /// Waits until the monitor sends a message that satisfies `is_it`.
    fn wait_for(&mut self, is_it: impl Fn(&Value) -> bool) -> Result<()> {
        loop {
            match self.process.hear() {
                Ok(Heard::Monitor(message)) if is_it(&message) => return Ok(()),
                Ok(Heard::Monitor(message)) => {
                    if let Some(why) = message["error"]["desc"].as_str() {
                        return Err(self.unusable(why, true));
                    }
                }
                Ok(Heard::Guest(Message::Failed(why))) => return Err(self.process.failure(&why)),
                Ok(Heard::Guest(_)) => {}
                Err(why) => return Err(self.ended(why)),
            }
        }
    }

    /// Returns the error for the end of QEMU. While it resumes a machine, the guest is not the cause, because it has
    /// not run.
    fn ended(&self, why: anyhow::Error) -> anyhow::Error {
        let ours = self.tried == "resume" && !why.is::<Interrupted>();
        if ours { self.unusable(format!("{why:#}"), false) } else { why }
    }
}
