//! Templates of a model server's arguments: `{port}` is filled in, `{{` and `}}` are braces.

/// What a template may name. `host` and `port` are filled in by the runner, which chooses them.
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

/// What the runner fills in.
const RUNNERS: [&str; 2] = ["host", "port"];

/// The variables that confine a process to its devices; they are set from what was booked, and by nobody else.
pub const CONFINING: [&str; 5] = [
    "CUDA_VISIBLE_DEVICES",
    "NVIDIA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "ASCEND_RT_VISIBLE_DEVICES",
];

/// One piece of a template.
enum Piece<'a> {
    Text(&'a str),
    Field(&'a str),
}

/// The fields that a template names.
pub fn fields(template: &str) -> Result<Vec<&str>, String> {
    let field = |piece| match piece {
        Piece::Field(name) => Some(name),
        Piece::Text(_) => None,
    };
    Ok(pieces(template)?.into_iter().filter_map(field).collect())
}

/// Fills a template in. What the runner fills in stays as it is, with the braces around it doubled, so that filling in again is
/// safe.
pub fn fill(template: &str, value: impl Fn(&str) -> String) -> Result<String, String> {
    let filled = pieces(template)?.into_iter().map(|piece| match piece {
        Piece::Text(text) => text.replace('{', "{{").replace('}', "}}"),
        Piece::Field(name) if RUNNERS.contains(&name) => format!("{{{name}}}"),
        Piece::Field(name) => value(name).replace('{', "{{").replace('}', "}}"),
    });
    Ok(filled.collect())
}

/// Fills in what was left to the runner: the last step, after which no brace is special.
pub fn finish(template: &str, host: &str, port: &str) -> Result<String, String> {
    let filled = pieces(template)?.into_iter().map(|piece| match piece {
        Piece::Text(text) => text,
        Piece::Field("host") => host,
        Piece::Field(_) => port,
    });
    Ok(filled.collect())
}

fn pieces(template: &str) -> Result<Vec<Piece<'_>>, String> {
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
            return Err(format!("{template:?} has a lone brace; write {{{{ or }}}} for a brace"));
        };
        let name = &brace[1..end];
        if !FIELDS.contains(&name) {
            return Err(format!(
                "{template:?} names {{{name}}}, and can name {{{}}}",
                FIELDS.join("}, {")
            ));
        }
        pieces.push(Piece::Field(name));
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
        let once = fill("{{a}} {model} --port={port}", value).expect("it is well formed");
        assert_eq!(once, "{{a}} <model{{}}> --port={port}");
        assert_eq!(finish(&once, "127.0.0.1", "8081").expect("still"), "{a} <model{}> --port=8081");
    }

    #[test]
    fn a_lone_brace_or_an_unknown_name_is_refused() {
        for template in ["{", "}", "{port", "port}", "{}", "{ports}", "a{b{c}}"] {
            assert!(fields(template).is_err(), "{template}");
        }
        assert_eq!(fields("{{port}} {port}"), Ok(vec!["port"]));
    }
}
