//! A client is created only if its token is safe.

use super::*;

fn client(server: &str, token: Option<&str>, insecure: bool) -> Result<(), String> {
    let file = token.map(|token| {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), token).expect("the file is writable");
        file
    });
    let args = ServerArgs {
        server: Some(server.to_string()),
        token_file: file.as_ref().map(|file| file.path().to_path_buf()),
        ca_file: None,
        insecure,
    };
    Client::new(&args).map(|_| ()).map_err(|error| format!("{error:#}"))
}

#[test]
fn a_token_is_sent_unencrypted_only_to_loopback() {
    for server in
        ["https://far.example", "http://127.0.0.1:1", "http://LOCALHOST:1/", "http://[::1]:1"]
    {
        assert_eq!(client(server, Some("secret\n"), false), Ok(()), "{server}");
    }
    for server in ["http://far.example:80", "http://127.0.0.1.far.example", "http://10.0.0.1"] {
        let rejected = client(server, Some("secret"), false).expect_err(server);
        assert!(rejected.contains("unencrypted") && !rejected.contains("secret"), "{rejected}");
        assert_eq!(client(server, Some("secret"), true), Ok(()), "{server}");
        assert_eq!(client(server, None, false), Ok(()), "{server}");
    }
}

#[test]
fn invalid_addresses_and_tokens_are_rejected() {
    for server in
        ["far.example", "ftp://far.example", "http://", "/x", "http://me:word@far.example"]
    {
        assert!(
            client(server, None, false).is_err_and(|error| !error.contains("me:word")),
            "{server}"
        );
    }
    let rejected = client("far.example:8080", None, false).expect_err("no scheme");
    assert!(rejected.contains("write http://far.example:8080"), "{rejected}");
    for token in ["", " \n", "two words", "bell\u{7}"] {
        let rejected = client("http://127.0.0.1:1", Some(token), false).expect_err("no token");
        assert!(rejected.contains("contains no token"), "{rejected}");
    }
}

#[test]
fn only_certificates_are_trusted() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "hello").expect("the file is writable");
    let args = ServerArgs { ca_file: Some(file.path().to_path_buf()), ..ServerArgs::default() };
    let rejected = Client::new(&args).map(|_| ()).expect_err("no certificate").to_string();
    assert!(rejected.contains("contains no certificate"), "{rejected}");
}
