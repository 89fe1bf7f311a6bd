//! Parses and formats tunable values: numbers within their range, choices by name.

use super::{Setting, Tunable};
use hotcc_host::error::{Error, Result};
use hotcc_host::nearest;

/// Returns the tunables' values in a profile. Every object has the profile `default`: the values it was built with,
/// even if it declares none. `paper` exists only if the object declares values for it.
pub fn profile(tunables: &[Tunable], name: &str) -> Result<Vec<Setting>> {
    let value_in: fn(&Tunable) -> Option<i128> = match name {
        "default" => |t| t.default,
        "paper" if tunables.iter().any(|t| t.paper.is_some()) => |t| t.paper,
        "paper" => return Err(Error::usage("no profile `paper` in this object; available: default")),
        _ => return Err(Error::usage(format!("no profile `{name}`{}", nearest::hint(name, &["default", "paper"])))),
    };
    Ok(tunables.iter().filter_map(|t| value_in(t).map(|value| Setting { tunable: t.clone(), value })).collect())
}

/// Parses one `name=value` assignment.
pub fn parse(tunables: &[Tunable], text: &str) -> Result<Setting> {
    let (name, value) = text
        .split_once('=')
        .ok_or_else(|| Error::usage(format!("invalid assignment `{text}`: expected TUNABLE=VALUE")))?;
    let (name, value) = (name.trim(), value.trim());
    let tunable = tunables.iter().find(|t| t.name == name);
    let tunable =
        tunable.ok_or_else(|| unknown(name, tunables.iter().map(|t| (&*t.name, t.former_name.as_deref()))))?;
    let value = parse_value(tunable, value)?;
    Ok(Setting { tunable: tunable.clone(), value })
}

/// Returns the values of `old` that carry over to `tunables`, which are of another object: the unit must be the same, the name
/// the same or the former one, and the value within the new range. Choices carry over by name.
#[must_use]
pub fn carried_over(old: &[Setting], tunables: &[Tunable]) -> Vec<Setting> {
    let carried = tunables.iter().filter_map(|tunable| {
        let same = |o: &&Setting| tunable.is_successor_of(&o.tunable) && o.tunable.unit == tunable.unit;
        let Setting { tunable: before, value } = old.iter().find(same)?;
        let value = match (before.choices.is_empty(), tunable.choices.is_empty()) {
            (true, true) => *value,
            (false, false) => tunable.choices.iter().position(|c| *c == format_value(before, *value))? as i128,
            _ => return None,
        };
        (tunable.min..=tunable.max).contains(&value).then(|| Setting { tunable: tunable.clone(), value })
    });
    carried.collect()
}

/// Returns the values to set; later ones take precedence: those of the profile, then those `kept` from another version,
/// then the assignments in `set`.
pub(crate) fn settings(tunables: &[Tunable], name: &str, kept: &[Setting], set: &[String]) -> Result<Vec<Setting>> {
    let mut settings = profile(tunables, name)?;
    settings.extend(carried_over(kept, tunables));
    for text in set {
        settings.push(parse(tunables, text)?);
    }
    Ok(settings)
}

/// Returns the error for an unknown tunable: with its present name, if `name` is a former one, or else with the nearest
/// known name and the list of all. `known` are names, each with its former one.
pub fn unknown<'a>(name: &str, known: impl Iterator<Item = (&'a str, Option<&'a str>)>) -> Error {
    let known: Vec<_> = known.collect();
    if let Some((now, _)) = known.iter().find(|(_, former_name)| *former_name == Some(name)) {
        return Error::usage(format!("tunable `{name}` is now `{now}`"));
    }
    let known: Vec<&str> = known.into_iter().map(|(now, _)| now).collect();
    Error::usage(format!("no tunable `{name}`{}", nearest::hint(name, &known)))
}

fn parse_value(tunable: &Tunable, text: &str) -> Result<i128> {
    let Tunable { name, min, max, unit, choices, .. } = tunable;
    if !choices.is_empty() {
        let index = choices.iter().position(|c| c == text);
        let invalid = || {
            let known: Vec<&str> = choices.iter().map(String::as_str).collect();
            Error::usage(format!("invalid value `{text}` for {name}{}", nearest::hint(text, &known)))
        };
        return index.map(|index| index as i128).ok_or_else(invalid);
    }
    let number = match text.strip_prefix("0x") {
        Some(hex) => i128::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    };
    match number {
        Some(n) if (*min..=*max).contains(&n) => Ok(n),
        _ => {
            let what = number.map_or("expected a whole number in", |_| "out of range");
            let message = format!("invalid value `{text}` for {name}: {what} {min}..{max} {unit}");
            Err(Error::usage(message.trim_end()))
        }
    }
}

