//! Counts in words.

/// Returns a count in words: `1 run`, `2 runs`.
#[must_use]
pub fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
