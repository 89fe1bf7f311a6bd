//! The text below each command's options: behaviour, and examples.

pub const EXAMPLES: &str = "\
Examples:
  hotcc list                                   list the built-in algorithms
  hotcc run --cc dtcp -- iperf3 -c 192.0.2.1   try one: only this command's sockets use it
  hotcc load dtcp --profile paper              register one
  hotcc apply                                  load and set what /etc/hotcc/hotcc.toml declares
  sysctl -w net.ipv4.tcp_congestion_control=dtcp          use it for all new sockets
  ip route change 198.51.100.0/24 via … congctl dtcp      use it for one route
  hotcc policy test 192.0.2.1:40000 203.0.113.5:443       which rule chooses for this connection, and why
  hotcc set dtcp alpha_permille=300            tune it while it runs
  hotcc swap dtcp ./mine.bpf.o --live          replace it, for open connections too
  hotcc rollback dtcp --live                   undo the swap
  hotcc migrate cubic dtcp                     move open connections; undo: hotcc migrate dtcp cubic
  hotcc unload dtcp                            unregister it";

pub const LIST_HELP: &str = "\
Examples:
  hotcc list                                   one entry per built-in algorithm
  hotcc list dtcp                              its tunables and per-flow state
  hotcc list ./mine.bpf.o                      the same for an object file
  hotcc list --all                             all tunables of all built-in algorithms
  hotcc list --json | jq -r '.[].name'";

pub const LOAD_HELP: &str = "\
Examples:
  hotcc load dtcp
  hotcc load dtcp --profile paper --set alpha_permille=300
  hotcc load ./mine.bpf.o --as mine
  hotcc load ./several.bpf.o:one               one of several congestion controls in a file
  hotcc load dtcp --as dtcp_paper --profile paper    a second instance under another name";

pub const UNLOAD_HELP: &str = "\
Connections that use the algorithm keep it until they close. Network namespaces whose default was NAME get the default \
that they had when NAME was loaded, or the fallback.

Examples:
  hotcc unload dtcp
  hotcc unload dtcp --fallback bbr
  hotcc unload --all
  hotcc unload dtcp --json";

pub const SWAP_HELP: &str = "\
Examples:
  hotcc swap dtcp ./mine.bpf.o                 open connections keep the old version
  hotcc swap dtcp dtcp --profile paper --live  same object, other tunables, for all connections
  hotcc swap dtcp ./mine.bpf.o --keep-tunables
  hotcc rollback dtcp --live                   undo, with the previous values";

pub const ROLLBACK_HELP: &str = "\
A second rollback redoes the swap.

Examples:
  hotcc rollback dtcp                          open connections keep their version
  hotcc rollback dtcp --live                   open connections change too
  hotcc rollback dtcp --json";

pub const GET_HELP: &str = "\
Examples:
  hotcc get dtcp
  hotcc get dtcp alpha_permille                print the value only, for scripts
  hotcc get dtcp --json";

pub const SET_HELP: &str = "\
New values take effect at the next ACK, for open connections too. `hotcc list NAME` lists the tunables with their ranges.

Examples:
  hotcc set dtcp alpha_permille=300
  hotcc set dtcp alpha_permille=300 n_rule=alg1  set both or, if one is invalid, none
  hotcc set dtcp queue=rtt --json";

pub const POLICY_HELP: &str = "\
Rules are [[policy]] tables in /etc/hotcc/hotcc.toml. The first rule whose conditions all hold gives a socket its \
congestion control, when a connection is established and when a socket listens. A socket that has chosen for itself, and one \
that `hotcc run` has chosen for, is left alone; `override = true` in a rule also changes the former.

Examples:
  [[policy]]                                   in /etc/hotcc/hotcc.toml
  remote = \"203.0.113.0/24\"
  port = 443
  congestion_control = \"dtcp\"

  hotcc apply                                  set the rules that the file declares
  hotcc policy show                            the rules that apply, and what they did";

