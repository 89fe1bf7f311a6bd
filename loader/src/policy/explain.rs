//! Explains which rule a flow would get, and why the rules before it do not match, by running the code that decides for
//! real sockets, in the kernel.

use super::kernel::{current, fill, load, load_for_current};
use super::layout::{FlowEntry, REASONS, RuleEntry, TextEntry, known};
use super::ordered::Policy;
use super::table::{cgroup_names, interface_name};
use crate::registry::need_bpffs;
use crate::sysctl;
use bytemuck::{Pod, Zeroable};
use hotcc_abi::path::PathKey;
use hotcc_host::cstr::text;
use hotcc_host::error::{Error, Result, Tried, need_root};
use hotcc_host::netns;
use libbpf_rs::{Object, ProgramInput};
use serde::Serialize;
use std::net::SocketAddr;
use std::path::PathBuf;

const EXPLAIN: &str = "explain";
const OWN_NETNS: &str = "/proc/self/ns/net";

/// A flow to explain the rules for.
#[derive(Clone, Debug)]
pub struct FlowQuery {
    /// Local address.
    pub local: SocketAddr,
    /// Address of the peer; `None` if the socket listens.
    pub remote: Option<SocketAddr>,
    /// Cgroup of the socket; `None`: the root.
    pub cgroup: Option<PathBuf>,
    /// Network namespace; `None`: the caller's own.
    pub netns: Option<String>,
    /// User of an outgoing connection; `None` if not known.
    pub uid: Option<u32>,
    /// Interface of the route; `None` if not known.
    pub interface: Option<String>,
    /// Average SINR of the radio link to the peer, dB; `None` if not known.
    pub signal_db: Option<f64>,
}

/// The result of one rule for a flow.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// Number of the rule, from 1.
    pub rule: usize,
    /// The rule on one line.
    pub text: String,
    /// The first condition that does not hold; `None` if the rule matches.
    pub why_not: Option<&'static str>,
}

/// The rule that a flow gets. Schema of `hotcc policy test --json`.
#[derive(Clone, Debug, Serialize)]
pub struct Explained {
    /// The first rule that matches.
    pub rule: Option<usize>,
    /// Congestion control of that rule.
    pub congestion_control: Option<String>,
    /// Whether that congestion control is registered now.
    pub loaded: bool,
    /// The rules that were tried, in order.
    pub tried: Vec<Verdict>,
}

/// `struct policy_query` of the program.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Asked {
    rule: u32,
    pad: u32,
    flow: FlowEntry,
}

/// Evaluates the rules that apply, for a flow.
pub fn explain(query: &FlowQuery) -> Result<Explained> {
    need_root("hotcc policy test")?;
    need_bpffs()?;
    let flow = flow(query)?;
    let Some(current) = current()? else { return answer(&[], |_| Ok(0)) };
    let object = load_for_current(&current, EXPLAIN)?;
    answer(&current.entries, |rule| ask(&object, Asked { rule, pad: 0, flow }))
}

/// Evaluates rules that need not be installed, for a flow.
pub(crate) fn explain_by(policy: &Policy, query: &FlowQuery) -> Result<Explained> {
    let flow = flow(query)?;
    if policy.entries.is_empty() {
        return answer(&[], |_| Ok(0));
    }
    let object = load(policy, EXPLAIN)?;
    fill(&object, policy)?;
    answer(&policy.entries, |rule| ask(&object, Asked { rule, pad: 0, flow }))
}

fn answer(entries: &[(RuleEntry, TextEntry)], ask: impl Fn(u32) -> Result<u32>) -> Result<Explained> {
    let mut explained = Explained { rule: None, congestion_control: None, loaded: false, tried: Vec::new() };
    for (index, (entry, text_of)) in (0u32..).zip(entries) {
        let failed = ask(index)?;
        let why_not = if failed == 0 { None } else { REASONS.get(failed.trailing_zeros() as usize).copied() };
        explained.tried.push(Verdict { rule: index as usize + 1, text: text_of.line(), why_not });
        if failed == 0 {
            let name = text(&entry.cc_name);
            (explained.rule, explained.loaded) = (Some(index as usize + 1), sysctl::is_registered(&name)?);
            explained.congestion_control = Some(name);
            break;
        }
    }
    Ok(explained)
}

fn ask(object: &Object, asked: Asked) -> Result<u32> {
    let tried = || "cannot ask the policy".to_owned();
    let program = object.progs_mut().find(|program| program.name() == EXPLAIN);
    let program = program.ok_or_else(|| Error::failed("the object policy has no program explain"))?;
    let input = ProgramInput { data_in: Some(bytemuck::bytes_of(&asked)), ..ProgramInput::default() };
    let criterion = program.test_run(input).tried(tried)?.return_value;
    if criterion == u32::MAX { Err(Error::failed(tried())) } else { Ok(criterion) }
}

fn flow(query: &FlowQuery) -> Result<FlowEntry> {
    let FlowQuery { local, remote, cgroup, netns: namespace, uid, interface, signal_db } = query;
    let mut flow = FlowEntry::zeroed();
    (flow.local, flow.local_port) = (PathKey::address(local.ip()).addr, local.port());
    flow.remote = PathKey::address(local.ip()).family().addr;
    if let Some(remote) = remote {
        (flow.remote, flow.remote_port) = (PathKey::address(remote.ip()).addr, remote.port());
        flow.known |= known::PEER;
    }
    let names = cgroup.as_deref().map(cgroup_names).transpose()?.unwrap_or_default();
    flow.cgroup.iter_mut().zip(names).for_each(|(to, name)| *to = name);
    flow.netns = netns::named(namespace.as_deref().unwrap_or(OWN_NETNS))?.inode as u32;
    if let Some(uid) = uid {
        (flow.uid, flow.known) = (*uid, flow.known | known::UID);
    }
    if let Some(name) = interface {
        flow.interface = interface_name(name)?;
    }
    if let Some(db) = signal_db {
        (flow.signal_q8, flow.known) = ((db * 256.0).round() as i32, flow.known | known::SIGNAL);
    }
    Ok(flow)
}
