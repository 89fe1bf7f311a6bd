//! Finds and opens object files, built in or from a path.

use super::libbpf_log;
use super::opened::{Opened, cc_names};
use super::rehearsal::rehearse;
use hotcc_abi::version::Meta;
use hotcc_host::cstr::text;
use hotcc_host::error::{Error, Result, Tried};
use hotcc_host::nearest;
use libbpf_rs::{ObjectBuilder, OpenObject};
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Machine of a BPF object, in the ELF header.
const EM_BPF: u16 = 247;

/// Maximum size of an object file. Algorithms have some tens of kilobytes; with a whole vmlinux.h, less than 1 MiB.
const MAX_MIB: u64 = 16;

/// The bytes of an object file, and their origin.
#[derive(Clone, Debug)]
pub struct Source {
    /// `builtin:NAME`, or the path.
    pub origin: String,
    bytes: Cow<'static, [u8]>,
    /// The selected table of operations, by the name of its congestion control or of its variable.
    table: Option<String>,
}

impl Source {
    /// Returns whether the text is a path: it contains a `/`, or ends in `.o` or `.o:TABLE`.
    #[must_use]
    pub fn is_path(name_or_path: &str) -> bool {
        name_or_path.contains('/') || name_or_path.ends_with(".o") || name_or_path.contains(".o:")
    }

    /// Returns the built-in algorithm of this name, also written `builtin:NAME`, or reads the file if the text is a path.
    /// `PATH:TABLE` selects one of the congestion controls in a file that has several.
    pub fn find(name_or_path: &str) -> Result<Self> {
        if Self::is_path(name_or_path) {
            return match name_or_path.rsplit_once(':') {
                Some((path, table)) if !Path::new(name_or_path).exists() => {
                    Ok(Self::file(Path::new(path))?.with_table(table.to_owned()))
                }
                _ => Self::file(Path::new(name_or_path)),
            };
        }
        let name = name_or_path.strip_prefix("builtin:").unwrap_or(name_or_path); // as `origin` is shown
        let found = hotcc_bpf::algo(name).ok_or_else(|| {
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

    /// Returns an embedded object.
    #[must_use]
    pub fn builtin(object: &hotcc_bpf::Object) -> Self {
        Self { origin: format!("builtin:{}", object.name), bytes: Cow::Borrowed(object.bytes), table: None }
    }

    fn file(path: &Path) -> Result<Self> {
        let bytes = read(path)?;
        let what = match bytes.get(18..20) {
            _ if !bytes.starts_with(b"\x7fELF") => Some("not an ELF file"),
            Some(machine) if machine != EM_BPF.to_le_bytes() => Some("an ELF file, but not a BPF object"),
            _ => None,
        };
        if let Some(what) = what {
            let advice = "compile one with `clang -target bpf -g -O2 -c`";
            return Err(Error::failed(format!("{} is {what}; {advice}", path.display())));
        }
        let origin = path.canonicalize().unwrap_or_else(|_| path.to_owned()).display().to_string();
        Ok(Self { origin, bytes: Cow::Owned(bytes), table: None })
    }

    fn with_table(self, table: String) -> Self {
        Self { origin: format!("{}:{table}", self.origin), table: Some(table), ..self }
    }

    /// Returns whether a version was loaded from this object and table.
    #[must_use]
    pub fn is_of(&self, meta: &Meta) -> bool {
        let of_table = |table: &String| text(&meta.object).ends_with(&format!(":{table}"));
        meta.sha256 == self.sha256() && self.table.as_ref().is_none_or(of_table)
    }

    /// Returns the object once for each of its congestion controls.
    pub fn tables(self) -> Result<Vec<Self>> {
        if self.table.is_some() {
            return Ok(vec![self]);
        }
        let names = cc_names(&mut self.parse_checked()?, &self.origin)?;
        Ok(if names.len() < 2 {
            vec![self]
        } else {
            names.into_iter().map(|name| self.clone().with_table(name)).collect()
        })
    }

    /// Returns the SHA-256 of the file.
    #[must_use]
    pub fn sha256(&self) -> [u8; 32] {
        Sha256::digest(&self.bytes).into()
    }

    /// Parses the object. Needs no privilege.
    pub fn open(&self) -> Result<Opened> {
        let object = self.parse_checked()?;
        self.opened(object)
    }

    fn parse_checked(&self) -> Result<OpenObject> {
        if self.is_foreign() {
            let in_child = || match self.parse() {
                Ok(object) => {
                    let _ = self.opened(object); // only a crash of libbpf matters here; other errors are reported later
                    Ok(())
                }
                Err(_) => Err(io::Error::last_os_error()), // libbpf has set errno
            };
            let (result, log) = rehearse(&self.origin, in_child)?;
            result.tried(|| self.cannot_parse()).map_err(|error| explained(error, &log))?;
        }
        let (object, log) = libbpf_log::capture(|| self.parse());
        object.tried(|| self.cannot_parse()).map_err(|error| explained(error, &log))
    }

    /// Returns whether the object came from a file.
    fn is_foreign(&self) -> bool {
        matches!(self.bytes, Cow::Owned(_))
    }

    fn parse(&self) -> libbpf_rs::Result<OpenObject> {
        // without a name, libbpf's messages contain a generated one
        ObjectBuilder::default().name(&self.origin)?.open_memory(&self.bytes)
    }

    fn opened(&self, object: OpenObject) -> Result<Opened> {
        Opened::new(object, &self.origin, self.table.as_deref(), self.is_foreign())
    }

    fn cannot_parse(&self) -> String {
        format!("cannot parse the BPF object {}", self.origin)
    }
}

fn explained(error: Error, log: &str) -> Error {
    match libbpf_log::cause(log) {
        "" => error,
        cause => error.and(cause),
    }
}

/// Reads a regular file. Opening does not block, so that a FIFO without a writer is rejected instead of waited for.
fn read(path: &Path) -> Result<Vec<u8>> {
    let tried = || format!("cannot read {}", path.display());
    let file = File::options().read(true).custom_flags(nix::libc::O_NONBLOCK).open(path).tried(tried)?;
    if !file.metadata().tried(tried)?.is_file() {
        return Err(Error::failed(format!("{}: it is not a regular file", tried())));
    }
    let mut bytes = Vec::new();
    file.take((MAX_MIB << 20) + 1).read_to_end(&mut bytes).tried(tried)?;
    if bytes.len() as u64 > MAX_MIB << 20 {
        return Err(Error::failed(format!("{}: it is larger than {MAX_MIB} MiB", tried())));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::error::Error;

    #[test]
    fn an_invalid_object_keeps_libbpfs_error_as_its_cause() {
        let source = Source { origin: "x.bpf.o".to_owned(), bytes: Cow::Borrowed(b"\x7fELF"), table: None };
        let error = source.open().unwrap_err();
        assert!(error.source().is_some_and(|cause| cause.is::<libbpf_rs::Error>()));
        let text = format!("{error:#}");
        assert!(text.starts_with("cannot parse the BPF object x.bpf.o: "), "{text}");
    }

    #[test]
    fn a_built_in_algorithm_is_found_by_its_origin() {
        let crest = Source::find("crest").unwrap();
        assert_eq!(Source::find(&crest.origin).unwrap().origin, "builtin:crest");
    }
}
