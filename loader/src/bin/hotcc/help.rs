//! What the commands say below their options: how they behave, and examples.

pub const EXAMPLES: &str = "\
Examples:
  hotcc list                                   what is built in
  hotcc run --cc dtcp -- iperf3 -c 192.0.2.1   one command's sockets only: the first trial
  hotcc load dtcp --profile paper              register it
  sysctl -w net.ipv4.tcp_congestion_control=dtcp          … as the default of new sockets
  ip route change 198.51.100.0/24 via … congctl dtcp      … for one route
  hotcc set dtcp alpha_permille=300            tune it while it runs
  hotcc swap dtcp ./mine.bpf.o --live          replace it, open connections too
  hotcc rollback dtcp --live                   and back
  hotcc migrate cubic dtcp                     open connections only; back: hotcc migrate dtcp cubic
  hotcc unload dtcp";

pub const LOAD_HELP: &str = "\
Examples:
  hotcc load dtcp
  hotcc load dtcp --profile paper --set alpha_permille=300
  hotcc load ./mine.bpf.o --as mine
  hotcc load dtcp --as dtcp_paper --profile paper    a second one beside it";

pub const SWAP_HELP: &str = "\
Examples:
  hotcc swap dtcp ./mine.bpf.o                 connections that are open keep the old one
  hotcc swap dtcp dtcp --profile paper --live  the same object, other tunables, for all
  hotcc swap dtcp ./mine.bpf.o --keep-tunables
  hotcc rollback dtcp --live                   back, with the values it had";

pub const ROLLBACK_HELP: &str = "\
Examples:
  hotcc rollback dtcp
  hotcc rollback dtcp --live                   and once more: forward again";

pub const GET_HELP: &str = "\
Examples:
  hotcc get dtcp
  hotcc get dtcp alpha_permille                the bare value, for a script";

pub const SET_HELP: &str = "\
It counts from the next ACK on, for open connections too. `hotcc list NAME` says what there is, in which range.

Examples:
  hotcc set dtcp alpha_permille=300
  hotcc set dtcp alpha_permille=300 n_rule=alg1  both or none";

pub const RUN_HELP: &str = "\
Signals that would end hotcc are passed on to the command. It ends as the command ends; 126: the command cannot be \
executed, 127: there is none of that name. Runs of the same algorithm at once share it; the last one takes it away.

Examples:
  hotcc run --cc dtcp -- iperf3 -c 192.0.2.1
  hotcc run --cc ./mine.bpf.o -- nginx -g 'daemon off;'";

pub const PATHS_HELP: &str = "\
Algorithms that know paths (dcm) measure anew when theirs changes; without a watch they run on. `watch` sees the routes
of one network namespace, and every flow on this machine to the same destinations is told. Any number may run.

Examples:
  hotcc paths watch                            until it is ended; nothing breaks when it is
  hotcc paths watch --netns edge
  hotcc paths bump 198.51.100.0/24             by hand: a path changed where the kernel's routes do not show it";

pub const MIGRATE_HELP: &str = "\
The way back is the reverse command (which also moves what ran TO before). Window, ssthresh and RTT estimate stay; what \
the algorithm itself had learned starts anew. Listeners that chose FROM are moved, those on the default are left to the \
default. With FROM and TO the same, what runs an older version of it is moved to the one that serves.

Examples:
  hotcc migrate cubic dtcp --dry-run
  hotcc migrate cubic dtcp --netns edge
  hotcc migrate dtcp cubic --netns edge";

pub const RX_HELP: &str = "\
`arwa` measures the delay of what arrives and sends hints in a TCP option to peers that say they know it: load it at both \
ends, and `hotcc load arwa` at the sender's. `drwa` grants smaller windows, which any sender obeys.

Examples:
  hotcc rx load arwa                           on every machine that is to take part
  hotcc rx load drwa --cgroup /sys/fs/cgroup/downloads
  hotcc rx status
  hotcc rx unload drwa";

pub const FLOWS_HELP: &str = "\
With --cc each connection is followed by the fields of the algorithm's state (`hotcc list NAME` says what they mean), decoded by \
the version that the connection runs.

Examples:
  hotcc flows
  hotcc flows --cc dtcp
  hotcc flows --cc dtcp --json | jq '.[].state[] | select(.name == \"n_q16\") | .value / 65536'";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_has_no_line_broken_twice() {
        let all = [
            ("", EXAMPLES),
            ("load", LOAD_HELP),
            ("swap", SWAP_HELP),
            ("rollback", ROLLBACK_HELP),
            ("get", GET_HELP),
            ("set", SET_HELP),
            ("run", RUN_HELP),
            ("migrate", MIGRATE_HELP),
            ("flows", FLOWS_HELP),
        ];
        for (name, help) in all {
            let (prose, examples) = help.split_once("Examples:\n").unwrap();
            let paragraphs = prose.trim_end().split("\n\n");
            assert!(paragraphs.clone().all(|p| !p.contains('\n')), "{name}: the terminal's width breaks lines");
            assert!(examples.lines().all(|line| line.starts_with("  ")), "{name}: {examples}");
        }
    }
}
