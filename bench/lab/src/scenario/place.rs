//! The position of a planner error in a scenario's text.

use std::fmt::{self, Display};
use std::ops::Range;
use toml::Spanned;

/// The subject of a planner error, and its position in the scenario.
#[derive(Debug)]
pub struct Place {
    /// Range of bytes in the text.
    pub span: Range<usize>,
    what: String,
}

impl Place {
    /// Returns the place of a value of the scenario.
    pub fn of<T>(spanned: &Spanned<T>, what: String) -> Self {
        Self { span: spanned.span(), what }
    }
}

impl Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}