/// Formats a value; a choice by its name.
#[must_use]
pub fn format_value(tunable: &Tunable, value: i128) -> String {
    let choice = usize::try_from(value).ok().and_then(|i| tunable.choices.get(i));
    choice.map_or_else(|| value.to_string(), Clone::clone)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tunables::{Place, Section};

    fn tunable(name: &str, unit: &str, min: i128, max: i128, choices: &[&str]) -> Tunable {
        Tunable {
            name: name.to_owned(),
            former_name: None,
            unit: unit.to_owned(),
            min,
            max,
            default: Some(min),
            paper: None,
            choices: choices.iter().map(|&c| c.to_owned()).collect(),
            help: String::new(),
            warning: None,
            section: Section::Data,
            place: Place { offset: 0, size: 4, signed: false },
        }
    }

    #[test]
    fn an_unknown_name_or_value_suggests_the_nearest() {
        let queue = Tunable { former_name: Some("q".to_owned()), ..tunable("queue", "", 0, 1, &["bandwidth", "rtt"]) };
        let tunables = [tunable("alpha_permille", "", 0, 1000, &[]), queue];
        for (text, message) in [
            ("alpha=3", "no tunable `alpha`; did you mean `alpha_permille`? Available: alpha_permille, queue"),
            ("zzz=3", "no tunable `zzz`; available: alpha_permille, queue"),
            ("queue=rt", "invalid value `rt` for queue; did you mean `rtt`? Available: bandwidth, rtt"),
            ("queue=1", "invalid value `1` for queue; available: bandwidth, rtt"),
            ("alpha_permille=1001", "invalid value `1001` for alpha_permille: out of range 0..1000"),
            ("alpha_permille=x", "invalid value `x` for alpha_permille: expected a whole number in 0..1000"),
            ("queue", "invalid assignment `queue`: expected TUNABLE=VALUE"),
            ("q=rtt", "tunable `q` is now `queue`"),
        ] {
            assert_eq!(parse(&tunables, text).unwrap_err().to_string(), message);
        }
        let message = profile(&tunables, "papper").unwrap_err().to_string();
        assert_eq!(message, "no profile `papper`; did you mean `paper`? Available: default, paper");
        assert!(profile(&tunables, "paper").is_err(), "no tunable has a value for it");
    }

    #[test]
    fn values_that_both_objects_have_are_carried_over() {
        let old = [
            (tunable("same", "us", 0, 100, &[]), 70),
            (tunable("narrower", "", 0, 100, &[]), 70),
            (tunable("unit", "us", 0, 100, &[]), 70),
            (tunable("gone", "", 0, 100, &[]), 70),
            (tunable("choice", "", 0, 1, &["a", "b"]), 1),
            (tunable("other_choice", "", 0, 1, &["a", "b"]), 1),
            (tunable("kind", "", 0, 1, &["a", "b"]), 1),
            (tunable("k", "", 0, 100, &[]), 70),
        ]
        .map(|(tunable, value)| Setting { tunable, value });
        let new = [
            tunable("same", "us", 50, 70, &[]),
            tunable("narrower", "", 0, 69, &[]),
            tunable("unit", "ms", 0, 100, &[]),
            tunable("new", "", 0, 100, &[]),
            tunable("choice", "", 0, 2, &["z", "a", "b"]),
            tunable("other_choice", "", 0, 1, &["a", "c"]),
            tunable("kind", "", 0, 100, &[]),
            Tunable { former_name: Some("k".to_owned()), ..tunable("renamed", "", 0, 100, &[]) },
        ];
        let carried: Vec<_> = carried_over(&old, &new).into_iter().map(|s| (s.tunable.name, s.value)).collect();
        assert_eq!(
            carried,
            [("same", 70), ("choice", 2), ("renamed", 70)].map(|(name, value)| (name.to_owned(), value))
        );
    }
}
