//! The TOML form of the file, for reading and for writing.

use crate::policy::RuleTable;
use crate::rx::Method;
use hotcc_host::error::{Error, Result, Tried};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::de::DeTable;
use toml::{Spanned, Value};

/// Tables that users may expect in the file, and why the file does not have them.
const REFUSED: [(&str, &str); 1] =
    [("paths", "a watch is a process, which cannot be declared; run `hotcc paths watch` as a service")];

/// The whole file.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Document {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) algorithm: Vec<AlgorithmTable>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) default: Vec<DefaultTable>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) policy: Vec<RuleTable>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) receiver: Vec<ReceiverTable>,
}

/// Tunables and their values.
pub(super) type Tunables = BTreeMap<Spanned<String>, Spanned<Value>>;

/// An algorithm that is loaded.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AlgorithmTable {
    pub(super) object: Spanned<String>,
    pub(super) name: Option<Spanned<String>>,
    pub(super) profile: Option<Spanned<String>>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) tunables: Tunables,
}

/// The default of a network namespace.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DefaultTable {
    pub(super) congestion_control: Spanned<String>,
    pub(super) netns: Option<Spanned<String>>,
}

/// A receiver that is loaded.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReceiverTable {
    pub(super) method: Spanned<Method>,
    pub(super) cgroup: Option<Spanned<PathBuf>>,
    pub(super) profile: Option<Spanned<String>>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) tunables: Tunables,
}

/// A file's text, kept to find the line numbers for error messages.
pub(super) struct Text<'a> {
    pub(super) file: &'a Path,
    text: String,
}

impl<'a> Text<'a> {
    pub(super) fn read(file: &'a Path) -> Result<Self> {
        let text = std::fs::read_to_string(file).tried(|| format!("cannot read {}", file.display()))?;
        Ok(Self { file, text })
    }

    pub(super) fn parse(&self) -> Result<Document> {
        let invalid = |e: toml::de::Error| {
            let message = e.message().replace("unknown field", "unknown key");
            self.error_at(&e.span().unwrap_or_default(), message.trim_end())
        };
        let table = DeTable::parse(&self.text).map_err(invalid)?;
        for (key, _) in table.get_ref() {
            if let Some((name, why)) = REFUSED.iter().find(|(name, _)| key.get_ref() == name) {
                return Err(self.error_at(&key.span(), &format!("unknown key `{name}`: {why}")));
            }
        }
        toml::from_str(&self.text).map_err(invalid)
    }

    /// Returns `FILE:LINE` of the start of `span`.
    pub(super) fn place(&self, span: &Range<usize>) -> String {
        let before = self.text.get(..span.start).unwrap_or(&self.text);
        format!("{}:{}", self.file.display(), 1 + before.matches('\n').count())
    }

    fn error_at(&self, span: &Range<usize>, what: &str) -> Error {
        Error::failed(format!("{}: {what}", self.place(span)))
    }
}

/// Wraps a value for writing; it has no position in a file yet.
pub(super) fn written<T>(value: T) -> Spanned<T> {
    Spanned::new(0..0, value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(text: &str) -> String {
        let text = Text { file: Path::new("f.toml"), text: text.to_owned() };
        format!("{:#}", text.parse().unwrap_err())
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (text, message) in [
            ("[[algorithm]]\nobject = \"dtcp\"\n\ncolour = 1\n", "f.toml:4: unknown key `colour`, expected one of"),
            ("[[algorithm]]\nname = \"x\"\n", "f.toml:1: missing field `object`"),
            ("[[algorithms]]\nobject = \"dtcp\"\n", "f.toml:1: unknown key `algorithms`, expected one of `algorithm`"),
            ("[[algorithm]]\nobject = 3\n", "f.toml:2: invalid type: integer `3`, expected a string"),
            ("[[receiver]]\nmethod = \"rwa\"\n", "f.toml:2: unknown variant `rwa`, expected `arwa` or `drwa`"),
            ("\n[[algorithm]\n", "f.toml:2: "),
            ("\n[[policy]]\nport = 80\n", "f.toml:2: missing field `congestion_control`"),
            (
                "[[policy]]\ncongestion_control = \"dtcp\"\nhost = \"x\"\n",
                "f.toml:3: unknown key `host`, expected one of",
            ),
            ("[paths]\nnetns = \"edge\"\n", "f.toml:1: unknown key `paths`: a watch is a process"),
        ] {
            let said = says(text);
            assert!(said.starts_with(message), "{text} says: {said}");
        }
    }
}