pub const POLICY_APPLY_HELP: &str = "\
With --live, sockets that are already open get the congestion control of the first rule that matches. Their window, ssthresh \
and RTT estimate stay, and what both algorithms know of the path. Sockets that have chosen for themselves are left alone, as \
with new ones, unless the rule has `override = true`. For an open socket the kernel does not record who opened the connection, \
so `uid` also matches accepted connections, by the user of the process that accepted them.

Examples:
  hotcc policy apply                           the same as: hotcc apply
  hotcc policy apply --live
  hotcc policy apply ./hotcc.toml --live --json";

pub const POLICY_TEST_HELP: &str = "\
The program in the kernel that decides for real sockets also answers here. What an option does not state is not known, and \
then conditions on it do not hold.

Examples:
  hotcc policy test 192.0.2.1:40000 203.0.113.5:443
  hotcc policy test 192.0.2.1:443              a socket that listens
  hotcc policy test 192.0.2.1:40000 203.0.113.5:443 --cgroup /sys/fs/cgroup/system.slice/nginx.service
  hotcc policy test 192.0.2.1:40000 203.0.113.5:443 --file ./hotcc.toml --json";

pub const POLICY_STATS_HELP: &str = "\
Connections are counted when they end, or when another rule or `hotcc migrate` takes them. A rule that a later `apply` keeps \
keeps its figures. Goodput is acknowledged bytes over the time in which there was something to send. To compare two \
congestion controls on the same connections, give one of two rules with equal conditions a `share`.

Examples:
  hotcc policy stats
  hotcc policy stats --json | jq '.rules[] | {congestion_control, goodput_kbps}'";

pub const APPLY_HELP: &str = "\
The file is complete: what hotcc has loaded and the file does not declare is unloaded, except for `hotcc run`. If a step \
fails, the steps before it are undone. Open connections keep the version that they run.

Examples:
  hotcc apply                                  the file is /etc/hotcc/hotcc.toml
  hotcc apply ./hotcc.toml --dry-run           print the steps
  hotcc apply --json";

pub const DIFF_HELP: &str = "\
Exit codes: 0 the kernel is as declared, 5 it is not.

Examples:
  hotcc diff
  hotcc diff ./hotcc.toml --json | jq -r '.steps[].name'";

pub const SAVE_HELP: &str = "\
The file declares all algorithms and receivers, with the tunables that differ from their profile; the policy rules; the \
default of this network namespace; and the defaults of named network namespaces (see `ip netns`) that are algorithms of \
hotcc's.

Examples:
  hotcc save
  hotcc save ./hotcc.toml --json";

pub const RUN_HELP: &str = "\
If hotcc receives a signal that would end it, other than a real-time signal, it forwards the signal to the command. \
It exits with the command's status, or with 126 if the command cannot be executed, or 127 if it is not found. \
Concurrent runs of the same algorithm share it; the last one unloads it.

Examples:
  hotcc run --cc dtcp -- iperf3 -c 192.0.2.1
  hotcc run --cc dtcp --profile paper --set alpha_permille=300 -- curl -T file https://example.org
  hotcc run --cc ./mine.bpf.o -- nginx -g 'daemon off;'";

pub const PATHS_HELP: &str = "\
Algorithms that use path changes (crest, dcm and dtcp; `hotcc list` shows which) restart their measurements when the \
route to their peer changes; without a watch they continue unchanged. `watch` follows the routes of one network \
namespace and notifies all flows of this machine to the same destinations. Several watches may run at once. \
Entries need no cleaning up, and cannot be removed: flows would see one more change. When 16384 destinations have one, \
all entries are removed, and all paths count as changed once.

Examples:
  hotcc paths watch                            until interrupted; flows continue without it
  hotcc paths watch --netns edge
  hotcc paths bump 198.51.100.0/24             report a change that the kernel's routes hide
  hotcc paths show";

