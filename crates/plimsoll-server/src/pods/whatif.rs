//! The what-if route of a live cluster: the opinion about one more pod, and remedies.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use plimsoll_api::explanation::{RemedyRow, explanation};
use plimsoll_api::offline::FindingRow;
use plimsoll_api::rows::{PodName, PodWhatIf, PodWhatIfRow, ProblemRow, RequestRow};
use plimsoll_core::decide::Decision;
use plimsoll_core::event::Settings;
use plimsoll_core::front::Core;
use plimsoll_core::ledger::Ledger;
use plimsoll_core::remedy;
use plimsoll_core::request::Request;
use plimsoll_core::units::Name;
use plimsoll_kube::finding::Finding;
use plimsoll_kube::live::Watch;
use plimsoll_kube::object::Pod;
use plimsoll_kube::read::{self, Object, Origin};
use plimsoll_kube::translate::{Translation, request};

use super::PodsState;
use crate::api::{Answer, Body, Problem};

/// Decides for one more pod without doing it
///
/// Either for a pod of the cluster that has no node, or for a manifest. Nothing is created.
#[utoipa::path(post, path = "/api/v1/scheduler/whatif", operation_id = "what_if", tag = "scheduler", request_body = PodWhatIf, responses(
    (status = 200, description = "The opinion, and remedies", body = PodWhatIfRow),
    (status = 400, description = "Invalid request body", body = ProblemRow),
    (status = 404, description = "There is no such pod", body = ProblemRow),
    (status = 409, description = "The pod has a node already", body = ProblemRow),
))]
pub(super) async fn what_if(
    State(state): State<PodsState>,
    Body(body): Body<PodWhatIf>,
) -> Answer<Json<PodWhatIfRow>> {
    let wanted = match (body.pod, body.manifest) {
        (Some(name), None) => Wanted::Known(name),
        (None, Some(manifest)) => Wanted::Made(pod_of(&manifest)?),
        _ => return Err(Problem::bad("pod", "send either the name of a pod or a manifest")),
    };
    let looked = state.engine()?.read(move |watch, core| look(watch, core, &wanted)).await??;
    // Looking for what would help takes its time, and the thread that decides has none.
    let found = tokio::task::spawn_blocking(move || looked.row()).await;
    let failed = |error: tokio::task::JoinError| {
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", error.to_string())
    };
    found.map(Json).map_err(failed)
}

enum Wanted {
    Known(PodName),
    Made(Box<Pod>),
}

/// Reads a manifest, as strictly as a file.
fn pod_of(manifest: &serde_json::Value) -> Answer<Box<Pod>> {
    let mut objects: Vec<(Origin, Object)> = Vec::new();
    read::read("manifest", &manifest.to_string(), &mut objects)
        .map_err(|error| Problem::bad("manifest", chain(&error)))?;
    match (objects.pop(), objects.pop()) {
        (Some((_, Object::Pod(pod))), None) => Ok(pod),
        _ => {
            let kind = manifest["kind"].as_str().unwrap_or("no kind");
            let detail = format!("manifest is one object of kind Pod, and this is {kind}");
            Err(Problem::bad("manifest", detail))
        }
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

struct Looked {
    decision: Decision,
    request: Request,
    not_considered: Vec<Name>,
    findings: Vec<Finding>,
    /// The ledger that was looked at, where there is something to look for in it.
    rejected_on: Option<(Ledger, Settings)>,
}

fn look(watch: &Watch, core: &mut Core<'_>, wanted: &Wanted) -> Answer<Looked> {
    let pod = match wanted {
        Wanted::Made(pod) => pod,
        Wanted::Known(PodName { namespace, name }) => {
            let known = watch.index().applied_pod(namespace, name);
            known.ok_or_else(|| {
                let detail = format!("there is no pod {namespace}/{name}");
                Problem::not_found("pod_not_found", detail)
            })?
        }
    };
    if let (Wanted::Known(name), Some(node)) = (wanted, pod.node_name()) {
        let detail = format!("{}/{} is on {node} already", name.namespace, name.name);
        return Err(Problem::new(StatusCode::CONFLICT, "pod_has_node", detail));
    }
    let Translation { value, findings } = request(pod, watch.index());
    let decision = core.what_if(&value.request);
    let scheduler = core.scheduler();
    let state = || (scheduler.ledger().clone(), scheduler.settings().clone());
    let rejected_on = decision.chosen().is_none().then(state);
    let (request, not_considered) = (value.request, value.not_considered);
    Ok(Looked { decision, request, not_considered, findings, rejected_on })
}

impl Looked {
    fn row(self) -> PodWhatIfRow {
        let decision = &self.decision;
        let remedies = self.rejected_on.as_ref().map(|(ledger, settings)| {
            remedy::remedies(ledger, &settings.policy, &self.request, decision)
        });
        PodWhatIfRow {
            request: RequestRow::from(&decision.request),
            opinion: true,
            placed: decision.chosen().is_some(),
            node: decision.summary().node().map(ToString::to_string),
            explanation: explanation(decision),
            not_considered: self.not_considered.iter().map(ToString::to_string).collect(),
            findings: self.findings.iter().map(FindingRow::from).collect(),
            would_fit_if: remedies.iter().flatten().map(RemedyRow::from).collect(),
        }
    }
}
