//! A client is made only where its token is safe.

use super::*;

fn client(server: &str, token: Option<&str>, insecure: bool) -> Result<(), String> {
    let file = token.map(|token| {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), token).expect("it can be written");
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
fn a_token_goes_unencrypted_only_to_this_machine() {
    for server in
        ["https://far.example", "http://127.0.0.1:1", "http://LOCALHOST:1/", "http://[::1]:1"]
    {
        assert_eq!(client(server, Some("secret\n"), false), Ok(()), "{server}");
    }
    for server in ["http://far.example:80", "http://127.0.0.1.far.example", "http://10.0.0.1"] {
        let refused = client(server, Some("secret"), false).expect_err(server);
        assert!(refused.contains("unencrypted") && !refused.contains("secret"), "{refused}");
        assert_eq!(client(server, Some("secret"), true), Ok(()), "{server}");
        assert_eq!(client(server, None, false), Ok(()), "{server}");
    }
}

#[test]
fn what_is_no_address_or_no_token_is_refused() {
    for server in
        ["far.example", "ftp://far.example", "http://", "/x", "http://me:word@far.example"]
    {
        assert!(
            client(server, None, false).is_err_and(|error| !error.contains("me:word")),
            "{server}"
        );
    }
    for token in ["", " \n", "two words", "bell\u{7}"] {
        let refused = client("http://127.0.0.1:1", Some(token), false).expect_err("no token");
        assert!(refused.contains("holds no token"), "{refused}");
    }
}

#[test]
fn only_certificates_are_trusted() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "hello").expect("it can be written");
    let args = ServerArgs { ca_file: Some(file.path().to_path_buf()), ..ServerArgs::default() };
    let refused = Client::new(&args).map(|_| ()).expect_err("no certificate").to_string();
    assert!(refused.contains("holds no certificate"), "{refused}");
}
