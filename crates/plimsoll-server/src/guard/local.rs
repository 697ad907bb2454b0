//! Without tokens, every local process may do everything. A web page in a local browser is not a
//! local process.

use std::net::IpAddr;

use axum::http::uri::Authority;
use axum::http::{HeaderMap, Uri, header};

/// Returns why a request does not count as local.
///
/// A page of any site can make its browser send requests to 127.0.0.1: directly, which shows in
/// `Origin`, or under a host name of its own that resolves there, which shows in `Host`.
pub(crate) fn rejection(headers: &HeaderMap, uri: &Uri) -> Option<&'static str> {
    let host = headers
        .get(header::HOST)
        .and_then(|host| host.to_str().ok())
        .and_then(|host| host.parse().ok());
    let host: Option<Authority> = host.or_else(|| uri.authority().cloned());
    let Some(host) = host.filter(|host| is_local(host.host())) else {
        return Some(
            "the server has no tokens, so it answers only to localhost, 127.0.0.1 and [::1] as its name",
        );
    };
    let origin = headers.get(header::ORIGIN)?;
    let origin: Option<Uri> = origin.to_str().ok().and_then(|origin| origin.parse().ok());
    match origin.as_ref().and_then(Uri::authority) == Some(&host) {
        true => None,
        false => Some("the server has no tokens, so it rejects requests from pages of other sites"),
    }
}

fn is_local(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare.eq_ignore_ascii_case("localhost")
        || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_rejected(host: Option<&str>, origin: Option<&str>) -> bool {
        let mut headers = HeaderMap::new();
        let mut put = |name, value: Option<&str>| {
            if let Some(value) = value {
                headers.insert(name, value.parse().expect("a header"));
            }
        };
        put(header::HOST, host);
        put(header::ORIGIN, origin);
        rejection(&headers, &Uri::from_static("/")).is_some()
    }

    #[test]
    fn only_requests_of_this_machine_are_taken() {
        for host in ["localhost", "127.0.0.1:8080", "[::1]:8080", "LOCALHOST:80", "127.5.5.5"] {
            assert!(!is_rejected(Some(host), None), "{host}");
            assert!(!is_rejected(Some(host), Some(&format!("http://{host}"))), "{host}");
            assert!(is_rejected(Some(host), Some("http://evil.example")), "{host}");
        }
        assert!(is_rejected(Some("localhost:8080"), Some("http://localhost:9090")));
        assert!(is_rejected(Some("localhost:8080"), Some("null")));
        for host in ["evil.example", "localhost.evil.example", "10.0.0.1:8080", "0.0.0.0:8080", ""]
        {
            assert!(is_rejected(Some(host), None), "{host}");
        }
        assert!(is_rejected(None, None));
    }
}
