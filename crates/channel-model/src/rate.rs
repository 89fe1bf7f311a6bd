//! The capacity at a SINR: link adaptation by the CQI tables of LTE and NR or the MCS tables of NR, or the truncated
//! Shannon bound.

use serde::Deserialize;

/// A CQI or MCS: the SINR from which its block error rate is at most 10 %, in dB, and its efficiency in bit/s/Hz.
type Step = (f64, f64);

/// CQI 1..15 with up to 64QAM: efficiencies of 3GPP TS 36.213 table 7.2.3-1, which TS 38.214 table 5.2.2.1-2 repeats.
///
/// 3GPP leaves the SINR of a CQI to the receiver. These thresholds (10 % BLER, AWGN) are the set that many published
/// LTE and NR simulations share. From CQI 8 to 14 the same modulations and code rates on the AWGN curves of NR's LDPC
/// codes (Lagén et al., "New Radio Physical Layer Abstraction for System-Level Simulations of 5G Networks", IEEE ICC
/// 2020, arXiv:2001.10309) are within 1.1 dB of them.
const CQI_64QAM: [Step; 15] = [
    (-6.7, 0.1523),
    (-4.7, 0.2344),
    (-2.3, 0.3770),
    (0.2, 0.6016),
    (2.4, 0.8770),
    (4.3, 1.1758),
    (5.9, 1.4766),
    (8.1, 1.9141),
    (10.3, 2.4063),
    (11.7, 2.7305),
    (14.1, 3.3223),
    (16.3, 3.9023),
    (18.7, 4.5234),
    (21.0, 5.1152),
    (22.7, 5.5547),
];

/// CQI 1..15 with up to 256QAM: efficiencies of 3GPP TS 38.214 table 5.2.2.1-3.
///
/// CQI 1..11 have modulations and code rates that are also in [`CQI_64QAM`], and keep its thresholds. The thresholds of
/// 12..15 (256QAM with code rates 711, 797, 885 and 948 / 1024) are the first points below 10 % on the AWGN curves of
/// Lagén et al., for MCS 21, 23, 25 and 27 of TS 38.214 table 5.1.3.1-2 and the longest blocks (base graph 1).
const CQI_256QAM: [Step; 15] = extended(
    &CQI_64QAM,
    &[0, 2, 4, 6, 7, 8, 9, 10, 11, 12, 13],
    &[(21.5, 5.5547), (23.5, 6.2266), (25.3, 6.9141), (27.3, 7.4063)],
);

/// MCS 0..28 with up to 64QAM: bits per symbol and code rate * 1024 of 3GPP TS 38.214 table 5.1.3.1-1.
const MCS_64QAM: [Step; 29] = mcs([
    (2, 120.0),
    (2, 157.0),
    (2, 193.0),
    (2, 251.0),
    (2, 308.0),
    (2, 379.0),
    (2, 449.0),
    (2, 526.0),
    (2, 602.0),
    (2, 679.0),
    (4, 340.0),
    (4, 378.0),
    (4, 434.0),
    (4, 490.0),
    (4, 553.0),
    (4, 616.0),
    (4, 658.0),
    (6, 438.0),
    (6, 466.0),
    (6, 517.0),
    (6, 567.0),
    (6, 616.0),
    (6, 666.0),
    (6, 719.0),
    (6, 772.0),
    (6, 822.0),
    (6, 873.0),
    (6, 910.0),
    (6, 948.0),
]);

/// MCS 0..27 with up to 256QAM, likewise from 3GPP TS 38.214 table 5.1.3.1-2. MCS 0..19 are also in [`MCS_64QAM`].
const MCS_256QAM: [Step; 28] = extended(
    &MCS_64QAM,
    &[0, 2, 4, 6, 8, 11, 12, 13, 14, 15, 16, 18, 19, 20, 21, 22, 23, 24, 25, 26],
    &mcs([(8, 682.5), (8, 711.0), (8, 754.0), (8, 797.0), (8, 841.0), (8, 885.0), (8, 916.5), (8, 948.0)]),
);

