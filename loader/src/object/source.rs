//! Object files, built in or from a path: found and opened.

use super::libbpf_log;
use super::opened::Opened;
use hotcc_host::error::{Error, Result, Tried};
use hotcc_host::nearest;
use libbpf_rs::ObjectBuilder;
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::fs;
use std::path::Path;

/// Machine of a BPF object, in the ELF header.
const EM_BPF: u16 = 247;

/// An object file's bytes and where they came from.
#[derive(Debug)]
pub struct Source {
    /// `builtin:NAME`, or the path.
    pub origin: String,
    bytes: Cow<'static, [u8]>,
}

impl Source {
    /// Whether it looks like a path: has a `/` or ends in `.o`.
    #[must_use]
    pub fn is_path(name_or_path: &str) -> bool {
        name_or_path.contains('/') || name_or_path.ends_with(".o")
    }

    /// The built-in algorithm of that name, or the file if it looks like a path.
    pub fn find(name_or_path: &str) -> Result<Self> {
        if Self::is_path(name_or_path) {
            return Self::file(Path::new(name_or_path));
        }
        let found = hotcc_bpf::algo(name_or_path).ok_or_else(|| {
            let known: Vec<&str> = hotcc_bpf::ALGOS.iter().map(|o| o.name).collect();
            let path = if Path::new(name_or_path).exists() {
                format!("To load the file of that name, write ./{name_or_path}")
            } else {
                format!("To load a file, write its path, e.g. ./{name_or_path}.bpf.o")
            };
            Error::failed(format!(
                "no built-in algorithm `{name_or_path}`{}. {path}",
                nearest::hint(name_or_path, &known)
            ))
        })?;
        Ok(Self::builtin(found))
    }

    /// An embedded object.
    #[must_use]
    pub fn builtin(object: &hotcc_bpf::Object) -> Self {
        Self { origin: format!("builtin:{}", object.name), bytes: Cow::Borrowed(object.bytes) }
    }

    fn file(path: &Path) -> Result<Self> {
        let bytes = fs::read(path).tried(|| format!("cannot read {}", path.display()))?;
        let what = match bytes.get(18..20) {
            _ if !bytes.starts_with(b"\x7fELF") => Some("not an ELF file"),
            Some(machine) if machine != EM_BPF.to_le_bytes() => Some("an ELF file, but not a BPF object"),
            _ => None,
        };
        if let Some(what) = what {
            let text = "compile one with `clang -target bpf -g -O2 -c`";
            return Err(Error::failed(format!("{} is {what}; {text}", path.display())));
        }
        let origin = path.canonicalize().unwrap_or_else(|_| path.to_owned()).display().to_string();
        Ok(Self { origin, bytes: Cow::Owned(bytes) })
    }

    /// SHA-256 of the file.
    #[must_use]
    pub fn sha256(&self) -> [u8; 32] {
        Sha256::digest(&self.bytes).into()
    }

    /// Parses the object. Needs no privilege.
    pub fn open(&self) -> Result<Opened> {
        let (result, log) = libbpf_log::capture(|| {
            // without it, libbpf's messages contain a generated name
            ObjectBuilder::default().name(&self.origin).and_then(|builder| builder.open_memory(&self.bytes))
        });
        let object = result.map_err(|e| {
            let hint = log.lines().last().unwrap_or_default();
            Error::failed(format!("cannot parse the BPF object {}: {e} {hint}", self.origin))
        })?;
        Opened::new(object, &self.origin)
    }
}
