//! The output of `plimsoll audit -o json`.

use std::collections::BTreeMap;

use plimsoll_core::units::Name;
use plimsoll_kube::cluster::Cluster;
use plimsoll_kube::finding::{self, Finding};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{InputRow, SCHEMA_VERSION};
use crate::names::named;

named! {
    /// The severity of a finding.
    Severity {
        Error = "error",
        Warning = "warning",
        Note = "note",
    }
}

impl From<finding::Severity> for Severity {
    fn from(severity: finding::Severity) -> Severity {
        match severity {
            finding::Severity::Error => Severity::Error,
            finding::Severity::Warning => Severity::Warning,
            finding::Severity::Note => Severity::Note,
        }
    }
}

/// The output of `plimsoll audit -o json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditOutput {
    pub schema_version: u32,
    pub input: InputRow,
    /// The worst first.
    pub findings: Vec<FindingRow>,
}

impl AuditOutput {
    /// Converts the findings about a cluster.
    pub fn new(cluster: &Cluster, findings: &[Finding]) -> AuditOutput {
        AuditOutput {
            schema_version: SCHEMA_VERSION,
            input: InputRow::new(cluster),
            findings: findings.iter().map(FindingRow::from).collect(),
        }
    }
}

/// A finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FindingRow {
    /// A stable code in kebab case.
    pub code: String,
    pub severity: Severity,
    #[schema(value_type = Option<String>)]
    pub node: Option<Name>,
    /// The device.
    #[schema(value_type = Option<String>)]
    pub uuid: Option<Name>,
    /// The problem in one sentence with its numbers.
    pub message: String,
    /// The numbers by name; sizes are bytes.
    pub numbers: BTreeMap<String, u64>,
    pub remedy: String,
}

impl From<&Finding> for FindingRow {
    fn from(finding: &Finding) -> FindingRow {
        let numbers = finding.numbers().into_iter();
        FindingRow {
            code: finding.code().as_str().to_string(),
            severity: finding.severity().into(),
            node: finding.node.clone(),
            uuid: finding.device.clone(),
            message: finding.message(),
            numbers: numbers.map(|(name, number)| (name.to_string(), number)).collect(),
            remedy: finding.remedy(),
        }
    }
}
