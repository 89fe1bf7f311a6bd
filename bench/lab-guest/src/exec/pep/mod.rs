//! The agents of the ACKing border PEP, as processes on their hosts.

mod relay;

use super::net::{Namespace, Net};
use crate::stage::Stage;
use anyhow::{Context, Result, bail, ensure};
use data_encoding::HEXLOWER;
use hotcc_lab_proto::job::AGENT_PATH;
use hotcc_lab_proto::plan::PlannedPep;
use hotcc_testbed::programs::companion_binary;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use relay::Relay;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use tempfile::TempDir;

/// Number of bytes of an agent's last output to report: enough for a panic's message and its consequences.
const LAST_WORDS_BYTES: usize = 2000;
/// The id of the agents' shared key, and the key: a sample key, for hosts that cease to exist after the run.
const KEY: (u8, [u8; 32]) = (1, [0x5a; 32]);
/// Port to which the border sends its datagrams if a relay stands between border and server.
const RELAY_PORT: u16 = 4714;

/// A running agent, which is stopped when the value is dropped.
#[derive(Debug)]
struct Agent {
    child: Child,
    command: String,
    /// The file that receives the agent's stderr.
    said: File,
}

impl Agent {
    /// Starts an agent on a host, and waits until it reports that it is ready.
    fn start(host: &Namespace, program: &Path, arguments: &[String]) -> Result<Self> {
        let said = tempfile::tempfile().context("cannot create a file for an agent's messages")?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(said.try_clone()?);
        let child = host.enter(|| command.spawn())?.with_context(|| format!("cannot run {}", program.display()))?;
        let mut agent = Self { child, command: format!("pep-agent {}", arguments.join(" ")), said };
        let mut line = String::new();
        BufReader::new(agent.child.stdout.take().context("no stdout")?).read_line(&mut line)?;
        ensure!(!line.is_empty(), "{} did not start: {}", agent.command, agent.last_words());
        Ok(agent)
    }

    /// Returns the error of an agent that should be running but has ended or panicked.
    fn fault(&mut self) -> Result<Option<String>> {
        let status = self.child.try_wait()?;
        let words = self.last_words();
        // after a thread has panicked, the process may live for up to another second
        let what = match status {
            Some(status) => format!("ended unexpectedly ({status})"),
            None if words.contains("panicked at") => "panicked".to_owned(),
            None => return Ok(None),
        };
        Ok(Some(format!("{} {what}: {words}", self.command)))
    }

    /// Returns the end of the agent's output on stderr.
    fn last_words(&self) -> String {
        let mut bytes = vec![0; LAST_WORDS_BYTES];
        let from = self.said.metadata().map_or(0, |file| file.len().saturating_sub(LAST_WORDS_BYTES as u64));
        let length = self.said.read_at(&mut bytes, from).unwrap_or_default();
        String::from_utf8_lossy(&bytes[..length]).trim().to_owned()
    }

    fn die(mut self) -> Result<()> {
        if let Some(fault) = self.fault()? {
            bail!(fault);
        }
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = kill(Pid::from_raw(self.child.id().cast_signed()), Signal::SIGTERM);
        let _ = self.child.wait();
    }
}

/// All agents of a PEP, and the relays if the plan has a fault that needs them.
#[derive(Debug)]
pub(super) struct Agents {
    program: PathBuf,
    /// Index of the border's host, and the arguments of its agent.
    host: usize,
    arguments: Vec<String>,
    border: Mutex<Option<Agent>>,
    servers: Vec<Agent>,
    relays: Vec<Relay>,
    _directory: TempDir,
}

impl Agents {
    pub fn start(pep: &PlannedPep, net: &Net, stage: Stage) -> Result<Self> {
        let program = if stage == Stage::Guest { AGENT_PATH.into() } else { companion_binary("pep-agent")? };
        let directory = tempfile::tempdir().context("cannot create a directory for the PEP's key")?;
        let keys = directory.path().join("keys").to_string_lossy().into_owned();
        let hex = HEXLOWER.encode(&KEY.1);
        let mut file = File::options().write(true).create_new(true).mode(0o600).open(&keys)?;
        writeln!(file, "{} {hex}", KEY.0)?;
        let mut servers = Vec::new();
        let mut relays = Vec::new();
        let server = ["server", "--key-file", &keys].map(str::to_owned);
        for (host, _) in &pep.servers {
            servers.push(Agent::start(&net.hosts[*host], &program, &server)?);
            if pep.fault.is_on_the_way() {
                relays.push(net.hosts[*host].enter(|| Relay::start(pep.fault, RELAY_PORT, KEY))??);
            }
        }
        let agents = Self {
            host: pep.border,
            arguments: border_arguments(pep, &keys),
            program,
            border: Mutex::new(None),
            servers,
            relays,
            _directory: directory,
        };
        agents.start_border(net)?;
        Ok(agents)
    }

    pub fn start_border(&self, net: &Net) -> Result<()> {
        let agent = Agent::start(&net.hosts[self.host], &self.program, &self.arguments)?;
        *self.border.lock().unwrap_or_else(PoisonError::into_inner) = Some(agent);
        Ok(())
    }

    /// Returns the reasons why the run must not be used: agents that should still be running but are not.
    pub fn faults(&mut self) -> Result<Vec<String>> {
        let border = self.border.get_mut().unwrap_or_else(PoisonError::into_inner);
        let all = self.servers.iter_mut().chain(border.as_mut());
        Ok(all.map(Agent::fault).collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
    }

    /// Returns a line for the log about the datagrams that the relays delayed, duplicated or changed; `None` without
    /// relays.
    pub fn relays_log(&self) -> Option<String> {
        let touched: u64 = self.relays.iter().map(Relay::touched).sum();
        (!self.relays.is_empty())
            .then(|| format!("{touched} of the PEP's datagrams were delayed, duplicated or changed"))
    }

    /// Kills the border's agent. As in a crash, the agent cleans up nothing.
    pub fn kill_border(&self) -> Result<()> {
        self.border
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
            .context("the border's agent does not run")?
            .die()
    }
}

fn border_arguments(pep: &PlannedPep, keys: &str) -> Vec<String> {
    let mut arguments = vec!["border".to_owned(), "--key-file".to_owned(), keys.to_owned()];
    let mut option = |name: &str, value: String| arguments.extend([name.to_owned(), value]);
    pep.internet.iter().for_each(|device| option("--internet", device.clone()));
    pep.access.iter().for_each(|device| option("--access", device.clone()));
    pep.servers.iter().for_each(|(_, address)| option("--server", address.to_string()));
    if let Some(segments) = pep.segments {
        option("--segments", segments.to_string());
    }
    if let Some(delay_us) = pep.delay_us {
        option("--delay-us", delay_us.to_string());
    }
    if pep.fault.is_on_the_way() {
        option("--port", RELAY_PORT.to_string());
    }
    arguments
}
