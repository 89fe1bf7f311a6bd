//! What `hotcc` finds on stock kernels: before 6.10, only those for x86-64 let BPF call CUBIC; before 6.7, none counts
//! timeouts.

use crate::common::machine::{Processor, stock_kernel};
use hotcc_kernels::Kernel;
use hotcc_lab::image::Image;
use hotcc_lab::vm::{self, Clock, Machine};
use hotcc_lab::{guest, programs};
use hotcc_lab_proto::job::{Command, Job, Message};
use hotcc_testbed::command::build;
use serde_json::Value;
use std::fs::File;

#[test]
fn bpf_may_call_cubic_on_the_oldest_kernel() {
    build(&["hotcc"]);
    doctor_finds("bpf_may_call_cubic_on_the_oldest_kernel", "6.1", "ok");
}

#[test]
#[ignore = "needs `just build-arm64`: just soak"]
fn bpf_may_call_cubic_only_on_newer_kernels_for_arm64() {
    const NAME: &str = "bpf_may_call_cubic_only_on_newer_kernels_for_arm64";
    doctor_finds(NAME, "6.1-arm64", "degraded");
    doctor_finds(NAME, "6.12-arm64", "ok");
}

#[test]
fn a_canary_with_a_guard_that_the_kernel_cannot_measure_is_refused() {
    build(&["hotcc"]);
    let test = "a_canary_with_a_guard_that_the_kernel_cannot_measure_is_refused";
    let start = ["canary", "start", "--from", "cubic", "--to", "reno", "--dry-run", "--guard"];
    let asked = |kernel: &str, guard: &str| {
        let kernel = stock_kernel(test, kernel)?;
        Some(says(&kernel, &[&start[..], &[guard]].concat()))
    };
    let Some(refused) = asked("6.1", "timeout_ratio <= 1.5 * control") else { return };
    assert!(refused.unwrap_err().contains("this kernel does not count the timeouts of a connection"));
    assert!(asked("6.12", "timeout_ratio <= 1.5 * control").unwrap().unwrap().contains("timeout_ratio"));
}

fn doctor_finds(test: &str, kernel: &str, verdict: &str) {
    let Some(kernel) = stock_kernel(test, kernel) else { return };
    let report: Value = serde_json::from_str(&says(&kernel, &["doctor", "--json"]).unwrap()).unwrap();
    let findings = report["findings"].as_array().unwrap();
    let finding = findings.iter().find(|finding| finding["what"] == "CUBIC for BPF").unwrap();
    println!("{}: {finding}", kernel.release);
    assert_eq!(finding["verdict"], verdict);
    assert!(findings.iter().all(|finding| finding["verdict"] != "missing"), "{findings:?}");
}

/// Returns what `hotcc` prints in a guest, or why it fails.
fn says(kernel: &Kernel, arguments: &[&str]) -> Result<String, String> {
    let _processor = Processor::take();
    let words = ["/bin/hotcc"].iter().chain(arguments).map(|word| (*word).to_owned()).collect();
    let job = Job::Commands(vec![Command { words, ..Command::default() }]);
    let scratch = tempfile::tempdir().unwrap();
    let mut image = Image::default();
    image.program("/bin/hotcc", &programs::ours(kernel.architecture(), "hotcc").unwrap()).unwrap();
    guest::build_initramfs(&mut image, kernel, &[], &job).unwrap();
    let initramfs = scratch.path().join("initramfs.cpio");
    image.write(&mut File::create(&initramfs).unwrap()).unwrap();
    let machine = Machine {
        kernel: kernel.clone(),
        memory_mib: 512,
        clock: Clock::Virtual,
        results: None,
        cpu: None,
        patience: vm::PATIENCE,
    };
    let mut said = String::new();
    let ran = vm::run(&machine, &initramfs, scratch.path(), |message| {
        if let Message::Output(text) = message {
            said.clone_from(text);
        }
        Ok(())
    });
    ran.map(|_| said).map_err(|error| format!("{error:#}"))
}
