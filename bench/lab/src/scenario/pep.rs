//! An ACKing border PEP: the hosts of its agents, and its fault.

use super::field_error::{CheckResult, invalid, known, within_whole};
use super::file::{Kind, Scenario};
use hotcc_lab_proto::plan::Fault;
use serde::Deserialize;
use toml::Spanned;

/// The agents of a PEP: `pep-agent border` on one host, `pep-agent server` on sending hosts.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pep {
    /// The host between the two networks.
    pub border: Spanned<String>,
    /// The sending hosts that receive the border's reports.
    pub servers: Spanned<Vec<String>>,
    /// Number of segments after which the border reports a flow; by default, that of the agent.
    pub segments: Option<Spanned<u32>>,
    /// Maximum time after the first unreported segment until the border reports it; by default, that of the agent.
    pub delay_us: Option<Spanned<u32>>,
    /// What is wrong with the PEP.
    #[serde(default)]
    pub fault: Fault,
}

pub(super) fn check_peps(scenario: &Scenario) -> CheckResult {
    let hosts = || scenario.host.iter().map(|h| h.name.get_ref().as_str());
    for pep in &scenario.pep {
        known(&pep.border, "host", hosts())?;
        let border = pep.border.get_ref();
        if scenario.host_count(border) > 1 {
            return invalid(&pep.border, format!("`{border}` has `count` > 1: the border of a PEP is a single host"));
        }
        if pep.servers.get_ref().is_empty() {
            return invalid(&pep.servers, "a PEP needs at least one server");
        }
        for server in pep.servers.get_ref() {
            known(&Spanned::new(pep.servers.span(), server.clone()), "host", hosts())?;
            let sends = scenario.flow.iter().any(|f| f.kind == Kind::Tcp && f.from.get_ref() == server);
            if !sends || server == border {
                return invalid(
                    &pep.servers,
                    format!("invalid PEP server `{server}`: expected a sender of TCP that is not the border"),
                );
            }
        }
        if let Some(segments) = &pep.segments {
            within_whole(segments, "segments", 1, 1 << 16)?;
        }
        if let Some(delay) = &pep.delay_us {
            within_whole(delay, "delay_us", 50, 1_000_000)?;
        }
    }
    scenario.pep.get(1).map_or(Ok(()), |second| invalid(&second.border, "more than one [[pep]]: expected at most one"))
}
