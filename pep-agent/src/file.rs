//! Options from a TOML file: the command line's options by the same names, with `_` for `-`.

use clap::{Args, Command};
use hotcc_host::error::{Kind, Result, Tried};
use hotcc_host::nearest::expected;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::path::Path;
use toml::{Spanned, Value};

/// Reads options from a TOML file.
///
/// # Errors
/// The file cannot be read, is not valid TOML, or has an unknown key or an invalid value.
pub fn read_options<T: Args + DeserializeOwned>(path: &Path) -> Result<T> {
    let text = std::fs::read_to_string(path).tried(|| format!("cannot read {}", path.display()))?;
    parse(&text).tried(|| format!("invalid configuration file {}", path.display()))
}

/// Adds the file's name to the error of `resolved`: contradictory options, or a value out of range, are a usage error
/// only if no file can have caused them.
///
/// # Errors
/// The error of `resolved`.
pub fn with_file_name<T>(resolved: Result<T>, file: Option<&Path>) -> Result<T> {
    resolved.map_err(|error| match file {
        Some(file) => error.during(&format!("invalid options, with those of {}", file.display())).as_kind(Kind::Failed),
        None => error,
    })
}

/// What is wrong with the file's text.
#[derive(Debug, thiserror::Error)]
enum Invalid {
    #[error("line {line}: unknown key `{key}`: {hint}")]
    Key { line: usize, key: String, hint: String },
    #[error("{0}")]
    Toml(#[from] toml::de::Error),
}

fn parse<T: Args + DeserializeOwned>(text: &str) -> std::result::Result<T, Invalid> {
    let keys: BTreeMap<Spanned<String>, Value> = toml::from_str(text)?;
    let command = T::augment_args(Command::new(""));
    let valid: Vec<&str> = command.get_arguments().map(|argument| argument.get_id().as_str()).collect();
    if let Some(key) = keys.keys().find(|key| !valid.contains(&key.get_ref().as_str())) {
        let line = text[..key.span().start].matches('\n').count() + 1;
        let key = key.get_ref().clone();
        let hint = expected(&key, valid.iter().copied());
        return Err(Invalid::Key { line, key, hint });
    }
    Ok(toml::from_str(text)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotcc_host::error::Error;
    use pep_agent::border::config::BorderArgs;
    use pep_agent::server::config::ServerArgs;
    use std::error::Error as StdError;

    fn refused<T: Args + DeserializeOwned>(text: &str) -> Error {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        match read_options::<T>(file.path()) {
            Err(error) if error.kind() == Kind::Failed => error,
            Err(error) => panic!("{error:#}: usage errors are of the command line"),
            Ok(_) => panic!("{text} is accepted"),
        }
    }

    /// Returns the error for a file with this text, without the file's name.
    fn says<T: Args + DeserializeOwned>(text: &str) -> String {
        let error = refused::<T>(text);
        format!("{error:#}").strip_prefix(&format!("{error}: ")).unwrap().to_owned()
    }

    #[test]
    fn a_refusal_keeps_the_parsers_error_as_its_cause() {
        let error = refused::<BorderArgs>("nat = 1");
        let cause = error.source().and_then(StdError::source).unwrap();
        assert!(cause.is::<toml::de::Error>());
        assert_eq!(format!("{error:#}"), format!("{error}: {}", cause.to_string().trim_end()));
    }

    #[test]
    fn an_unknown_key_names_the_nearest_right_one() {
        let error = says::<BorderArgs>("nat = true\n\nsegmets = 4\n");
        assert!(
            error.starts_with("line 3: unknown key `segmets`: did you mean `segments`? expected one of internet,"),
            "{error}"
        );
        let error = says::<ServerArgs>("max-age-ms = 4");
        assert!(error.starts_with("line 1: unknown key `max-age-ms`: did you mean `max_age_ms`?"), "{error}");
        let error = says::<ServerArgs>("zzz = 4");
        assert!(error.starts_with("line 1: unknown key `zzz`: expected one of receive, key_file,"), "{error}");
    }

    #[test]
    fn an_invalid_value_names_its_line() {
        for (text, part) in
            [("nat = 1", "nat = 1"), ("transport = 'tcp'", "one of `udp`, `inband`"), ("port 1", "port 1")]
        {
            let error = says::<BorderArgs>(text);
            assert!(error.contains("line 1") && error.contains(part), "{error}");
        }
    }

    #[test]
    fn every_option_can_be_in_a_file() {
        let text = "internet = ['a']\naccess = ['b']\nserver = ['::/0']\ntransport = 'udp'\nport = 1\nkey_file = 'k'\n\
                    listen = '127.0.0.1:1'\nsegments = 4\ndelay_us = 250\nflows = 128\nring_kib = 64\nnat = true\nattach = 'tcx'";
        assert!(parse::<BorderArgs>(text).is_ok_and(|args| args.resolve().is_ok()));
    }
}
