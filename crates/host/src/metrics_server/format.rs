//! The formats of a page of metrics, and the choice between them.

/// Media type of Prometheus' protobuf messages, each after its length.
pub(super) const PROTOBUF: &str =
    "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited";

/// Units at the end of metric names. In OpenMetrics, a separate line states the unit.
const UNITS: [&str; 5] = ["seconds", "bytes", "bytes_per_second", "segments", "db"];

/// The format of a page of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// Prometheus' text format 0.0.4, which every scraper and promtool read.
    Text,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Format {
    /// Returns the format that a request's `Accept` fields prefer. It is OpenMetrics only if they name it; wildcards
    /// select text.
    pub(super) fn accepted<'a>(fields: impl Iterator<Item = &'a str>) -> Self {
        let (open, text) = Preferences::of(fields).open_metrics_and_text();
        if open > 0.0 && open >= text { Self::OpenMetrics } else { Self::Text }
    }

    /// Returns the value of the field `Content-Type`.
    pub(super) fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// Converts a page as encoded by `prometheus-client` to this format. Samples are the same in both formats. In the
    /// text format, a counter's family has the name of its series, an info is a gauge, and unit lines and the end
    /// marker are omitted.
    pub(super) fn render(self, page: &str) -> String {
        let mut text = String::with_capacity(page.len() + page.len() / 8);
        let mut help = None;
        for line in page.lines() {
            let metadata = line.strip_prefix("# ").and_then(|rest| rest.split_once(' '));
            match metadata.map(|(keyword, rest)| (keyword, rest.split_once(' ').unwrap_or((rest, "")))) {
                // the following `# TYPE` line determines the name
                Some(("HELP", (_, said))) => help = Some(said),
                Some(("TYPE", (name, kind))) => self.describe(&mut text, name, kind, help.take()),
                _ if self == Self::Text && line == "# EOF" => {}
                _ => text.extend([line, "\n"]),
            }
        }
        text
    }

    fn describe(self, text: &mut String, name: &str, kind: &str, help: Option<&str>) {
        let (suffix, kind) = match (self, kind) {
            (Self::Text, "counter") => ("_total", "counter"),
            (Self::Text, "info") => ("_info", "gauge"),
            _ => ("", kind),
        };
        if let Some(help) = help {
            text.extend(["# HELP ", name, suffix, " ", help, "\n"]);
        }
        text.extend(["# TYPE ", name, suffix, " ", kind, "\n"]);
        let unit = UNITS.iter().find(|unit| name.strip_suffix(**unit).is_some_and(|rest| rest.ends_with('_')));
        if let (Self::OpenMetrics, Some(unit)) = (self, unit) {
            text.extend(["# UNIT ", name, " ", unit, "\n"]);
        }
    }
}

/// Returns whether a request's `Accept` fields prefer protobuf, by name, to both formats of text.
pub(super) fn prefers_protobuf<'a>(fields: impl Iterator<Item = &'a str>) -> bool {
    let preferences = Preferences::of(fields);
    let (open, text) = preferences.open_metrics_and_text();
    let protobuf = |range: &&Range<'_>| {
        range.media_type.eq_ignore_ascii_case("application/vnd.google.protobuf")
            && range.proto == Some("io.prometheus.client.MetricFamily")
            && range.encoding == Some("delimited")
    };
    preferences.0.iter().filter(protobuf).any(|range| range.quality > open.max(text))
}

/// The media ranges of a request's `Accept` fields.
struct Preferences<'a>(Vec<Range<'a>>);

impl<'a> Preferences<'a> {
    fn of(fields: impl Iterator<Item = &'a str>) -> Self {
        Self(fields.flat_map(|field| split(field, ',')).filter_map(Range::parse).collect())
    }

    /// Returns the qualities of the formats of text.
    fn open_metrics_and_text(&self) -> (f32, f32) {
        let quality = |media_type: &str, version: &str| {
            let matching = self.0.iter().filter(|r| r.media_type.eq_ignore_ascii_case(media_type));
            let matching = matching.filter(|r| r.version.is_none_or(|v| v == version));
            matching.map(|r| r.quality).reduce(f32::max)
        };
        let open = quality("application/openmetrics-text", "1.0.0").unwrap_or(0.0);
        // the most specific matching range decides
        let text = ["text/plain", "text/*", "*/*"].iter().find_map(|range| quality(range, "0.0.4")).unwrap_or(0.0);
        (open, text)
    }
}

/// A media range of an `Accept` field (RFC 9110, section 12.5.1).
struct Range<'a> {
    media_type: &'a str,
    version: Option<&'a str>,
    proto: Option<&'a str>,
    encoding: Option<&'a str>,
    quality: f32,
}