pub const PATHS_WATCH_HELP: &str = "\
Examples:
  hotcc paths watch
  hotcc paths watch --netns edge
  hotcc paths watch --json                     one line per change";

pub const MIGRATE_HELP: &str = "\
Connections keep their window, ssthresh and RTT estimate. Bandwidth, least RTT and N are handed over if both \
algorithms have them; the rest of the algorithm's own per-flow state is reset. Listeners that \
selected FROM themselves move too; listeners that follow the namespace's default stay on it. If FROM and TO are the \
same, connections on an older version move to the serving one. To undo, migrate in the opposite direction (this also \
moves connections that ran TO before).

Examples:
  hotcc migrate cubic dtcp --dry-run
  hotcc migrate cubic dtcp --netns edge
  hotcc migrate cubic dtcp --to-prefix 203.0.113.0/24 --port 443 --share 5%
  hotcc migrate dtcp cubic --netns edge";

pub const CANARY_HELP: &str = "\
`start` runs in the foreground until the canary ends. Each step gives TO to a larger share of the new connections, and \
compares those that end with the others. A broken guard rolls the canary back; if every guard is shown to hold, the \
next step begins; after the last comparison, TO is promoted. While a canary runs, `hotcc apply` is refused.

Examples:
  hotcc canary start --from cubic --to dtcp --share 5% --match port=443 --for 30m
  hotcc canary status
  hotcc canary promote                         at once, whatever the comparison shows
  hotcc canary abort --json";

pub const CANARY_START_HELP: &str = "\
The share expires 30 s after `start` was killed; `start` renews it while it runs. SIGINT and SIGTERM abort the canary. To \
run it in the background, use systemd-run. Conditions are keys of policy rules: remote, remote_set, local, local_set, port, \
cgroup, unit, netns, uid, interface, signal.

Guards compare the connections of both cohorts that began and ended in the step: retransmit_ratio, timeout_ratio, or \
rtt_pN, min_rtt_pN, goodput_pN, delivery_pN or duration_pN, with a percentile N from 1 to 99.

Examples:
  hotcc canary start --from cubic --to dtcp --share 5% --match port=443 --match remote=203.0.113.0/24
  hotcc canary start --from cubic --to dtcp --guard 'rtt_p95 <= 1.1 * control' --guard 'goodput_p50 >= 0.95 * control'
  hotcc canary start --from cubic --to dtcp --for 2h --min-connections 500 --dry-run
  systemd-run --unit canary hotcc canary start --from cubic --to dtcp --for 12h";

pub const RX_HELP: &str = "\
`arwa` measures the delay of received packets and sends hints in a TCP option to peers that support it: run `hotcc rx \
load arwa` at both ends, and `hotcc load arwa` at the sender. `drwa` advertises smaller windows, which every sender obeys.

Examples:
  hotcc rx load arwa                           on both ends
  hotcc rx load drwa --cgroup /sys/fs/cgroup/downloads
  hotcc rx status
  hotcc rx unload drwa";

pub const RX_LOAD_HELP: &str = "\
Examples:
  hotcc rx load arwa
  hotcc rx load arwa --profile paper --set hint_copies=1
  hotcc rx load drwa --cgroup /sys/fs/cgroup/downloads";

pub const REPORT_HELP: &str = "\
The report contains no key, and the logs' URLs without passwords. It does contain addresses that the logs name, destinations \
whose path changed, and policy rules that differ from the file, with their prefixes: read it before you publish it.

Examples:
  hotcc report > report.json";

pub const FLOWS_HELP: &str = "\
With --cc, the algorithm's own state follows each connection, decoded by the version that the connection runs. `hotcc \
list NAME` describes the fields. A look-up that is \"not consulted yet\" means that the flow has not looked at that signal.

Examples:
  hotcc flows
  hotcc flows --cc dtcp
  hotcc flows --cc dtcp --netns edge
  hotcc flows --peer 10.45.0.0/16 --sort rate --watch
  hotcc flows --cc dtcp --json | jq '.[].state[] | select(.name == \"n_q16\") | .value / 65536'";

