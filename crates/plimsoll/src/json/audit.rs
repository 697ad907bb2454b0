//! Findings as JSON.

use std::collections::BTreeMap;

use plimsoll_core::units::Name;
use plimsoll_kube::cluster::Cluster;
use plimsoll_kube::finding::Finding;
use serde::Serialize;

use super::{SCHEMA_VERSION, UnderstoodRow, understood};

/// The answer of `plimsoll audit -o json`.
#[derive(Serialize)]
pub(crate) struct AuditSheet<'a> {
    schema_version: u32,
    understood: UnderstoodRow<'a>,
    findings: Vec<FindingRow<'a>>,
}

/// One thing that is wrong.
#[derive(Serialize)]
pub(super) struct FindingRow<'a> {
    code: &'static str,
    severity: &'static str,
    node: Option<&'a Name>,
    uuid: Option<&'a Name>,
    message: String,
    numbers: BTreeMap<&'static str, u64>,
    remedy: String,
}

/// Everything that was found.
pub(crate) fn audit<'a>(cluster: &'a Cluster, findings: &'a [Finding]) -> AuditSheet<'a> {
    AuditSheet {
        schema_version: SCHEMA_VERSION,
        understood: understood(cluster),
        findings: findings.iter().map(finding).collect(),
    }
}

pub(super) fn finding(finding: &Finding) -> FindingRow<'_> {
    FindingRow {
        code: finding.code().as_str(),
        severity: finding.severity().as_str(),
        node: finding.node.as_ref(),
        uuid: finding.device.as_ref(),
        message: finding.message(),
        numbers: finding.numbers(),
        remedy: finding.remedy(),
    }
}
