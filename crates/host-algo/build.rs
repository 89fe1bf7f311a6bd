//! Compiles every `bpf/algos/*.bpf.c` to a shared object for the host, and lists them for embedding.
//!
//! Around each algorithm goes `host/harness.c`, or `host/NAME.c` where its pure step functions are to be called too.
//! Undefined behaviour traps in them: a test that provokes some dies instead of passing by luck.
//! Uses the clang that compiled the BPF objects.

use hotcc_bpf::CLANG;
use std::env;
use std::error::Error;
use std::fs;
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
    let headers = ["include", "abi", "algos", "progs"].map(|dir| bpf.join(dir));
    for dir in headers.iter().chain([&host]) {
        println!("cargo::rerun-if-changed={}", dir.display());
    }
    let include = [bpf.join("include"), bpf.clone(), host.clone()];
    let mut listed = Vec::new();
    for source in algorithms(&bpf.join("algos"))? {
        let name = source.file_name().and_then(|n| n.to_str()).unwrap_or_default().trim_end_matches(".bpf.c");
        let defines = [format!("-DHOTCC_ALGO_FILE=\"{}\"", source.display()), format!("-DHOTCC_ALGO={name}")];
        let object = out.join(format!("{name}.so"));
        let with_steps = host.join(format!("{name}.c"));
        let harness = if with_steps.exists() { with_steps } else { host.join("harness.c") };
        compile(&include, &defines, &harness, &object)?;
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

fn compile(include: &[PathBuf], defines: &[String], source: &Path, object: &Path) -> Result<(), Box<dyn Error>> {
    let output = Command::new(CLANG)
        .args(["-shared", "-fPIC", "-O2", "-gline-tables-only", "-std=gnu11"])
        .args(["-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror", "-DHOTCC_HOST"])
        .args(["-fsanitize=integer-divide-by-zero,shift,signed-integer-overflow,bounds", "-fsanitize-trap=all"])
        .args(defines)
        .args(include.iter().map(|dir| format!("-I{}", dir.display())))
        .arg(source)
        .args(["-Wl,-Bsymbolic", "-o"]) // two objects in one process must not share symbols
        .arg(object)
        .output()?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{CLANG} failed on {} {defines:?}:\n{text}", source.display()).into());
    }
    Ok(())
}
