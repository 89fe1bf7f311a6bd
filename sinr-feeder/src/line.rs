//! A reading as a line of JSON: the input of `stdin` and `udp`, and the format in which feeders send readings to each
//! other.

use crate::link;
use crate::reading::{RawReading, Sent, Ue};
use crate::reject::Reject;
use hotcc_radio_map::Reading;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Maximum length of a line.
pub const LONGEST: usize = 1024;

/// The smallest capacity that the radio map can hold.
const LEAST_CAPACITY_BPS: f64 = 1000.0;

/// One line. `docs/reference/sources.md` explains every key.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[allow(missing_docs, reason = "keys of a documented format, with their units in their names")]
pub struct Line<'a> {
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub ue: Option<Cow<'a, str>>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub link: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sinr_db: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity_bps: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity_derived: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rsrp_dbm: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rsrq_db: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cqi: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mcs: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cell: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent_us: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counter: Option<u64>,
}

impl<'a> Line<'a> {
    /// Parses a line.
    ///
    /// # Errors
    /// The line is too long, is not one JSON object, or has an unknown key or a value of the wrong type.
    pub fn parse(text: &'a [u8]) -> Result<Self, String> {
        if text.len() > LONGEST {
            return Err(format!("the line has {} bytes, more than the limit of {LONGEST}", text.len()));
        }
        if !text.trim_ascii_start().starts_with(b"{") {
            return Err("the line is not a JSON object".to_owned()); // a list would be parsed as the values without keys
        }
        // each line is a text of its own, so the line that the parser names is always the first
        serde_json::from_slice(text).map_err(|e| e.to_string().replace(" at line 1 column", " at column"))
    }

    /// Returns the line for another host.
    #[must_use]
    pub fn message(reading: &Reading, age_ms: f64, sent: Sent, counter: u64) -> Self {
        Self {
            sinr_db: reading.sinr_db,
            capacity_bps: reading.capacity_bps,
            capacity_derived: (reading.capacity_bps.is_some() && reading.is_capacity_derived).then_some(true),
            rsrp_dbm: reading.rsrp_dbm,
            rsrq_db: reading.rsrq_db,
            cqi: reading.cqi,
            mcs: reading.mcs,
            cell: reading.cell,
            age_ms: Some(age_ms),
            session: Some(sent.session),
            sent_us: Some(sent.at_us),
            counter: Some(counter),
            ..Self::default()
        }
    }

