//! The figures of the committed pages that the rules rest on. A test compares each with its page.

use serde::Serialize;

/// Start of the marker of the ranking's table.
const RANKING: &str = "figures: scoreboard ranking";
const SCOREBOARD: &str = "docs/scoreboard.md";
const CREST: &str = "docs/algorithms/figures/crest.md";
const MDCUBIC: &str = "docs/algorithms/figures/mdcubic.md";
const THROUGHPUT: &str = "throughput, % of the bound";
const DELAY: &str = "p95 queue delay, ms, median";

/// A cell of a table of a page.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Evidence {
    /// The page.
    pub page: &'static str,
    /// Beginning of the marker above the table.
    pub table: &'static str,
    /// First cell of the row.
    pub row: String,
    /// Heading of the column.
    pub column: String,
    /// Text of the cell, without emphasis.
    pub cell: &'static str,
}

impl Evidence {
    /// Returns the first number of the cell.
    #[must_use]
    pub fn value(&self) -> f64 {
        let end = self.cell.find([' ', ',']).unwrap_or(self.cell.len());
        self.cell[..end].parse().unwrap_or(f64::NAN)
    }
}

/// Throughput and p95 queueing delay of each congestion control alone on the scoreboard's twelve recorded radio links.
const SCORES: [(&str, &str, &str); 13] = [
    ("crest", "98.04 ± 0.49", "43.8"),
    ("dtcp", "99.53 ± 0.50", "332.9"),
    ("fbtcp", "96.12 ± 2.91", "96.9"),
    ("dcmplus", "92.67 ± 1.70", "48.0"),
    ("bbr", "96.56 ± 0.81", "275.1"),
    ("westwood_bpf", "99.45 ± 0.54", "2726.9"),
    ("arwa", "99.91 ± 0.04", "4978.6"),
    ("reno", "99.91 ± 0.04", "4978.6"),
    ("mdcubic", "99.34 ± 0.80", "5889.8"),
    ("cubic", "99.34 ± 0.80", "5890.1"),
    ("bbr3", "96.15 ± 1.70", "335.1"),
    ("dcm", "99.52 ± 0.35", "2854.8"),
    ("westwoodp", "99.66 ± 0.54", "5164.8"),
];

/// What the scoreboard says of a congestion control.
#[derive(Clone, Debug)]
pub(super) struct Score {
    pub throughput: Evidence,
    pub delay: Evidence,
}

pub(super) fn score(cc: &str) -> Option<Score> {
    let (name, throughput, delay) = SCORES.iter().find(|(name, ..)| *name == cc)?;
    let of = |column: &str, cell| Evidence {
        page: SCOREBOARD,
        table: RANKING,
        row: (*name).to_owned(),
        column: column.to_owned(),
        cell,
    };
    Some(Score { throughput: of(THROUGHPUT, throughput), delay: of(DELAY, delay) })
}

/// Throughput in Mbit/s and use of a link of 40 Mbit/s with random losses: one-way delay (ms), share of losses, and the
/// cells of crest, bbr and cubic.
const RANDOM: [(u32, &str, [&str; 3]); 10] = [
    (10, "0.001", ["38.42 ± 0.01, 96.04 ± 0.01", "38.06 ± 0.21, 95.15 ± 0.53", "21.08 ± 2.38, 52.70 ± 5.95"]),
    (10, "0.01", ["38.05 ± 0.06, 95.12 ± 0.15", "37.89 ± 0.01, 94.73 ± 0.03", "5.87 ± 0.77, 14.68 ± 1.93"]),
    (10, "0.02", ["37.65 ± 0.04, 94.13 ± 0.09", "37.32 ± 0.08, 93.30 ± 0.19", "3.96 ± 0.30, 9.91 ± 0.76"]),
    (10, "0.03", ["37.10 ± 0.35, 92.76 ± 0.89", "36.83 ± 0.10, 92.07 ± 0.26", "3.01 ± 0.58, 7.52 ± 1.45"]),
    (10, "0.05", ["36.31 ± 0.31, 90.78 ± 0.77", "35.75 ± 0.27, 89.37 ± 0.67", "2.04 ± 0.31, 5.11 ± 0.78"]),
    (40, "0.001", ["37.74 ± 0.06, 94.34 ± 0.15", "38.03 ± 0.06, 95.07 ± 0.15", "6.55 ± 0.75, 16.37 ± 1.88"]),
    (40, "0.01", ["37.36 ± 0.03, 93.41 ± 0.07", "37.41 ± 0.04, 93.53 ± 0.10", "1.74 ± 0.23, 4.35 ± 0.57"]),
    (40, "0.02", ["36.98 ± 0.04, 92.45 ± 0.11", "36.80 ± 0.13, 91.99 ± 0.33", "1.12 ± 0.31, 2.80 ± 0.76"]),
    (40, "0.03", ["35.98 ± 2.11, 89.94 ± 5.28", "36.11 ± 0.08, 90.27 ± 0.19", "0.82 ± 0.19, 2.06 ± 0.48"]),
    (40, "0.05", ["35.49 ± 2.66, 88.72 ± 6.66", "34.73 ± 0.11, 86.82 ± 0.28", "0.57 ± 0.07, 1.43 ± 0.17"]),
];

/// Throughput with random losses of about this share, at about this least RTT.
#[derive(Clone, Debug)]
pub(super) struct RandomLoss {
    pub loss: f64,
    pub rtt_ms: u32,
    pub crest: Evidence,
    pub bbr: Evidence,
    pub cubic: Evidence,
}

