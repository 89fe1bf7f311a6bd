//! Parses modems' answers to AT+CESQ (3GPP TS 27.007 clause 8.69) and AT+QENG="servingcell" (Quectel).

use hotcc_radio_map::Reading;

/// Parses a line of the answer to AT+CESQ; `None` if it is another line or invalid.
pub(super) fn cesq(line: &str) -> Option<Reading> {
    let fields = line.strip_prefix("+CESQ:")?.split(',').map(|f| f.trim().parse::<u16>());
    let fields: Vec<u16> = fields.collect::<Result<_, _>>().ok()?;
    // rxlev, ber, rscp, ecno, rsrq, rsrp, and on modems with NR: ss_rsrq, ss_rsrp, ss_sinr
    if fields.len() != 6 && fields.len() != 9 {
        return None;
    }
    let known = |i: usize, most: u16| fields.get(i).copied().filter(|n| *n <= most).map(f64::from);
    let nr = Reading {
        sinr_db: known(8, 127).map(|n| n / 2.0 - 23.0),
        rsrp_dbm: known(7, 126).map(|n| n - 156.0),
        rsrq_db: known(6, 126).map(|n| n / 2.0 - 43.0),
        ..Reading::default()
    };
    if nr != Reading::default() {
        return Some(nr);
    }
    let lte = Reading {
        rsrp_dbm: known(5, 97).map(|n| n - 140.0),
        rsrq_db: known(4, 34).map(|n| n / 2.0 - 19.5),
        ..Reading::default()
    };
    Some(lte)
}

/// Parses a line of the answer to AT+QENG="servingcell". The columns, and the unit of the SINR, depend on the mode:
/// fifths of a dB from -20 dB with LTE, dB with NR.
pub(super) fn qeng(line: &str) -> Option<Reading> {
    let fields: Vec<&str> = line.strip_prefix("+QENG:")?.split(',').map(|f| f.trim().trim_matches('"')).collect();
    // with one cell: "servingcell",STATE,MODE,...; with a secondary NR cell: one line MODE,... for each cell
    let mode = fields.iter().position(|f| matches!(*f, "LTE" | "NR5G-SA" | "NR5G-NSA"))?;
    let number = |i: usize| fields.get(mode + i).and_then(|f| f.parse::<i32>().ok());
    let within =
        |i: usize, range: std::ops::RangeInclusive<i32>| number(i).filter(|n| range.contains(n)).map(f64::from);
    let cell = |i: usize, radix| fields.get(mode + i).and_then(|f| u64::from_str_radix(f, radix).ok());
    let (rsrp, rsrq) = (-200..=0, -60..=40);
    Some(match fields[mode] {
        // duplex, MCC, MNC, cell, PCI, EARFCN, band, UL and DL bandwidth, TAC, RSRP, RSRQ, RSSI, SINR, CQI
        "LTE" => Reading {
            sinr_db: within(14, 0..=250).map(|n| n / 5.0 - 20.0),
            rsrp_dbm: within(11, rsrp),
            rsrq_db: within(12, rsrq),
            cqi: within(15, 1..=15).map(|n| n as u8),
            cell: cell(4, 16),
            ..Reading::default()
        },
        // duplex, MCC, MNC, cell, PCI, TAC, ARFCN, band, DL bandwidth, RSRP, RSRQ, SINR
        "NR5G-SA" => Reading {
            sinr_db: within(12, -40..=60),
            cell: cell(4, 16),
            rsrp_dbm: within(10, rsrp),
            rsrq_db: within(11, rsrq),
            ..Reading::default()
        },
        // MCC, MNC, PCI, RSRP, SINR, RSRQ
        _ => Reading {
            sinr_db: within(5, -40..=60),
            cell: cell(3, 10),
            rsrp_dbm: within(4, rsrp),
            rsrq_db: within(6, rsrq),
            ..Reading::default()
        },
    })
}

