//! Model declarations from files, all checked before the first is used.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use plimsoll_slots::model::{Declaration, Model};
use serde_json::Value;
use serde_saphyr::options::DuplicateKeyPolicy;

/// Reads the declarations in some files. An invalid or duplicate one fails all.
pub(crate) fn read(files: &[PathBuf]) -> Result<Vec<Model>> {
    let mut models = Vec::new();
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    for file in files {
        let (source, text) = text(file)?;
        for (place, declared) in declarations(&source, &text)? {
            let model = check(&place, declared)?;
            if let Some(earlier) = seen.insert(model.name().to_string(), place.clone()) {
                bail!("model {:?} is defined twice, in {earlier} and in {place}", model.name());
            }
            models.push(model);
        }
    }
    ensure!(!models.is_empty(), "no model declarations found");
    Ok(models)
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

/// Returns the declarations in a text, each with its location.
fn declarations(source: &str, text: &str) -> Result<Vec<(String, Value)>> {
    let documents: Vec<Value> = serde_saphyr::from_multiple_with_options(text, options())
        .with_context(|| format!("{source} is not valid YAML"))?;
    let several = documents.len() > 1;
    let mut found = Vec::new();
    for (at, document) in documents.into_iter().enumerate() {
        let place =
            if several { format!("{source}, document {}", at + 1) } else { source.to_string() };
        let list = |rows: Vec<Value>| -> Vec<(String, Value)> {
            let numbered = rows.into_iter().enumerate();
            numbered.map(|(row, value)| (format!("{place}, model {}", row + 1), value)).collect()
        };
        match document {
            Value::Null => {}
            Value::Array(rows) => found.extend(list(rows)),
            Value::Object(mut fields)
                if !fields.contains_key("name") && fields.contains_key("models") =>
            {
                match fields.remove("models") {
                    Some(Value::Array(rows)) => found.extend(list(rows)),
                    Some(Value::Null) | None => {}
                    Some(_) => bail!("{place}: `models` is not a list"),
                }
            }
            declared @ Value::Object(_) => found.push((place, declared)),
            _ => bail!("{place}: expected a model declaration, a list of them, or `models:`"),
        }
    }
    Ok(found)
}

fn check(place: &str, declared: Value) -> Result<Model> {
    let name = declared.get("name").and_then(Value::as_str).map(str::to_string);
    let declaration: Declaration =
        serde_json::from_value(declared).with_context(|| match name {
            Some(name) => format!("{place}: invalid model {name:?}"),
            None => format!("{place}: invalid model, `name` is missing"),
        })?;
    let name = declaration.name.clone();
    Model::try_from(declaration).with_context(|| format!("{place}: invalid model {name:?}"))
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
            (
                format!("{ONE}---\n{ONE}"),
                vec!["\"a\" is defined twice", "document 1", "document 2"],
            ),
            (format!("{ONE}memroy: 1\n"), vec!["\"a\"", "memroy"]),
            (format!("{ONE}name: b\n"), vec!["is not valid YAML", "name"]),
            (
                format!(
                    "{ONE}---\n- {}\n  gpus: 0\n",
                    indented(&ONE.replace("name: a", "name: b"))
                ),
                vec!["document 2, model 1", "gpus: 0 has no GPU memory"],
            ),
            ("models: 3\n".to_string(), vec!["`models` is not a list"]),
            ("just text\n".to_string(), vec!["expected a model declaration"]),
            ("listen: x\n".to_string(), vec!["invalid model"]),
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
