//! Wrong names in error messages: the nearest right name, and all that are valid.

use hotcc_host::nearest::nearest;

/// What a message says after naming a wrong one: ``did you mean `dtcp`? expected one of cubic, dtcp``.
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
    use super::expected;

    #[test]
    fn a_similar_name_is_suggested_before_the_list() {
        assert_eq!(expected("srver", ["ue", "server"]), "did you mean `server`? expected one of ue, server");
        assert_eq!(expected("pc", ["ue", "server"]), "expected one of ue, server");
        assert_eq!(expected("pc", ["ue"]), "expected ue");
        assert_eq!(expected("pc", []), "there are none");
    }
}
