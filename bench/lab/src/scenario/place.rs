//! Where in a scenario's text an error of the planner is.

use std::fmt::{self, Display};
use std::ops::Range;
use toml::Spanned;

/// What an error of the planner is about, and where that is in the scenario.
#[derive(Debug)]
pub struct Place {
    /// Bytes of the text.
    pub span: Range<usize>,
    what: String,
}

impl Place {
    /// At a value of the scenario.
    pub fn of<T>(spanned: &Spanned<T>, what: String) -> Self {
        Self { span: spanned.span(), what }
    }
}

impl Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}
