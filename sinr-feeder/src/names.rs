//! Wrong names in error messages: the nearest right name, and all that are valid.

/// How similar a name must be to be suggested, 0 to 1.
const SIMILAR: f64 = 0.8;

/// What a message says after naming a wrong one: ``did you mean `stdin`? expected one of stdin, udp``.
#[must_use]
pub fn expected<'a>(name: &str, valid: impl IntoIterator<Item = &'a str>) -> String {
    let valid: Vec<&str> = valid.into_iter().collect();
    let nearest = valid.iter().map(|one| (strsim::jaro(name, one), one)).max_by(|a, b| a.0.total_cmp(&b.0));
    let nearest = nearest.filter(|(similarity, _)| *similarity > SIMILAR);
    let suggestion = nearest.map_or_else(String::new, |(_, one)| format!("did you mean `{one}`? "));
    format!("{suggestion}expected one of {}", valid.join(", "))
}

#[cfg(test)]
mod tests {
    use super::expected;

    #[test]
    fn a_similar_name_is_suggested_before_the_list() {
        assert_eq!(expected("stdn", ["stdin", "udp"]), "did you mean `stdin`? expected one of stdin, udp");
        assert_eq!(expected("serial", ["stdin", "udp"]), "expected one of stdin, udp");
    }
}
