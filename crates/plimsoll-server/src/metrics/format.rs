//! The two text formats of a scrape: OpenMetrics, and the classic format of Prometheus for clients
//! that ask for it, such as `promtool check metrics`.

use axum::http::{HeaderMap, header};

/// A text format, selected by `Accept`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    OpenMetrics,
    Classic,
}

impl Format {
    /// Selects the format that a client prefers; OpenMetrics if it has no preference.
    pub(super) fn accepted(headers: &HeaderMap) -> Format {
        let accepted =
            headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let ranges: Vec<&str> = accepted.flat_map(|value| value.split(',')).collect();
        let openmetrics =
            weight(&ranges, &["application/openmetrics-text", "application/*", "*/*"]);
        let classic = weight(&ranges, &["text/plain", "text/*", "*/*"]);
        if classic > openmetrics { Format::Classic } else { Format::OpenMetrics }
    }

    pub(super) fn content_type(self) -> &'static str {
        match self {
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Format::Classic => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// Converts OpenMetrics text to the format.
    pub(super) fn convert(self, openmetrics: String) -> String {
        match self {
            Format::OpenMetrics => openmetrics,
            Format::Classic => classic(&openmetrics),
        }
    }
}

/// Returns the weight of the first of these media ranges that a client accepts, in thousandths.
fn weight(accepted: &[&str], ranges: &[&str]) -> u16 {
    let of_range = |range: &&str| accepted.iter().find_map(|one| weight_of(one, range));
    ranges.iter().find_map(of_range).unwrap_or(0)
}

fn weight_of(accepted: &str, range: &str) -> Option<u16> {
    let mut parts = accepted.split(';').map(str::trim);
    if !parts.next()?.eq_ignore_ascii_case(range) {
        return None;
    }
    let quality = parts.find_map(|part| part.strip_prefix("q=")).unwrap_or("1");
    let (whole, decimals) = quality.split_once('.').unwrap_or((quality, ""));
    let thousandths = format!("{whole}{decimals:0<3.3}");
    Some(thousandths.parse().unwrap_or(1000))
}

/// Rewrites the lines about metrics: OpenMetrics names the family of a counter without `_total`,
/// has types that the classic format lacks, and ends with a line of its own. Samples are the same.
fn classic(openmetrics: &str) -> String {
    let mut text = String::with_capacity(openmetrics.len());
    let mut help = None;
    for line in openmetrics.lines() {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some("EOF" | "UNIT"), ..) => {}
            // The type, which decides about the name, comes after it.
            (Some("#"), Some("HELP"), Some(_), meaning) => help = Some(meaning.unwrap_or_default()),
            (Some("#"), Some("TYPE"), Some(family), Some(kind)) => {
                let (suffix, kind) = match kind {
                    "counter" => ("_total", kind),
                    "info" => ("_info", "gauge"),
                    "unknown" => ("", "untyped"),
                    kind => ("", kind),
                };
                let help = help.take().unwrap_or_default();
                text.push_str(&format!("# HELP {family}{suffix} {help}\n"));
                text.push_str(&format!("# TYPE {family}{suffix} {kind}\n"));
            }
            _ => {
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_gets_the_format_that_it_prefers() {
        for (accept, expected) in [
            (None, Format::OpenMetrics),
            (Some("*/*"), Format::OpenMetrics),
            (Some("text/plain"), Format::Classic),
            (Some("text/plain;version=0.0.4"), Format::Classic),
            (Some("text/plain;version=0.0.4;q=0.5,*/*;q=0.1"), Format::Classic),
            (Some("application/openmetrics-text"), Format::OpenMetrics),
            // Prometheus 2.42 and 3.
            (
                Some(
                    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
                ),
                Format::OpenMetrics,
            ),
            (Some("application/openmetrics-text;q=0.2, text/plain;q=0.25"), Format::Classic),
        ] {
            let mut headers = HeaderMap::new();
            if let Some(accept) = accept {
                headers.insert(header::ACCEPT, accept.parse().expect("a header"));
            }
            assert_eq!(Format::accepted(&headers), expected, "{accept:?}");
        }
    }

    #[test]
    fn the_classic_format_names_counters_with_their_suffix_and_has_no_info() {
        let openmetrics = "# HELP a Things.\n# TYPE a counter\na_total 1\n# HELP b Version.\n# TYPE b info\nb_info{v=\"1\"} 1\n\
             # HELP c Seconds.\n# TYPE c gauge\n# UNIT c seconds\nc 2\n# EOF\n";
        let expected = "# HELP a_total Things.\n# TYPE a_total counter\na_total 1\n# HELP b_info Version.\n# TYPE b_info gauge\nb_info{v=\"1\"} 1\n\
             # HELP c Seconds.\n# TYPE c gauge\nc 2\n";
        assert_eq!(classic(openmetrics), expected);
    }
}
