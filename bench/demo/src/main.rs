//! The `hotcc-demo` command.

use clap::Parser;
use hotcc_demo::{Options, run};
use std::process::ExitCode;

/// Shows hotcc at work on this machine: loads congestion controls, feeds them with SINR, tunes and swaps them while
/// traffic flows, and checks what it shows. About 75 s.
///
/// Makes three network namespaces and loads under free names only; removes all of it, also after Ctrl-C. Where it is not
/// run as root, or the kernel cannot load algorithms, it runs in the lab: a stock kernel in QEMU. Exit codes:
/// 0 all that was claimed holds, 1 something does not, 2 usage, 3 the kernel lacks something, 4 not permitted, 130
/// interrupted.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    run(Cli::parse().options)
}