/// Returns the reading in an answer. With a secondary cell there are two lines: the last one, NR's, is of the cell that
/// carries most. If its SINR is not known, a line with a SINR is worth more.
pub(super) fn best(answer: &str, parse: fn(&str) -> Option<Reading>) -> Option<Reading> {
    let readings = || answer.lines().filter_map(|line| parse(line.trim())).filter(|r| *r != Reading::default());
    readings().rfind(|r| r.sinr_db.is_some()).or_else(|| readings().next_back())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cesq_of_both_generations() {
        let nr = cesq("+CESQ: 99,99,255,255,255,255,65,80,70").unwrap();
        assert_eq!((nr.sinr_db, nr.rsrp_dbm, nr.rsrq_db), (Some(12.0), Some(-76.0), Some(-10.5)));
        let lte = cesq("+CESQ: 99,99,255,255,20,60").unwrap();
        assert_eq!((lte.sinr_db, lte.rsrp_dbm, lte.rsrq_db), (None, Some(-80.0), Some(-9.5)));
        assert_eq!(cesq("+CESQ: 99,99,255,255,255,255,255,255,255"), Some(Reading::default()));
        for bad in
            ["+CESQ:", "+CESQ: 1,2,3", "+CESQ: a,b,c,d,e,f", "OK", "+CESQ: 99,99,255,255,255,255,65,80", "+CSQ: 1,2"]
        {
            assert_eq!(cesq(bad), None, "{bad}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_answer_makes_it_panic(
            fields in proptest::collection::vec("(\"?(LTE|NR5G-SA|NR5G-NSA|servingcell)\"?|-?[0-9]{0,12}|\\PC{0,6})", 0..25),
        ) {
            for command in ["+CESQ:", "+QENG:"] {
                let line = format!("{command} {}", fields.join(","));
                let _ = (cesq(&line), qeng(&line));
            }
        }
    }

    #[test]
    fn qeng_has_a_scale_for_each_mode() {
        let sinr = |line: &str| qeng(line).and_then(|r| r.sinr_db);
        let lte =
            r#"+QENG: "servingcell","NOCONN","LTE","FDD",262,01,1A2D001,123,1300,3,5,5,2B5F,-95,-10,-66,175,12,0,36"#;
        assert_eq!(sinr(lte), Some(15.0));
        assert_eq!(qeng(lte).map(|r| (r.rsrp_dbm, r.rsrq_db, r.cqi)), Some((Some(-95.0), Some(-10.0), Some(12))));
        let sa = r#"+QENG: "servingcell","CONNECT","NR5G-SA","TDD",262,01,0000001,501,6,627264,78,12,-84,-11,22,1,-"#;
        assert_eq!(qeng(sa).map(|r| (r.rsrp_dbm, r.rsrq_db, r.sinr_db)), Some((Some(-84.0), Some(-11.0), Some(22.0))));
        let nsa = r#"+QENG: "NR5G-NSA",262,01,501,-88,18,-11,627264,78,12,1"#;
        assert_eq!(qeng(nsa).map(|r| (r.rsrp_dbm, r.rsrq_db, r.sinr_db)), Some((Some(-88.0), Some(-11.0), Some(18.0))));
        let cells = [lte, sa, nsa].map(|line| qeng(line).and_then(|r| r.cell));
        assert_eq!(cells, [Some(0x1A2_D001), Some(1), Some(501)]);
        for bad in [r#"+QENG: "servingcell","SEARCH""#, "+QENG: ", "OK", r#"+QENG: "LTE""#] {
            assert_eq!(sinr(bad), None, "{bad}");
        }
        assert_eq!(sinr(&lte.replace("175", "-32768")), None);
    }

    #[test]
    fn an_unknown_sinr_of_nr_does_not_hide_that_of_lte() {
        let lte = r#"+QENG: "LTE","FDD",262,01,1A2D001,123,1300,3,5,5,2B5F,-95,-10,-66,175,12,0,36"#;
        let sinr = |nr: &str| best(&format!("{lte}\r\n{nr}\r\n\r\nOK\r\n"), qeng).and_then(|r| r.sinr_db);
        assert_eq!(sinr(r#"+QENG: "NR5G-NSA",262,01,501,-88,18,-11,627264,78,12,1"#), Some(18.0));
        assert_eq!(sinr(r#"+QENG: "NR5G-NSA",262,01,501,-32768,-32768,-32768"#), Some(15.0));
    }
}
