//! Which rights a request needs, by its method and path alone: before anybody knows whether what it names exists.

use std::borrow::Cow;

use axum::http::Method;
use percent_encoding::percent_decode_str;

/// What a token may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Rights {
    /// Look.
    Read,
    /// Look and change, but not speak for a runner.
    Operate,
    /// Speak for the runners of these names, and nothing else.
    Runner(Pattern),
    /// Everything.
    All,
}

/// Names: one, or all that begin with what stands before a `*` at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    start: String,
    is_open: bool,
}

/// What a request needs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wanted<'a> {
    /// Nothing: whether the server is there is no secret.
    Nothing,
    /// To look.
    Read,
    /// To change.
    Operate,
    /// To speak for this runner.
    Runner(Cow<'a, str>),
}

/// What a request needs.
pub(crate) fn wanted<'a>(method: &Method, path: &'a str) -> Wanted<'a> {
    let looks = method == Method::GET || method == Method::HEAD;
    if looks && matches!(path, "/livez" | "/readyz") {
        return Wanted::Nothing;
    }
    // Segments are compared as the router compares them, undecoded; only the name is decoded, as the router decodes it.
    let segments: Vec<&str> = path.split('/').collect();
    match segments[..] {
        ["", "api", "v1", "runners", runner] if method == Method::PUT => speaker(runner),
        ["", "api", "v1", "runners", runner, "heartbeat"] if method == Method::POST => {
            speaker(runner)
        }
        ["", "api", "v1", "runners", runner, "work"] if looks => speaker(runner),
        // It is a POST for its body, and changes nothing.
        ["", "api", "v1", "scheduler", "whatif"] if method == Method::POST => Wanted::Read,
        _ if looks => Wanted::Read,
        _ => Wanted::Operate,
    }
}

fn speaker(runner: &str) -> Wanted<'_> {
    Wanted::Runner(percent_decode_str(runner).decode_utf8_lossy())
}

impl Rights {
    /// Whether they are enough.
    pub(crate) fn suffice(&self, wanted: &Wanted<'_>) -> bool {
        match (self, wanted) {
            (_, Wanted::Nothing) | (Rights::All, _) => true,
            (Rights::Runner(names), Wanted::Runner(name)) => names.matches(name),
            (Rights::Read | Rights::Operate, Wanted::Read) | (Rights::Operate, Wanted::Operate) => {
                true
            }
            _ => false,
        }
    }
}

impl Pattern {
    /// A name, or the beginning of names with a `*` after it.
    pub(crate) fn new(text: &str) -> Self {
        match text.strip_suffix('*') {
            Some(start) => Pattern { start: start.to_string(), is_open: true },
            None => Pattern { start: text.to_string(), is_open: false },
        }
    }

    fn matches(&self, name: &str) -> bool {
        if self.is_open { name.starts_with(&self.start) } else { name == self.start }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn method_and_path_say_what_is_needed() {
        let runner = |name: &'static str| Wanted::Runner(name.into());
        for (method, path, expected) in [
            (Method::GET, "/livez", Wanted::Nothing),
            (Method::HEAD, "/readyz", Wanted::Nothing),
            (Method::POST, "/livez", Wanted::Operate),
            (Method::GET, "/metrics", Wanted::Read),
            (Method::GET, "/api/v1/models", Wanted::Read),
            (Method::GET, "/no/such/thing", Wanted::Read),
            (Method::PUT, "/api/v1/models/m", Wanted::Operate),
            (Method::OPTIONS, "/api/v1/models/m", Wanted::Operate),
            (Method::PUT, "/api/v1/runners/r", runner("r")),
            (Method::PUT, "/api/v1/runners/a%2Db", runner("a-b")),
            (Method::POST, "/api/v1/runners/r/heartbeat", runner("r")),
            (Method::GET, "/api/v1/runners/r/work", runner("r")),
            (Method::GET, "/api/v1/runners/r", Wanted::Read),
            (Method::GET, "/api/v1/runners/r/heartbeat", Wanted::Read),
            (Method::DELETE, "/api/v1/runners/r", Wanted::Operate),
            (Method::PUT, "//api/v1/runners/r", Wanted::Operate),
            (Method::PUT, "/api/v1/runners/r/", Wanted::Operate),
            (Method::POST, "/api/v1/runners/r/%68eartbeat", Wanted::Operate),
        ] {
            assert_eq!(wanted(&method, path), expected, "{method} {path}");
        }
    }

    #[test]
    fn a_right_is_enough_for_what_it_names_and_no_more() {
        let rights =
            [Rights::Read, Rights::Operate, Rights::Runner(Pattern::new("gpu-1")), Rights::All];
        let enough =
            |wanted: &Wanted<'_>| rights.iter().map(|r| r.suffice(wanted)).collect::<Vec<_>>();
        assert_eq!(enough(&Wanted::Nothing), [true, true, true, true]);
        assert_eq!(enough(&Wanted::Read), [true, true, false, true]);
        assert_eq!(enough(&Wanted::Operate), [false, true, false, true]);
        assert_eq!(enough(&Wanted::Runner("gpu-1".into())), [false, false, true, true]);
        assert_eq!(enough(&Wanted::Runner("gpu-10".into())), [false, false, false, true]);
    }

    #[test]
    fn a_star_at_the_end_stands_for_the_rest_of_a_name() {
        for (pattern, name, matches) in [
            ("gpu-*", "gpu-1", true),
            ("gpu-*", "gpu-", true),
            ("gpu-*", "cpu-1", false),
            ("*", "anything", true),
            ("g*-1", "gpu-1", false),
            ("gpu-1", "GPU-1", false),
        ] {
            assert_eq!(Pattern::new(pattern).matches(name), matches, "{pattern} {name}");
        }
    }
}
