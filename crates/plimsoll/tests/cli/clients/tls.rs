//! A server with TLS is trusted by its authority alone.

use std::io::Write;
use std::net::TcpListener;

use axum::Router;
use axum::http::HeaderMap;
use axum::routing::get;
use axum_server::tls_rustls::RustlsConfig;

use super::fake::read;
use crate::tool::{command, finish, plimsoll, scratch};

/// Starts a server with a self-signed certificate. Returns its address and the certificate's file.
fn server() -> (String, std::path::PathBuf) {
    // Another test may have been first.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let made =
        rcgen::generate_simple_self_signed(vec!["localhost".to_string()]).expect("a certificate");
    let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let file = scratch("tls").join("ca.pem");
    std::fs::write(&file, &certificate).expect("a file");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("a socket");
    let port = listener.local_addr().expect("an address").port();
    let answer = |headers: HeaderMap| async move {
        let token =
            headers.get("authorization").and_then(|token| token.to_str().ok()).unwrap_or("none");
        let mut rows: serde_json::Value = serde_json::from_str(&read("queue")).expect("JSON");
        rows[1]["brief"] = format!("the token is {token}").into();
        rows.to_string()
    };
    let router = Router::new().route("/api/v1/scheduler/queue", get(answer));
    std::thread::spawn(move || {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let config = RustlsConfig::from_pem(certificate.into_bytes(), key.into_bytes())
                .await
                .expect("TLS");
            let server = axum_server::from_tcp_rustls(listener, config).expect("a server");
            server.serve(router.into_make_service()).await.expect("it serves");
        });
    });
    (format!("https://localhost:{port}"), file)
}

#[test]
fn a_server_is_trusted_by_its_authority_alone() {
    let (url, file) = server();
    let run = |rest: &str| {
        let mut command = command(&format!("queue --server {url} {rest}"));
        command.env("PLIMSOLL_TOKEN", "secret");
        finish(command, "")
    };
    run("").fails_with(&["is not trusted", "--ca-file", &url]);
    let trusted = run(&format!("--ca-file {}", file.display()));
    assert!(trusted.out.contains("the token is Bearer secret"), "{}{}", trusted.out, trusted.err);
}

#[test]
fn a_plain_server_behind_https_is_recognized() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let answer = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
            connection.expect("a connection").write_all(answer.as_bytes()).expect("a reader");
        }
    });
    let run = plimsoll(&format!("queue --server https://127.0.0.1:{port}"));
    run.fails_with(&["does not speak TLS", "http://"]);
}
