//! Prints the result of `hotcc advise`.

use super::print::{say, wrapped};
use hotcc::advise::{Advised, Report, evidence::Evidence, groups::Group, rules::Advice};

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
    let netns = if group.netns == "here" { String::new() } else { format!(", network namespace {}", group.netns) };
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
    let from = &group.cc;
    let (load, table) = match name {
        "bbr" => ("modprobe tcp_bbr".to_owned(), None),
        _ => (format!("hotcc load {name}"), Some(format!("object = \"{name}\""))),
    };
    let remote = group.prefix.as_ref();
    let matches = remote.map(|prefix| format!(" --match remote={prefix}")).unwrap_or_default()
        + &port.map(|port| format!(" --match port={port}")).unwrap_or_default();
    let mut lines = vec![
        "On a share of new connections, with automatic roll-back:".to_owned(),
        format!("  {load}"),
        format!("  hotcc canary start --from {from} --to {name} --share 5%{matches}"),
        "Or for all of them, in /etc/hotcc/hotcc.toml, then `hotcc apply --dry-run` and `hotcc apply`:".to_owned(),
    ];
    if let Some(object) = table {
        lines.extend(["  [[algorithm]]".to_owned(), format!("  {object}"), String::new()]);
    }
    lines.push("  [[policy]]".to_owned());
    lines.extend(remote.map(|prefix| format!("  remote = \"{prefix}\"")));
    lines.extend(port.map(|port| format!("  port = {port}")));
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
    fn without_traffic_it_says_so() {
        assert_eq!(lines(&report_of(Vec::new()), None), ["No connection moved any bytes in 60 s (120 looks)."]);
    }
}
