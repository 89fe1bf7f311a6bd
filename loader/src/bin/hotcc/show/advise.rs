//! Prints the result of `hotcc advise`.

use super::print::{say, wrapped};
use hotcc::advise::{Advised, Report, evidence::Evidence, groups::Group, rules::Advice};
use hotcc_host::netns::HERE;

/// Prints the advice for each group. `port` is the one that the looks were restricted to.
pub fn report(report: &Report, port: Option<u16>) {
    for line in lines(report, port) {
        say!("{line}");
    }
}

fn lines(report: &Report, port: Option<u16>) -> Vec<String> {
    let Report { seconds, looks, groups } = report;
    if groups.is_empty() {
        return vec![format!("No connection moved any bytes in {seconds:.0} s ({looks} looks).")];
    }
    let mut lines: Vec<String> = groups.iter().flat_map(|advised| of_group(advised, port)).collect();
    lines.push(format!("{looks} looks in {seconds:.0} s. Nothing was changed."));
    lines
}

fn of_group(Advised { group, advice }: &Advised, port: Option<u16>) -> Vec<String> {
    let connections =
        if group.connections == 1 { "1 connection" } else { &format!("{} connections", group.connections) };
    let netns = if group.netns == HERE { String::new() } else { format!(", network namespace {}", group.netns) };
    let mut lines = vec![format!("{}, {}: {connections}{netns}", group.to, group.cc), format!("  {}", figures(group))];
    let Advice { rule, try_cc, why, unless, evidence, .. } = advice;
    lines.push(match try_cc {
        Some(name) => format!("  try {name} ({rule})"),
        None => format!("  keep {} ({rule})", group.cc),
    });
    lines.extend(wrapped(why, 4));
    if let Some(unless) = unless {
        lines.extend(wrapped(&format!("Not if {unless}."), 4));
    }
    lines.extend(pages(evidence).into_iter().map(|page| format!("    Figures: {page}")));
    if let Some(name) = try_cc {
        lines.extend(to_try(group, name, port).into_iter().map(|line| format!("    {line}").trim_end().to_owned()));
    }
    lines.push(String::new());
    lines
}

fn figures(group: &Group) -> String {
    let ms = |us: Option<u32>| us.map_or_else(|| "-".to_owned(), |us| format!("{:.1}", f64::from(us) / 1e3));
    let spaced = if group.paced { ", paced" } else { "" };
    let radio = if group.radio { ", radio known" } else { "" };
    let pep = if group.pep { ", PEP known" } else { "" };
    format!(
        "{:.1} MB, {:.2} Mbit/s, RTT {} ms (least {}), queue {:.1} ms (p95 {:.1}), {:.2} % sent again{spaced}{radio}{pep}",
        group.bytes as f64 / 1e6,
        group.goodput_bps as f64 / 1e6,
        ms(group.median_rtt_us),
        ms(group.least_rtt_us),
        group.queue_mean_us as f64 / 1e3,
        group.queue_p95_us as f64 / 1e3,
        100.0 * group.retransmit_ratio,
    )
}

/// Returns the pages of the figures, each once.
fn pages(evidence: &[Evidence]) -> Vec<&'static str> {
    let mut pages: Vec<_> = evidence.iter().map(|one| one.page).collect();
    pages.dedup();
    pages
}