/// Returns the steps at the indices `shared` of `base`, followed by the table's `own` steps.
const fn extended<const N: usize>(base: &[Step], shared: &[usize], own: &[Step]) -> [Step; N] {
    let mut steps = [(0.0, 0.0); N];
    let mut place = 0;
    while place < N {
        steps[place] = if place < shared.len() { base[shared[place]] } else { own[place - shared.len()] };
        place += 1;
    }
    steps
}

/// Returns the steps of an MCS table. A step with the modulation and code rate of a CQI has the CQI's threshold;
/// between two CQIs, the threshold is interpolated by efficiency.
const fn mcs<const N: usize>(rows: [(u8, f64); N]) -> [Step; N] {
    let mut steps = [(0.0, 0.0); N];
    let mut row = 0;
    while row < N {
        let (bits, rate) = rows[row];
        let efficiency = (bits as f64 * rate / 1024.0 * 1e4 + 0.5) as u32 as f64 / 1e4; // rounded as in 3GPP's tables
        let cqis = if bits == 8 { CQI_256QAM } else { CQI_64QAM };
        let mut above = 1;
        while cqis[above].1 < efficiency {
            above += 1;
        }
        let (low, high) = (cqis[above - 1], cqis[above]);
        steps[row] = (low.0 + (high.0 - low.0) * (efficiency - low.1) / (high.1 - low.1), efficiency);
        row += 1;
    }
    steps
}

/// Truncated Shannon bound of 3GPP TR 36.942 annex A.1, downlink: the share of Shannon's capacity that LTE reaches.
const SHANNON_SHARE: f64 = 0.6;
/// Maximum efficiency of that bound, in bit/s/Hz.
const SHANNON_CAP: f64 = 4.4;
/// SINR of that bound in dB below which nothing arrives.
const SHANNON_LEAST_DB: f64 = -10.0;

/// The function from SINR to efficiency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum Table {
    /// 3GPP TS 36.213 table 7.2.3-1.
    #[serde(rename = "cqi-lte")]
    CqiLte,
    /// 3GPP TS 38.214 table 5.2.2.1-2.
    #[serde(rename = "cqi-nr-64qam")]
    CqiNr64Qam,
    /// 3GPP TS 38.214 table 5.2.2.1-3.
    #[serde(rename = "cqi-nr-256qam")]
    CqiNr256Qam,
    /// 3GPP TS 38.214 table 5.1.3.1-1.
    #[serde(rename = "mcs-nr-64qam")]
    McsNr64Qam,
    /// 3GPP TS 38.214 table 5.1.3.1-2.
    #[serde(rename = "mcs-nr-256qam")]
    McsNr256Qam,
    /// Truncated Shannon bound of 3GPP TR 36.942 annex A.1.
    #[serde(rename = "shannon")]
    Shannon,
}