impl<'a> Range<'a> {
    /// Parses a media range; returns `None` if its quality is invalid.
    fn parse(text: &'a str) -> Option<Self> {
        let mut parts = split(text, ';');
        let mut range = Self { media_type: parts.next()?, version: None, proto: None, encoding: None, quality: 1.0 };
        for (name, value) in parts.filter_map(|parameter| parameter.split_once('=')) {
            let value = value.trim().trim_matches('"');
            match name.trim() {
                "q" | "Q" => range.quality = value.parse().ok().filter(|q| (0.0..=1.0).contains(q))?,
                name if name.eq_ignore_ascii_case("version") => range.version = Some(value),
                name if name.eq_ignore_ascii_case("proto") => range.proto = Some(value),
                name if name.eq_ignore_ascii_case("encoding") => range.encoding = Some(value),
                _ => {}
            }
        }
        Some(range)
    }
}

/// Splits at separators that are not inside a quoted string.
fn split(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let mut is_quoted = false;
    let parts = text.split(move |c| {
        is_quoted ^= c == '"';
        c == separator && !is_quoted
    });
    parts.map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_metrics_is_served_only_if_it_is_preferred_by_name() {
        const PROMETHEUS_2: &str = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;\
                                    q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        const PROMETHEUS_3: &str = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
                                    application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;\
                                    escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        const TEXT_FIRST: &str =
            "text/plain;version=0.0.4;q=0.6,application/openmetrics-text;version=1.0.0;q=0.5,*/*;q=0.1";
        let cases: [(&[&str], Format); 15] = [
            (&[], Format::Text),
            (&[""], Format::Text),
            (&["*/*"], Format::Text),
            (&["application/*"], Format::Text),
            (&["text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"], Format::Text),
            (&[PROMETHEUS_2], Format::OpenMetrics),
            (&[PROMETHEUS_3], Format::OpenMetrics),
            (&[TEXT_FIRST], Format::Text),
            (&["application/openmetrics-text;version=0.0.1"], Format::Text),
            (&["application/openmetrics-text; q=0"], Format::Text),
            (&["application/openmetrics-text; q=NaN"], Format::Text),
            (&["Application/OpenMetrics-Text ; Version=\"1.0.0\" ; q=0.2 , */*;q=0.1"], Format::OpenMetrics),
            (&["text/plain;q=0.1;odd=\"a,b;q=1\"", "application/openmetrics-text;q=0.2"], Format::OpenMetrics),
            (&["application/openmetrics-text;q=0.5,text/*;q=0.2,*/*;q=0.9"], Format::OpenMetrics),
            (&["application/openmetrics-text;q=0.5,*/*;q=0.9"], Format::Text),
        ];
        for (fields, format) in cases {
            assert_eq!(Format::accepted(fields.iter().copied()), format, "{fields:?}");
        }
    }

    #[test]
    fn protobuf_is_served_only_if_it_is_preferred_by_name() {
        const FAMILY: &str = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily";
        const REST: &str = "application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        let cases = [
            (format!("{FAMILY};encoding=delimited,{REST}"), true),
            (format!("{REST},{FAMILY};encoding=delimited"), true),
            (format!("{FAMILY};encoding=delimited;q=0.9,{REST}"), true),
            (format!("{FAMILY};encoding=delimited;q=0.8,{REST}"), false),
            (format!("{FAMILY};encoding=delimited;q=0.3,*/*;q=0.4"), false),
            (format!("{FAMILY};encoding=delimited;q=0"), false),
            (format!("{FAMILY};encoding=text,{REST}"), false),
            (format!("{FAMILY},{REST}"), false),
            ("application/vnd.google.protobuf;encoding=delimited".to_owned(), false),
            (REST.to_owned(), false),
            ("application/*,*/*".to_owned(), false),
            (String::new(), false),
        ];
        for (field, is_preferred) in cases {
            assert_eq!(prefers_protobuf([field.as_str()].into_iter()), is_preferred, "{field}");
        }
    }

    #[test]
    fn each_format_has_its_own_metadata_and_the_same_samples() {
        const PAGE: &str = "# HELP a_bytes Of a\n# TYPE a_bytes counter\na_bytes_total{x=\"# EOF\"} 1\n# HELP b Of b\n\
                            # TYPE b info\nb_info{v=\"1\"} 1\n# HELP c_seconds Of c\n# TYPE c_seconds gauge\n\
                            c_seconds 2.5\n# EOF\n";
        const TEXT: &str = "# HELP a_bytes_total Of a\n# TYPE a_bytes_total counter\na_bytes_total{x=\"# EOF\"} 1\n\
                            # HELP b_info Of b\n# TYPE b_info gauge\nb_info{v=\"1\"} 1\n# HELP c_seconds Of c\n\
                            # TYPE c_seconds gauge\nc_seconds 2.5\n";
        assert_eq!(Format::Text.render(PAGE), TEXT);
        let with_units = PAGE
            .replace("a_bytes counter\n", "a_bytes counter\n# UNIT a_bytes bytes\n")
            .replace("c_seconds gauge\n", "c_seconds gauge\n# UNIT c_seconds seconds\n");
        assert_eq!(Format::OpenMetrics.render(PAGE), with_units);
    }
}
