//! HTML from untrusted text: names in a scenario are whatever its author wrote.

use maud::{Markup, html};

/// Returns a whole page, without the control characters that an HTML document must not contain in any notation.
#[must_use]
pub fn document(page: Markup) -> String {
    page.into_string().replace(|c: char| c.is_control() && c != '\n' && c != '\t', "\u{fffd}")
}

/// A table's cell.
#[derive(Clone, Debug)]
pub enum Cell {
    /// The subject of the row.
    Head(String),
    /// Text.
    Text(String),
    /// Text that leads to the element with this id.
    Link(String, String),
    /// A figure, right-aligned.
    Figure(String),
    /// A figure that is the best of its column.
    Best(String),
}

/// A table with a caption.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// What it shows.
    pub caption: String,
    /// How to read the table; placed below the table, so that it does not scroll with it.
    pub remark: String,
    /// Headings of the columns.
    pub columns: Vec<String>,
    /// Rows, each with one cell per column.
    pub rows: Vec<Vec<Cell>>,
}

impl Table {
    /// Returns the table as HTML, in a box that scrolls if the window is narrower than the table.
    #[must_use]
    pub fn html(&self) -> Markup {
        let is_figure = |place| self.rows.first().and_then(|row| row.get(place)).is_some_and(Cell::is_figure);
        html! {
            // a region that scrolls must be reachable with the keyboard
            div.wide role="region" tabindex="0" aria-label=(self.caption) {
                table {
                    caption { (self.caption) }
                    thead { tr {
                        // headings are aligned with their figures
                        @for (place, column) in self.columns.iter().enumerate() {
                            th class=[is_figure(place).then_some("n")] scope="col" { (column) }
                        }
                    } }
                    tbody {
                        @for row in &self.rows {
                            tr { @for cell in row { (cell.html()) } }
                        }
                    }
                }
            }
            @if !self.remark.is_empty() { p.remark { (self.remark) } }
        }
    }
}

impl Cell {
    /// Returns whether the cell is right-aligned.
    #[must_use]
    pub fn is_figure(&self) -> bool {
        matches!(self, Self::Figure(_) | Self::Best(_))
    }

    fn html(&self) -> Markup {
        match self {
            Self::Head(text) => html! { th scope="row" { (text) } },
            Self::Text(text) => html! { td { (text) } },
            Self::Link(text, id) => html! { td { a href={ "#" (id) } { (text) } } },
            Self::Figure(text) => html! { td.n { (text) } },
            Self::Best(text) => html! { td.n { strong { (text) } } },
        }
    }
}

/// Returns a paragraph that states what is missing or left out.
#[must_use]
pub fn note(text: &str) -> Markup {
    html! { p.note { (text) } }
}

/// Returns the first `most` items of a list, followed by an item with the number of the others.
#[must_use]
pub fn items(items: impl ExactSizeIterator<Item = String>, most: usize) -> Markup {
    let left_out = items.len().saturating_sub(most);
    html! {
        @for item in items.take(most) { li { (item) } }
        @if left_out > 0 { li { "and " (left_out) " more" } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_text_is_text() {
        assert_eq!(
            document(note("<script>alert(\"1\" & '2')</script>\u{0}")),
            "<p class=\"note\">&lt;script&gt;alert(&quot;1&quot; &amp; '2')&lt;/script&gt;\u{fffd}</p>"
        );
        let rows = vec![vec![Cell::Head("<b>".into()), Cell::Text("<i>".into()), Cell::Figure("<u>".into())]];
        let html = Table { caption: "\"><x>".into(), remark: "<r>".into(), columns: vec!["<h>".into()], rows }
            .html()
            .into_string();
        for tag in ["<b>", "<i>", "<u>", "<x>", "<h>", "<r>"] {
            assert!(!html.contains(tag), "{tag} in {html}");
        }
    }

    #[test]
    fn long_lists_are_cut() {
        let many = || (1..=5).map(|k| k.to_string()).collect::<Vec<_>>().into_iter();
        assert!(items(many(), 2).into_string().contains("<li>and 3 more</li>"));
        assert!(!items(many(), 5).into_string().contains("more"));
    }
}
