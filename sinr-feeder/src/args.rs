//! What users write behind the kind of a source, or of a place to send readings to.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// What stands behind a kind: `MAIN,KEY=VALUE,FLAG`.
#[derive(Debug)]
pub(crate) struct Args<'a> {
    main: &'a str,
    options: BTreeMap<&'a str, &'a str>,
}

impl<'a> Args<'a> {
    pub(crate) fn parse(text: &'a str) -> Result<Self, String> {
        let (main, rest) = text.split_once(',').unwrap_or((text, ""));
        let mut options = BTreeMap::new();
        for option in rest.split(',').filter(|o| !o.is_empty()) {
            let (key, value) = option.split_once('=').unwrap_or((option, ""));
            if options.insert(key, value).is_some() {
                return Err(format!("{key} is given twice"));
            }
        }
        Ok(Self { main, options })
    }

    /// What comes first, and must be there.
    pub(crate) fn main(&self, what: &str) -> Result<&'a str, String> {
        if self.main.is_empty() { Err(format!("{what} is missing")) } else { Ok(self.main) }
    }

    pub(crate) fn text(&mut self, key: &str) -> Option<&'a str> {
        self.options.remove(key)
    }

    pub(crate) fn flag(&mut self, key: &str) -> Result<bool, String> {
        match self.options.remove(key) {
            None => Ok(false),
            Some("") => Ok(true),
            Some(_) => Err(format!("{key} takes no value")),
        }
    }

    pub(crate) fn number(&mut self, key: &str, range: RangeInclusive<i64>, default: i64) -> Result<i64, String> {
        let Some(text) = self.options.remove(key) else { return Ok(default) };
        let value = text.parse().ok().filter(|n| range.contains(n));
        value.ok_or_else(|| format!("{key} is a whole number from {} to {}", range.start(), range.end()))
    }

    /// Nothing may be left.
    pub(crate) fn done(self) -> Result<(), String> {
        match self.options.keys().next() {
            Some(key) => Err(format!("there is no option {key}")),
            None => Ok(()),
        }
    }
}
