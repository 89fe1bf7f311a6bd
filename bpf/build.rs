//! Compiles each `*.bpf.c` of `algos`, `progs`, `lab`, `test-objects` and `bench/peers` with clang, and writes the
//! table that embeds them.
//!
//! Needs clang 15 or later and nothing else: no kernel headers, no vmlinux.h, no running kernel's BTF.
//! `HOTCC_CLANG` names another clang.

use std::env;
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const OLDEST_CLANG: u32 = 15;
const NEWEST_TRIED: u32 = 22;
/// The objects are the same for every 64-bit little-endian machine; 5.x kernels support -mcpu=v3.
const FLAGS: [&str; 12] = [
    "-target",
    "bpfel",
    "-mcpu=v3",
    "-O2",
    "-g",
    "-std=gnu11",
    "-nostdinc",
    "-fno-stack-protector",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wno-unused-parameter",
];

fn main() {
    if let Err(error) = build() {
        eprintln!("{error}"); // as text: the compiler's message has many lines
        std::process::exit(1);
    }
}

fn build() -> Result<(), Box<dyn Error>> {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let out = PathBuf::from(env::var("OUT_DIR")?);
    println!("cargo::rerun-if-env-changed=HOTCC_CLANG");
    let tree = root.parent().ok_or("this crate is a folder of the tree")?;
    for dir in ["include", "abi", "algos", "progs", "lab", "test-objects"] {
        println!("cargo::rerun-if-changed={}", root.join(dir).display());
    }
    println!("cargo::rerun-if-changed={}", tree.join("bench/peers").display());
    let clang = find_clang()?;
    let mut table = String::new();
    writeln!(table, "/// The clang that compiled the objects.\npub const CLANG: &str = {clang:?};")?;
    writeln!(table, "/// What it was called with.\npub const CLANG_FLAGS: &[&str] = &{FLAGS:?};")?;
    for (dir, constant) in [
        ("bpf/algos", "ALGOS"),
        ("bpf/progs", "PROGS"),
        ("bpf/lab", "LAB"),
        ("bpf/test-objects", "TEST_OBJECTS"),
        ("bench/peers", "PEERS"),
    ] {
        writeln!(table, "/// Objects of `{dir}`, by name.\npub static {constant}: &[Object] = &[")?;
        for source in sources(&tree.join(dir))? {
            let name = source.file_name().and_then(|n| n.to_str()).unwrap_or_default().trim_end_matches(".bpf.c");
            let object = out.join(format!("{name}.bpf.o"));
            compile(&clang, tree, &source, &object)?;
            let path = object.display();
            writeln!(table, "    Object {{ name: {name:?}, bytes: aligned!({path:?}) }},")?;
        }
        writeln!(table, "];")?;
    }
    fs::write(out.join("objects.rs"), table)?;
    Ok(())
}

fn sources(dir: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let mut found: Vec<PathBuf> = fs::read_dir(dir)?.map(|e| e.map(|e| e.path())).collect::<Result<_, _>>()?;
    found.retain(|p| p.to_string_lossy().ends_with(".bpf.c"));
    found.sort();
    Ok(found)
}

fn find_clang() -> Result<String, Box<dyn Error>> {
    if let Ok(named) = env::var("HOTCC_CLANG") {
        return Ok(named);
    }
    let versioned = (OLDEST_CLANG..=NEWEST_TRIED).rev().map(|v| format!("clang-{v}"));
    for name in std::iter::once("clang".to_owned()).chain(versioned) {
        if major_version(&name).is_some_and(|v| v >= OLDEST_CLANG) {
            return Ok(name);
        }
    }
    Err(format!("no clang {OLDEST_CLANG} or later found; run ./setup.sh, or name one in HOTCC_CLANG").into())
}

fn major_version(clang: &str) -> Option<u32> {
    let output = Command::new(clang).arg("-dumpversion").output().ok()?;
    String::from_utf8_lossy(&output.stdout).split('.').next()?.trim().parse().ok()
}

fn compile(clang: &str, tree: &Path, source: &Path, object: &Path) -> Result<(), Box<dyn Error>> {
    let output = Command::new(clang)
        .args(FLAGS)
        .arg(format!("-ffile-prefix-map={}/=", tree.display()))
        .arg("-I")
        .arg(tree.join("bpf/include"))
        .arg("-I")
        .arg(tree.join("bpf")) // headers that only our own files include, as "abi/NAME.h"
        .arg("-c")
        .arg(source)
        .arg("-o")
        .arg(object)
        .output()?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{clang} failed on {}:\n{text}", source.display()).into());
    }
    Ok(())
}