pub const TRACE_HELP: &str = "\
One row for each ACK that reaches a connection while it has data in flight, with the connection's state just before it \
processes the ACK. CSV can be read while the trace runs; Parquet can be read after it has ended.

Examples:
  hotcc trace --out flow.csv
  hotcc trace --out flow.parquet --cc crest --to-prefix 10.45.0.0/16 --for 60s
  hotcc trace --out busy.parquet --every 10    a tenth of the ACKs of each connection
  hotcc trace --out - --cc dtcp | cut -d, -f1,7,11   time, window and smoothed RTT";

pub const TOP_HELP: &str = "\
Keys: 1, 2, 3 or Tab select the view; Space pauses; q, Esc or Ctrl-C leave. Of the flows, s sorts by the next column, S \
reverses, / filters by address, port or algorithm, and Enter opens one: its rate, SINR, RTT and window over the last 60 \
samples. w swaps, r rolls back and m migrates the algorithm of the selected row, after a question.

Examples:
  hotcc top
  hotcc top --interval 0.2
  hotcc flows --json                           the same for programs";

pub const ADVISE_HELP: &str = "\
Connections are grouped by where they go (/24, /48, or a link of the radio map) and by congestion control. For each group, \
rules compare what the looks showed with the figures of the manual's pages, and print the lines that would try the advice. \
Connections that open and close between two looks are not seen.

Examples:
  hotcc advise
  hotcc advise --for 5m --port 443             what a web server sends and receives
  hotcc advise --for 10s --to-prefix 10.45.0.0/16 --min-bytes 100000
  hotcc advise --quiet --json | jq '.groups[] | {to, cc, try: .advice.try_cc}'";

pub const EXPORTER_HELP: &str = "\
An unprivileged process, user 65534, serves HTTP. If that process ends, the exporter exits with status 1.

A browser shows a live view at http://127.0.0.1:9717/. It is read-only. It shows the addresses of all connections of this \
machine to every user and host that reaches the exporter's address; so it is served on loopback addresses only, unless \
--page says otherwise. Over SSH: ssh -L 9717:127.0.0.1:9717 HOST.

Examples:
  hotcc exporter                               http://127.0.0.1:9717/metrics
  hotcc exporter --listen 0.0.0.0:9717         all addresses of this host
  hotcc exporter --listen 9800 --max-links 32
  hotcc exporter --page never                  only metrics";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_has_no_line_broken_twice() {
        let all = [
            ("", EXAMPLES),
            ("list", LIST_HELP),
            ("load", LOAD_HELP),
            ("unload", UNLOAD_HELP),
            ("swap", SWAP_HELP),
            ("rollback", ROLLBACK_HELP),
            ("get", GET_HELP),
            ("set", SET_HELP),
            ("apply", APPLY_HELP),
            ("diff", DIFF_HELP),
            ("save", SAVE_HELP),
            ("run", RUN_HELP),
            ("migrate", MIGRATE_HELP),
            ("paths", PATHS_HELP),
            ("paths watch", PATHS_WATCH_HELP),
            ("canary", CANARY_HELP),
            ("canary start", CANARY_START_HELP),
            ("rx", RX_HELP),
            ("rx load", RX_LOAD_HELP),
            ("report", REPORT_HELP),
            ("flows", FLOWS_HELP),
            ("trace", TRACE_HELP),
            ("top", TOP_HELP),
            ("advise", ADVISE_HELP),
            ("exporter", EXPORTER_HELP),
        ];
        for (name, help) in all {
            let (prose, examples) = help.split_once("Examples:\n").unwrap();
            let paragraphs = prose.trim_end().split("\n\n");
            assert!(paragraphs.clone().all(|p| !p.contains('\n')), "{name}: the terminal's width breaks lines");
            assert!(examples.lines().all(|line| line.starts_with("  ")), "{name}: {examples}");
        }
    }
}
