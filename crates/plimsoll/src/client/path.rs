//! Names in URLs, and the URL of the next page.

use std::fmt::Write;

use ureq::http::Uri;

/// Encodes a name as one segment of a path, or one value of a query.
pub(crate) fn segment(name: &str) -> String {
    let mut out = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric()
            || b"-_~".contains(&byte)
            || (byte == b'.' && !is_dots(name))
        {
            out.push(char::from(byte));
        } else {
            write!(out, "%{byte:02X}").expect("writing to a string cannot fail");
        }
    }
    out
}

/// Returns whether a name is `.` or `..`, which are special in a path.
fn is_dots(name: &str) -> bool {
    name.bytes().all(|byte| byte == b'.')
}

/// Returns the path of `rel="next"` in a Link header. The host in it is ignored: the token is sent
/// to one server only.
pub(super) fn next(link: &str) -> Option<String> {
    let mut rest = link;
    while let Some((_, behind)) = rest.split_once('<') {
        let (target, behind) = behind.split_once('>')?;
        let end = behind.find('<').unwrap_or(behind.len());
        if is_next(behind[..end].trim_end_matches([',', ' '])) {
            let uri: Uri = target.parse().ok()?;
            return uri
                .path_and_query()
                .map(ToString::to_string)
                .filter(|path| path.starts_with('/'));
        }
        rest = &behind[end..];
    }
    None
}

fn is_next(parameters: &str) -> bool {
    let mut parameters =
        parameters.split(';').map(|parameter| parameter.trim().to_ascii_lowercase());
    parameters.any(|parameter| ["rel=next", "rel=\"next\""].contains(&&*parameter))
}

/// Replaces control characters of untrusted text.
pub(super) fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_one_segment() {
        for (name, written) in [
            ("slot-7", "slot-7"),
            ("Qwen/Qwen3-8B", "Qwen%2FQwen3-8B"),
            ("a b?c#d%e", "a%20b%3Fc%23d%25e"),
            ("llama3.1", "llama3.1"),
            ("..", "%2E%2E"),
            ("é", "%C3%A9"),
        ] {
            assert_eq!(segment(name), written);
        }
    }

    #[test]
    fn the_next_page_is_a_path_of_the_same_server() {
        for (link, path) in [
            (r#"</api/v1/runners?after=r9>; rel="next""#, Some("/api/v1/runners?after=r9")),
            (r#"<http://evil.example/x?y=1>; rel=next"#, Some("/x?y=1")),
            (r#"</a>; rel="prev", </b>; rel="next""#, Some("/b")),
            (r#"</a>; rel="prev""#, None),
            ("nonsense", None),
            ("<unclosed", None),
        ] {
            assert_eq!(next(link).as_deref(), path, "{link}");
        }
    }
}
