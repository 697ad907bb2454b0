//! The certificates of the webhooks: an authority that is made here, and what it signs.
//!
//! Rotation leaves no gap. A new authority is trusted for an hour before it signs, and an old one
//! is trusted until nothing that it signed is served. All replicas share the state in one Secret;
//! each step is a function of the state and the time, and is written by compare-and-swap.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use serde::{Deserialize, Serialize};

const DAY: SignedDuration = SignedDuration::from_hours(24);

/// The validity of an authority, and the remaining time at which another is made.
const AUTHORITY: SignedDuration = SignedDuration::from_hours(24 * 365 * 5);
const AUTHORITY_MARGIN: SignedDuration = SignedDuration::from_hours(24 * 365);

/// The validity of a server certificate, and the remaining time at which it is replaced.
const SERVER: SignedDuration = SignedDuration::from_hours(24 * 90);
const SERVER_MARGIN: SignedDuration = SignedDuration::from_hours(24 * 30);

/// The time between trusting an authority and using it, and between the last use of an authority
/// and the end of the trust: longer than every replica and API server needs to follow.
const OVERLAP: SignedDuration = SignedDuration::from_hours(1);

/// The name of every authority. Verification tries all of that name.
const COMMON_NAME: &str = "plimsoll-guard";

/// Keys and certificates as they are stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Certificates {
    /// The authorities that are trusted, oldest first.
    pub(crate) authorities: Vec<Authority>,
    pub(crate) server: ServerCertificate,
}

/// An authority that signs server certificates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Authority {
    pub(crate) certificate: String,
    key: String,
    created: Timestamp,
    expires: Timestamp,
}

/// A served certificate with its key, in PEM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ServerCertificate {
    pub(crate) certificate: String,
    pub(crate) key: String,
    /// The certificate of the authority that signed it.
    signed_by: String,
    signed_at: Timestamp,
    expires: Timestamp,
    names: Vec<String>,
}

impl Certificates {
    /// Makes a first authority and a certificate for these DNS names and addresses.
    ///
    /// # Errors
    ///
    /// Any error of the key generation.
    pub(crate) fn new(names: &[String], now: Timestamp) -> Result<Certificates, rcgen::Error> {
        let authority = Authority::new(now)?;
        let server = authority.sign(names, now)?;
        Ok(Certificates { authorities: vec![authority], server })
    }

    /// Returns the next state; `None` if nothing is due. Names are added and never removed: another
    /// replica can have other names.
    ///
    /// # Errors
    ///
    /// Any error of the key generation.
    pub(crate) fn renewed(
        &self,
        names: &[String],
        now: Timestamp,
    ) -> Result<Option<Certificates>, rcgen::Error> {
        let mut next = self.clone();
        next.drop_unused(now);
        let newest = next.authorities.last().is_none_or(|one| one.is_due(now));
        if newest {
            next.authorities.push(Authority::new(now)?);
        }
        if let Some(signer) = next.signer(now) {
            let mut all = next.server.names.clone();
            all.extend(names.iter().filter(|name| !next.server.names.contains(name)).cloned());
            let is_due = now + SERVER_MARGIN >= next.server.expires
                || all.len() > next.server.names.len()
                || signer.certificate != next.server.signed_by;
            if is_due {
                next.server = signer.sign(&all, now)?;
            }
        }
        Ok((next != *self).then_some(next))
    }

    /// Returns the certificates to trust, in PEM.
    pub(crate) fn trusted(&self) -> String {
        self.authorities.iter().map(|authority| authority.certificate.as_str()).collect()
    }

    /// Returns the newest authority that has been trusted for long enough; if there is none, the
    /// oldest one, which is the only one.
    fn signer(&self, now: Timestamp) -> Option<&Authority> {
        let is_known = |one: &&Authority| one.created + OVERLAP <= now;
        self.authorities.iter().rev().find(is_known).or(self.authorities.first())
    }

    /// Drops authorities that signed nothing that can still be served.
    fn drop_unused(&mut self, now: Timestamp) {
        let used = &self.server.signed_by;
        let at = self.authorities.iter().position(|one| one.certificate == *used).unwrap_or(0);
        if self.server.signed_at + OVERLAP <= now {
            self.authorities.drain(..at);
        }
    }
}

impl Authority {
    fn new(now: Timestamp) -> Result<Authority, rcgen::Error> {
        let key = KeyPair::generate()?;
        let expires = now + AUTHORITY;
        let mut params = parameters()?;
        validity(&mut params, now, expires);
        let certificate = params.self_signed(&key)?.pem();
        Ok(Authority { certificate, key: key.serialize_pem(), created: now, expires })
    }

    fn is_due(&self, now: Timestamp) -> bool {
        now + AUTHORITY_MARGIN >= self.expires
    }

    fn sign(&self, names: &[String], now: Timestamp) -> Result<ServerCertificate, rcgen::Error> {
        let issuer = Issuer::new(parameters()?, KeyPair::from_pem(&self.key)?);
        let key = KeyPair::generate()?;
        let expires = (now + SERVER).min(self.expires);
        let mut params = CertificateParams::new(names)?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.distinguished_name.push(DnType::CommonName, "plimsoll-webhook");
        validity(&mut params, now, expires);
        Ok(ServerCertificate {
            certificate: params.signed_by(&key, &issuer)?.pem(),
            key: key.serialize_pem(),
            signed_by: self.certificate.clone(),
            signed_at: now,
            expires,
            names: names.to_vec(),
        })
    }
}

/// Returns what all authorities have in common.
fn parameters() -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, COMMON_NAME);
    Ok(params)
}

/// Sets the validity, in whole days and a day longer at both ends: clocks of API servers differ.
fn validity(params: &mut CertificateParams, from: Timestamp, until: Timestamp) {
    params.not_before = start_of_day(from - DAY);
    params.not_after = start_of_day(until + DAY);
}

fn start_of_day(at: Timestamp) -> time::OffsetDateTime {
    let day: Date = at.to_zoned(TimeZone::UTC).date();
    let (month, of_month) = (day.month().unsigned_abs(), day.day().unsigned_abs());
    date_time_ymd(i32::from(day.year()), month, of_month)
}

#[cfg(test)]
mod tests;
