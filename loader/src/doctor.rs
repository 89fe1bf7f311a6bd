//! Checks this machine's kernel and privileges: one finding for each feature, and a verdict.

use crate::cgroup::{MOUNT_CGROUP2, cgroup2_root};
use crate::object::kernel;
use crate::registry;
use crate::sysctl;
use caps::{CapSet, Capability};
use hotcc_abi::pins;
use hotcc_host::bpffs::{self, HOW_TO_MOUNT};
use hotcc_host::error::Kind;
use hotcc_host::netlink;
use libbpf_rs::btf::types::{Func, FuncProto, Ptr, Struct, Typedef};
use libbpf_rs::btf::{Btf, ReferencesType};
use libbpf_rs::{MapType, ProgramType};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkAttribute, LinkMessage};
use netlink_packet_route::tc::{TcAttribute, TcMessage};
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::Path;

/// The outcome of one check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Available.
    Ok,
    /// Missing; some feature will not work, but algorithms can be loaded.
    Degraded,
    /// Missing; no algorithm can be loaded.
    Missing,
    /// Cannot be checked without root and its capabilities, or not from this network namespace.
    Unknown,
}

/// One finding.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// The feature that was checked.
    pub what: &'static str,
    /// The outcome.
    pub verdict: Verdict,
    /// What was found.
    pub found: String,
    /// The kernel version that introduced it, and what does not work without it.
    pub without: &'static str,
    /// What to do about it.
    pub cure: &'static str,
}

impl Finding {
    /// Returns what to do about it.
    fn remedy(&self) -> String {
        match self.what {
            PRIVILEGES => self.cure.to_owned(),
            what => format!("{what} ({}): {}", self.found, self.cure),
        }
    }
}

/// All findings.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// `uname -r`.
    pub kernel: String,
    /// Processor architecture.
    pub machine: String,
    /// The findings, in order of importance.
    pub findings: Vec<Finding>,
}

impl Report {
    /// Summarises all findings in one line.
    #[must_use]
    pub fn verdict(&self) -> String {
        let with = |verdict: Verdict| self.findings.iter().filter(move |f| f.verdict == verdict);
        let missing: Vec<String> = with(Verdict::Missing).map(Finding::remedy).collect();
        let limited: Vec<&str> = with(Verdict::Degraded).map(|f| f.what).collect();
        match (&missing[..], &limited[..]) {
            ([], []) => "everything works here".to_owned(),
            ([], [one]) => format!("algorithms load; 1 feature is limited: {one}"),
            ([], several) => {
                format!("algorithms load; {} features are limited: {}", several.len(), several.join(", "))
            }
            (missing, _) => format!("algorithms cannot be loaded: {}", missing.join("; ")),
        }
    }

    /// Returns 0 if algorithms can be loaded here, 3 if the kernel lacks something they need, and 4 if only privileges
    /// are missing.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        let missing = |f: &&Finding| f.verdict == Verdict::Missing;
        match self.findings.iter().filter(missing).map(|f| f.what).collect::<Vec<_>>()[..] {
            [] => 0,
            [PRIVILEGES] => 4,
            _ => 3,
        }
    }
}

const NOT_TRIED: &str = "only root can check this";
/// The kernel shows some settings in the initial network namespace only.
const NOT_VISIBLE: &str = "not visible in this network namespace";
const PRIVILEGES: &str = "privileges";
/// What loading, listing maps and entering network namespaces need; root in a container may lack them.
const CAPABILITIES: [Capability; 4] =
    [Capability::CAP_BPF, Capability::CAP_NET_ADMIN, Capability::CAP_PERFMON, Capability::CAP_SYS_ADMIN];

struct Check {
    what: &'static str,
    needed: bool,
    without: &'static str,
    cure: &'static str,
}

impl Check {
    fn unknown(self, why: &str) -> Finding {
        let (Self { what, without, cure, .. }, verdict, found) = (self, Verdict::Unknown, why.to_owned());
        Finding { what, verdict, found, without, cure }
    }

    fn found(self, result: Result<impl Into<String>, impl Into<String>>) -> Finding {
        let (verdict, found) = match result.map(Into::into).map_err(Into::into) {
            Ok(found) => (Verdict::Ok, found),
            Err(why) if [NOT_TRIED, NOT_VISIBLE].contains(&why.as_str()) => (Verdict::Unknown, why),
            Err(why) => (if self.needed { Verdict::Missing } else { Verdict::Degraded }, why),
        };
        Finding { what: self.what, verdict, found, without: self.without, cure: self.cure }
    }
}