impl Table {
    /// Returns the table that has this name in descriptions.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let of = serde::de::value::StrDeserializer::<serde::de::value::Error>::new(name);
        Self::deserialize(of).ok()
    }

    fn steps(self) -> Option<&'static [Step]> {
        match self {
            Self::CqiLte | Self::CqiNr64Qam => Some(&CQI_64QAM),
            Self::CqiNr256Qam => Some(&CQI_256QAM),
            Self::McsNr64Qam => Some(&MCS_64QAM),
            Self::McsNr256Qam => Some(&MCS_256QAM),
            Self::Shannon => None,
        }
    }

    fn is_mcs(self) -> bool {
        matches!(self, Self::McsNr64Qam | Self::McsNr256Qam)
    }

    /// Returns the efficiency in bit/s/Hz, before overhead: that of the highest CQI or MCS whose block error rate is at
    /// most 10 % at this SINR; 0 below the table's lowest SINR.
    #[must_use]
    pub fn efficiency(self, sinr_db: f64) -> f64 {
        if let Some(steps) = self.steps() {
            return steps.iter().rev().find(|(least, _)| *least <= sinr_db).map_or(0.0, |step| step.1);
        }
        if sinr_db < SHANNON_LEAST_DB {
            return 0.0;
        }
        (SHANNON_SHARE * libm::log2(1.0 + libm::pow(10.0, sinr_db / 10.0))).min(SHANNON_CAP)
    }

    /// Returns the step of a CQI. `None` for CQI 0, which contains no information, for a CQI that the table lacks, and
    /// for tables that are not of CQIs.
    fn of_cqi(self, cqi: u8) -> Option<&'static Step> {
        let steps = self.steps().filter(|_| !self.is_mcs())?;
        steps.get(usize::from(cqi).checked_sub(1)?)
    }

    /// Returns the efficiency in bit/s/Hz, before overhead, of a reading's CQI or MCS, whichever the table is of; 0 for
    /// CQI 0. `None` if the table lacks the value or is of neither.
    fn efficiency_of(self, cqi: Option<u8>, mcs: Option<u8>) -> Option<f64> {
        if self.is_mcs() {
            return self.steps()?.get(usize::from(mcs?)).map(|step| step.1);
        }
        self.steps()?;
        if cqi == Some(0) { Some(0.0) } else { self.of_cqi(cqi?).map(|step| step.1) }
    }

    /// Returns the SINR in dB from which a CQI is reported. `None` for CQI 0, which contains no information, for a CQI
    /// that the table lacks, and for tables that are not of CQIs.
    #[must_use]
    pub fn sinr_of_cqi(self, cqi: u8) -> Option<f64> {
        self.of_cqi(cqi).map(|step| step.0)
    }

    /// Returns the highest efficiency in bit/s/Hz.
    #[must_use]
    pub fn peak_efficiency(self) -> f64 {
        self.steps().and_then(<[_]>::last).map_or(SHANNON_CAP, |step| step.1)
    }

    /// Returns the share of bandwidth and time that carries no data, for descriptions that do not state it.
    ///
    /// - LTE, 20 MHz: 100 blocks of 12 subcarriers of 15 kHz, 14 symbols per ms: 0.84 symbols per second and Hz. 2 of 14
    ///   symbols are control, and another 12 of 168 resource elements are reference signals (2 ports), which leaves
    ///   `0.84 * (1 - 24/168 - 12/168)` = 0.66.
    /// - NR, 100 MHz: 273 blocks, 30 kHz, 28 symbols per ms: 0.917. With an overhead of 0.14 (TS 38.306, clause 4.1.2,
    ///   downlink, FR1), 0.79 is left.
    /// - The Shannon share is of the whole bandwidth, so nothing else is subtracted.
    #[must_use]
    pub fn default_overhead(self) -> f64 {
        match self {
            Self::CqiLte => 0.34,
            Self::CqiNr64Qam | Self::CqiNr256Qam | Self::McsNr64Qam | Self::McsNr256Qam => 0.21,
            Self::Shannon => 0.0,
        }
    }
}

/// How to compute a link's capacity from its SINR.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateSpec {
    /// The table.
    pub table: Table,
    /// Bandwidth of the carrier in MHz. Models with noise also sum the noise over this bandwidth.
    pub bandwidth_mhz: f64,
    /// Share of bandwidth and time that carries no data; default [`Table::default_overhead`].
    pub overhead: Option<f64>,
    /// Capacity in bit/s at the table's highest efficiency, in place of the one that follows from bandwidth and
    /// overhead.
    pub scale_to_bps: Option<f64>,
}

impl RateSpec {
    /// Returns the capacity in bit/s at a SINR in dB: efficiency * bandwidth * (1 - overhead), rounded.
    #[must_use]
    pub fn capacity_bps(&self, sinr_db: f64) -> u64 {
        (self.table.efficiency(sinr_db) * self.bps_per_efficiency()).round() as u64
    }

