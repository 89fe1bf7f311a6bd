//! Compiles every `*.bpf.c` of `bpf/algos` and `bench/peers` to a shared object for the host, and lists them for embedding.
//!
//! Around each algorithm goes `host/harness.c`, or `host/NAME.c` where its pure step functions are to be called too.

use hotcc_bpf::host::compile;
use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

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
    let headers = ["include", "abi", "algos", "progs"].map(|dir| bpf.join(dir));
    let peers = root.join("../../bench/peers").canonicalize()?;
    for dir in headers.iter().chain([&host, &peers]) {
        println!("cargo::rerun-if-changed={}", dir.display());
    }
    let include = [host.clone(), bpf.join("include"), bpf.clone()]; // its <hotcc/bpf.h> before the real one
    let mut listed = Vec::new();
    for source in algorithms(&bpf.join("algos"))?.into_iter().chain(algorithms(&peers)?) {
        let name = source.file_name().and_then(|n| n.to_str()).unwrap_or_default().trim_end_matches(".bpf.c");
        let defines = [format!("-DHOTCC_ALGO_FILE=\"{}\"", source.display()), format!("-DHOTCC_ALGO={name}")];
        let object = out.join(format!("{name}.so"));
        let with_steps = host.join(format!("{name}.c"));
        let harness = if with_steps.exists() { with_steps } else { host.join("harness.c") };
        compile(&harness, &object, &include, &defines)?;
        listed.push(format!("({name:?}, include_bytes!({:?}))", object.display().to_string()));
    }
    let list = listed.join(",\n    ");
    let text = format!(
        "/// The algorithms by name, as shared objects.\nstatic OBJECTS: &[(&str, &[u8])] = &[\n    {list},\n];\n"
    );
    fs::write(out.join("objects.rs"), text)?;
    Ok(())
}

fn algorithms(dir: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let mut found: Vec<PathBuf> = fs::read_dir(dir)?.map(|e| e.map(|e| e.path())).collect::<Result<_, _>>()?;
    found.retain(|p| p.to_string_lossy().ends_with(".bpf.c"));
    found.sort();
    Ok(found)
}
