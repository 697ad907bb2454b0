//! The layers of the workspace: the dependencies that each crate may have on the others.

use std::path::Path;

use anyhow::{Context, Result};
use toml::de::{DeTable, DeValue};

use super::Violation;

/// Each crate with the crates of this workspace that it may depend on. Dependencies point upwards
/// in this table. Two front ends share nothing but the core.
const LAYERS: &[(&str, &[&str])] = &[
    ("plimsoll-core", &[]),
    ("plimsoll-goldens", &[]),
    ("plimsoll-testbed", &[]),
    ("plimsoll-kube", &["core"]),
    ("plimsoll-models", &["core"]),
    ("plimsoll-slots", &["core", "models"]),
    ("plimsoll-sim", &["core", "kube", "models", "slots"]),
    ("plimsoll-engine", &["core"]),
    ("plimsoll-api", &["core", "kube", "models", "slots", "sim"]),
    ("plimsoll-server", &["core", "kube", "models", "slots", "sim", "engine", "api"]),
    ("plimsoll-cluster", &["core", "kube", "engine", "api", "server"]),
    ("plimsoll-runner", &["core", "kube", "models", "slots", "api"]),
    (
        "plimsoll",
        &["core", "kube", "models", "slots", "sim", "engine", "api", "server", "cluster", "runner"],
    ),
];

/// Checks one manifest. Dev-dependencies may reach further, except those of the core: its tests
/// must not need more than it does.
pub(super) fn dependencies(file: &Path, text: &str) -> Result<Vec<Violation>> {
    let manifest =
        DeTable::parse(text).with_context(|| format!("{} is not a manifest", file.display()))?;
    let manifest = DeValue::Table(manifest.into_inner());
    let violation = |offset: usize, what: String| {
        let line = 1 + text[..offset].matches('\n').count();
        Violation::new("layers", file, line, what)
    };
    let name = get(&manifest, &["package", "name"]).and_then(DeValue::as_str).unwrap_or_default();
    let Some((_, allowed)) = LAYERS.iter().find(|(layer, _)| *layer == name) else {
        let what = format!(
            "`{name}` is not among the layers: add it to LAYERS in xtask/src/tidy/layers.rs"
        );
        return Ok(vec![violation(0, what)]);
    };
    let mut tables = vec![&manifest];
    if let Some(targets) = get(&manifest, &["target"]).and_then(DeValue::as_table) {
        tables.extend(targets.iter().map(|(_, target)| target.get_ref()));
    }
    let mut kinds = vec!["dependencies", "build-dependencies"];
    if name == "plimsoll-core" {
        kinds.push("dev-dependencies");
    }
    let mut found = Vec::new();
    for kind in kinds {
        let listed = tables.iter().filter_map(|table| get(table, &[kind])?.as_table());
        for (key, value) in listed.flat_map(|table| table.iter()) {
            let package = get(value.get_ref(), &["package"]).and_then(DeValue::as_str);
            let dependency: &str = package.unwrap_or(key.get_ref());
            let is_allowed = match dependency.strip_prefix("plimsoll-") {
                Some(short) => allowed.contains(&short),
                None => dependency != "plimsoll" && dependency != "xtask",
            };
            if !is_allowed {
                let what = format!(
                    "{name} must not depend on {dependency}: move what both need into a lower layer, \
                     or what needs both into a higher one"
                );
                found.push(violation(key.span().start, what));
            }
        }
    }
    Ok(found)
}

fn get<'a, 'i>(value: &'a DeValue<'i>, path: &[&str]) -> Option<&'a DeValue<'i>> {
    path.iter().try_fold(value, |value, key| Some(value.get(*key)?.get_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(name: &str, rest: &str) -> Vec<usize> {
        let text = format!("[package]\nname = \"{name}\"\n{rest}");
        let found = dependencies(Path::new("Cargo.toml"), &text).expect("it is TOML");
        found.into_iter().map(|violation| violation.line).collect()
    }

    #[test]
    fn a_crate_depends_only_on_lower_layers() {
        let none: [usize; 0] = [];
        let core = "[dependencies]\nserde.workspace = true\nplimsoll-core.workspace = true";
        assert_eq!(lines("plimsoll-kube", core), none);
        let sim = "[dependencies]\nserde = \"1\"\nplimsoll-sim.workspace = true";
        assert_eq!(lines("plimsoll-kube", sim), [5]);
        let renamed = "[dependencies.renamed]\npackage = \"plimsoll\"";
        assert_eq!(lines("plimsoll-core", renamed), [3]);
        let target = "[target.'cfg(unix)'.dependencies]\nplimsoll = \"1\"";
        assert_eq!(lines("plimsoll-sim", target), [4]);
        assert_eq!(lines("plimsoll-new", ""), [1]);
    }

    #[test]
    fn tests_may_reach_further_except_in_the_core() {
        let sim = "[dev-dependencies]\nplimsoll-sim.workspace = true";
        assert_eq!(lines("plimsoll-kube", sim), [0; 0]);
        assert_eq!(lines("plimsoll-core", sim), [4]);
    }
}
