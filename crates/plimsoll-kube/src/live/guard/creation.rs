//! Reviews of pods that are about to be created.
//!
//! A pod that names its node when it is created gets no binding, so that its creation is decided
//! instead. There is no version to fence it by: the pod does not exist yet. An answer is therefore
//! given only while the lease lasts longer than the API server waits for it.

use plimsoll_core::event::Event;
use plimsoll_core::front::Core;
use plimsoll_core::request::{Amount, Request, RequestId};
use plimsoll_core::units::{Millis, Name};

use super::super::Watch;
use super::leadership::Term;
use super::message::NotNow;
use super::{CreationReview, CreationVerdict, Guard, Run};
use crate::booking::{ALLOCATED, DECISION, TERM};
use crate::line::Line;
use crate::object::Pod;
use crate::translate::pod_id;

/// The longest time that the API server may be configured to wait for the answer to a creation.
pub const CREATION_TIMEOUT: Millis = Millis(5_000);

/// The time after which a creation that was admitted and not seen has failed: the API server gives
/// a request up after one minute, and the watch is at most [`super::BLIND_AFTER`] behind.
const GIVEN_UP_AFTER: Millis = Millis(90_000);

/// The annotation of a pod that shows a static pod of a kubelet, which runs in any case.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// The scheduler that gives a share of a GPU to pods without a token.
const KAI_SCHEDULER: &str = "kai-scheduler";

/// An admitted pod that names its node and has not been seen yet.
#[derive(Clone, Debug)]
pub(super) struct OpenCreation {
    /// The generation of its charge.
    generation: u64,
    /// The time after which it has failed.
    until: Millis,
}

impl Watch {
    /// Decides a pod that is about to be created. One that names a node is decided where its
    /// binding would be.
    pub fn review_creation(
        &mut self,
        core: &mut Core<'_>,
        review: &CreationReview,
    ) -> CreationVerdict {
        let line = self.line(&review.namespace);
        let is_mirror = review.pod.metadata.annotations.contains_key(MIRROR);
        if line == Line::Off || is_mirror {
            return CreationVerdict::unchanged(Vec::new());
        }
        let mut pod = review.pod.clone();
        pod.metadata.namespace = Some(review.namespace.to_string());
        let Some(asked) = self.asked_of(&pod) else {
            return CreationVerdict::unchanged(Vec::new());
        };
        let mut warnings: Vec<String> = lacks_token(&pod, &asked).into_iter().collect();
        let Some(node) = pod.node_name().map(Name::from) else {
            return CreationVerdict::unchanged(warnings);
        };
        let subject = asked.id.to_string();
        let message = match self.check_creation(core, asked, &node, review.run) {
            Ok(annotations) => return CreationVerdict::Allowed { annotations, warnings },
            Err(NotCreated::Rejected(message)) if line == Line::Enforce => {
                return CreationVerdict::Rejected { message };
            }
            Err(NotCreated::Rejected(message)) => message,
            Err(NotCreated::NotNow(reason)) => {
                let message = format!("cannot check the node of {subject}: {reason}");
                if line == Line::Enforce {
                    return CreationVerdict::Unavailable { message };
                }
                message
            }
        };
        warnings.push(message);
        CreationVerdict::unchanged(warnings)
    }

    fn check_creation(
        &mut self,
        core: &mut Core<'_>,
        asked: Request,
        node: &Name,
        run: Run,
    ) -> Result<std::collections::BTreeMap<String, String>, NotCreated> {
        let term = self.deciding_term(core.now()).map_err(NotCreated::NotNow)?;
        if term.until.0.saturating_sub(core.now().0) < CREATION_TIMEOUT.0 {
            return Err(NotCreated::NotNow(NotNow::LeaseTooShort));
        }
        let id = provisional(&asked.id, term, core.next_seq());
        let asked = Request { id: id.clone(), ..asked };
        let unknown = || NotCreated::NotNow(NotNow::NodeUnknown { node: node.clone() });
        let admitted = self.admit(core, term, asked, node, run).ok_or_else(unknown)?;
        self.guard.forget_rejection(&id);
        let mut annotations = admitted.map_err(NotCreated::Rejected)?;
        // The policy for annotations takes the pod's creator for the author of what an answer adds,
        // and lets only the guard's account write a booking. The charge needs none.
        annotations.remove(ALLOCATED);
        if let Some((holding, _)) = core.ledger().of_request(&id) {
            let until = Millis(core.now().0.saturating_add(GIVEN_UP_AFTER.0));
            self.guard.creations.insert(id, OpenCreation { generation: holding.0, until });
        }
        Ok(annotations)
    }

    /// Releases the charges of pods whose creation the API server has given up.
    pub(super) fn release_creations(&mut self, core: &mut Core<'_>) {
        let sighted = self.guard.sighted.unwrap_or_default();
        let over = self.guard.creations.extract_if(.., |_, open| open.until < sighted);
        let over: Vec<(RequestId, u64)> = over.map(|(id, open)| (id, open.generation)).collect();
        for (request, generation) in over {
            core.step(Event::Failed { request, generation });
        }
    }
}

/// The reason why a pod with a node is not created.
enum NotCreated {
    Rejected(String),
    NotNow(NotNow),
}

impl Guard {
    /// Ends the provisional charge of a pod that was seen: its own replaces it.
    pub(in crate::live) fn see_created(&mut self, pod: &Pod) {
        let annotations = &pod.metadata.annotations;
        let (Some(term), Some(decision)) = (annotations.get(TERM), annotations.get(DECISION))
        else {
            return;
        };
        let uid = provisional_uid(term, decision);
        let account = &pod_id(pod).account;
        let mut open = self.creations.keys().filter(|id| id.account == *account && id.uid == uid);
        if let Some(id) = open.next().cloned()
            && let Some(creation) = self.creations.remove(&id)
        {
            self.refuted.push((id, creation.generation));
        }
    }
}

/// Returns the identity under which a pod is charged before it has a uid, and perhaps a name.
fn provisional(id: &RequestId, term: Term, record: u64) -> RequestId {
    let uid = provisional_uid(&term.number.to_string(), &format!("{record}.0"));
    id.clone().with_uid(uid)
}

fn provisional_uid(term: &str, decision: &str) -> Name {
    format!("created-by-{term}-{decision}").into()
}

/// Warns of a share of a GPU that the scheduler of the pod does not give: the container would run
/// without any GPU.
fn lacks_token(pod: &Pod, asked: &Request) -> Option<String> {
    let scheduler = pod.spec.scheduler_name.as_deref().unwrap_or("default-scheduler");
    let is_share = |amount: &Amount| matches!(amount, Amount::Bytes(_) | Amount::Portion(_));
    let mut needs = asked.spec.needs();
    let lacks =
        needs.any(|need| *need.kind == *"NVIDIA" && need.slots == 0 && is_share(&need.amount));
    (lacks && scheduler != KAI_SCHEDULER).then(|| {
        format!(
            "the pod asks for a share of a GPU by annotation only, which {scheduler} does not serve: \
             the container gets no GPU; add nvidia.com/gpu: 1 to its limits"
        )
    })
}
