//! Keys and certificates of a control plane, made for one test.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, Error, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};

/// A certificate and its key in PEM.
#[derive(Debug, Clone)]
pub struct Identity {
    pub certificate: String,
    pub key: String,
}

/// An authority that signs servers and clients.
#[derive(Debug)]
pub struct Authority {
    /// The certificate in PEM.
    pub certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// Makes an authority with a new key.
    ///
    /// # Errors
    ///
    /// Any error of the key generation.
    pub fn new() -> Result<Self, Error> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        params.distinguished_name.push(DnType::CommonName, "plimsoll-testbed");
        let certificate = params.self_signed(&key)?.pem();
        Ok(Authority { certificate, issuer: Issuer::new(params, key) })
    }

    /// Signs a server on the loopback interface.
    ///
    /// # Errors
    ///
    /// Any error of the key generation.
    pub fn server(&self) -> Result<Identity, Error> {
        let names = ["127.0.0.1", "localhost"].map(str::to_owned);
        let mut params = CertificateParams::new(names)?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(&params)
    }

    /// Signs a client: Kubernetes reads the user from the common name, and groups from the
    /// organisation.
    ///
    /// # Errors
    ///
    /// Any error of the key generation.
    pub fn client(&self, user: &str, group: &str) -> Result<Identity, Error> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.distinguished_name.push(DnType::CommonName, user);
        params.distinguished_name.push(DnType::OrganizationName, group);
        self.sign(&params)
    }

    fn sign(&self, params: &CertificateParams) -> Result<Identity, Error> {
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?.pem();
        Ok(Identity { certificate, key: key.serialize_pem() })
    }
}
