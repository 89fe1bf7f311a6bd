//! A private apt: it shares only this machine's proxies, credentials and keys, and needs no root.
//!
//! Apt verifies the signature of the release file, the index by the release file's checksums, and each package by the
//! index's checksums.

use super::error::{Error, OnFile, Result};
use super::mirror::Mirror;
use super::package::{self, Package};
use super::program::Program;
use super::selector::{Architecture, Suite};
use std::fs;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::time::Duration;

const HELPER: &str = "/usr/lib/apt/apt-helper";
const POLL: Duration = Duration::from_millis(100);

/// Messages which show that apt rejected an index, as opposed to not reaching it.
const DISTRUST: [&str; 9] = [
    "NO_PUBKEY",
    "BADSIG",
    "EXPKEYSIG",
    "REVKEYSIG",
    "is not signed",
    "invalid signature",
    "signatures couldn't be verified",
    "Hash Sum mismatch",
    "is not valid yet",
];

/// Apt with its own state, for one suite and architecture on one mirror.
#[derive(Debug)]
pub(super) struct Apt {
    suite: Suite,
    configuration: PathBuf,
}

impl Apt {
    /// Uses `directory` for its state; an existing state is used again.
    pub(super) fn new(directory: &Path, mirror: &Mirror, suite: Suite, architecture: Architecture) -> Result<Self> {
        let plain = directory.to_str().filter(|path| !path.contains(['"', '\\', '\n']));
        let Some(plain) = plain else {
            let tried = format!("cannot use apt in {directory:?}");
            return Err(Error::Io {
                tried,
                source: std::io::Error::other(
                    "its path has a quote, a backslash or a line break, which apt cannot parse",
                ),
            });
        };
        for sub in ["lists/partial", "archives/partial"] {
            fs::create_dir_all(directory.join(sub)).on_file("cannot create", &directory.join(sub))?;
        }
        let write = |name: &str, text: String| {
            let path = directory.join(name);
            fs::write(&path, text).on_file("cannot write", &path)?;
            Ok(path)
        };
        write("debian.sources", sources(mirror, suite, architecture))?;
        Ok(Self { suite, configuration: write("apt.conf", configuration(plain, architecture))? })
    }

    fn apt_get(&self) -> Program {
        Program::new("apt-get", "apt").args(["-c".as_ref(), self.configuration.as_os_str()]).args(["-qq"])
    }

    /// Fetches the index, unless the stored one is still current, and verifies it.
    pub(super) fn update(&self) -> Result<()> {
        self.refused(self.apt_get().args(["update"]).start()?.finish())
    }

    /// Returns the kernels in the last fetched index, newest first.
    pub(super) fn kernels(&self) -> Result<Vec<Package>> {
        let files = self.apt_get().args(["indextargets", "--format", "$(FILENAME)", "Created-By: Packages"]).run()?;
        let Some(file) = files.lines().next() else {
            return Err(Error::Index(format!("apt stored no index of {}", self.suite)));
        };
        // apt stores the index compressed
        let mut reader = Program::new(HELPER, "apt").args(["cat-file", file]).start()?;
        let kernels = match reader.child.stdout.take() {
            Some(text) => package::parse(BufReader::new(text), self.suite),
            None => Ok(Vec::new()),
        };
        let ended = reader.finish();
        kernels.and_then(|kernels| ended.map(|_| kernels))
    }

    /// Downloads the packages of a kernel into `directory`, and verifies them; calls `progress` with the number of
    /// bytes so far.
    pub(super) fn download(&self, package: &Package, directory: &Path, progress: &mut dyn FnMut(u64)) -> Result<()> {
        let names = package.debs.iter().map(|deb| format!("{}={}", deb.package, package.version));
        let mut apt = self.apt_get().args(["download"]).args(names).directory(directory).start()?;
        while apt.is_busy() {
            progress(bytes_in(directory));
            std::thread::sleep(POLL);
        }
        progress(bytes_in(directory));
        self.refused(apt.finish())
    }

