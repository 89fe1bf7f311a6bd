//! HTML from text that is not to be trusted: names in a scenario are whatever its author wrote.

use std::fmt::Write as _;

/// Text as HTML, in content and in quoted attributes.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            // no HTML document may have these, in whatever notation
            c if c.is_control() => out.push(char::REPLACEMENT_CHARACTER),
            c => out.push(c),
        }
    }
    out
}

/// A table's cell.
#[derive(Clone, Debug)]
pub enum Cell {
    /// What its row is about.
    Head(String),
    /// Text.
    Text(String),
    /// A figure, right-aligned.
    Figure(String),
}

/// A table with a caption.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// What it shows.
    pub caption: String,
    /// How to read it; stands below, so that it does not scroll with the table.
    pub remark: String,
    /// Headings of its columns.
    pub columns: Vec<String>,
    /// Rows of as many cells.
    pub rows: Vec<Vec<Cell>>,
}

impl Table {
    /// As HTML, in a box that scrolls when the window is narrower than the table.
    #[must_use]
    pub fn html(&self) -> String {
        let caption = escape(&self.caption);
        // a region that scrolls has to be reachable with the keyboard
        let mut out = format!("<div class=\"wide\" role=\"region\" tabindex=\"0\" aria-label=\"{caption}\">\n");
        let _ = writeln!(out, "<table>\n<caption>{caption}</caption>\n<thead><tr>");
        for (place, column) in self.columns.iter().enumerate() {
            // headings stand over their figures
            let figures = self.rows.first().is_some_and(|row| matches!(row.get(place), Some(Cell::Figure(_))));
            let class = if figures { " class=\"n\"" } else { "" };
            let _ = writeln!(out, "<th scope=\"col\"{class}>{}</th>", escape(column));
        }
        out.push_str("</tr></thead>\n<tbody>\n");
        for row in &self.rows {
            out.push_str("<tr>");
            for cell in row {
                let _ = match cell {
                    Cell::Head(text) => write!(out, "<th scope=\"row\">{}</th>", escape(text)),
                    Cell::Text(text) => write!(out, "<td>{}</td>", escape(text)),
                    Cell::Figure(text) => write!(out, "<td class=\"n\">{}</td>", escape(text)),
                };
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</tbody>\n</table>\n</div>\n");
        if !self.remark.is_empty() {
            let _ = writeln!(out, "<p class=\"remark\">{}</p>", escape(&self.remark));
        }
        out
    }
}

/// A paragraph that says what is missing or left out.
#[must_use]
pub fn note(text: &str) -> String {
    format!("<p class=\"note\">{}</p>\n", escape(text))
}

/// A list, cut after `most` with a last item that says how many more there are.
#[must_use]
pub fn list(items: impl ExactSizeIterator<Item = String>, most: usize) -> String {
    let left_out = items.len().saturating_sub(most);
    let mut out = String::from("<ul>\n");
    for item in items.take(most) {
        let _ = writeln!(out, "<li>{}</li>", escape(&item));
    }
    if left_out > 0 {
        let _ = writeln!(out, "<li>and {left_out} more</li>");
    }
    out.push_str("</ul>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_text_is_text() {
        assert_eq!(
            escape("<script>alert(\"1\" & '2')</script>\u{0}"),
            "&lt;script&gt;alert(&quot;1&quot; &amp; &#39;2&#39;)&lt;/script&gt;\u{fffd}"
        );
        let rows = vec![vec![Cell::Head("<b>".into()), Cell::Text("<i>".into()), Cell::Figure("<u>".into())]];
        let html = Table { caption: "\"><x>".into(), remark: "<r>".into(), columns: vec!["<h>".into()], rows }.html();
        for tag in ["<b>", "<i>", "<u>", "<x>", "<h>", "<r>"] {
            assert!(!html.contains(tag), "{tag} in {html}");
        }
    }

    #[test]
    fn long_lists_are_cut() {
        let items = || (1..=5).map(|k| k.to_string()).collect::<Vec<_>>().into_iter();
        assert!(list(items(), 2).contains("<li>and 3 more</li>"));
        assert!(!list(items(), 5).contains("more"));
    }
}
