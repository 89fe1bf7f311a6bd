//! A recorded link as an SVG file, with one panel for each quantity.

use super::range_of;
use super::timeline::{Panel, draw_panels};
use anyhow::Result;

/// Height of a panel, in CSS pixels.
const HEIGHT: i32 = 180;

/// A quantity over time, or over another axis.
#[derive(Clone, Debug)]
pub struct Quantity {
    /// Name and unit: `SINR, dB`.
    pub name: &'static str,
    /// Time in s (or the quantity that `axis` names), and value.
    pub points: Vec<(f64, f64)>,
    /// Whether its axis starts at 0.
    pub from_zero: bool,
    /// Length and name of the horizontal axis, if it is not the time. Quantities over time come first.
    pub axis: Option<(f64, &'static str)>,
}

/// Draws the chart, and returns the text of an SVG file. `title` states what the chart shows.
///
/// # Errors
/// Drawing fails.
pub fn draw(title: &str, duration_s: f64, quantities: Vec<Quantity>) -> Result<String> {
    let panel = |quantity: Quantity| {
        let range = range_of(quantity.points.iter().map(|p| p.1), 0.08);
        let mut panel = Panel::new(quantity.name, HEIGHT, vec![(0, vec![quantity.points])], None)?;
        if let (false, Some(range)) = (quantity.from_zero, range) {
            panel.range = range;
        }
        panel.own_axis = quantity.axis;
        Some(panel)
    };
    let panels: Vec<Panel> = quantities.into_iter().filter_map(panel).collect();
    let drawn = draw_panels(&panels, duration_s, &[], title)?.into_string();
    // A standalone file needs the namespace, and a background that viewers with a dark theme do not replace.
    Ok(drawn.replacen("<svg ", "<svg xmlns=\"http://www.w3.org/2000/svg\" style=\"background: #fff\" ", 1) + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_quantity_has_a_panel() {
        let quantity = |name, points, from_zero| Quantity { name, points, from_zero, axis: None };
        let line = vec![(0.0, -3.0), (1.0, 4.0), (2.0, 12.0)];
        let drawn =
            draw("a < b", 2.0, vec![quantity("rate, Mbit/s", line.clone(), true), quantity("SINR, dB", line, false)]);
        let drawn = drawn.unwrap();
        assert!(drawn.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" style="), "{drawn}");
        assert!(drawn.ends_with("</svg>\n") && drawn.contains("a &lt; b"));
        for name in ["rate, Mbit/s", "SINR, dB", "time, s"] {
            assert!(drawn.contains(name), "{name}");
        }
        assert!(drawn.matches("<polyline").count() >= 2);
        let lags = Quantity { axis: Some((10.0, "age, s")), ..quantity("r", vec![(0.0, 1.0), (10.0, 0.5)], true) };
        let two = draw("x", 2.0, vec![quantity("rate", vec![(0.0, 1.0), (2.0, 2.0)], true), lags]).unwrap();
        assert!(two.contains("time, s") && two.contains("age, s"), "{two}");
        assert!(draw("nothing", 1.0, Vec::new()).is_ok());
    }
}