    /// Returns the line as JSON.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default() // cannot fail: it has only numbers and strings
    }

    /// Returns the reading in the line.
    #[must_use]
    pub fn reading(&self) -> RawReading {
        RawReading {
            reading: Reading {
                sinr_db: self.sinr_db,
                average_db: None,
                capacity_bps: self.capacity_bps,
                is_capacity_derived: self.capacity_bps.is_some() && self.capacity_derived == Some(true),
                rsrp_dbm: self.rsrp_dbm,
                rsrq_db: self.rsrq_db,
                cqi: self.cqi,
                mcs: self.mcs,
                cell: self.cell,
            },
            age_ms: self.age_ms.unwrap_or(0.0),
            time_s: self.time_s,
            sent: self.session.zip(self.sent_us).map(|(session, at_us)| Sent { session, at_us }),
        }
    }

    /// Checks a line that another program wrote, not a feeder: whether its capacity is in bit/s. A radio model of a
    /// feeder may well have less than the radio map can hold.
    ///
    /// # Errors
    /// It most likely is not: it is less than the radio map can hold, and not 0.
    pub fn check_units(&self) -> Result<(), (Reject, String)> {
        match self.capacity_bps {
            Some(bps) if bps > 0.0 && bps < LEAST_CAPACITY_BPS => {
                Err((Reject::Range, format!("capacity_bps {bps} is less than {LEAST_CAPACITY_BPS} bit/s")))
            }
            _ => Ok(()),
        }
    }

    /// Returns the UE that the line names.
    ///
    /// # Errors
    /// It has both `ue` and `link`, or an invalid link.
    pub fn ue(&self) -> Result<Ue<'_>, (Reject, String)> {
        match (&self.ue, &self.link) {
            (Some(_), Some(_)) => {
                Err((Reject::Malformed, "the line has both `ue` and `link`: give one of them".to_owned()))
            }
            (Some(ue), None) => Ok(Ue::Id(ue)),
            (None, Some(link)) => link::parse(link).map(Ue::Link).map_err(|e| (Reject::Malformed, e.to_string())),
            (None, None) => Ok(Ue::Unnamed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_read() {
        let text =
            br#"{"ue":"car-7","sinr_db":12.5,"capacity_bps":5e7,"capacity_derived":true,"rsrp_dbm":-95,"rsrq_db":-11,
            "cqi":9,"mcs":17,"cell":68719476735,"age_ms":3.5,"time_s":17.25,"session":1,"sent_us":99,"counter":5}"#;
        let line = Line::parse(text).unwrap();
        let raw = line.reading();
        assert_eq!(line.ue(), Ok(Ue::Id("car-7")));
        assert_eq!((raw.reading.sinr_db, raw.reading.cqi, raw.age_ms), (Some(12.5), Some(9), 3.5));
        assert_eq!((raw.reading.capacity_bps, raw.reading.is_capacity_derived), (Some(5e7), true));
        assert_eq!(raw.reading.cell, Some(68_719_476_735));
        assert_eq!((raw.time_s, raw.sent), (Some(17.25), Some(Sent { session: 1, at_us: 99 })));
        assert_eq!(Line::parse(&line.to_json()).unwrap(), line);
        let bare = Line::parse(br#"{"sinr_db":1,"rsrp_dbm":null}"#).unwrap();
        assert_eq!((bare.ue(), bare.reading().reading.rsrp_dbm), (Ok(Ue::Unnamed), None));
        assert!(matches!(Line::parse(br#"{"link":"10.0.0.7"}"#).unwrap().ue(), Ok(Ue::Link(_))));
    }

    proptest::proptest! {
        /// Any input is either refused, or is a reading that can be written again.
        #[test]
        fn no_bytes_make_it_panic(
            bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200),
            value in proptest::prelude::any::<f64>(),
            cqi in proptest::prelude::any::<i32>(),
        ) {
            let _ = Line::parse(&bytes).map(|line| line.ue().is_ok());
            let text = format!(r#"{{"sinr_db":{value:e},"cqi":{cqi},"link":"10.0.0.{cqi}"}}"#);
            if let Ok(line) = Line::parse(text.as_bytes()) {
                let _ = line.ue();
                let again = line.to_json();
                proptest::prop_assert_eq!(Line::parse(&again), Ok(line));
            }
        }
    }

    #[test]
    fn a_capacity_in_another_unit_is_refused() {
        let check = |bps: &str| Line::parse(format!(r#"{{"capacity_bps":{bps}}}"#).as_bytes()).unwrap().check_units();
        assert_eq!(check("48"), Err((Reject::Range, "capacity_bps 48 is less than 1000 bit/s".to_owned())));
        assert_eq!((check("0"), check("1000"), check("48e6")), (Ok(()), Ok(()), Ok(())));
    }

    #[test]
    fn an_error_names_the_column_alone() {
        let error = Line::parse(br#"{"capacity_bps":x}"#).unwrap_err();
        assert_eq!(error, "expected value at column 17");
    }

    #[test]
    fn what_is_malformed_is_refused() {
        let long = format!(r#"{{"ue":"{}"}}"#, "a".repeat(LONGEST));
        for text in [
            "",
            "{",
            "[]",
            "7",
            "null x",
            "NaN",
            r#"{"sinr_db":NaN}"#,
            r#"{"sinr_db":1e999}"#,
            r#"{"sinr_db":"1"}"#,
            r#"{"sinr":1}"#,
            r#"{"cqi":-1}"#,
            r#"{"cqi":300}"#,
            r#"{"cell":-1}"#,
            r#"{"cell":"0a1b"}"#,
            r#"{"capacity_bps":NaN}"#,
            r#"{"capacity_derived":1}"#,
            r#"{"sinr_db":1,"sinr_db":2}"#,
            r#"{"sinr_db":1}{}"#,
            &long,
        ] {
            assert!(Line::parse(text.as_bytes()).is_err(), "{text}");
        }
        assert!(Line::parse(b"{\"ue\":\"\xff\"}").is_err());
        for text in [r#"{"ue":"a","link":"10.0.0.1"}"#, r#"{"link":"nowhere"}"#, r#"{"link":"10.0.0.1/8"}"#] {
            assert!(matches!(Line::parse(text.as_bytes()).unwrap().ue(), Err((Reject::Malformed, _))), "{text}");
        }
    }
}
