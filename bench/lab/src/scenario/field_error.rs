//! Errors in a scenario with their positions, and checks of single values.

use hotcc_host::nearest::expected;
use std::collections::BTreeSet;
use std::ops::Range;
use toml::Spanned;

/// An invalid value, with its place in the file in bytes.
#[derive(Debug)]
pub(super) struct FieldError {
    pub span: Range<usize>,
    pub what: String,
}

/// The result of a check of one or more fields.
pub(super) type CheckResult = Result<(), FieldError>;

/// Returns an error about `value`.
pub(super) fn invalid<T>(value: &Spanned<T>, what: impl Into<String>) -> CheckResult {
    Err(FieldError { span: value.span(), what: what.into() })
}

pub(super) fn within(value: &Spanned<f64>, key: &str, from: f64, to: f64) -> CheckResult {
    let number = *value.get_ref();
    if number.is_finite() && (from..=to).contains(&number) {
        return Ok(());
    }
    invalid(value, format!("invalid {key} `{number}`: expected {from} to {to}"))
}

pub(super) fn within_whole<T: Copy + PartialOrd + std::fmt::Display>(
    value: &Spanned<T>,
    key: &str,
    from: T,
    to: T,
) -> CheckResult {
    if (from..=to).contains(value.get_ref()) {
        return Ok(());
    }
    invalid(value, format!("invalid {key} `{}`: expected {from} to {to}", value.get_ref()))
}

/// Checks that a name is in a list. The error includes the list.
pub(super) fn known<'a>(name: &Spanned<String>, what: &str, list: impl Iterator<Item = &'a str>) -> CheckResult {
    known_at(name, name.get_ref(), what, list)
}

/// Checks that a name which is a part of `value` is in a list.
pub(super) fn known_at<'a, T>(
    value: &Spanned<T>,
    name: &str,
    what: &str,
    list: impl Iterator<Item = &'a str>,
) -> CheckResult {
    let list: Vec<&str> = list.collect();
    if list.contains(&name) {
        return Ok(());
    }
    invalid(value, format!("unknown {what} `{name}`: {}", expected(name, list)))
}

pub(super) fn unique<'a>(names: impl Iterator<Item = &'a Spanned<String>>, what: &str) -> CheckResult {
    let mut seen = BTreeSet::new();
    for name in names {
        let text = name.get_ref();
        let plain = text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_');
        if !plain || text.is_empty() || text.len() > 15 {
            return invalid(
                name,
                format!("invalid {what} name `{text}`: expected 1 to 15 characters of a-z, 0-9, - and _"),
            );
        }
        if !seen.insert(text) {
            return invalid(name, format!("duplicate {what} name `{text}`"));
        }
    }
    Ok(())
}