/// Returns the row that is nearest on a logarithmic scale.
pub(super) fn random_loss(loss: f64, rtt_ms: f64) -> RandomLoss {
    let share = |row: &(u32, &str, [&str; 3])| row.1.parse().unwrap_or(f64::NAN);
    let away =
        |row: &(u32, &str, [&str; 3])| (share(row) / loss).ln().abs() + (f64::from(2 * row.0) / rtt_ms).ln().abs();
    let nearest = RANDOM.iter().min_by(|a, b| away(a).total_cmp(&away(b))).unwrap_or(&RANDOM[0]);
    let of = |column: &str, cell| Evidence {
        page: CREST,
        table: "figures: crest-loss simulated",
        row: format!("delay_ms={}, loss={}", nearest.0, nearest.1),
        column: column.to_owned(),
        cell,
    };
    let [crest, bbr, cubic] = nearest.2;
    RandomLoss {
        loss: share(nearest),
        rtt_ms: 2 * nearest.0,
        crest: of("crest", crest),
        bbr: of("bbr", bbr),
        cubic: of("cubic", cubic),
    }
}

/// Throughput in Mbit/s of a flow that loses packets behind a border with a PEP: mdcubic's and CUBIC's.
pub(super) fn behind_border() -> [Evidence; 2] {
    let ours = |table, row: &str, cell| Evidence {
        page: MDCUBIC,
        table,
        row: row.to_owned(),
        column: "ours".to_owned(),
        cell,
    };
    [
        ours("figures: pep-table1 access=120Mbit/s lossy=mdcubic", "access=120Mbit/s, lossy=mdcubic | l", "17.2 ± 2.0"),
        ours("figures: pep-table1 access=120Mbit/s lossy=cubic", "access=120Mbit/s, lossy=cubic | l", "1.33 ± 0.14"),
    ]
}

/// What crest and CUBIC lost and had through a policer of 20 Mbit/s: throughput in Mbit/s, and the loss in percent.
pub(super) fn policer() -> [Evidence; 2] {
    let of = |column: &str, cell| Evidence {
        page: CREST,
        table: "figures: crest-policer simulated",
        row: "delay_ms=10, policer=20Mbit".to_owned(),
        column: column.to_owned(),
        cell,
    };
    [of("crest", "19.24, 1.637"), of("cubic", "19.30, 1.133")]
}

/// On a generated link of constant rate, crest's p95 queueing delay against BBR's.
pub(super) fn steady() -> Evidence {
    Evidence {
        page: CREST,
        table: "gates: crest-generated simulator cases",
        row: "cc=crest, radio=fixed".to_owned(),
        column: "generated links: p95 queueing delay against BBR".to_owned(),
        cell: "1.35",
    }
}

/// On links that are no radio links, crest's throughput against CUBIC's.
pub(super) fn no_radio() -> Evidence {
    Evidence {
        page: CREST,
        table: "gates: crest simulator",
        row: "1 Gbit/s, satellite, uplink, FQ-CoDel: throughput against CUBIC".to_owned(),
        column: "figure".to_owned(),
        cell: "0.9815 at place=satellite",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// Returns the cell of a page, without emphasis.
    fn cell_of(of: &Evidence) -> Option<String> {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(of.page);
        let page = std::fs::read_to_string(&page).unwrap();
        let (_, below) = page.split_once(&format!("<!-- {}", of.table))?;
        let below = below.split_once("<!-- end of").map_or(below, |(table, _)| table);
        let cells = |line: &str| -> Vec<String> {
            line.split('|').map(|cell| cell.replace("**", "").trim().to_owned()).collect()
        };
        let mut heads: Vec<String> = Vec::new();
        let mut before = "";
        for line in below.lines() {
            if line.starts_with("| --") || line.starts_with("|--") {
                heads = cells(before);
            }
            let row = cells(line);
            let first = row.get(1).cloned().unwrap_or_default();
            let two = format!("{first} | {}", row.get(2).cloned().unwrap_or_default());
            if [first, two].contains(&of.row)
                && let Some(place) = heads.iter().position(|head| *head == of.column)
            {
                return row.get(place).cloned();
            }
            before = line;
        }
        None
    }

    #[test]
    fn every_figure_is_that_of_its_page() {
        let mut all = vec![steady(), no_radio()];
        all.extend(behind_border());
        all.extend(policer());
        for (cc, ..) in SCORES {
            let Score { throughput, delay } = score(cc).unwrap();
            all.extend([throughput, delay]);
        }
        for (delay_ms, loss, _) in RANDOM {
            let row = random_loss(loss.parse().unwrap(), f64::from(2 * delay_ms));
            all.extend([row.crest, row.bbr, row.cubic]);
        }
        for one in all {
            assert_eq!(cell_of(&one).as_deref(), Some(one.cell), "{one:?}");
            assert!(one.value() > 0.0, "{one:?}");
        }
    }

    #[test]
    fn the_nearest_row_is_found() {
        let row = random_loss(0.012, 25.0);
        assert_eq!((row.loss, row.rtt_ms, row.cubic.value()), (0.01, 20, 5.87));
        let row = random_loss(0.0006, 300.0);
        assert_eq!((row.loss, row.rtt_ms, row.cubic.value()), (0.001, 80, 6.55));
    }
}
