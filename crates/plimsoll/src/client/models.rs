//! Model declarations from files, all checked before the first is used.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use plimsoll_slots::model::{Declaration, Model};
use serde_json::Value;
use serde_saphyr::Spanned;
use serde_saphyr::options::DuplicateKeyPolicy;

/// The extensions of declarations in a directory.
const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

/// The most errors that are listed.
const LISTED: usize = 20;

/// Reads the declarations in some files and directories. If any is invalid, the error lists what is
/// wrong with all of them.
pub(crate) fn read(paths: &[PathBuf]) -> Result<Vec<Model>> {
    let mut models = Vec::new();
    let mut errors: Vec<String> = Vec::new();
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    for file in files(paths)? {
        let (source, text) = text(&file)?;
        let declared = match declarations(&source, &text) {
            Ok(declared) => declared,
            Err(error) => {
                errors.push(format!("{error:#}"));
                continue;
            }
        };
        if let Some((place, kind)) = kubernetes_object(&declared) {
            errors.push(format!(
                "{place}: a Kubernetes {kind}, and not a model; `plimsoll simulate -f {source}` reads it"
            ));
            continue;
        }
        for (place, value) in declared {
            match check(&place, value) {
                Ok(model) => {
                    let shown = place.of_field("name");
                    if let Some(earlier) = seen.insert(model.name().to_string(), shown.clone()) {
                        let name = model.name();
                        errors.push(format!(
                            "{shown}: model {name:?} is defined twice, first in {earlier}"
                        ));
                    }
                    models.push(model);
                }
                Err(wrong) => errors.extend(wrong),
            }
        }
    }
    match &errors[..] {
        [] => {}
        [one] => bail!("{one}"),
        several => {
            let listed = several[..several.len().min(LISTED)].join("\n  ");
            let more = match several.len().saturating_sub(LISTED) {
                0 => String::new(),
                more => format!("\n  and {more} more"),
            };
            bail!("{} errors in the declarations:\n  {listed}{more}", several.len());
        }
    }
    ensure!(!models.is_empty(), "no model declarations found");
    Ok(models)
}

/// Returns the files that are named, and those in directories that are named, by name.
fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let shown = path.display();
        let entries = std::fs::read_dir(path).with_context(|| format!("could not read {shown}"))?;
        let entries: std::io::Result<Vec<PathBuf>> =
            entries.map(|entry| Ok(entry?.path())).collect();
        let mut inside = entries.with_context(|| format!("could not read {shown}"))?;
        inside.retain(|file| {
            let extension = file.extension().and_then(|extension| extension.to_str());
            extension.is_some_and(|extension| EXTENSIONS.contains(&extension)) && file.is_file()
        });
        ensure!(!inside.is_empty(), "{shown} has no *.yaml, *.yml or *.json files");
        inside.sort();
        files.extend(inside);
    }
    Ok(files)
}

fn text(file: &Path) -> Result<(String, String)> {
    if file.as_os_str() != "-" {
        let text = std::fs::read_to_string(file)
            .with_context(|| format!("could not read {}", file.display()))?;
        return Ok((file.display().to_string(), text));
    }
    let mut text = String::new();
    std::io::stdin().lock().read_to_string(&mut text).context("could not read standard input")?;
    Ok(("standard input".to_string(), text))
}

/// A declaration in a text.
struct Place<'a> {
    source: &'a str,
    text: &'a str,
    /// The lines of the declaration, from 1.
    lines: (usize, usize),
}

impl Place<'_> {
    /// Formats the file and the line of a field; that of the declaration if the field is not found.
    fn of_field(&self, field: &str) -> String {
        let (first, last) = self.lines;
        let inside = self.text.lines().enumerate().skip(first - 1).take(last + 1 - first);
        let has_key = |line: &str, key: &str| {
            let line = line.trim_start().trim_start_matches("- ").trim_start();
            let name = line.split(':').next().unwrap_or_default();
            line.contains(':') && name.trim().trim_matches(['"', '\'']) == key
        };
        // The innermost field may be inside braces, on the line of an outer one.
        let keys = field.rsplit('.').map(|key| key.split('[').next().unwrap_or(key));
        let mut found = keys.filter_map(|key| inside.clone().find(|(_, line)| has_key(line, key)));
        format!("{}:{}", self.source, found.next().map_or(first, |(at, _)| at + 1))
    }
}

