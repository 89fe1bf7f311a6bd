//! Text of others (an object's description, a path, a name) on its way to a terminal.

use std::fmt::Write as _;

/// The text without control characters that a terminal would obey: each but tab and newline is written as `\u001b`, which
/// is also how JSON writes it.
#[must_use]
pub fn printable(text: &str) -> String {
    let mut printable = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() && !matches!(c, '\n' | '\t') {
            let _ = write!(printable, "\\u{:04x}", u32::from(c)); // a string takes whatever is written
        } else {
            printable.push(c);
        }
    }
    printable
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_obeys_nothing_of_it() {
        assert_eq!(
            printable("a\tb\nü: \u{1b}]0;title\u{7}\u{9b}31m\r\u{7f}"),
            "a\tb\nü: \\u001b]0;title\\u0007\\u009b31m\\u000d\\u007f"
        );
    }
}
