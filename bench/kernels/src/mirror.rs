//! The Debian mirror that this machine uses, and the keys that verify it: from the environment, or from apt's own
//! sources.

use super::error::{Error, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Environment variable that names the mirror; it overrides apt's configuration.
pub(super) const MIRROR: &str = "HOTCC_DEBIAN_MIRROR";

/// Files in which the package debian-archive-keyring installs the keys of all suites.
const KEYRINGS: [&str; 2] =
    ["/usr/share/keyrings/debian-archive-keyring.gpg", "/usr/share/keyrings/debian-archive-keyring.pgp"];

/// Suite names that only Debian's own archive uses.
const RELEASES: [&str; 10] =
    ["bullseye", "bookworm", "trixie", "forky", "duke", "sid", "oldstable", "stable", "testing", "unstable"];

/// An archive of Debian packages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirror {
    /// URI in apt's sense: the directory that contains `dists/`.
    pub uri: String,
    /// A keyring, or any other value that apt accepts as `Signed-By`. `None` accepts the keys that apt trusts for every
    /// source.
    pub signed_by: Option<String>,
}

impl Mirror {
    /// Returns the mirror named in the environment, else the one in apt's configuration.
    pub fn of_this_machine() -> Result<Self> {
        let named = std::env::var(MIRROR).ok().filter(|uri| !uri.trim().is_empty());
        let found = match named {
            Some(uri) => Some(Self { uri: uri.trim().to_owned(), signed_by: None }),
            None => choose(&configured()),
        };
        let mut mirror = found.ok_or(Error::NoMirror)?;
        if mirror.uri.contains(char::is_whitespace) {
            return Err(Error::NoMirror);
        }
        if mirror.signed_by.is_none() {
            mirror.signed_by = KEYRINGS.into_iter().find(|path| Path::new(path).exists()).map(str::to_owned);
        }
        Ok(mirror)
    }
}

/// An archive in apt's sources.
#[derive(Debug, Default, PartialEq, Eq)]
struct Source {
    uri: String,
    suites: Vec<String>,
    components: Vec<String>,
    signed_by: Option<String>,
}

impl Source {
    fn has_release(&self) -> bool {
        self.components.iter().any(|c| c == "main") && self.suites.iter().any(|s| RELEASES.contains(&s.as_str()))
    }

    fn has_updates(&self, uri: &str) -> bool {
        self.uri == uri && self.suites.iter().any(|s| s.ends_with("-updates") || s.ends_with("-backports"))
    }
}

/// Chooses Debian's own archive. Other vendors name their suites after Debian's as well, but their archives' URIs do
/// not end in `/debian`, and have no suites for updates or backports.
fn choose(sources: &[Source]) -> Option<Mirror> {
    let candidates = || sources.iter().filter(|source| source.has_release());
    let named = |source: &&Source| source.uri.trim_end_matches('/').ends_with("/debian");
    let updated = |source: &&Source| sources.iter().any(|other| other.has_updates(&source.uri));
    let chosen = candidates().find(named).or_else(|| candidates().find(updated))?;
    Some(Mirror { uri: chosen.uri.clone(), signed_by: chosen.signed_by.clone() })
}

/// Returns all sources of this machine. A file that cannot be read is skipped.
fn configured() -> Vec<Source> {
    let mut files = vec![place("Dir::Etc::sourcelist/f", "/etc/apt/sources.list")];
    if let Ok(entries) = fs::read_dir(place("Dir::Etc::sourceparts/d", "/etc/apt/sources.list.d")) {
        let mut parts: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        parts.sort();
        files.extend(parts);
    }
    let read = |path: &PathBuf| {
        let text = fs::read_to_string(path).ok()?;
        match path.extension()?.to_str()? {
            "list" => Some(one_line(&text)),
            "sources" => Some(deb822(&text)),
            _ => None,
        }
    };
    files.iter().filter_map(read).flatten().collect()
}

fn place(option: &str, default: &str) -> PathBuf {
    let output = Command::new("apt-config").args(["shell", "PLACE", option]).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let place = text.trim().strip_prefix("PLACE='").and_then(|rest| rest.strip_suffix('\''));
    place.unwrap_or(default).into()
}

