//! A reading of a link.

/// The values of one reading; `None` for values that its source does not know.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Reading {
    /// SINR in dB; if `None`, the last one stays, and ages.
    pub sinr_db: Option<f64>,
    /// Running average of the SINR in dB; used only together with `sinr_db`, which replaces it if it is `None`.
    pub average_db: Option<f64>,
    /// Capacity in bit/s; if `None`, the last one stays, and ages.
    pub capacity_bps: Option<f64>,
    /// Whether the capacity was computed from the SINR, CQI or MCS.
    pub is_capacity_derived: bool,
    /// Reference signal received power in dBm.
    pub rsrp_dbm: Option<f64>,
    /// Reference signal received quality in dB.
    pub rsrq_db: Option<f64>,
    /// Channel quality indicator 0..15.
    pub cqi: Option<u8>,
    /// Modulation and coding scheme 0..31.
    pub mcs: Option<u8>,
    /// Serving cell, as any number that distinguishes it from its neighbours.
    pub cell: Option<u64>,
}

impl Reading {
    /// Whether it has a capacity that was measured, not computed; 0 is not known.
    #[must_use]
    pub fn has_measured_capacity(&self) -> bool {
        self.capacity_bps.is_some_and(|bps| bps > 0.0) && !self.is_capacity_derived
    }

    /// Whether it has a value that algorithms read.
    #[must_use]
    pub fn is_for_algorithms(&self) -> bool {
        self.sinr_db.is_some() || self.has_measured_capacity()
    }
}
