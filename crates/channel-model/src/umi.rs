//! A user in a street canyon: path loss and line of sight of 3GPP TR 38.901, UMi street canyon.

use crate::fading::{Chance, Fading, Shadow};
use crate::geometry::{Walk, blocks, distance};
use crate::radio::{Radio, STEP, kept_sinr};
use crate::random::Stream;
use crate::spec::{LineOfSight, UmiSpec};

/// Thermal noise in dBm per Hz, at 290 K.
const NOISE_DBM_PER_HZ: f64 = -174.0;
/// Speed of light in m/s, as TR 38.901 rounds it.
const LIGHT_MPS: f64 = 3.0e8;
/// Effective height of the environment in m (TR 38.901 table 7.4.1-1 note 1).
const ENVIRONMENT_M: f64 = 1.0;
/// Minimum distance in the plane for which the formulas are valid, in m; a closer user counts as being at this
/// distance.
const CLOSEST_M: f64 = 10.0;
/// Distance in m over which line of sight is consistent (TR 38.901 table 7.6.3.1-2).
const LINE_OF_SIGHT_M: f64 = 50.0;

/// A path between two antennas.
#[derive(Debug, Clone, Copy)]
struct Link {
    /// Carrier frequency in GHz.
    carrier_ghz: f64,
    /// Distance in the plane, in m.
    plane_m: f64,
    /// Height of the station's antenna in m.
    station_m: f64,
    /// Height of the user's antenna in m.
    user_m: f64,
}

impl Link {
    /// Returns the distance in space, in m.
    fn space_m(&self) -> f64 {
        distance([0.0, self.station_m], [self.plane_m, self.user_m])
    }

    /// Returns the breakpoint distance d'BP in m (table 7.4.1-1 note 1).
    fn breakpoint_m(&self) -> f64 {
        4.0 * (self.station_m - ENVIRONMENT_M) * (self.user_m - ENVIRONMENT_M) * self.carrier_ghz * 1e9 / LIGHT_MPS
    }

    /// Returns the path loss with line of sight in dB (table 7.4.1-1, UMi - Street Canyon, LOS): PL1 up to the
    /// breakpoint, then PL2.
    fn los_db(&self) -> f64 {
        let carrier = 20.0 * libm::log10(self.carrier_ghz);
        let log_space = libm::log10(self.space_m());
        let breakpoint_m = self.breakpoint_m();
        if self.plane_m <= breakpoint_m {
            return 32.4 + 21.0 * log_space + carrier;
        }
        let height = self.station_m - self.user_m;
        32.4 + 40.0 * log_space + carrier - 9.5 * libm::log10(breakpoint_m * breakpoint_m + height * height)
    }

    /// Returns the path loss without line of sight in dB (table 7.4.1-1, UMi - Street Canyon, NLOS).
    fn nlos_db(&self) -> f64 {
        let carrier = 21.3 * libm::log10(self.carrier_ghz);
        let loss = 35.3 * libm::log10(self.space_m()) + 22.4 + carrier - 0.3 * (self.user_m - 1.5);
        loss.max(self.los_db())
    }

    /// Returns the probability of line of sight (table 7.4.2-1, UMi - Street canyon).
    fn los_probability(&self) -> f64 {
        if self.plane_m <= 18.0 {
            return 1.0;
        }
        let near = 18.0 / self.plane_m;
        near + libm::exp(-self.plane_m / 36.0) * (1.0 - near)
    }
}

/// Returns the noise and interference over the bandwidth, in dBm.
fn disturbance_dbm(spec: &UmiSpec) -> f64 {
    let noise_dbm = NOISE_DBM_PER_HZ + 10.0 * libm::log10(spec.rate.bandwidth_mhz * 1e6) + spec.noise_figure_db;
    let Some(interference_dbm) = spec.interference_dbm else { return noise_dbm };
    let milliwatt = |dbm: f64| libm::pow(10.0, dbm / 10.0);
    10.0 * libm::log10(milliwatt(noise_dbm) + milliwatt(interference_dbm))
}

