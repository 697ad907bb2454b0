//! The output of `plimsoll audit -o sarif`: SARIF 2.1.0, which code hosts and editors show next to
//! the file that a finding is about.

use std::collections::BTreeMap;
use std::path::Path;

use plimsoll_core::units::Name;
use plimsoll_kube::finding::Finding;
use serde::Serialize;

use super::Severity;

/// A SARIF log with one run. The field names are SARIF's; it is only written.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Log<'a> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    version: &'static str,
    runs: [Run<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Run<'a> {
    tool: Tool<'a>,
    column_kind: &'static str,
    results: Vec<Outcome<'a>>,
}

#[derive(Serialize)]
struct Tool<'a> {
    driver: Driver<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Driver<'a> {
    name: &'static str,
    version: &'static str,
    rules: Vec<Rule<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Rule<'a> {
    id: &'a str,
    short_description: Text<String>,
    default_configuration: Level,
}

#[derive(Serialize)]
struct Level {
    level: Severity,
}

#[derive(Serialize)]
struct Text<T> {
    text: T,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Outcome<'a> {
    rule_id: &'a str,
    rule_index: usize,
    level: Severity,
    message: Text<String>,
    locations: Vec<Location<'a>>,
    properties: Properties,
}

#[derive(Serialize)]
struct Properties {
    numbers: BTreeMap<&'static str, u64>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Location<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    physical_location: Option<PhysicalLocation>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    logical_locations: Vec<LogicalLocation<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PhysicalLocation {
    artifact_location: Artifact,
}

#[derive(Serialize)]
struct Artifact {
    uri: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LogicalLocation<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    fully_qualified_name: Option<String>,
    kind: &'static str,
}

/// Converts findings. `file_of` returns the file that a node was read from; `None` for standard
/// input.
pub fn sarif<'a>(
    findings: &'a [Finding],
    file_of: &dyn Fn(Option<&Name>) -> Option<&'a str>,
) -> Log<'a> {
    let mut worst: BTreeMap<&str, &Finding> = BTreeMap::new();
    for finding in findings {
        let known = worst.entry(finding.code().as_str()).or_insert(finding);
        if finding.severity() < known.severity() {
            *known = finding;
        }
    }
    let index = |code: &str| worst.keys().position(|known| *known == code).unwrap_or_default();
    let outcome = |finding: &'a Finding| Outcome {
        rule_id: finding.code().as_str(),
        rule_index: index(finding.code().as_str()),
        level: finding.severity().into(),
        message: Text { text: format!("{}. Remedy: {}", finding.message(), finding.remedy()) },
        locations: location(finding, file_of(finding.node.as_ref())).into_iter().collect(),
        properties: Properties { numbers: finding.numbers() },
    };
    let rules = worst.iter().map(|(code, finding)| Rule {
        id: code,
        short_description: Text { text: code.replace('-', " ") },
        default_configuration: Level { level: finding.severity().into() },
    });
    let driver =
        Driver { name: "plimsoll", version: env!("CARGO_PKG_VERSION"), rules: rules.collect() };
    Log {
        schema: "https://json.schemastore.org/sarif-2.1.0.json",
        version: "2.1.0",
        runs: [Run {
            tool: Tool { driver },
            column_kind: "unicodeCodePoints",
            results: findings.iter().map(outcome).collect(),
        }],
    }
}

fn location<'a>(finding: &'a Finding, file: Option<&str>) -> Option<Location<'a>> {
    let node = finding.node.as_deref();
    let device = finding.device.as_deref().map(|uuid| LogicalLocation {
        name: uuid,
        fully_qualified_name: Some(qualified(node, uuid)),
        kind: "device",
    });
    let node =
        node.map(|node| LogicalLocation { name: node, fully_qualified_name: None, kind: "node" });
    let logical_locations: Vec<_> = device.into_iter().chain(node).collect();
    let physical_location = file
        .map(|file| PhysicalLocation { artifact_location: Artifact { uri: uri(Path::new(file)) } });
    (physical_location.is_some() || !logical_locations.is_empty())
        .then_some(Location { physical_location, logical_locations })
}

/// Returns the qualified name of a device. A name that is derived from the ordinal starts with the
/// node.
fn qualified(node: Option<&str>, uuid: &str) -> String {
    match node {
        Some(node) if !uuid.starts_with(&format!("{node}/")) => format!("{node}/{uuid}"),
        _ => uuid.to_string(),
    }
}

/// Converts a path to the relative or absolute URI reference that SARIF requires.
fn uri(path: &Path) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte);
    let encode =
        |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    let text: String = path.to_string_lossy().bytes().map(encode).collect();
    let text = text.strip_prefix("./").unwrap_or(&text);
    if path.is_absolute() { format!("file://{text}") } else { text.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_becomes_a_uri() {
        assert_eq!(uri(Path::new("./a b.yaml")), "a%20b.yaml");
        assert_eq!(uri(Path::new("/tmp/x.json")), "file:///tmp/x.json");
    }
}
