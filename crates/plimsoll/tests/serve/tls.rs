//! TLS, with certificates made for the test.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use rcgen::{CertifiedKey, generate_simple_self_signed};

use crate::process::{Serve, data, ends, file, scratch};

/// Puts a new certificate and its key into the directory of a test.
fn certificate(dir: &Path) -> String {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["localhost".to_string()]).expect("a certificate");
    file(dir, "cert.pem", &cert.pem());
    file(dir, "key.pem", &signing_key.serialize_pem());
    cert.pem()
}

fn started(dir: &Path) -> Serve {
    let path = |name: &str| dir.join(name).display().to_string();
    let token = file(dir, "token", "a-token-that-is-encrypted").display().to_string();
    let (cert, key) = (path("cert.pem"), path("key.pem"));
    let server =
        Serve::start(dir, &["--tls-cert", &cert, "--tls-key", &key, "--token-file", &token]);
    server.with_token("a-token-that-is-encrypted")
}

#[test]
fn only_encrypted_clients_that_trust_the_certificate_are_served() {
    let dir = scratch();
    let pem = certificate(dir.path());
    let server = started(dir.path());
    assert!(server.url.starts_with("https://"), "{}", server.url);
    let address = server.url.trim_start_matches("https://").to_string();
    assert!(server.try_ask("GET", "/livez", None).is_err(), "the certificate is not trusted");
    let server = server.trusting(&pem);
    assert_eq!(server.ask("GET", "/readyz", None).0, 200);
    assert_eq!(server.ask("GET", "/metrics", None).0, 200);
    let mut plain = TcpStream::connect(address).expect("it listens");
    plain.write_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n").expect("it is taken");
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
}

#[test]
fn a_new_certificate_is_shown_after_a_hang_up_and_a_bad_one_is_not() {
    let dir = scratch();
    let first = certificate(dir.path());
    let mut server = started(dir.path()).trusting(&first);
    assert_eq!(server.ask("GET", "/livez", None).0, 200);
    fs::write(dir.path().join("cert.pem"), "nothing of the kind").expect("a file");
    server.signal("HUP");
    server.says("the previous one stays in use");
    assert_eq!(server.ask("GET", "/metrics", None).0, 200);
    let second = certificate(dir.path());
    server.signal("HUP");
    server.says("tokens and certificate reloaded");
    let server = server.trusting(&second);
    assert_eq!(server.ask("GET", "/metrics", None).0, 200);
    let server = server.trusting(&first);
    assert!(server.try_ask("GET", "/livez", None).is_err(), "the first is not shown any more");
}

#[test]
fn files_that_are_no_certificate_are_named() {
    let dir = scratch();
    certificate(dir.path());
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (cert, key, data) = (path("cert.pem"), path("key.pem"), data(dir.path()));
    let run = |cert: &str, key: &str| {
        ends(&["--listen", "127.0.0.1:0", "--data", &data, "--tls-cert", cert, "--tls-key", key])
    };
    run(&path("none.pem"), &key).with_error(&["none.pem"]);
    run(&cert, &cert).with_error(&["private key", "cert.pem"]);
    let other = scratch();
    certificate(other.path());
    let foreign = other.path().join("key.pem").display().to_string();
    run(&cert, &foreign).with_error(&["invalid certificate"]);
}
