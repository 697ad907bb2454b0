//! TLS certificates and protocol versions.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::{TLS12, TLS13};

use crate::config::http::TlsFiles;

/// Reads a certificate and its key.
pub fn load(files: &TlsFiles) -> Result<Arc<ServerConfig>> {
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13, &TLS12])
        .context("cannot select TLS versions")?;
    let mut config = builder
        .with_no_client_auth()
        .with_single_cert(certificates(&files.cert)?, key(&files.key)?)
        .with_context(|| {
            format!("invalid certificate {} or key {}", files.cert.display(), files.key.display())
        })?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let shown = file.display();
    let found =
        CertificateDer::pem_file_iter(file).with_context(|| format!("cannot read {shown}"))?;
    let found: Result<Vec<_>, _> = found.collect();
    let found = found.with_context(|| format!("{shown} contains an invalid certificate"))?;
    if found.is_empty() {
        bail!("{shown} contains no certificate");
    }
    Ok(found)
}

fn key(file: &Path) -> Result<PrivateKeyDer<'static>> {
    PrivateKeyDer::from_pem_file(file)
        .with_context(|| format!("cannot read a private key from {}", file.display()))
}