    /// Returns a link's capacity in bit/s from a reading. If the table is of CQIs, uses the CQI, which is what the
    /// receiver can decode; if it is of MCS, uses the MCS, which is what is sent to the receiver. Without this value,
    /// uses the SINR in dB.
    #[must_use]
    pub fn hint_bps(&self, cqi: Option<u8>, mcs: Option<u8>, sinr_db: Option<f64>) -> Option<f64> {
        let by_index = self.table.efficiency_of(cqi, mcs);
        let efficiency = by_index.or_else(|| sinr_db.map(|db| self.table.efficiency(db)))?;
        Some(efficiency * self.bps_per_efficiency())
    }

    /// Returns the highest capacity, in bit/s.
    #[must_use]
    pub fn peak_bps(&self) -> u64 {
        (self.table.peak_efficiency() * self.bps_per_efficiency()).round() as u64
    }

    fn bps_per_efficiency(&self) -> f64 {
        match self.scale_to_bps {
            Some(peak) => peak / self.table.peak_efficiency(),
            None => self.bandwidth_mhz * 1e6 * (1.0 - self.overhead.unwrap_or(self.table.default_overhead())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLES: [Table; 6] =
        [Table::CqiLte, Table::CqiNr64Qam, Table::CqiNr256Qam, Table::McsNr64Qam, Table::McsNr256Qam, Table::Shannon];

    /// Returns a rate of 1 MHz without overhead: bit/s are efficiency * 10^6.
    fn plain(table: Table) -> RateSpec {
        RateSpec { table, bandwidth_mhz: 1.0, overhead: Some(0.0), scale_to_bps: None }
    }

    #[test]
    fn efficiencies_are_modulation_times_code_rate() {
        // Bits per symbol and code rate * 1024, as in TS 36.213 table 7.2.3-1 and TS 38.214 tables 5.2.2.1-2 and -3.
        let low = [(2, 78), (2, 120), (2, 193), (2, 308), (2, 449), (2, 602)];
        let middle = [(4, 378), (4, 490), (4, 616), (6, 466), (6, 567), (6, 666), (6, 772), (6, 873)];
        let lte: Vec<(u32, u32)> = low.into_iter().chain(middle).chain([(6, 948)]).collect();
        let nr: Vec<(u32, u32)> = [low[0], low[2], low[4]]
            .into_iter()
            .chain(middle)
            .chain([(8, 711), (8, 797), (8, 885), (8, 948)])
            .collect();
        for (steps, rows) in [(CQI_64QAM, lte), (CQI_256QAM, nr)] {
            assert_eq!(rows.len(), 15);
            for ((_, efficiency), (bits, rate)) in steps.into_iter().zip(rows) {
                // The standard rounds to 4 decimals.
                assert!((efficiency - f64::from(bits * rate) / 1024.0).abs() <= 0.5e-4, "{bits} {rate}");
            }
        }
    }

    #[test]
    fn cqi_from_its_threshold_on() {
        for (db, cqi) in [(-100.0, 0), (-6.71, 0), (-6.7, 1), (8.09, 7), (8.1, 8), (22.69, 14), (22.7, 15), (60.0, 15)]
        {
            let rate = plain(Table::CqiLte);
            assert_eq!(Some(rate.capacity_bps(db) as f64), rate.hint_bps(Some(cqi), None, None), "{db}");
        }
        assert_eq!(Table::CqiNr256Qam.efficiency(21.6), 5.5547);
        assert_eq!(plain(Table::CqiLte).capacity_bps(8.1), 1_914_100);
        assert_eq!(plain(Table::CqiNr256Qam).capacity_bps(50.0), 7_406_300);
        assert_eq!(plain(Table::CqiLte).capacity_bps(-6.8), 0);
    }

    #[test]
    fn an_mcs_is_what_3gpp_says_and_stands_among_the_cqis() {
        // Efficiencies as printed in TS 38.214 tables 5.1.3.1-1 and -2.
        let at = |table: Table, mcs| table.efficiency_of(None, Some(mcs));
        for (mcs, printed) in [(0, 0.2344), (9, 1.3262), (10, 1.3281), (16, 2.5703), (17, 2.5664), (28, 5.5547)] {
            assert_eq!(at(Table::McsNr64Qam, mcs), Some(printed), "{mcs}");
        }
        for (mcs, printed) in [
            (4, 1.1758),
            (5, 1.4766),
            (10, 2.5703),
            (11, 2.7305),
            (19, 5.1152),
            (20, 5.3320),
            (26, 7.1602),
            (27, 7.4063),
        ] {
            assert_eq!(at(Table::McsNr256Qam, mcs), Some(printed), "{mcs}");
        }
        // Higher MCS have no code rate: they are for retransmissions.
        assert_eq!((at(Table::McsNr64Qam, 29), at(Table::McsNr256Qam, 28), at(Table::CqiLte, 5)), (None, None, None));
        // An MCS that equals a CQI keeps its threshold; MCS 1 is (0.3066 - 0.2344) / (0.3770 - 0.2344) = 0.506 of the
        // way.
        for (mcs, cqi) in
            [(MCS_64QAM[0], CQI_64QAM[1]), (MCS_64QAM[28], CQI_64QAM[14]), (MCS_256QAM[27], CQI_256QAM[14])]
        {
            assert!((mcs.0 - cqi.0).abs() < 1e-9 && mcs.1 == cqi.1, "{mcs:?} {cqi:?}");
        }
        assert!((MCS_64QAM[1].0 - (-4.7 + 2.4 * 0.5063)).abs() < 1e-3, "{:?}", MCS_64QAM[1]);
    }

    #[test]
    fn shannon_is_truncated() {
        // 10 dB: 0.6 * log2(11) = 0.6 * 3.459432 = 2.075659.
        assert_eq!(plain(Table::Shannon).capacity_bps(10.0), 2_075_659);
        // 0.6 * log2(1 + SNR) = 4.4 at log2(1 + SNR) = 7.3333, SNR = 160.3, 22.05 dB.
        assert!(plain(Table::Shannon).capacity_bps(22.0) < 4_400_000);
        assert_eq!(plain(Table::Shannon).capacity_bps(22.1), 4_400_000);
        assert_eq!(plain(Table::Shannon).capacity_bps(-10.1), 0);
    }

    #[test]
    fn more_sinr_is_never_less_capacity() {
        for table in TABLES {
            let all: Vec<u64> = (-400..600).map(|tenth| plain(table).capacity_bps(f64::from(tenth) / 10.0)).collect();
            assert!(all.windows(2).all(|w| w[0] <= w[1]), "{table:?}");
            assert_eq!(all.last(), Some(&plain(table).peak_bps()));
        }
    }

    #[test]
    fn overhead_and_scale() {
        let lte = RateSpec { table: Table::CqiLte, bandwidth_mhz: 20.0, overhead: None, scale_to_bps: None };
        // 5.5547 * 20 MHz * 0.66.
        assert_eq!(lte.peak_bps(), 73_322_040);
        assert_eq!(RateSpec { overhead: Some(0.5), ..lte }.peak_bps(), 55_547_000);
        for table in TABLES {
            let scaled = RateSpec { table, scale_to_bps: Some(1e9), ..lte };
            assert_eq!(scaled.peak_bps(), 1_000_000_000);
            assert_eq!(scaled.capacity_bps(40.0), 1_000_000_000);
        }
        // CQI 7 of 15: 1.4766 / 5.5547 of the peak.
        assert_eq!(RateSpec { scale_to_bps: Some(5_554_700.0), ..lte }.capacity_bps(6.0), 1_476_600);
    }
}
