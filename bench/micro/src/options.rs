//! Options of the measures.

/// Options of all measures.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Fewer repetitions: to check that the measures work, not for figures to quote.
    pub quick: bool,
}
