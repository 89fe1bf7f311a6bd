//! The state of a machine that waits for its job: saves it to a file, and resumes the machine from the file.
//!
//! The guest stops the machine by an instruction of its own, so the saved state is the same each time, but for the
//! clock, which is settled afterwards. The guest's memory is a file, which a resumed machine maps privately: pages are
//! read when they are used, and nothing is copied in advance. The devices' state is written by a request that QEMU has
//! for Xen, but which does not need Xen. It is read as an incoming migration. An outgoing migration does not work while
//! QEMU records: its thread reads clocks that only the threads that take turns may read.
//!
//! The monitor's protocol (QMP) is documented in QEMU's `docs/interop/qmp-spec.txt`. A resumed machine has no monitor,
//! because QEMU runs it in a thread of its own, which each of the guest's timers would wake.

use super::process::{Heard, Process, failure};
use super::{Machine, command, option_value};
use anyhow::{Context, Result};
use hotcc_lab_proto::job::{JOB_FILE, Message};
use hotcc_testbed::netlab::Interrupted;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

/// Name of the subsection of the devices' state that has the guest's clock.
const CLOCK: &[u8] = b"timer/icount";
/// Unit to which the clock of a saved machine is moved ahead. More than the time until a guest's next timer, of which
/// the kernel always has one within seconds.
const CLOCK_STEP_NS: u64 = 8_000_000_000;
const SAVE: &str = "save";

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
/// the file `memory`, which must have the memory's size. Returns the state of its devices.
pub fn save(machine: &Machine, initramfs: &Path, scratch: &Path, memory: &File) -> Result<Vec<u8>> {
    let devices = scratch.join("devices");
    let mut monitored = Monitored::start(machine, initramfs, scratch, memory)?;
    monitored.wait_for(|event| event["event"] == "GUEST_PANICKED")?;
    monitored.ask("xen-save-devices-state", json!({"filename": path(&devices)?}))?;
    let mut state = fs::read(&devices).context("cannot read the devices' state")?;
    let no_clock = || Unusable { tried: SAVE, why: "the state has no clock".to_owned(), refused: true };
    settle_clock(&mut state).ok_or_else(no_clock)?;
    Ok(state)
}

/// Moves the clock in the devices' state ahead, to a time that does not depend on how QEMU's threads took turns when
/// the guest stopped: if the processor stops before the other thread stops the machine, the latter takes this for an
/// idle processor, and skips the time until the guest's next timer. Returns `None` if the state has no clock.
fn settle_clock(state: &mut [u8]) -> Option<()> {
    let name = state.windows(CLOCK.len()).position(|window| window == CLOCK)?;
    // after the name: a version of four bytes, and the skipped time, in ns
    let skipped = state.get_mut(name + CLOCK.len() + 4..)?.first_chunk_mut()?;
    let steps = u64::from_be_bytes(*skipped) / CLOCK_STEP_NS + 1;
    *skipped = (steps * CLOCK_STEP_NS).to_be_bytes();
    Some(())
}

/// Resumes the machine that [`save`] has saved, with the files of the archive `job`, and continues like
/// [`run`](super::run). The file `state` begins with the memory; the devices' state is read from its current position.
/// Until the guest runs, a failure of QEMU is [`Unusable`].
pub fn resume(
    machine: &Machine,
    state: &File,
    job: &Path,
    scratch: &Path,
    mut each: impl FnMut(&Message) -> Result<()>,
) -> Result<()> {
    let mut command = with_memory(machine, scratch, state, "off");
    command
        .args(["-incoming", &format!("fd:{}", state.as_raw_fd())])
        // the stream has only the devices, without a configuration section
        .args(["-global", "migration.send-configuration=off"])
        // QEMU would announce the machine on networks that it does not have, four times in its first second, by this
        // machine's clock: the processor would stop for that at another instruction each time
        .args(["-global", "migration.announce-rounds=0", "-fw_cfg"])
        .arg(format!("name={JOB_FILE},file={}", option_value(&job.to_string_lossy())));
    let mut heard = false;
    let ended = Process::start(command, machine, scratch, &[state.as_fd()], None)?.converse(|message| {
        heard = true;
        each(message)
    });
    match ended {
        Err(why) if !heard && !why.is::<Interrupted>() => {
            Err(Unusable { tried: "resume", why: format!("{why:#}"), refused: false }.into())
        }
        ended => ended,
    }
}

