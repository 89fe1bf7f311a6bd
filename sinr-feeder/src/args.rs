//! Parses the arguments that follow the kind of a source or publisher.

use hotcc_host::nearest::expected;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// The arguments after a kind: `MAIN,KEY=VALUE,FLAG`.
#[derive(Debug)]
pub(crate) struct Args<'a> {
    main: &'a str,
    options: BTreeMap<&'a str, &'a str>,
    /// The options that the kind has looked up; an error lists them as valid.
    known: Vec<&'static str>,
}

impl<'a> Args<'a> {
    pub(crate) fn parse(text: &'a str) -> Result<Self, String> {
        let (main, rest) = text.split_once(',').unwrap_or((text, ""));
        let mut options = BTreeMap::new();
        for option in rest.split(',').filter(|o| !o.is_empty()) {
            let (key, value) = option.split_once('=').unwrap_or((option, ""));
            if options.insert(key, value).is_some() {
                return Err(format!("option `{key}` is given twice"));
            }
        }
        Ok(Self { main, options, known: Vec::new() })
    }

    /// Returns the first argument, which is required; `what` names it in the error.
    pub(crate) fn main(&self, what: &str) -> Result<&'a str, String> {
        if self.main.is_empty() { Err(format!("{what} is missing")) } else { Ok(self.main) }
    }

    pub(crate) fn text(&mut self, key: &'static str) -> Option<&'a str> {
        self.known.push(key);
        self.options.remove(key)
    }

    pub(crate) fn flag(&mut self, key: &'static str) -> Result<bool, String> {
        match self.text(key) {
            None => Ok(false),
            Some("") => Ok(true),
            Some(value) => Err(format!("invalid option `{key}={value}`: `{key}` takes no value")),
        }
    }

    pub(crate) fn number(
        &mut self,
        key: &'static str,
        range: RangeInclusive<i64>,
        default: i64,
    ) -> Result<i64, String> {
        let Some(text) = self.text(key) else { return Ok(default) };
        let value = text.parse().ok().filter(|n| range.contains(n));
        let (from, to) = (range.start(), range.end());
        value.ok_or_else(|| format!("invalid option `{key}={text}`: expected a whole number from {from} to {to}"))
    }

    /// Checks that no option is left.
    pub(crate) fn done(self) -> Result<(), String> {
        match self.options.keys().next() {
            Some(key) if self.known.is_empty() => Err(format!("unknown option `{key}`: this kind takes no options")),
            Some(key) => Err(format!("unknown option `{key}`: {}", expected(key, self.known))),
            None => Ok(()),
        }
    }
}