/// Returns the declarations in a text, each with its place.
fn declarations<'a>(source: &'a str, text: &'a str) -> Result<Vec<(Place<'a>, Value)>> {
    let documents: Vec<Spanned<Value>> = serde_saphyr::from_multiple_with_options(text, options())
        .with_context(|| format!("{source} is not valid YAML"))?;
    let mut found = Vec::new();
    for document in documents {
        let line = usize::try_from(document.referenced.line()).unwrap_or(1).max(1);
        let place = format!("{source}:{line}");
        match document.value {
            Value::Null => {}
            Value::Array(rows) => found.extend(rows.into_iter().map(|row| (line, row))),
            Value::Object(mut fields)
                if !fields.contains_key("name") && fields.contains_key("models") =>
            {
                match fields.remove("models") {
                    Some(Value::Array(rows)) => {
                        found.extend(rows.into_iter().map(|row| (line, row)));
                    }
                    Some(Value::Null) | None => {}
                    Some(_) => bail!("{place}: `models` is not a list"),
                }
            }
            declared @ Value::Object(_) => found.push((line, declared)),
            _ => bail!("{place}: expected a model declaration, a list of them, or `models:`"),
        }
    }
    Ok(located(source, text, found))
}

/// Finds the lines of declarations: each begins at the line of its name, or where its list begins.
fn located<'a>(
    source: &'a str,
    text: &'a str,
    found: Vec<(usize, Value)>,
) -> Vec<(Place<'a>, Value)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut from = 1;
    let mut placed: Vec<(Place<'a>, Value)> = Vec::new();
    for (begin, value) in found {
        from = from.max(begin);
        let name = value.get("name").and_then(Value::as_str);
        let is_named =
            |line: &str| name.is_some_and(|name| line.contains("name") && line.contains(name));
        let at = lines.iter().skip(from - 1).position(|line| is_named(line));
        let first = at.map_or(from, |at| from + at);
        from = first + 1;
        if let Some((before, _)) = placed.last_mut() {
            before.lines.1 = (first - 1).max(before.lines.0);
        }
        placed.push((Place { source, text, lines: (first, lines.len().max(first)) }, value));
    }
    placed
}

/// Returns the place and the kind of the first Kubernetes object among declarations.
fn kubernetes_object(declared: &[(Place<'_>, Value)]) -> Option<(String, String)> {
    declared.iter().find_map(|(place, value)| {
        let (kind, _) = (value.get("kind")?.as_str()?, value.get("apiVersion")?);
        Some((place.of_field("kind"), kind.to_string()))
    })
}

/// Checks one declaration; each error has file, line, model and field.
fn check(place: &Place<'_>, mut declared: Value) -> Result<Model, Vec<String>> {
    let name = declared.get("name").and_then(Value::as_str).map(str::to_string);
    let named = match &name {
        Some(name) => format!("model {name:?}"),
        None => "a model without a name".to_string(),
    };
    let mut errors = Vec::new();
    loop {
        let error = match parse(&declared) {
            Ok(model) if errors.is_empty() => return Ok(model),
            Ok(_) => return Err(errors),
            Err(error) => error,
        };
        let Wrong { field, message } = error;
        let in_field = if field.is_empty() { String::new() } else { format!(", {field}") };
        errors.push(format!("{}: {named}{in_field}: {message}", place.of_field(&field)));
        // The rest is checked without this field. At the end it may lack what others depend on.
        let is_left_out = declared.as_object_mut().is_some_and(|fields| without(fields, &field));
        if !is_left_out {
            return Err(errors);
        }
    }
}

/// A problem of one field of a declaration.
struct Wrong {
    field: String,
    message: String,
}

fn parse(declared: &Value) -> Result<Model, Wrong> {
    let declaration: Declaration = serde_path_to_error::deserialize(declared).map_err(|error| {
        let message = error.inner().to_string();
        let path = error.path().to_string();
        Wrong { field: if path == "." { String::new() } else { path }, message }
    })?;
    Model::try_from(declaration)
        .map_err(|error| Wrong { field: error.field.clone(), message: error.problem.to_string() })
}

/// Removes an invalid field, so that the others can be checked; `false` if there is none. A model
/// must have a runtime: an invalid one is replaced.
fn without(fields: &mut serde_json::Map<String, Value>, field: &str) -> bool {
    let top = field.split(['.', '[']).next().unwrap_or(field);
    let replacement = serde_json::json!({"command": {"argv": ["serve"]}});
    match top {
        "runtime" if fields.get(top) != Some(&replacement) => {
            fields.insert(top.to_string(), replacement).is_some()
        }
        "name" | "runtime" => false,
        top => fields.remove(top).is_some(),
    }
}

/// Rejects duplicate keys: which of the two is meant is unknown.
fn options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        duplicate_keys: DuplicateKeyPolicy::Error,
        // `yes` and `on` are words, as in YAML 1.2.
        strict_booleans: true,
        with_snippet: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "name: a\nruntime: {command: {argv: [serve]}}\nmemory: 1GiB\n";

    fn names(text: &str) -> Result<Vec<String>, String> {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), text).expect("the file is writable");
        let models = read(&[file.path().to_path_buf()]).map_err(|error| format!("{error:#}"))?;
        Ok(models.iter().map(|model| model.name().to_string()).collect())
    }

    fn indented(text: &str) -> String {
        text.trim_end().replace('\n', "\n  ")
    }

    #[test]
    fn one_several_documents_a_list_and_a_config_are_read() {
        let two = ONE.replace("name: a", "name: b");
        assert_eq!(names(ONE), Ok(vec!["a".to_string()]));
        let both = Ok(vec!["a".to_string(), "b".to_string()]);
        assert_eq!(names(&format!("{ONE}---\n{two}")), both);
        let list = format!("- {}\n- {}\n", indented(ONE), indented(&two));
        assert_eq!(names(&list), both);
        assert_eq!(names(&format!("models:\n{list}")), both);
        assert_eq!(names(&format!("listen: 127.0.0.1:8080\nmodels:\n{list}")), both);
        assert_eq!(
            names(r#"{"name":"j","runtime":{"command":{"argv":["x"]}}}"#),
            Ok(vec!["j".to_string()])
        );
    }

    #[test]
    fn an_invalid_file_is_reported_with_its_location() {
        for (text, parts) in [
            (format!("{ONE}---\n{ONE}"), vec![":5: model \"a\" is defined twice, first in", ":1"]),
            (format!("{ONE}memroy: 1\n"), vec![":4: model \"a\", memroy: unknown field"]),
            (
                format!(
                    "{}---\n{}",
                    ONE.replace("1GiB", "-1GiB"),
                    ONE.replace("argv: [serve]", "argv: 3")
                ),
                vec![
                    "2 errors",
                    ":3: model \"a\", memory: ",
                    ":6: model \"a\", runtime.command.argv: ",
                ],
            ),
            (format!("{ONE}name: b\n"), vec!["is not valid YAML", "name"]),
            (
                format!(
                    "{ONE}---\n- {}\n  gpus: 0\n",
                    indented(&ONE.replace("name: a", "name: b"))
                ),
                vec!["gpus: 0 has no GPU memory"],
            ),
            ("models: 3\n".to_string(), vec!["`models` is not a list"]),
            ("just text\n".to_string(), vec!["expected a model declaration"]),
            ("listen: x\n".to_string(), vec![":1: a model without a name"]),
            ("models: []\n".to_string(), vec!["no model declarations"]),
            ("a: [\n".to_string(), vec!["is not valid YAML"]),
            (String::new(), vec!["no model declarations"]),
        ] {
            let error = names(&text).expect_err(&text);
            for part in parts {
                assert!(error.contains(part), "{part} is not in {error}, for {text}");
            }
        }
    }
}
