//! Compiles the wrappers around headers' pure functions to shared objects for the host.

use hotcc_bpf::host::compile;
use std::env;
use std::error::Error;
use std::path::PathBuf;

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
    let include = [stand_ins.clone(), bpf.join("include"), bpf.clone()]; // their <hotcc/bpf.h> before the real one
    for units in ["units", "rx_units"] {
        compile(&host.join(format!("{units}.c")), &out.join(format!("{units}.so")), &include, &[])?;
    }
    Ok(())
}
