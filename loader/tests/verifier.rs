//! Measures how many instructions the kernel's verifier processes for the built-in algorithms.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
use common::*;
use hotcc::object::Source;
use libbpf_rs::Program;
use libbpf_rs::query::ProgInfoIter;
use std::os::fd::AsFd;

/// Limit of verified instructions. The verifier follows every path, so one more loop may make a program that loads here
/// fail on other kernels.
const MAX_INSTRUCTIONS: u32 = 20_000;

#[test]
fn no_program_is_hard_to_verify() {
    let Some(_test) = kernel_test("no_program_is_hard_to_verify", &[]) else { return };
    std::fs::create_dir_all(hotcc_abi::pins::SIGNAL).unwrap();
    for object in hotcc_bpf::ALGOS.iter().chain(hotcc_bpf::PEERS) {
        let loaded = Source::builtin(object).open().unwrap().load(hotcc::object::kernel::has_links()).unwrap();
        for program in loaded.object.progs().filter(Program::autoload) {
            let id = Program::id_from_fd(program.as_fd()).unwrap();
            let info = ProgInfoIter::default().find(|info| info.id == id).unwrap();
            let name = program.name().to_string_lossy();
            println!("{}: {name}: {} instructions verified", object.name, info.verified_insns);
            assert!(info.verified_insns > 0 && info.verified_insns < MAX_INSTRUCTIONS, "{name}: {info:?}");
        }
    }
}
