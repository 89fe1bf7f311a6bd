//! How measures are made.

/// How to measure.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Fewer repetitions: to see that it works, not to quote.
    pub quick: bool,
}
