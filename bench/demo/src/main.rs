//! The `hotcc-demo` command.

use clap::Parser;
use hotcc_demo::{Options, run};
use std::process::ExitCode;

/// Demonstrate hotcc on this machine in about a minute: crest beside bbr, cubic and dtcp on a link whose rate changes
///
/// The demo measures the throughput and p95 delay of each, tunes and swaps one under traffic, verifies each claim it
/// prints, and leaves nothing behind. crest and dtcp also read the SINR of the link. The demo creates three network
/// namespaces and loads algorithms under unused names only; it removes all of them, also after Ctrl-C. Without root, or if
/// the kernel cannot load algorithms, it runs in the lab: a stock kernel in QEMU.
///
/// Exit codes: 0 all claims hold, 1 a claim does not hold, 2 usage error, 3 missing kernel feature, 4 permission denied,
/// 130 interrupted.
#[derive(Parser)]
#[command(
    version,
    after_help = "Examples:\n  sudo hotcc-demo\n  sudo hotcc-demo --seconds 3\n  hotcc-demo --lab\n  \
        hotcc-demo --lab --json > report.json"
)]
struct Cli {
    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    run(Cli::parse().options)
}