/// Parses lines of the form `deb [option=value …] URI SUITE COMPONENT…`.
fn one_line(text: &str) -> Vec<Source> {
    let source = |line: &str| {
        let rest = line.split('#').next()?.trim().strip_prefix("deb")?;
        let rest = rest.strip_prefix(char::is_whitespace)?.trim_start();
        let (options, rest) = match rest.strip_prefix('[') {
            Some(inner) => inner.split_once(']')?,
            None => ("", rest),
        };
        let mut words = rest.split_whitespace().map(str::to_owned);
        let signed_by = options.split_whitespace().find_map(|option| option.strip_prefix("signed-by="));
        Some(Source {
            uri: words.next()?,
            suites: vec![words.next()?],
            components: words.collect(),
            signed_by: signed_by.map(|paths| paths.replace(',', " ")),
        })
    };
    text.lines().filter_map(source).collect()
}

/// Parses paragraphs of `Field: value`; a value may continue in indented lines, as keys do.
fn deb822(text: &str) -> Vec<Source> {
    let text: String =
        text.lines().filter(|line| !line.starts_with('#')).map(|line| format!("{}\n", line.trim_end())).collect();
    text.split("\n\n").flat_map(paragraph).collect()
}

fn paragraph(text: &str) -> Vec<Source> {
    let mut fields: Vec<(String, String)> = Vec::new();
    for line in text.lines() {
        match (line.starts_with([' ', '\t']), fields.last_mut(), line.split_once(':')) {
            (true, Some((_, value)), _) => value.extend(["\n", line]),
            (false, _, Some((name, value))) => fields.push((name.to_ascii_lowercase(), value.trim().to_owned())),
            _ => {}
        }
    }
    let field = |name: &str| fields.iter().find(|(field, _)| field == name).map(|(_, value)| value.as_str());
    let words = |name| field(name).unwrap_or_default().split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let disabled =
        ["no", "false", "off", "0"].contains(&field("enabled").unwrap_or("yes").to_ascii_lowercase().as_str());
    if disabled || !words("types").iter().any(|kind| kind == "deb") {
        return Vec::new();
    }
    let source = |uri| Source {
        uri,
        suites: words("suites"),
        components: words("components"),
        signed_by: field("signed-by").map(str::to_owned),
    };
    words("uris").into_iter().map(source).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uri(sources: &[Source]) -> Option<String> {
        choose(sources).map(|mirror| mirror.uri)
    }

    #[test]
    fn reads_one_line_sources() {
        let text = "# deb http://no.example/debian bookworm main\n\
                    deb-src http://no.example/debian bookworm main\n\
                    deb http://vendor.example bookworm main # another's\n\
                    deb [arch=amd64 signed-by=/a.gpg,/b.gpg trusted=yes] http://one.example/debian/ bookworm main contrib\n";
        let sources = one_line(text);
        assert_eq!(sources.len(), 2);
        let chosen = Mirror { uri: "http://one.example/debian/".into(), signed_by: Some("/a.gpg /b.gpg".into()) };
        assert_eq!(choose(&sources), Some(chosen));
    }

    #[test]
    fn reads_paragraphs() {
        let text = "Types: deb\nURIs: http://off.example/debian\nSuites: sid\nComponents: main\nEnabled: no\n\n\
                    # the mirror\nTypes: deb deb-src\nURIs: mirror+file:///mirrors.list\n# between\n\
                    Suites: trixie trixie-updates\nComponents: main\nSigned-By:\n -----BEGIN\n .\n abc\n";
        let sources = deb822(text);
        assert_eq!(sources.len(), 1);
        let chosen = choose(&sources).unwrap();
        assert_eq!(chosen.uri, "mirror+file:///mirrors.list");
        assert_eq!(chosen.signed_by.unwrap(), "\n -----BEGIN\n .\n abc");
    }

    #[test]
    fn passes_over_what_is_not_debian() {
        let vendors = "deb http://one.example/linux/debian bookworm stable\ndeb http://two.example bookworm main\n\
                       deb http://three.example/ubuntu noble main\ndeb http://four.example/security bookworm-security main";
        assert_eq!(uri(&one_line(vendors)), None);
        assert_eq!(uri(&[]), None);
        assert_eq!(uri(&deb822("nonsense\n\n: \n\nTypes: deb\n")), None);
    }
}
