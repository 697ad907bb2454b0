//! TLS certificates and protocol versions.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::version::{TLS12, TLS13};

use crate::config::http::{Certificate, TlsFiles};

/// Reads a certificate and its key, or makes them.
pub fn load(certificate: &Certificate) -> Result<Arc<ServerConfig>> {
    match certificate {
        Certificate::Files(files) => {
            let (cert, key) = (files.cert.display(), files.key.display());
            config(certificates(&files.cert)?, read_key(files)?)
                .with_context(|| format!("invalid certificate {cert} or key {key}"))
        }
        Certificate::SelfSigned => self_signed().context("cannot make a certificate"),
    }
}

/// Converts a certificate with its chain and its key from PEM.
pub(crate) fn from_pem(certificate: &str, key: &str) -> Result<Arc<ServerConfig>> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate.as_bytes()).collect();
    let chain = chain.context("invalid certificate of the webhooks")?;
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes());
    config(chain, key.context("invalid key of the webhooks")?)
}

fn config(
    certificates: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<Arc<ServerConfig>> {
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13, &TLS12])
        .context("cannot select TLS versions")?;
    let mut config = builder.with_no_client_auth().with_single_cert(certificates, key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn self_signed() -> Result<Arc<ServerConfig>> {
    let names = ["localhost", "127.0.0.1", "plimsoll"].map(str::to_owned);
    let rcgen::CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(names.to_vec())?;
    let key = PrivatePkcs8KeyDer::from(signing_key.serialize_der());
    config(vec![cert.der().clone()], key.into())
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

fn read_key(files: &TlsFiles) -> Result<PrivateKeyDer<'static>> {
    PrivateKeyDer::from_pem_file(&files.key)
        .with_context(|| format!("cannot read a private key from {}", files.key.display()))
}
