//! Tests damaged or hostile object files: libbpf may crash on them, but the command ends with an ordinary error.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
use common::*;
use hotcc::object::{Source, kernel};
use hotcc_testbed::soak;
use std::collections::BTreeMap;
use std::ops::Range;

/// Returns how hotcc handles an object.
fn outcome(path: &str) -> &'static str {
    let opened = Source::find(path).and_then(|source| source.open());
    let error = match opened.and_then(|opened| opened.load(kernel::has_links())) {
        Ok(_) => return "loaded",
        Err(error) => format!("{error:#}"),
    };
    let outcomes = [
        ("killed the child process", "killed the child"),
        ("the kernel's verifier rejects", "rejected by the verifier"),
        ("cannot load ", "not loaded"),
        ("cannot parse ", "not parsed"),
    ];
    outcomes.into_iter().find(|(text, _)| error.contains(text)).map_or("refused by hotcc", |(_, outcome)| outcome)
}

/// Returns the parts of the file with BTF, relocations and instructions.
fn deep_sections(object: &[u8]) -> Vec<Range<usize>> {
    const SHT_REL: u64 = 9;
    const SHF_EXECINSTR: u64 = 4;
    let number = |at: usize, size: usize| {
        let mut bytes = [0; 8];
        bytes[..size].copy_from_slice(&object[at..at + size]);
        u64::from_le_bytes(bytes)
    };
    let (table, count) = (number(40, 8) as usize, number(60, 2) as usize);
    let header = |index: usize| table + index * 64;
    let strings = number(header(number(62, 2) as usize) + 24, 8) as usize;
    let sections = (0..count).map(header).filter(|&at| {
        let name = &object[strings + number(at, 4) as usize..];
        name.starts_with(b".BTF") || number(at + 4, 4) == SHT_REL || number(at + 8, 8) & SHF_EXECINSTR != 0
    });
    let range = |at: usize| number(at + 24, 8) as usize..(number(at + 24, 8) + number(at + 32, 8)) as usize;
    sections.map(range).collect()
}

/// libbpf 1.7 reads far beyond its table of types if the type of a function's result does not exist.
#[test]
fn an_object_that_crashes_libbpf_is_an_ordinary_error() {
    let test = kernel_test("an_object_that_crashes_libbpf_is_an_ordinary_error", &["hostile", "kept"]);
    let Some(test) = test else { return };
    let mut bytes = hotcc_bpf::algo("dtcp").unwrap().bytes.to_vec();
    let prototype = |at: usize| bytes[at..at + 4] == [0; 4] && bytes[at + 5..at + 8] == [0, 0, 13];
    let prototypes: Vec<usize> = (0..bytes.len() - 12).step_by(4).filter(|&at| prototype(at)).collect();
    assert!(prototypes.len() > 10, "{prototypes:?}");
    for at in prototypes {
        bytes[at + 10] |= 2; // the type of the result
    }
    let hostile = test.file("hostile.bpf.o", &bytes);
    ok(&["load", "dtcp", "--as", "kept"]);
    let failures = || hotcc::registry::counters::counters().unwrap().load_failures;
    let before = failures();
    let declared = test.file("declared.toml", format!("[[algorithm]]\nobject = \"{hostile}\"\n").as_bytes());
    for arguments in [
        &["load", &hostile, "--as", "hostile"][..],
        &["swap", "kept", &hostile],
        &["run", "--cc", &hostile, "--", "true"],
        &["apply", &declared],
    ] {
        let message = fails(1, arguments);
        assert!(message.contains("SIGSEGV killed the child process that checked it"), "{arguments:?}: {message}");
    }
    assert!(failures() > before);
    assert_eq!(status_of("kept").unwrap()["object"], "builtin:dtcp");
    assert!(!registered("hostile") && pins_of("hostile").is_empty());
}

/// SplitMix64: pseudo-random numbers from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % limit as u64) as usize
    }
}

#[test]
fn flipped_bits_end_in_an_error_at_most() {
    const FLIPS_PER_OBJECT: u64 = 10;
    let (mut flips, mut deep) = (0, 0);
    let mut outcomes = BTreeMap::<&str, u64>::new();
    for object in hotcc_bpf::ALGOS {
        // taken once per object, so that a soak does not block other tests on this machine for its whole duration
        let Some(test) = kernel_test("flipped_bits_end_in_an_error_at_most", &[]) else { return };
        let sections = deep_sections(object.bytes);
        for seed in soak::seeds(1, FLIPS_PER_OBJECT) {
            let mut random = Random(seed);
            let mut bytes = object.bytes.to_vec();
            let at = random.below(bytes.len());
            bytes[at] ^= 1 << random.below(8);
            *outcomes.entry(outcome(&test.file("flipped.bpf.o", &bytes))).or_default() += 1;
            flips += 1;
            deep += u64::from(sections.iter().any(|section| section.contains(&at)));
        }
    }
    soak::report(&format!("{flips} flipped bits, {deep} of them in BTF, relocations or instructions: {outcomes:?}"));
    assert!(deep * 5 >= flips, "only {deep} of {flips} flips were in BTF, relocations or instructions");
}
