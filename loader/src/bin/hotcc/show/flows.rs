//! Prints the result of `hotcc flows`.

use super::print::{lines, row, say};
use hotcc::sockets::flows::{Connection, SeenByPep, StateValue};

/// Prints open connections; with `with_state`, each is followed by its algorithm's state.
pub fn flows(all: &[Connection], with_state: bool) {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let ms = |us: Option<u32>| or_dash(us.map(|us| format!("{:.3}", f64::from(us) / 1e3)));
    let mut rows = vec![row([
        "netns",
        "local",
        "peer",
        "cc",
        "version",
        "state",
        "cwnd",
        "ssthresh",
        "rtt ms",
        "min rtt ms",
        "Mbit/s",
        "retrans",
    ])];
    for c in all {
        rows.push(vec![
            c.netns.clone(),
            c.local.to_string(),
            c.peer.to_string(),
            c.cc.clone(),
            c.version.to_owned(),
            c.ca_state.to_owned(),
            c.cwnd.to_string(),
            or_dash(c.ssthresh.map(|s| s.to_string())),
            ms(c.srtt_us),
            ms(c.min_rtt_us),
            or_dash(c.delivery_bps.map(|bps| format!("{:.3}", bps as f64 / 1e6))),
            c.retransmits.to_string(),
        ]);
    }
    let lines = lines(&rows);
    say!("{}", lines[0]);
    for (connection, line) in all.iter().zip(&lines[1..]) {
        say!("{line}");
        if with_state {
            connection.state.iter().for_each(|value| say!("    {}", state_text(value)));
            connection.pep.iter().for_each(|seen| say!("    {}", pep_text(seen)));
        }
    }
}

/// Formats what the PEP reported, for example
/// `pep: all up to 14480 bytes beyond the client, and 20000..28960; 12 segments; rtt 10.2 ms; 3 ms ago`.
fn pep_text(seen: &SeenByPep) -> String {
    let ranges: String = seen.ranges_bytes.iter().map(|(start, end)| format!(", and {start}..{end}")).collect();
    let rtt = seen.rtt_us.map_or(String::new(), |us| format!("; rtt {:.1} ms", f64::from(us) / 1e3));
    let SeenByPep { in_order_bytes, segments, age_ms, .. } = seen;
    format!(
        "pep: all up to {in_order_bytes} bytes beyond the client{ranges}; {segments} segments{rtt}; {age_ms} ms ago"
    )
}

/// The values of a threshold or window that is not set: the kernel's infinite ssthresh, or all bits set.
const UNSET: [i128; 2] = [0x7fff_ffff, u32::MAX as i128];

/// Suffixes of state fields that record an algorithm's latest look-up of a signal; their value is 0 before the first
/// look-up.
const LATEST_LOOK: [&str; 2] = ["radio.generation", "path.clock"];

/// Formats a state value. A fixed-point value is divided by its scale: `n_q16 4.25 segments per RTT (278528 / 65536)`. A
/// value in multiples of a unit is multiplied: `probe_rtt 7808 us (122 x 64)`.
fn state_text(StateValue { name, value, unit, meaning }: &StateValue) -> String {
    if let Some(meaning) = meaning {
        return format!("{name} {meaning} ({value})");
    }
    if unit == "segments" && UNSET.contains(value) {
        return format!("{name} not set");
    }
    if *value == 0 && LATEST_LOOK.iter().any(|look| name.ends_with(look)) {
        return format!("{name} not consulted yet");
    }
    let parts = unit.rsplit_once(" / ").or_else(|| Some(("", unit.strip_prefix("1/")?)));
    let scaled = parts.and_then(|(unit, scale)| Some((unit, scale, scale.parse::<f64>().ok()?)));
    if let Some((unit, scale, divisor)) = scaled {
        let text = format!("{name} {} {unit}", *value as f64 / divisor);
        return format!("{} ({value} / {scale})", text.trim_end());
    }
    let multiple = unit.split_once(' ').and_then(|(size, unit)| Some((size.parse::<i128>().ok()?, unit)));
    match multiple {
        Some((size, unit)) => format!("{name} {} {unit} ({value} x {size})", value * size),
        None => format!("{name} {value} {unit}").trim_end().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_fields_are_formatted_for_people() {
        for (value, unit, text) in [
            (278_528, "segments per RTT / 65536", "f 4.25 segments per RTT (278528 / 65536)"),
            (32_768, "1/65536", "f 0.5 (32768 / 65536)"),
            (7, "us / 8", "f 0.875 us (7 / 8)"),
            (122, "64 us", "f 7808 us (122 x 64)"),
            (i128::from(u32::MAX), "segments", "f not set"),
            (i128::from(u32::MAX), "", "f 4294967295"),
            (12, "segments", "f 12 segments"),
        ] {
            let value = StateValue { name: "f".to_owned(), value, unit: unit.to_owned(), meaning: None };
            assert_eq!(state_text(&value), text);
        }
        let look =
            |value| StateValue { name: "radio.generation".to_owned(), value, unit: String::new(), meaning: None };
        let phase = StateValue { name: "phase".to_owned(), meaning: Some("CRUISE".to_owned()), ..look(1) };
        assert_eq!(state_text(&phase), "phase CRUISE (1)");
        assert_eq!(state_text(&look(0)), "radio.generation not consulted yet");
        assert_eq!(state_text(&look(1)), "radio.generation 1");
    }
}
