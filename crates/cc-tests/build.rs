//! Compiles the wrappers around headers' pure functions to shared objects for the host.
//!
//! Undefined behaviour traps in them: a test that provokes some dies instead of passing by luck.
//! Uses the clang that compiled the BPF objects.

use hotcc_bpf::CLANG;
use std::env;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    if let Err(error) = build() {
        eprintln!("{error}"); // as text: the compiler's message has many lines
        std::process::exit(1);
    }
}

fn build() -> Result<(), Box<dyn Error>> {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let bpf = root.join("../../bpf").canonicalize()?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let host = root.join("host");
    let stand_ins = root.join("../host-algo/host").canonicalize()?;
    let headers = ["include", "abi", "algos", "progs"].map(|dir| bpf.join(dir));
    for dir in headers.iter().chain([&host, &stand_ins]) {
        println!("cargo::rerun-if-changed={}", dir.display());
    }
    let include = [bpf.join("include"), bpf.clone(), stand_ins.clone()];
    for units in ["units", "rx_units"] {
        let (source, object) = (host.join(format!("{units}.c")), out.join(format!("{units}.so")));
        compile(&include, &source, &object)?;
    }
    Ok(())
}

fn compile(include: &[PathBuf], source: &Path, object: &Path) -> Result<(), Box<dyn Error>> {
    let output = Command::new(CLANG)
        .args(["-shared", "-fPIC", "-O1", "-g", "-std=gnu11"])
        .args(["-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror", "-DHOTCC_HOST"])
        .args(["-fsanitize=integer-divide-by-zero,shift,signed-integer-overflow,bounds", "-fsanitize-trap=all"])
        .args(include.iter().map(|dir| format!("-I{}", dir.display())))
        .arg(source)
        .args(["-Wl,-Bsymbolic", "-o"]) // two objects in one process must not share symbols
        .arg(object)
        .output()?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{CLANG} failed on {}:\n{text}", source.display()).into());
    }
    Ok(())
}
