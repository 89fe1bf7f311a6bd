//! `hotcc flows`: selects, sorts and repeatedly prints connections.

use crate::show;
use hotcc::sockets::flows::{Connection, connections};
use hotcc_abi::path::PathKey;
use hotcc_host::error::Result;
use std::cmp::Reverse;
use std::time::Duration;

const WATCH_PERIOD: Duration = Duration::from_secs(1);

#[derive(clap::Args)]
pub struct FlowsArgs {
    /// Only connections that use this congestion control, each with the algorithm's own state
    #[arg(long, value_name = "NAME")]
    cc: Option<String>,
    /// Only in this network namespace: a name from `ip netns`, or a path; may be repeated [default: all]
    #[arg(long, value_name = "NAME|PATH")]
    netns: Vec<String>,
    /// Only connections whose peer is in this prefix
    #[arg(long, value_name = "ADDR[/LEN]")]
    peer: Option<PathKey>,
    /// Highest value first
    #[arg(long, value_name = "COLUMN", default_value = "address", hide_default_value = true)]
    sort: Column,
    /// Print again every second, until interrupted
    #[arg(long)]
    watch: bool,
    /// Print JSON; with --watch, one line each time
    #[arg(long)]
    json: bool,
}

/// What to sort by.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Column {
    /// Network namespace, congestion control and addresses, in ascending order (the default)
    Address,
    Cwnd,
    Rtt,
    /// Delivery rate
    Rate,
    Retrans,
    /// Acknowledged bytes
    Bytes,
}

impl Column {
    /// Sorts connections that are already in address order; equal ones keep that order.
    fn sort(self, all: &mut [Connection]) {
        match self {
            Self::Address => {}
            Self::Cwnd => all.sort_by_key(|c| Reverse(c.cwnd)),
            Self::Rtt => all.sort_by_key(|c| Reverse(c.srtt_us)),
            Self::Rate => all.sort_by_key(|c| Reverse(c.delivery_bps)),
            Self::Retrans => all.sort_by_key(|c| Reverse(c.retransmits)),
            Self::Bytes => all.sort_by_key(|c| Reverse(c.acked_bytes)),
        }
    }
}

pub fn flows(args: &FlowsArgs) -> Result<()> {
    loop {
        let mut all = connections(args.cc.as_deref(), &args.netns)?;
        if let Some(peers) = args.peer {
            all.retain(|c| peers.covers(PathKey::address(c.peer.ip())));
        }
        args.sort.sort(&mut all);
        match (args.json, args.watch) {
            (true, true) => show::print::print_json_line(&all)?,
            (true, false) => show::print::print_json(&all)?,
            (false, watched) => {
                if watched {
                    show::print::clear();
                }
                show::flows::flows(&all, args.cc.is_some());
            }
        }
        if !args.watch {
            return Ok(());
        }
        std::thread::sleep(WATCH_PERIOD);
    }
}
