//! Hints for messages about an unknown name: the nearest known name, and the list of all.

/// Minimum similarity (0 to 1) for a name to be suggested.
const SIMILAR: f64 = 0.8;

/// Returns the known name that `unknown` most likely means, or `None` if none is similar.
#[must_use]
pub fn nearest<'a>(unknown: &str, known: &[&'a str]) -> Option<&'a str> {
    let unknown = unknown.to_lowercase();
    let scored = known.iter().map(|&name| (strsim::jaro_winkler(&unknown, &name.to_lowercase()), name));
    scored.filter(|(score, _)| *score >= SIMILAR).max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, name)| name)
}

/// Returns the end of a message about an unknown name: "; did you mean `NEAREST`? Available: A, B".
#[must_use]
pub fn hint(unknown: &str, known: &[&str]) -> String {
    if known.is_empty() {
        return "; none are available".to_owned();
    }
    let all = known.join(", ");
    match nearest(unknown, known) {
        Some(name) => format!("; did you mean `{name}`? Available: {all}"),
        None => format!("; available: {all}"),
    }
}

/// Returns the part of a message that follows an invalid name: ``did you mean `dtcp`? expected one of cubic, dtcp``.
#[must_use]
pub fn expected<'a>(name: &str, valid: impl IntoIterator<Item = &'a str>) -> String {
    let valid: Vec<&str> = valid.into_iter().collect();
    let suggestion = nearest(name, &valid).map_or_else(String::new, |one| format!("did you mean `{one}`? "));
    match &valid[..] {
        [] => "there are none".to_owned(),
        [only] => format!("{suggestion}expected {only}"),
        all => format!("{suggestion}expected one of {}", all.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typing_error_and_an_abbreviation_find_the_name() {
        let known = ["alpha_permille", "n_max", "epoch_us"];
        for (unknown, name) in [
            ("alpha", "alpha_permille"),
            ("alpah_permille", "alpha_permille"),
            ("N_MAX", "n_max"),
            ("epoch", "epoch_us"),
        ] {
            assert_eq!(nearest(unknown, &known), Some(name), "{unknown}");
        }
    }

    #[test]
    fn an_unrelated_name_suggests_nothing() {
        for unknown in ["", "no_such", "fifo"] {
            assert_eq!(nearest(unknown, &["bandwidth", "rtt", "max"]), None, "{unknown}");
        }
        assert_eq!(hint("fifo", &["bandwidth", "rtt"]), "; available: bandwidth, rtt");
        assert_eq!(hint("rt", &["bandwidth", "rtt"]), "; did you mean `rtt`? Available: bandwidth, rtt");
        assert_eq!(hint("x", &[]), "; none are available");
    }

    #[test]
    fn a_similar_name_is_suggested_before_the_list() {
        assert_eq!(expected("srver", ["ue", "server"]), "did you mean `server`? expected one of ue, server");
        assert_eq!(expected("pc", ["ue", "server"]), "expected one of ue, server");
        assert_eq!(expected("pc", ["ue"]), "expected ue");
        assert_eq!(expected("pc", []), "there are none");
    }
}
