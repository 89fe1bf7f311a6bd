//! Checks that a page is well-formed and self-contained.

/// Elements without an end tag.
const VOID: [&str; 4] = ["meta", "link", "br", "hr"];

/// Panics if tags do not match, an attribute is not quoted, an ampersand is not escaped, or an id is used twice.
pub fn check(html: &str) {
    let body = html.strip_prefix("<!DOCTYPE html>\n").unwrap();
    // style sheets are not markup
    let (head, rest) = body.split_once("<style>").unwrap();
    let (style, rest) = rest.split_once("</style>").unwrap();
    assert!(!style.contains('<'));
    let mut open: Vec<&str> = Vec::new();
    let mut ids: Vec<&str> = Vec::new();
    let whole = format!("{head}{rest}");
    let mut text = whole.as_str();
    while let Some(start) = text.find('<') {
        check_text(&text[..start]);
        let end = start + text[start..].find('>').unwrap();
        let tag = &text[start + 1..end];
        assert!(!tag.contains('<'), "< in <{tag}>");
        text = &text[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "before {:?}", &text[..text.len().min(80)]);
            continue;
        }
        let name = tag.split([' ', '/', '\n']).next().unwrap();
        check_attributes(tag[name.len()..].trim_end_matches('/'), &mut ids);
        if !tag.ends_with('/') && !VOID.contains(&name) {
            open.push(name);
        }
    }
    check_text(text);
    assert!(open.is_empty(), "not closed: {open:?}");
}

fn check_text(text: &str) {
    for (at, _) in text.match_indices('&') {
        let entity: String = text[at + 1..].chars().take_while(|c| *c != ';').take(8).collect();
        assert!(["amp", "lt", "gt", "quot", "apos", "#39"].contains(&entity.as_str()), "&{entity}");
    }
    assert!(!text.contains('>'), "{text:?}");
}

fn check_attributes<'a>(mut attributes: &'a str, ids: &mut Vec<&'a str>) {
    while let Some((name, rest)) = attributes.split_once('=') {
        let name = name.trim();
        assert!(!name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'), "{name:?}");
        assert!(!name.starts_with("on"), "a handler: {name}");
        let (value, rest) = rest.strip_prefix('"').unwrap().split_once('"').unwrap();
        check_text(value);
        if name == "id" {
            assert!(!ids.contains(&value), "id {value} twice");
            ids.push(value);
        }
        if ["href", "src", "action"].contains(&name) {
            assert!(value.starts_with('#') || value == "data:,", "{name}={value} loads something");
        }
        attributes = rest;
    }
    assert!(attributes.trim().is_empty(), "{attributes:?}");
}