    fn refused(&self, result: Result<String>) -> Result<()> {
        result.map(drop).map_err(|error| match error {
            Error::Program { why, .. } => refusal(self.suite, &why),
            other => other,
        })
    }
}

/// Classifies apt's messages.
fn refusal(suite: Suite, said: &str) -> Error {
    let error = |line| str::strip_prefix(line, "E: ").or_else(|| str::strip_prefix(line, "W: "));
    // that other files could not be downloaded follows from the first error
    let errors: Vec<_> = said.lines().filter_map(error).filter(|line| !line.starts_with("Some index files")).collect();
    let why = if errors.is_empty() { said.lines().collect::<Vec<_>>().join("; ") } else { errors.join("; ") };
    if DISTRUST.iter().any(|sign| said.contains(sign)) {
        Error::Untrusted { suite, why }
    } else {
        Error::Unreachable { suite, why }
    }
}

fn bytes_in(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.metadata().ok()).map(|metadata| metadata.len()).sum()
}

fn sources(mirror: &Mirror, suite: Suite, architecture: Architecture) -> String {
    let architecture = architecture.name();
    let Mirror { uri, signed_by } = mirror;
    let signed_by = signed_by.as_ref().map(|keys| format!("Signed-By: {keys}\n")).unwrap_or_default();
    format!(
        "Types: deb\nURIs: {uri}\nSuites: {suite}\nComponents: main\nArchitectures: {architecture}\nTargets: Packages\n\
         PDiffs: no\n{signed_by}"
    )
}

/// Returns a configuration that apt reads after this machine's own. It replaces every setting that would reach outside
/// `directory` or run hooks. As root, apt would change to its own user, which may not enter root's cache:
/// `Sandbox::User` prevents that.
fn configuration(directory: &str, architecture: Architecture) -> String {
    let architecture = architecture.name();
    format!(
        r##"#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear APT::Architectures;
#clear Acquire::Languages;
APT::Architecture "{architecture}";
APT::Architectures {{ "{architecture}"; }};
APT::Default-Release "";
APT::Sandbox::User "root";
APT::Update::Error-Mode "any";
APT::Get::AllowUnauthenticated "false";
Acquire::AllowInsecureRepositories "false";
Acquire::AllowWeakRepositories "false";
Acquire::AllowDowngradeToInsecureRepositories "false";
Acquire::Languages {{ "none"; }};
Acquire::GzipIndexes "true";
Acquire::Retries "1";
Acquire::http::Timeout "10";
Acquire::https::Timeout "10";
Dir::State "{directory}/";
Dir::State::lists "lists/";
Dir::State::status "/dev/null";
Dir::Cache "{directory}/";
Dir::Cache::archives "archives/";
Dir::Cache::pkgcache "";
Dir::Cache::srcpkgcache "";
Dir::Etc::sourcelist "{directory}/debian.sources";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
"##
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_distrust_from_distance() {
        let refused = "W: GPG error: x InRelease: The following signatures couldn't be verified: NO_PUBKEY 6ED0";
        assert!(matches!(refusal(Suite::Trixie, refused), Error::Untrusted { .. }));
        assert!(!refusal(Suite::Trixie, refused).is_offline());
        let away = "E: Failed to fetch x/InRelease  Temporary failure resolving 'x'";
        assert!(refusal(Suite::Trixie, away).is_offline());
        let altered = "E: Failed to fetch x/Packages.xz  Hash Sum mismatch\n   Hashes of expected file:\n   - SHA256:c5\nE: Failed";
        let error = refusal(Suite::Trixie, altered);
        assert!(!error.is_offline());
        assert!(!error.to_string().contains("expected file"), "{error}");
    }

    #[test]
    fn names_keys_only_where_they_are_known() {
        let mut mirror = Mirror { uri: "http://one.example/debian".into(), signed_by: None };
        assert!(!sources(&mirror, Suite::Sid, Architecture::Arm64).contains("Signed-By"));
        mirror.signed_by = Some("\n -----BEGIN\n .".into());
        assert!(sources(&mirror, Suite::Sid, Architecture::Arm64).ends_with("Signed-By: \n -----BEGIN\n .\n"));
    }
}
