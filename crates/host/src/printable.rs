//! Makes untrusted text (an object's description, a path, a name) safe to print on a terminal.

use std::fmt::Write as _;

/// Replaces control characters, which a terminal would execute, except tab and newline: each becomes an escape like
/// `\u001b`, as in JSON.
#[must_use]
pub fn printable(text: &str) -> String {
    escaped(text, &['\n', '\t'])
}

/// As [`printable`], and replaces newlines, too: for a part of a line.
#[must_use]
pub fn printable_in_line(text: &str) -> String {
    escaped(text, &['\t'])
}

fn escaped(text: &str, kept: &[char]) -> String {
    let mut printable = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() && !kept.contains(&c) {
            let _ = write!(printable, "\\u{:04x}", u32::from(c)); // writing to a string cannot fail
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
    fn terminal_control_characters_are_escaped() {
        assert_eq!(
            printable("a\tb\nü: \u{1b}]0;title\u{7}\u{9b}31m\r\u{7f}"),
            "a\tb\nü: \\u001b]0;title\\u0007\\u009b31m\\u000d\\u007f"
        );
        assert_eq!(printable_in_line("a\tb\nc"), "a\tb\\u000ac");
    }
}