/// Creates the radio of a user from a description that [`crate::RadioSpec::check`] accepts.
pub(crate) fn realise(name: &str, spec: &UmiSpec, seed: u64, steps: usize) -> Radio {
    let stream = |purpose| Stream::new(seed, name, purpose);
    let mut shadows = spec.shadowing.map(|s| {
        let los = Shadow::new(stream("shadowing with line of sight"), s.los_sigma_db, s.los_correlation_m);
        let nlos = Shadow::new(stream("shadowing without line of sight"), s.nlos_sigma_db, s.nlos_correlation_m);
        (los, nlos)
    });
    let mut fading = spec.fading.map(|f| Fading::new(seed, name, &f));
    let mut chance = Chance::new(stream("line of sight"), LINE_OF_SIGHT_M);
    let walk = Walk::new(&spec.ue);
    let received_dbm = spec.tx_power_dbm + spec.tx_gain_dbi + spec.rx_gain_dbi;
    let base_db = received_dbm - disturbance_dbm(spec) + spec.sinr_offset_db;

    let mut radio = Radio {
        sinr_db: None,
        line_of_sight: Vec::with_capacity(steps),
        distance_m: Vec::with_capacity(steps),
        ..Radio::flat(name, None, Vec::new())
    };
    let mut sinr = Vec::with_capacity(steps);
    let mut walked_m = 0.0;
    for step in 0..steps {
        let place = walk.at(step as f64 * STEP.as_millis() as f64 / 1e3);
        let plane_m = distance(spec.station.at, place.at);
        let link = Link {
            carrier_ghz: spec.carrier_ghz,
            plane_m: plane_m.max(CLOSEST_M),
            station_m: spec.station.height_m,
            user_m: spec.ue.height_m,
        };
        let in_line = spec.obstacles.iter().filter(|o| blocks(o, place.at, spec.station.at));
        let (line_of_sight, extra_db) = match spec.line_of_sight {
            LineOfSight::Obstacles => in_line.fold((true, 0.0), |(_, loss), o| (false, loss + o.extra_loss_db)),
            LineOfSight::Table => (chance.at(place.walked_m) <= link.los_probability(), 0.0),
            LineOfSight::Always => (true, 0.0),
            LineOfSight::Never => (false, 0.0),
        };
        let mut loss_db = extra_db + if line_of_sight { link.los_db() } else { link.nlos_db() };
        if let Some((los, nlos)) = &mut shadows {
            // Both advance, so that neither depends on the line of sight so far.
            let moved_m = place.walked_m - walked_m;
            let (los_db, nlos_db) = (los.next(moved_m), nlos.next(moved_m));
            loss_db += if line_of_sight { los_db } else { nlos_db };
        }
        if let Some(fading) = &mut fading {
            let doppler_hz = place.speed_mps * spec.carrier_ghz * 1e9 / LIGHT_MPS;
            loss_db -= fading.next(doppler_hz, STEP.as_millis() as f64 / 1e3, line_of_sight);
        }
        walked_m = place.walked_m;
        let sinr_db = kept_sinr(base_db - loss_db);
        sinr.push(sinr_db);
        radio.capacity_bps.push(spec.rate.capacity_bps(sinr_db.into()));
        radio.line_of_sight.push(line_of_sight);
        radio.distance_m.push(Link { plane_m, ..link }.space_m() as f32);
    }
    radio.sinr_db = Some(sinr);
    radio
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(carrier_ghz: f64, plane_m: f64) -> Link {
        Link { carrier_ghz, plane_m, station_m: 10.0, user_m: 1.5 }
    }

    fn near(value: f64, expected: f64) {
        assert!((value - expected).abs() < 0.005, "{value} instead of {expected}");
    }

    // Heights of 10 m and 1.5 m: d3D = sqrt(d2D^2 + 8.5^2), d'BP = 4 * 9 * 0.5 * fc / 3e8.

    #[test]
    fn breakpoint_and_distance() {
        // 18 * 2e9 / 3e8 = 120; 18 * 28e9 / 3e8 = 1680.
        near(link(2.0, 50.0).breakpoint_m(), 120.0);
        near(link(28.0, 50.0).breakpoint_m(), 1680.0);
        // sqrt(100^2 + 72.25) = 100.3606.
        near(link(2.0, 100.0).space_m(), 100.3606);
    }

    #[test]
    fn loss_with_line_of_sight() {
        // 2 GHz, 100 m (before 120 m): 32.4 + 21 * log10(100.3606) + 20 * log10(2)
        // = 32.4 + 21 * 2.001563 + 6.0206 = 80.4534.
        near(link(2.0, 100.0).los_db(), 80.4534);
        // 2 GHz, 500 m (beyond): d3D = sqrt(250072.25) = 500.0722; log10 = 2.699033.
        // 32.4 + 40 * 2.699033 + 6.0206 - 9.5 * log10(120^2 + 8.5^2 = 14472.25; 4.160536)
        // = 32.4 + 107.9613 + 6.0206 - 39.5251 = 106.8568.
        near(link(2.0, 500.0).los_db(), 106.8568);
        // 28 GHz, 50 m: d3D = sqrt(2572.25) = 50.7174; log10 = 1.705157; 20 * log10(28) = 28.9432.
        // 32.4 + 21 * 1.705157 + 28.9432 = 97.1515.
        near(link(28.0, 50.0).los_db(), 97.1515);
        // 28 GHz, 2000 m (beyond 1680 m): d3D = 2000.0181; log10 = 3.301034.
        // 32.4 + 132.0414 + 28.9432 - 9.5 * log10(1680^2 + 72.25 = 2822472.25; 6.450630)
        // = 193.3846 - 61.2810 = 132.1036.
        near(link(28.0, 2000.0).los_db(), 132.1036);
    }

    #[test]
    fn loss_without_line_of_sight() {
        // 2 GHz, 100 m: 35.3 * 2.001563 + 22.4 + 21.3 * 0.301030 = 70.6552 + 22.4 + 6.4119 = 99.4671.
        near(link(2.0, 100.0).nlos_db(), 99.4671);
        // 28 GHz, 50 m: 35.3 * 1.705157 + 22.4 + 21.3 * 1.447158 = 60.1920 + 22.4 + 30.8245 = 113.4165.
        near(link(28.0, 50.0).nlos_db(), 113.4165);
        // 28 GHz, 2000 m: 35.3 * 3.301034 + 22.4 + 30.8245 = 169.7510.
        near(link(28.0, 2000.0).nlos_db(), 169.7510);
        // A user 11.5 m up: 0.3 * 10 = 3 dB less. d3D = sqrt(100^2 + 1.5^2) = 100.0112; log10 = 2.000049.
        // 35.3 * 2.000049 + 22.4 + 6.4119 - 3 = 96.4136.
        near(Link { user_m: 11.5, ..link(2.0, 100.0) }.nlos_db(), 96.4136);
        // The loss is never less than with line of sight. 0.5 GHz, 10 m, user at 22.5 m:
        // d3D = sqrt(100 + 156.25) = 16.0078; log10 = 1.204331;
        // 35.3 * 1.204331 + 22.4 + 21.3 * -0.301030 - 6.3 = 52.2010;
        // with line of sight 32.4 + 21 * 1.204331 - 6.0206 = 51.6704. Both from the same point:
        let close = Link { carrier_ghz: 0.5, plane_m: 10.0, station_m: 10.0, user_m: 22.5 };
        near(close.los_db(), 51.6704);
        near(close.nlos_db(), 52.2010);
        // 100 GHz in place of 0.5: 35.3 * 1.204331 + 22.4 + 42.6 - 6.3 = 101.2129, LOS 32.4 + 25.2910 + 40 = 97.6910.
        near(Link { carrier_ghz: 100.0, ..close }.nlos_db(), 101.2129);
    }

    #[test]
    fn loss_is_continuous_at_the_breakpoint() {
        for carrier_ghz in [2.0, 28.0] {
            let at = link(carrier_ghz, 1.0).breakpoint_m();
            let (before, after) = (link(carrier_ghz, at - 1e-6).los_db(), link(carrier_ghz, at + 1e-6).los_db());
            assert!((before - after).abs() < 1e-6, "{before} {after}");
        }
    }

    #[test]
    fn probability_of_line_of_sight() {
        near(link(2.0, 18.0).los_probability(), 1.0);
        // 36 m: 0.5 + exp(-1) * 0.5 = 0.683940.
        near(link(2.0, 36.0).los_probability(), 0.68394);
        // 180 m: 0.1 + exp(-5) * 0.9 = 0.106064.
        near(link(2.0, 180.0).los_probability(), 0.106064);
    }
}
