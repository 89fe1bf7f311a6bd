//! The kernel's queueing disciplines and the lab's, on a stock kernel in virtual time.

use crate::guest::Boot;
use crate::image::Image;
use anyhow::{Context, Result};
use hotcc_kernels::Kernel;
use hotcc_lab_proto::job::{Job, Message};
use hotcc_lab_proto::qdisc::{Compared, Comparison};

const MODULES: [&str; 4] = ["veth", "sch_tbf", "sch_codel", "sch_fq_codel"];
const MEMORY_MIB: u32 = 768;

/// Sends the same packets through both.
pub fn compare(kernel: &Kernel, comparison: &Comparison) -> Result<Compared> {
    let mut compared = None;
    let boot = Boot { image: Image::default(), kernel, modules: &MODULES, memory_mib: MEMORY_MIB, cpu: None };
    boot.run(&Job::Qdisc(Box::new(comparison.clone())), |message| {
        if let Message::Output(text) = message {
            compared = Some(serde_json::from_str(text).with_context(|| format!("in the guest: {text}"))?);
        }
        Ok(())
    })?;
    compared.context("the guest ended early")
}
