//! Templates of a model server's arguments: `{port}` is a placeholder, `{{` and `}}` are braces.
//!
//! A template is filled in twice. The server replaces everything that follows from the charge; the
//! runner then replaces `{host}` and `{port}`, which it chooses. Braces in replaced values are
//! doubled in between, so that the second step cannot take a value for a placeholder.

/// The placeholders that a template may use. The runner replaces `host` and `port`.
pub const FIELDS: [&str; 13] = [
    "model",
    "slot",
    "host",
    "port",
    "context",
    "concurrency",
    "tensor_parallel",
    "gpus",
    "uuids",
    "memory_bytes",
    "memory_mib",
    "memory_per_gpu_bytes",
    "memory_per_gpu_mib",
];

/// The placeholders that the runner replaces.
const RUNNER_FIELDS: [&str; 2] = ["host", "port"];

/// An invalid template.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    #[error("{template:?} has an unmatched brace; write {{{{ or }}}} for a brace")]
    UnmatchedBrace { template: String },
    #[error(
        "{template:?} has the unknown placeholder {{{name}}}; the known ones are {{{}}}",
        FIELDS.join("}, {")
    )]
    UnknownPlaceholder { template: String, name: String },
}

/// One piece of a template.
enum Piece<'a> {
    Text(&'a str),
    Placeholder(&'a str),
}

/// Returns the placeholders that a template uses.
pub fn placeholders(template: &str) -> Result<Vec<&str>, TemplateError> {
    let pieces = parse(template)?.into_iter();
    Ok(pieces
        .filter_map(|piece| match piece {
            Piece::Placeholder(name) => Some(name),
            Piece::Text(_) => None,
        })
        .collect())
}

/// Replaces the placeholders of the server. Those of the runner stay, and all other braces are
/// doubled for [`finish`].
pub fn fill(template: &str, value: impl Fn(&str) -> String) -> Result<String, TemplateError> {
    let filled = parse(template)?.into_iter().map(|piece| match piece {
        Piece::Text(text) => escape_braces(text),
        Piece::Placeholder(name) if RUNNER_FIELDS.contains(&name) => format!("{{{name}}}"),
        Piece::Placeholder(name) => escape_braces(&value(name)),
    });
    Ok(filled.collect())
}

/// Replaces the placeholders of the runner. No brace is special in the result.
pub fn finish(template: &str, host: &str, port: &str) -> Result<String, TemplateError> {
    let filled = parse(template)?.into_iter().map(|piece| match piece {
        Piece::Text(text) => text,
        Piece::Placeholder("host") => host,
        Piece::Placeholder(_) => port,
    });
    Ok(filled.collect())
}

fn escape_braces(text: &str) -> String {
    text.replace('{', "{{").replace('}', "}}")
}

fn parse(template: &str) -> Result<Vec<Piece<'_>>, TemplateError> {
    let mut pieces = Vec::new();
    let mut rest = template;
    while let Some(at) = rest.find(['{', '}']) {
        let (text, brace) = rest.split_at(at);
        pieces.push(Piece::Text(text));
        if brace.starts_with("{{") || brace.starts_with("}}") {
            pieces.push(Piece::Text(&brace[..1]));
            rest = &brace[2..];
            continue;
        }
        let end = brace.find('}').filter(|_| brace.starts_with('{'));
        let Some(end) = end else {
            return Err(TemplateError::UnmatchedBrace { template: template.to_string() });
        };
        let name = &brace[1..end];
        if !FIELDS.contains(&name) {
            let (template, name) = (template.to_string(), name.to_string());
            return Err(TemplateError::UnknownPlaceholder { template, name });
        }
        pieces.push(Piece::Placeholder(name));
        rest = &brace[end + 1..];
    }
    pieces.push(Piece::Text(rest));
    Ok(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_is_filled_in_two_steps_and_braces_survive_both() {
        let value = |name: &str| format!("<{name}{{}}>");
        let once = fill("{{a}} {model} --port={port}", value).expect("a valid template");
        assert_eq!(once, "{{a}} <model{{}}> --port={port}");
        let twice = finish(&once, "127.0.0.1", "8081").expect("a valid template");
        assert_eq!(twice, "{a} <model{}> --port=8081");
    }

    #[test]
    fn an_unmatched_brace_or_an_unknown_placeholder_is_rejected() {
        for template in ["{", "}", "{port", "port}"] {
            let template = template.to_string();
            let expected = Err(TemplateError::UnmatchedBrace { template: template.clone() });
            assert_eq!(placeholders(&template), expected);
        }
        for template in ["{}", "{ports}", "a{b{c}}"] {
            let error = placeholders(template).expect_err(template);
            assert!(matches!(error, TemplateError::UnknownPlaceholder { .. }), "{error}");
        }
        assert_eq!(placeholders("{{port}} {port}"), Ok(vec!["port"]));
    }
}
