//! Without tokens, whoever is on this machine may do everything. A web page that is open on it is not on this machine.

use std::net::IpAddr;

use axum::http::uri::Authority;
use axum::http::{HeaderMap, Uri, header};

/// Why a request is not taken for one of this machine.
///
/// A page of any site can make its browser send requests to 127.0.0.1: plainly, where an `Origin` tells it, or under a name of its
/// own that it lets point there, where the `Host` tells it.
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
        false => Some("the server has no tokens, so it does not answer to pages of other sites"),
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

    fn is_refused(host: Option<&str>, origin: Option<&str>) -> bool {
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
            assert!(!is_refused(Some(host), None), "{host}");
            assert!(!is_refused(Some(host), Some(&format!("http://{host}"))), "{host}");
            assert!(is_refused(Some(host), Some("http://evil.example")), "{host}");
        }
        assert!(is_refused(Some("localhost:8080"), Some("http://localhost:9090")));
        assert!(is_refused(Some("localhost:8080"), Some("null")));
        for host in ["evil.example", "localhost.evil.example", "10.0.0.1:8080", "0.0.0.0:8080", ""]
        {
            assert!(is_refused(Some(host), None), "{host}");
        }
        assert!(is_refused(None, None));
    }
}