/// Returns what to write and to run in order to try it.
fn to_try(group: &Group, name: &str, port: Option<u16>) -> Vec<String> {
    let Some(prefix) = &group.prefix else {
        // without a prefix, a rule would be for the whole machine
        return vec![
            "No rule can name this link alone: it covers only some ports of an address, or is gone.".to_owned(),
        ];
    };
    let from = &group.cc;
    let is_module = name == "bbr";
    let load = if is_module { "modprobe tcp_bbr".to_owned() } else { format!("hotcc load {name}") };
    let netns = Some(&group.netns).filter(|netns| *netns != HERE);
    let matches = format!(" --match remote={prefix}")
        + &port.map(|port| format!(" --match port={port}")).unwrap_or_default()
        + &netns.map(|netns| format!(" --match netns={netns}")).unwrap_or_default();
    let mut lines = vec![
        "On a share of new connections, with automatic roll-back:".to_owned(),
        format!("  {load}"),
        format!("  hotcc canary start --from {from} --to {name} --share 5%{matches}"),
    ];
    let declare = "in /etc/hotcc/hotcc.toml, then `hotcc apply --dry-run` and `hotcc apply`:";
    if is_module {
        lines.extend([
            "Or for all of them: first have the module loaded at boot; otherwise `hotcc apply` refuses the whole file there:"
                .to_owned(),
            format!("  echo tcp_{name} > /etc/modules-load.d/{name}.conf"),
            format!("Then, {declare}"),
        ]);
    } else {
        lines.extend([
            format!("Or for all of them, {declare}"),
            "  [[algorithm]]".to_owned(),
            format!("  object = \"{name}\""),
            String::new(),
        ]);
    }
    lines.extend(["  [[policy]]".to_owned(), format!("  remote = \"{prefix}\"")]);
    lines.extend(port.map(|port| format!("  port = {port}")));
    lines.extend(netns.map(|netns| {
        // the path of a namespace without a name
        let limit = if netns.starts_with('/') { "   # only while this process runs" } else { "" };
        format!("  netns = \"{netns}\"{limit}")
    }));
    lines.push(format!("  congestion_control = \"{name}\""));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotcc::advise::rules::advise;

    fn report_of(groups: Vec<Group>) -> Report {
        let advised = |group: Group| Advised { advice: advise(&group, 1_000_000), group };
        Report { seconds: 60.0, looks: 120, groups: groups.into_iter().map(advised).collect() }
    }

    fn phones() -> Group {
        Group {
            netns: "here".to_owned(),
            to: "203.0.113.0/24".to_owned(),
            prefix: Some("203.0.113.0/24".to_owned()),
            cc: "cubic".to_owned(),
            connections: 14,
            bytes: 412_000_000,
            goodput_bps: 54_933_333,
            busy_goodput_bps: 4_100_000,
            retransmit_ratio: 0.0012,
            mss: 1448,
            least_rtt_us: Some(38_000),
            median_rtt_us: Some(512_000),
            queue_mean_us: 480_000,
            queue_p95_us: 1_310_000,
            ..Group::default()
        }
    }

    fn office() -> Group {
        Group {
            to: "2001:db8:7::/48".to_owned(),
            prefix: Some("2001:db8:7::/48".to_owned()),
            cc: "bbr".to_owned(),
            connections: 3,
            bytes: 96_000_000,
            goodput_bps: 12_800_000,
            retransmit_ratio: 0.0,
            least_rtt_us: Some(4_100),
            median_rtt_us: Some(4_900),
            queue_mean_us: 900,
            queue_p95_us: 2_300,
            paced: true,
            ..phones()
        }
    }

    /// The page shows what the command prints.
    #[test]
    fn the_guide_shows_this_output() {
        let page = include_str!("../../../../../docs/guide/advise.md");
        let text = lines(&report_of(vec![phones(), office()]), None).join("\n");
        assert!(page.contains(&format!("```\n{text}\n```\n")), "the page lacks:\n{text}");
    }

    #[test]
    fn lines_to_write_name_prefix_and_port() {
        let text = lines(&report_of(vec![phones()]), Some(443)).join("\n");
        assert!(text.contains("--share 5% --match remote=203.0.113.0/24 --match port=443\n"), "{text}");
        assert!(text.contains("      remote = \"203.0.113.0/24\"\n      port = 443\n"), "{text}");
    }

    #[test]
    fn lines_to_write_name_the_network_namespace() {
        for (netns, line) in [
            ("edge", "      netns = \"edge\"\n"),
            ("/proc/77/ns/net", "      netns = \"/proc/77/ns/net\"   # only while this process runs\n"),
        ] {
            let group = Group { netns: netns.to_owned(), ..phones() };
            let text = lines(&report_of(vec![group]), None).join("\n");
            assert!(text.contains(&format!(" --match remote=203.0.113.0/24 --match netns={netns}\n")), "{text}");
            assert!(text.contains(line), "{text}");
        }
        assert!(!lines(&report_of(vec![phones()]), None).join("\n").contains("netns"));
    }

    #[test]
    fn a_link_that_no_rule_can_name_gets_no_rule() {
        for to in ["radio link 10.0.0.1:4096/4", "radio link slot 3"] {
            let group = Group { to: to.to_owned(), prefix: None, ..phones() };
            let text = lines(&report_of(vec![group]), Some(443)).join("\n");
            assert!(text.contains("  try crest (long-queue)\n"), "{text}");
            assert!(text.contains("\n    No rule can name this link alone: "), "{text}");
            assert!(!text.contains("hotcc canary start") && !text.contains("[[policy]]"), "{text}");
        }
    }

    /// Otherwise, `hotcc apply` refuses the whole file at boot.
    #[test]
    fn a_module_is_loaded_at_boot_before_a_rule_names_it() {
        let text = to_try(&phones(), "bbr", None).join("\n");
        let (before, rule) = text.split_once("  [[policy]]\n").unwrap();
        assert!(before.contains("\n  echo tcp_bbr > /etc/modules-load.d/bbr.conf\n"), "{text}");
        assert!(!before.contains("[[algorithm]]") && rule.ends_with("congestion_control = \"bbr\""), "{text}");
    }

    #[test]
    fn without_traffic_it_says_so() {
        assert_eq!(lines(&report_of(Vec::new()), None), ["No connection moved any bytes in 60 s (120 looks)."]);
    }
}
