//! `hotcc-bench cost`: counts from the command line.

use anyhow::Result;
use hotcc_kernels::Selector;
use hotcc_lab::cost::{TRANSFERS, run, table};
use hotcc_lab::vm;
use std::process::ExitCode;

/// Count the instructions per ACK of every hotcc and kernel algorithm on each kernel
///
/// Each algorithm makes the same transfers in virtual time, where one instruction takes one nanosecond, so the same build
/// always gives the same figures. BPF programs are counted with the kernel's BPF run-time statistics, minus the cost of an
/// empty program. Kernel algorithms are counted with clocks (fentry, fexit) around the functions of their operations. The
/// cost of the clocks is measured around a function of two to four instructions, and subtracted; where ACKs are handled,
/// the clocks cost up to three instructions less than that. An interrupt during a call counts towards that call.
///
/// `of the reference` is the ratio to `cubic_bpf`, the kernel's CUBIC called from a BPF program: both sides include the
/// cost of BPF, so only the algorithms differ. Read a small negative figure as zero: that part costs less than what is
/// subtracted for counting it. docs/reference/benchmarks.md has the details and the duration.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  hotcc-bench cost\n  hotcc-bench cost 6.1 newest\n  \
    hotcc-bench cost --cc crest --cc bbr\n  hotcc-bench cost --json 6.12")]
pub struct CostCommand {
    /// Kernels, downloaded if not cached: 6.1, trixie, newest, ...
    #[arg(default_values = ["6.12"], value_name = "KERNEL")]
    kernels: Vec<String>,
    /// Count only this algorithm and the reference; repeat for more
    #[arg(long, value_name = "NAME")]
    cc: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl CostCommand {
    /// Counts on each kernel.
    pub fn run(&self) -> Result<ExitCode> {
        let mut all = Vec::new();
        for name in &self.kernels {
            let selector: Selector = name.parse()?;
            let kernel = hotcc_kernels::ready(&selector, &mut |progress| eprintln!("{progress}"))?;
            let cpu = vm::processors().first().copied();
            let costs = run(&kernel, &self.cc, TRANSFERS, cpu, &mut |line| eprintln!("  {line}"))?;
            if !self.json {
                println!("{}", table(&costs));
            }
            all.push(costs);
        }
        if self.json {
            println!("{}", serde_json::to_string_pretty(&all)?);
        }
        Ok(ExitCode::SUCCESS)
    }
}
