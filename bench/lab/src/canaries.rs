//! Canaries on a stock kernel: `hotcc canary` compares congestion controls with Reno, on downloads that share a link.

use crate::guest::Boot;
use crate::image::Image;
use anyhow::{Context, Result};
use hotcc_kernels::Kernel;
use hotcc_lab_proto::job::{CANARY_SERVER, Canary, Command, Job, Message, OBJECTS_PATH};
use serde_json::Value;

const MODULES: [&str; 1] = ["sch_netem"];
const MEMORY_MIB: u32 = 512;
/// The link: a round trip takes 300 ms without a queue, and both directions share the rate.
const LINK: &str = "qdisc replace dev lo root netem delay 150ms rate 30mbit limit 900";
/// Arguments of each canary. A minute has some hundred downloads, so the guards have to be wide.
const OPTIONS: [&str; 7] = [
    "--from=reno",
    "--share=50%",
    "--for=60s",
    "--min-connections=35",
    "--guard=goodput_p50 >= 0.6 * control",
    "--guard=rtt_p50 <= 1.3 * control",
    "--json",
];
/// Its port is one of as many, from the first: the rules' hash, and so the split of the connections, depends on it.
const PORTS: u64 = 1000;
const FIRST_PORT: u16 = 7000;

/// What is tried in place of Reno.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tried {
    /// Reno as a BPF program.
    Equal,
    /// Reno that halves its window each second.
    Bad,
}

impl Tried {
    fn name(self) -> &'static str {
        match self {
            Self::Equal => "equal",
            Self::Bad => "bad",
        }
    }
}

/// Runs a canary for each of these, in one guest. Returns the events of each, as `hotcc canary start --json` prints
/// them.
pub fn run(kernel: &Kernel, canaries: &[(Tried, u64)], say: &mut dyn FnMut(&str)) -> Result<Vec<Vec<Value>>> {
    let mut image = Image::default();
    let object = hotcc_bpf::TEST_OBJECTS.iter().find(|o| o.name == "held").context("a test object is missing")?;
    let path = format!("{OBJECTS_PATH}/held.bpf.o");
    image.file(path.clone(), 0o644, object.bytes.to_vec());
    let mut outputs = Vec::new();
    let boot = Boot { image, kernel, modules: &MODULES, memory_mib: MEMORY_MIB, cpu: None };
    boot.run(&job(&path, canaries), |message| {
        if let Message::Output(text) = message {
            say(text);
            outputs.push(text.clone());
        }
        Ok(())
    })?;
    let setup = outputs.len().checked_sub(canaries.len()).context("the guest ended early")?;
    let event = |line| serde_json::from_str(line).with_context(|| format!("in the guest: {line}"));
    outputs[setup..].iter().map(|text| text.lines().map(event).collect()).collect()
}

fn job(object: &str, canaries: &[(Tried, u64)]) -> Job {
    let command = |words: &str| Command { words: words.split(' ').map(str::to_owned).collect(), ..Command::default() };
    let setup = vec![
        command("/bin/ip link set lo mtu 1500 gso_max_segs 1"),
        command(&format!("/bin/tc {LINK}")),
        command(&format!("/bin/hotcc load {object} --as equal")),
        command(&format!("/bin/hotcc load {object} --as bad --set halve=1")),
    ];
    let canary = |(tried, seed): &(Tried, u64)| {
        let port = FIRST_PORT + (seed % PORTS) as u16;
        let to = format!("--to={}", tried.name());
        let server = format!("--match=local={CANARY_SERVER}");
        let more = [to, server, format!("--match=port={port}"), "--log=/tmp/canary.log".to_owned()];
        let words = ["/bin/hotcc", "canary", "start"].into_iter().chain(OPTIONS).map(str::to_owned).chain(more);
        Canary { words: words.collect(), port, seed: *seed }
    };
    Job::Canaries { setup, canaries: canaries.iter().map(canary).collect() }
}