/// Returns the QEMU command for a guest whose memory is this file.
fn with_memory(machine: &Machine, scratch: &Path, memory: &File, share: &str) -> Command {
    let mut command = command(machine, scratch);
    // a path that needs no quoting, and also works for a file without a name
    let path = format!("/proc/{}/fd/{}", std::process::id(), memory.as_raw_fd());
    command
        .args(["-device", "pvpanic", "-machine", "memory-backend=memory", "-object"])
        .arg(format!("memory-backend-file,id=memory,size={}M,mem-path={path},share={share}", machine.memory_mib));
    command
}

fn path(path: &Path) -> Result<&str> {
    path.to_str().with_context(|| format!("the path {} is not UTF-8", path.display()))
}

/// A machine that is to be saved. Its monitor is in use.
struct Monitored {
    process: Process,
    monitor: UnixStream,
}

impl Monitored {
    /// Starts QEMU with this memory, and waits for its monitor.
    fn start(machine: &Machine, initramfs: &Path, scratch: &Path, memory: &File) -> Result<Self> {
        let (monitor, theirs) = UnixStream::pair().context("cannot create a socket pair")?;
        let mut command = with_memory(machine, scratch, memory, "on");
        command
            .arg("-initrd")
            .arg(initramfs)
            // a resumed machine runs at once: its state must not say that it was paused
            .args(["-action", "panic=pause", "-global", "migration.store-global-state=off"])
            .args(["-mon", "chardev=monitor,mode=control", "-chardev"])
            .arg(format!("socket,id=monitor,fd={}", theirs.as_raw_fd()));
        let ours = monitor.try_clone().context("cannot clone a socket")?;
        let inherited = [theirs.as_fd(), memory.as_fd()];
        let process = Process::start(command, machine, scratch, &inherited, Some(Box::new(ours)))?;
        let mut monitored = Self { process, monitor };
        monitored.ask("qmp_capabilities", json!({}))?;
        Ok(monitored)
    }

    /// Sends a request, and waits for its success.
    fn ask(&mut self, request: &str, arguments: Value) -> Result<()> {
        let request = json!({"execute": request, "arguments": arguments});
        self.monitor.write_all(format!("{request}\n").as_bytes()).context("QEMU's monitor does not answer")?;
        self.wait_for(|answer| answer.get("return").is_some())
    }

    /// Waits until the monitor sends a message that satisfies `is_it`.
    fn wait_for(&mut self, is_it: impl Fn(&Value) -> bool) -> Result<()> {
        loop {
            match self.process.hear()? {
                Heard::Monitor(message) if is_it(&message) => return Ok(()),
                Heard::Monitor(message) => {
                    if let Some(why) = message["error"]["desc"].as_str() {
                        return Err(Unusable { tried: SAVE, why: why.to_owned(), refused: true }.into());
                    }
                }
                Heard::Guest(Message::Failed(why)) => return Err(failure(&why)),
                Heard::Guest(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_saved_clock_does_not_depend_on_time_that_was_skipped_at_the_stop() {
        let state =
            |skipped_ns: u64| [b"QEVM\x04timer/icount\0\0\0\x01", &skipped_ns.to_be_bytes()[..], b"rest"].concat();
        let settled = |skipped_ns: u64| {
            let mut state = state(skipped_ns);
            settle_clock(&mut state).unwrap();
            state
        };
        assert_eq!(settled(0), state(CLOCK_STEP_NS));
        assert_eq!(settled(778_512_384), settled(0));
        assert_eq!(settled(CLOCK_STEP_NS), state(2 * CLOCK_STEP_NS), "never back, and never to the same time");
    }

    #[test]
    fn a_state_without_a_clock_is_an_error() {
        assert_eq!(settle_clock(&mut b"QEVM".to_vec()), None);
        assert_eq!(settle_clock(&mut b"timer/icount\0\0\0\x01\0".to_vec()), None, "cut off");
    }
}
