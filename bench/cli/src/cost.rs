//! `hotcc-bench cost`: counts from the command line.

use anyhow::Result;
use hotcc_kernels::Selector;
use hotcc_lab::cost::{run, table};
use hotcc_lab::vm;
use std::process::ExitCode;

/// Count the instructions that algorithms take for each ACK, ours and the kernel's, on each kernel
///
/// All make the same transfer in virtual time, where an instruction is a nanosecond: the same build gives the same
/// figures. Programs are counted by the kernel's run-time statistics of BPF, of which what an empty program takes is
/// taken off. The kernel's own have clocks (fentry, fexit) around the functions of their operations; what the clocks
/// take around a function of two to four instructions is taken off, and is up to three less where ACKs are handled. An
/// interrupt that falls into a call counts as its own.
///
/// `of the reference` is against `cubic_bpf`: the kernel's CUBIC, called from a BPF program. So both sides pay for BPF, and
/// what differs is the algorithm. A small negative figure is a part that takes less than what is taken off for counting
/// it: read it as nothing. docs/reference/benchmarks.md says more, and how long it takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  hotcc-bench cost\n  hotcc-bench cost 6.1 newest --json")]
pub struct CostCommand {
    /// Kernels, fetched where they are not here: 6.1, trixie, newest, …
    #[arg(default_values = ["6.12"], value_name = "KERNEL")]
    kernels: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl CostCommand {
    /// Counts on each.
    pub fn run(&self) -> Result<ExitCode> {
        let mut all = Vec::new();
        for name in &self.kernels {
            let selector: Selector = name.parse()?;
            let kernel = hotcc_kernels::ready(&selector, &mut |progress| eprintln!("{progress}"))?;
            let costs = run(&kernel, vm::processors().first().copied(), &mut |line| eprintln!("  {line}"))?;
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