const fn needed(what: &'static str, without: &'static str, cure: &'static str) -> Check {
    Check { what, needed: true, without, cure }
}

const fn wanted(what: &'static str, without: &'static str, cure: &'static str) -> Check {
    Check { what, needed: false, without, cure }
}

/// Runs all checks. Some need root; without it their verdict is [`Verdict::Unknown`].
#[must_use]
pub fn report() -> Report {
    let system = nix::sys::utsname::uname();
    let field = |f: Result<&std::ffi::OsStr, _>| {
        f.map_or_else(|_: nix::Error| String::new(), |s| s.to_string_lossy().into_owned())
    };
    let mut findings = kernel_findings();
    findings.extend(system_findings());
    Report {
        kernel: field(system.as_ref().map(|u| u.release()).map_err(|e| *e)),
        machine: field(system.as_ref().map(|u| u.machine()).map_err(|e| *e)),
        findings,
    }
}

fn kernel_findings() -> Vec<Finding> {
    let btf = Btf::from_vmlinux();
    let has_struct = |name: &str| btf.as_ref().is_ok_and(|b| b.type_by_name::<Struct<'_>>(name).is_some());
    let has_function = |name: &str| btf.as_ref().is_ok_and(|b| b.type_by_name::<Func<'_>>(name).is_some());
    let yes_no = |there: bool, what: &str| if there { Ok(what.to_owned()) } else { Err(format!("{what} not found")) };
    let root = nix::unistd::geteuid().is_root();
    let held = caps::read(None, CapSet::Effective).unwrap_or_default();
    let lacking: Vec<String> = CAPABILITIES.iter().filter(|c| !held.contains(c)).map(ToString::to_string).collect();
    let untried = match &lacking[..] {
        _ if !root => Some(NOT_TRIED.to_owned()),
        [] => None,
        lacking => Some(format!("only root with {} can check this", lacking.join(", "))),
    };
    let as_root = |check: Check, probe: libbpf_rs::Result<bool>, what: &str| match (&untried, probe) {
        (Some(why), _) => check.unknown(why),
        (None, Ok(there)) => check.found(yes_no(there, what)),
        (None, Err(e)) => check.found(Err::<String, _>(e.to_string())),
    };
    vec![
        needed(
            PRIVILEGES,
            "loading BPF programs requires CAP_BPF, CAP_PERFMON, CAP_NET_ADMIN, CAP_SYS_ADMIN and bpffs",
            if root { "give the container these capabilities" } else { "run as root" },
        )
        .found(match &lacking[..] {
            _ if !root => Err("not root".to_owned()),
            [] => Ok("root".to_owned()),
            lacking => Err(format!("root, but without {}", lacking.join(", "))),
        }),
        needed("BTF", "since 5.2, with CONFIG_DEBUG_INFO_BTF; without it nothing loads", "boot a distribution kernel")
            .found(
                btf.as_ref()
                    .map(|b| format!("{} types", b.len()))
                    .map_err(|_| "/sys/kernel/btf/vmlinux not found".to_owned()),
            ),
        needed(
            "struct_ops for TCP",
            "since 5.6; without it nothing loads",
            "boot a kernel with CONFIG_BPF_JIT and struct_ops",
        )
        .found(yes_no(has_struct("bpf_struct_ops_tcp_congestion_ops"), "bpf_struct_ops_tcp_congestion_ops")),
        as_root(
            needed("struct_ops programs", "the JIT must be on", "sysctl net.core.bpf_jit_enable=1"),
            ProgramType::StructOps.is_supported(),
            "struct_ops program type",
        ),
        functions_finding(
            ["tcp_reno_cong_avoid", "tcp_slow_start", "tcp_cong_avoid_ai", "tcp_reno_undo_cwnd"]
                .iter()
                .all(|f| has_function(f)),
            has_struct("bpf_kfunc_desc_tab"), // the verifier's table of the kernel's functions that a program calls
        ),
        cubic_finding(btf.as_ref().is_ok_and(lets_bpf_call_cubic)),
        wanted(
            "struct_ops links",
            "since 6.4; without them, no algorithm is registered under the name for a moment during a swap",
            "",
        )
        .found(yes_no(kernel::has_links(), "in-place update")),
        // an iterator that locks sockets collects them in batches, which this type describes
        iterator_finding(has_struct("bpf_iter__tcp"), has_struct("bpf_tcp_iter_state")),
        as_root(
            wanted("socket storage", "since 5.2; signals of single flows (PEP, hints) need it", ""),
            MapType::SkStorage.is_supported(),
            "sk_storage maps",
        ),
        wanted("bpf_loop", "since 5.17; policy rules need it", "").found(yes_no(has_function("bpf_loop"), "bpf_loop")),
        wanted("TCP options by BPF", "since 5.10; without it `hotcc rx` can neither send hints nor limit windows", "")
            .found(yes_no(has_function("bpf_sock_ops_reserve_hdr_opt"), "sock_ops header options")),
        wanted("tcp_probe", "since 4.16, for BPF since 5.5; without it `hotcc rx load arwa` cannot measure", "").found(
            yes_no(
                btf.as_ref().is_ok_and(|b| b.type_by_name::<Typedef<'_>>("btf_trace_tcp_probe").is_some()),
                "tracepoint tcp_probe",
            ),
        ),
        as_root(
            wanted("LPM trie", "since 4.11; radio readings and path changes need it", ""),
            MapType::LpmTrie.is_supported(),
            "lpm_trie maps",
        ),
    ]
}

/// The functions are older than the calls from BPF: that the kernel has them does not suffice.
fn functions_finding(exist: bool, can_be_called: bool) -> Finding {
    let result = match (exist, can_be_called) {
        (true, true) => Ok("TCP's congestion control functions"),
        (true, false) => Err("BPF cannot call the kernel's functions"),
        (false, _) => Err("TCP's congestion control functions not found"),
    };
    needed(
        "functions for BPF",
        "since 5.13, for tcp_reno_cong_avoid, tcp_slow_start, tcp_cong_avoid_ai; without them nothing loads",
        "boot a newer kernel",
    )
    .found(result)
}

fn iterator_finding(exists: bool, locks: bool) -> Finding {
    let result = match (exists, locks) {
        (true, true) => Ok("iter/tcp, which locks sockets"),
        (true, false) => Err("iter/tcp does not lock sockets"),
        (false, _) => Err("iter/tcp not found"),
    };
    wanted(
        "socket iterator",
        "since 5.9, with a socket lock since 5.16; status, metrics and moving open connections need it",
        "",
    )
    .found(result)
}

/// Returns whether BPF may call CUBIC's functions: on x86, and on other machines since 6.10, which also gave
/// `cong_control` four arguments. `mdcubic` goes by the same types.
fn lets_bpf_call_cubic(btf: &Btf<'_>) -> bool {
    let arguments = || {
        let operations = btf.type_by_name::<Struct<'_>>("tcp_congestion_ops")?;
        let member = operations.iter().find(|m| m.name.is_some_and(|name| name == "cong_control"))?;
        let function: FuncProto<'_> = btf.type_by_id::<Ptr<'_>>(member.ty)?.referenced_type().try_into().ok()?;
        Some(function.len())
    };
    btf.type_by_name::<Struct<'_>>("cpuinfo_x86").is_some() || arguments() == Some(4)
}

fn cubic_finding(may_be_called: bool) -> Finding {
    let result = if may_be_called { Ok("BPF may call its functions") } else { Err("BPF may not call its functions") };
    wanted("CUBIC for BPF", "since 6.10 except on x86-64; without it, mdcubic has Reno in CUBIC's place", "")
        .found(result)
}

/// `setting` is `net.core.bpf_jit_enable`; `None` if it cannot be read.
fn jit_finding(setting: Option<&str>) -> Finding {
    needed(
        "JIT",
        "without it the kernel interprets BPF, and struct_ops does not work",
        "sysctl net.core.bpf_jit_enable=1",
    )
    .found(match setting.map(str::trim) {
        Some("0") => Err("off".to_owned()),
        Some(on) => Ok(format!("on ({on})")),
        None => Err(NOT_VISIBLE.to_owned()),
    })
}

fn bpffs_finding() -> Finding {
    let is_mounted = bpffs::is_at(Path::new(pins::BPFFS));
    let cure = if is_mounted { "`hotcc status` prints the command that mends it" } else { HOW_TO_MOUNT };
    let found = match registry::need_bpffs() {
        Ok(()) => Ok("mounted at /sys/fs/bpf".to_owned()),
        Err(why) if why.kind() == Kind::NotPermitted => Err(NOT_TRIED.to_owned()),
        Err(why) if is_mounted => Err(why.to_string()),
        Err(_) => Err("not mounted".to_owned()),
    };
    needed("BPF file system", "all state is pinned there; without it nothing outlives a command", cure).found(found)
}

fn system_findings() -> Vec<Finding> {
    let jit = std::fs::read_to_string("/proc/sys/net/core/bpf_jit_enable");
    let available = sysctl::available();
    vec![
        bpffs_finding(),
        wanted("cgroup v2", "`hotcc run` and `hotcc rx` need it", MOUNT_CGROUP2)
            .found(cgroup2_root().map(|p| format!("mounted at {}", p.display())).map_err(|_| "not mounted".to_owned())),
        jit_finding(jit.ok().as_deref()),
        wanted("fq", "without it TCP paces by itself, which costs a timer per flow", "modprobe sch_fq")
            .found(module("sch_fq")),
        wanted(
            "unpaced interfaces",
            "where fq is the qdisc, TCP paces by the RTT to the client: mdcubic's slow start grows W by a fifth per round trip to the border instead of doubling it",
            "tc qdisc replace dev DEVICE root fq_codel",
        )
        .found(unpaced()),
        wanted(
            "netem",
            "without it the native demo's path has no delay; algorithms do not need it",
            "modprobe sch_netem",
        )
        .found(module("sch_netem")),
        wanted("congestion controls", "", "").found(match available {
            Ok(names) => Ok(format!("{}; default {}", names.join(" "), sysctl::default().unwrap_or_default())),
            Err(e) => Err(format!("{e:#}")),
        }),
    ]
}

/// Fails if an interface of this network namespace has fq, or if the kernel gives fq to new interfaces.
fn unpaced() -> Result<String, String> {
    let default = std::fs::read_to_string("/proc/sys/net/core/default_qdisc").unwrap_or_default();
    let request = |request| netlink::dump(&request).map(|dump| dump.messages).map_err(|e| format!("{e:#}"));
    let links = request(RouteNetlinkMessage::GetLink(LinkMessage::default()))?;
    let qdiscs = request(RouteNetlinkMessage::GetQueueDiscipline(TcMessage::default()))?;
    let mut with_fq = with_fq(&links, &qdiscs);
    if default.trim() == "fq" {
        with_fq.push("new interfaces (net.core.default_qdisc)".to_owned());
    }
    if with_fq.is_empty() { Ok("no interface has fq".to_owned()) } else { Err(format!("fq on {}", with_fq.join(", "))) }
}

/// Returns the names of the interfaces that have fq, each once. All qdiscs are searched, because the root of an
/// interface with several queues is another qdisc (mq).
fn with_fq(links: &[RouteNetlinkMessage], qdiscs: &[RouteNetlinkMessage]) -> Vec<String> {
    let indices: BTreeSet<i32> = qdiscs
        .iter()
        .filter_map(|message| match message {
            RouteNetlinkMessage::NewQueueDiscipline(qdisc) => Some(qdisc),
            _ => None,
        })
        .filter(|qdisc| qdisc.attributes.iter().any(|a| matches!(a, TcAttribute::Kind(kind) if kind == "fq")))
        .map(|qdisc| qdisc.header.index)
        .collect();
    let named = links.iter().filter_map(|message| match message {
        RouteNetlinkMessage::NewLink(link) if indices.contains(&link.header.index.cast_signed()) => {
            link.attributes.iter().find_map(|a| match a {
                LinkAttribute::IfName(name) => Some(name.clone()),
                _ => None,
            })
        }
        _ => None,
    });
    named.collect()
}

/// Returns whether a module is loaded, built in, or can be loaded; fails if it is not found.
fn module(name: &str) -> Result<String, String> {
    if Path::new("/sys/module").join(name).exists() {
        return Ok(format!("{name} loaded"));
    }
    let release = nix::sys::utsname::uname().map(|u| u.release().to_string_lossy().into_owned()).unwrap_or_default();
    for (list, how) in [("modules.builtin", "built in"), ("modules.dep", "can be loaded")] {
        let text = std::fs::read_to_string(format!("/lib/modules/{release}/{list}")).unwrap_or_default();
        if text.lines().any(|l| l.contains(&format!("/{name}.ko"))) {
            return Ok(format!("{name} {how}"));
        }
    }
    Err(format!("{name} not found"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(findings: &[(&'static str, Verdict, &'static str)]) -> Report {
        let finding = |&(what, verdict, cure): &(&'static str, Verdict, &'static str)| Finding {
            what,
            verdict,
            found: "not found".to_owned(),
            without: "",
            cure,
        };
        let findings = findings.iter().map(finding).collect();
        Report { kernel: String::new(), machine: String::new(), findings }
    }

    #[test]
    fn the_verdict_sums_up_the_findings() {
        let (ok, limited) = (("BTF", Verdict::Ok, ""), ("fq", Verdict::Degraded, "modprobe sch_fq"));
        let no_root = (PRIVILEGES, Verdict::Missing, "run as root");
        let no_btf = ("BTF", Verdict::Missing, "boot a distribution kernel");
        for (findings, verdict, code) in [
            (&[ok][..], "everything works here", 0),
            (&[ok, limited], "algorithms load; 1 feature is limited: fq", 0),
            (&[limited, limited], "algorithms load; 2 features are limited: fq, fq", 0),
            (&[no_root, limited], "algorithms cannot be loaded: run as root", 4),
            (&[no_btf], "algorithms cannot be loaded: BTF (not found): boot a distribution kernel", 3),
            (
                &[no_root, no_btf],
                "algorithms cannot be loaded: run as root; BTF (not found): boot a distribution kernel",
                3,
            ),
        ] {
            let report = report(findings);
            assert_eq!((&*report.verdict(), report.exit_code()), (verdict, code));
        }
    }

    #[test]
    fn a_kernel_whose_cubic_bpf_may_not_call_is_limited_but_loads_algorithms() {
        let report = |may_be_called| Report {
            kernel: String::new(),
            machine: String::new(),
            findings: vec![cubic_finding(may_be_called)],
        };
        assert_eq!(report(true).verdict(), "everything works here");
        let without = report(false);
        let verdict = "algorithms load; 1 feature is limited: CUBIC for BPF";
        assert_eq!((without.verdict().as_str(), without.exit_code()), (verdict, 0));
    }

    #[test]
    fn a_kernel_whose_functions_bpf_cannot_call_loads_nothing() {
        assert_eq!(functions_finding(true, true).verdict, Verdict::Ok);
        assert_eq!(functions_finding(false, true).verdict, Verdict::Missing);
        let older = functions_finding(true, false); // as on Linux 5.10
        assert_eq!((older.verdict, &*older.found), (Verdict::Missing, "BPF cannot call the kernel's functions"));
    }

    #[test]
    fn an_iterator_without_a_socket_lock_is_limited() {
        assert_eq!(iterator_finding(true, true).verdict, Verdict::Ok);
        assert_eq!(iterator_finding(false, false).verdict, Verdict::Degraded);
        let without = iterator_finding(true, false);
        assert_eq!((without.verdict, &*without.found), (Verdict::Degraded, "iter/tcp does not lock sockets"));
    }

    #[test]
    fn the_jit_is_unknown_where_its_setting_is_not_visible() {
        for (setting, verdict, found) in [
            (Some("1\n"), Verdict::Ok, "on (1)"),
            (Some("0\n"), Verdict::Missing, "off"),
            (None, Verdict::Unknown, "not visible in this network namespace"),
        ] {
            let finding = jit_finding(setting);
            assert_eq!((finding.verdict, &*finding.found), (verdict, found));
        }
    }

    #[test]
    fn an_interface_with_fq_in_any_of_its_queues_is_named_once() {
        let link = |index, name: &str| {
            let mut link = LinkMessage::default();
            link.header.index = index;
            link.attributes.push(LinkAttribute::IfName(name.to_owned()));
            RouteNetlinkMessage::NewLink(link)
        };
        let qdisc = |index, kind: &str| {
            let mut qdisc = TcMessage::default();
            qdisc.header.index = index;
            qdisc.attributes.push(TcAttribute::Kind(kind.to_owned()));
            RouteNetlinkMessage::NewQueueDiscipline(qdisc)
        };
        let links = [link(1, "lo"), link(2, "eth0"), link(3, "eth1")];
        let qdiscs = [qdisc(2, "mq"), qdisc(2, "fq"), qdisc(2, "fq"), qdisc(3, "fq_codel")];
        assert_eq!(with_fq(&links, &qdiscs), ["eth0"]);
        assert!(with_fq(&links, &qdiscs[3..]).is_empty());
    }
}
