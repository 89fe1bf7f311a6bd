//! The configuration file of `run`: its options, as TOML. They are parsed as if they stood on the command line, before
//! the options given there.

use crate::cli::{Cli, Command};
use clap::{CommandFactory, Parser};
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Parses the command line, together with its configuration file. Ends the process if the command line is invalid.
///
/// # Errors
/// The file is invalid; the error has its name and line.
pub fn parse(args: Vec<OsString>) -> Result<Cli, String> {
    let cli = Cli::parse_from(&args);
    let Command::Run(run) = &cli.command else { return Ok(cli) };
    let Some(file) = &run.config else { return Ok(cli) };
    let text = fs::read_to_string(file).map_err(|e| format!("cannot read {}: {e}", file.display()))?;
    let options = options(&text, file)?;
    let at = args.iter().position(|arg| arg == "run").map_or(args.len(), |run| run + 1);
    let (before, after) = args.split_at(at);
    // the command line alone is valid, so the error comes from the file
    Cli::try_parse_from([before, &options, after].concat()).map_err(|e| format!("{}: {e}", file.display()))
}

fn options(text: &str, file: &Path) -> Result<Vec<OsString>, String> {
    let error_at = |offset: usize, what: &str| {
        let line = 1 + text[..offset.min(text.len())].matches('\n').count();
        format!("{}:{line}: {what}", file.display())
    };
    let table = DeTable::parse(text)
        .map_err(|e| error_at(e.span().map_or(0, |span| span.start), &format!("invalid TOML: {}", e.message())))?;
    let mut options = Vec::new();
    for (key, value) in table.get_ref() {
        for option in of_key(key.get_ref(), value).map_err(|what| error_at(value.span().start, &what))? {
            if let Some(what) = problem_with(&option) {
                return Err(error_at(key.span().start, &what));
            }
            options.push(option.into());
        }
    }
    Ok(options)
}

/// Converts a key to options: a list to one option for each value, a table (of UEs) to one for each key.
fn of_key(key: &str, value: &Spanned<DeValue<'_>>) -> Result<Vec<String>, String> {
    if key == "config" {
        return Err("`config` is not allowed here: a configuration file cannot name another one".to_owned());
    }
    if key.contains('-') {
        return Err(format!(
            "unknown key `{key}`: did you mean `{}`? (keys use `_` instead of `-`)",
            key.replace('-', "_")
        ));
    }
    let name = key.replace('_', "-");
    let simple = |value: &DeValue<'_>| match value {
        DeValue::String(text) => Ok(text.to_string()),
        DeValue::Integer(number) => Ok(number.as_str().to_owned()),
        DeValue::Float(number) => Ok(number.as_str().to_owned()),
        _ => Err(format!(
            "invalid value for `{key}`: expected a string, a number, true or false, or a list of strings or numbers"
        )),
    };
    let option = |value: &DeValue<'_>| simple(value).map(|text| format!("--{name}={text}"));
    match value.get_ref() {
        DeValue::Boolean(true) => Ok(vec![format!("--{name}")]),
        DeValue::Boolean(false) => Ok(Vec::new()),
        DeValue::Array(values) => values.iter().map(|v| option(v.get_ref())).collect(),
        DeValue::Table(table) => {
            let pair = |(key, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
                simple(value.get_ref()).map(|text| format!("--{name}={}={text}", key.get_ref()))
            };
            table.iter().map(pair).collect()
        }
        single => option(single).map(|option| vec![option]),
    }
}

/// Returns what is wrong with a single option, if anything is. Whether all options fit together is checked later.
fn problem_with(option: &str) -> Option<String> {
    use clap::error::ErrorKind::{ArgumentConflict, MissingRequiredArgument, UnknownArgument};
    use clap::error::{ContextKind, ContextValue};
    let error = Cli::command().try_get_matches_from(["sinr-feeder", "run", option]).err()?;
    if matches!(error.kind(), MissingRequiredArgument | ArgumentConflict) {
        return None;
    }
    if error.kind() == UnknownArgument {
        let key = |option: &str| option.trim_start_matches('-').replace('-', "_");
        let unknown = key(option.split('=').next().unwrap_or_default());
        return Some(match error.get(ContextKind::SuggestedArg) {
            Some(ContextValue::String(meant)) => format!("unknown key `{unknown}`: did you mean `{}`?", key(meant)),
            _ => format!("unknown key `{unknown}`: the options of `sinr-feeder run` are the keys"),
        });
    }
    let text = error.to_string();
    let first = text.lines().next().unwrap_or_default();
    Some(first.trim_start_matches("error: ").to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<OsString>, String> {
        options(text, Path::new("f.toml"))
    }

    #[test]
    fn keys_are_options() {
        let text = "source = [\"mm\", \"at:/dev/ttyUSB2\"]\nloop = true\nquiet = false\nhold_over = 1.5\n\
                    max_age_ms = 700\n[ue]\ncar-7 = \"10.0.0.7\"\n";
        let mut options = read(text).unwrap();
        options.sort();
        let expected = [
            "--hold-over=1.5",
            "--loop",
            "--max-age-ms=700",
            "--source=at:/dev/ttyUSB2",
            "--source=mm",
            "--ue=car-7=10.0.0.7",
        ];
        assert_eq!(options, expected.map(OsString::from));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (text, says) in [
            ("loop = true\nspeed = 'fast'\n", "f.toml:2: invalid value 'fast' for '--speed <SPEED>'"),
            ("\n\nsped = 1\n", "f.toml:3: unknown key `sped`: did you mean `speed`?"),
            ("loop = yes\n", "f.toml:1: invalid TOML"),
            ("link = '10.0.0.1/8'\n", "did you mean 10.0.0.0/8?"),
            ("[ue]\na = '10.0.0.300'\n", "f.toml:"),
            ("hold-over = 2\n", "f.toml:1: unknown key `hold-over`: did you mean `hold_over`? (keys use `_`"),
            ("config = 'x'\n", "cannot name another"),
            ("link = [[1]]\n", "invalid value for `link`: expected a string"),
            ("zzz = 1\n", "f.toml:1: unknown key `zzz`: the options"),
        ] {
            let error = read(text).expect_err(text);
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
