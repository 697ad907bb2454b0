//! Reviews of bindings.

use std::collections::BTreeMap;

use plimsoll_core::event::{Answer, Event, RejectedCall};
use plimsoll_core::front::Core;
use plimsoll_core::request::{Asks, Request, RequestId};
use plimsoll_core::units::{Millis, Name};
use plimsoll_core::wording::cannot_bind;

use super::super::Watch;
use super::errand::Version;
use super::leadership::{Progress, Term};
use super::message::{LastRejection, NotNow};
use super::{
    Admission, BLIND_AFTER, BindingReview, BindingVerdict, OpenBinding, Run, SETTLE_AFTER,
};
use crate::booking::{ALLOCATED, Booking, DECISION, TERM};
use crate::line::Line;
use crate::object::Pod;
use crate::translate::{PodState, may_claim_devices, on_chosen_cards, pod_id, request};

/// The result of a check, before the line of the namespace turns it into a verdict.
enum Checked {
    Ignored,
    Admitted(Admission),
    Rejected(String),
    NotNow(NotNow),
}

impl Watch {
    /// Decides a binding. An admitted one is charged when this returns; the answer must not leave
    /// before the records of this call are committed.
    pub fn review_binding(
        &mut self,
        core: &mut Core<'_>,
        review: &BindingReview,
    ) -> BindingVerdict {
        let line = self.line(&review.namespace);
        if line == Line::Off {
            return BindingVerdict::Ignored;
        }
        let checked = self.check_binding(core, review, line);
        let message = match checked {
            Checked::Ignored => return BindingVerdict::Ignored,
            Checked::Admitted(admission) => return BindingVerdict::Admitted(admission),
            Checked::Rejected(message) if line == Line::Enforce => {
                return BindingVerdict::Rejected { message };
            }
            Checked::Rejected(message) => message,
            Checked::NotNow(reason) => {
                let (namespace, pod) = (&review.namespace, &review.pod);
                let message = format!("cannot check the binding of {namespace}/{pod}: {reason}");
                if line == Line::Enforce {
                    return BindingVerdict::Unavailable { message };
                }
                message
            }
        };
        BindingVerdict::Warned { message }
    }

    fn check_binding(
        &mut self,
        core: &mut Core<'_>,
        review: &BindingReview,
        line: Line,
    ) -> Checked {
        let Some(pod) = self.index.applied_pod(&review.namespace, &review.pod) else {
            return Checked::NotNow(NotNow::PodUnknown);
        };
        let id = pod_id(pod);
        if review.pod_uid.as_ref().is_some_and(|uid| *uid != id.uid) {
            return Checked::NotNow(NotNow::PodUnknown);
        }
        let Some(asked) = self.asked_of(pod) else { return Checked::Ignored };
        let asked = on_chosen_cards(asked, pod, &review.node, &self.index);
        let Some(version) = Version::of_pod(pod) else {
            return Checked::NotNow(NotNow::VersionUnknown);
        };
        if let Some(named) =
            review.resource_version.as_ref().filter(|named| **named != version.text)
        {
            let (named, known) = (named.clone(), version.text);
            return Checked::NotNow(NotNow::OtherVersion { named, known });
        }
        let state = PodState::from_pod(pod);
        let term = match self.deciding_term(core.now()) {
            Ok(term) => term,
            Err(reason) => return Checked::NotNow(reason),
        };
        if core.ledger().node_id(&review.node).is_none() {
            return Checked::NotNow(NotNow::NodeUnknown { node: review.node.clone() });
        }
        if let Some(checked) = self.answer_again(core, &id, &review.node, &version, line) {
            return checked;
        }
        if !matches!(state, PodState::Pending | PodState::Gated) {
            return Checked::Rejected(format!("cannot bind {id}: it is not pending"));
        }
        let Some(placing) = self.admit(core, term, asked, &review.node, review.run) else {
            return Checked::NotNow(NotNow::NodeUnknown { node: review.node.clone() });
        };
        match placing {
            Err(message) => Checked::Rejected(message),
            Ok(annotations) => {
                let admission = admission(&id, &version, line, annotations.clone());
                if review.run == Run::Real {
                    self.open_binding(core, &id, &review.node, &version, annotations);
                }
                Checked::Admitted(admission)
            }
        }
    }

    /// Returns the request of a pod; `None` if it asks for no device.
    pub(super) fn asked_of(&self, pod: &Pod) -> Option<Request> {
        if !may_claim_devices(pod) || PodState::from_pod(pod) == PodState::Reservation {
            return None;
        }
        let asked = request(pod, &self.index).value.request;
        let asks_devices = match &asked.spec.asks {
            // What cannot be read is unknown, and unknown is not zero.
            Asks::Malformed(_) | Asks::Waiting(_) => true,
            Asks::Shapes(shapes) => shapes.iter().any(|shape| shape.device_count() > 0),
        };
        asks_devices.then_some(asked)
    }

    /// Returns the term in which this process may decide now.
    pub(super) fn deciding_term(&self, now: Millis) -> Result<Term, NotNow> {
        let Progress::Leading(term) = self.guard.progress else { return Err(NotNow::NotLeading) };
        if now >= term.until {
            return Err(NotNow::NotLeading);
        }
        let since = self.guard.sighted;
        let is_blind = since.is_none_or(|at| at.0.saturating_add(BLIND_AFTER.0) < now.0);
        if is_blind { Err(NotNow::Blind { since, now }) } else { Ok(term) }
    }

    /// Answers for a pod that is charged already.
    fn answer_again(
        &mut self,
        core: &mut Core<'_>,
        id: &RequestId,
        node: &Name,
        version: &Version,
        line: Line,
    ) -> Option<Checked> {
        let (_, holding) = core.ledger().of_request(id)?;
        let at = holding.node.clone();
        if let Some(open) = self.guard.open.get_mut(id) {
            if at != *node {
                self.guard.settle_soon(core.now(), id);
                return Some(Checked::NotNow(NotNow::InFlight { node: at }));
            }
            open.fence = open.fence.max(version.revision);
            let annotations = open.annotations.clone();
            return Some(Checked::Admitted(admission(id, version, line, annotations)));
        }
        let pod = self.index.applied_pod(&id.account, &id.name)?;
        if pod.node_name().is_none() {
            // Its scheduler has announced the binding, and it was counted since. Now it is decided.
            core.step(Event::Freed { request: id.clone(), generation: None, ordinal: None });
            return None;
        }
        if at != *node {
            let message = format!("cannot bind {id} to {node}: it is already on {at}");
            return Some(Checked::Rejected(message));
        }
        // The API server rejects the binding of a pod that has a node, and says so itself.
        let own = [ALLOCATED, DECISION, TERM].into_iter();
        let own = own.filter_map(|key| Some((key, pod.metadata.annotations.get(key)?)));
        let annotations = own.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        Some(Checked::Admitted(admission(id, version, line, annotations)))
    }

    /// Decides, and charges unless this is a dry run. Returns the annotations, or why not; `None`
    /// if the node is not known.
    pub(super) fn admit(
        &mut self,
        core: &mut Core<'_>,
        term: Term,
        asked: Request,
        node: &Name,
        run: Run,
    ) -> Option<Result<BTreeMap<String, String>, String>> {
        let id = asked.id.clone();
        let decision = core.what_if_on(&asked, node)?;
        if let Some(rejection) = decision.rejection() {
            let message = cannot_bind(&id, node, rejection);
            let last = LastRejection { node: node.clone(), rejection: rejection.clone() };
            // Schedulers retry every few seconds; the same rejection again is not worth a record.
            let is_news = self.guard.rejected.get(&id) != Some(&last);
            if run == Run::Real && is_news {
                self.guard.rejected.insert(id, last);
                core.step(Event::Admit { request: asked, node: node.clone() });
            }
            return Some(Err(message));
        }
        if run == Run::Dry {
            return Some(Ok(BTreeMap::new()));
        }
        self.guard.rejected.remove(&id);
        let record = core.next_seq();
        let outcome = core.step(Event::Admit { request: asked, node: node.clone() })?;
        let answer = outcome.answers.iter().find(|answer| *answer.request() == id)?;
        Some(match answer {
            Answer::Placed { .. } => {
                let (_, holding) = core.ledger().of_request(&id)?;
                let view = core.ledger().view_of(node)?;
                let booking = Booking::new(holding, &view.node);
                Ok(BTreeMap::from([
                    (ALLOCATED.to_owned(), booking.encode()),
                    (DECISION.to_owned(), format!("{record}.0")),
                    (TERM.to_owned(), term.number.to_string()),
                ]))
            }
            Answer::Rejected { reason: RejectedCall::NoPlacement(rejection), .. } => {
                Err(cannot_bind(&id, node, rejection))
            }
            other => Err(other.to_string()),
        })
    }

    fn open_binding(
        &mut self,
        core: &Core<'_>,
        id: &RequestId,
        node: &Name,
        version: &Version,
        annotations: BTreeMap<String, String>,
    ) {
        let Some((holding, _)) = core.ledger().of_request(id) else { return };
        let open = OpenBinding {
            node: node.clone(),
            generation: holding.0,
            fence: version.revision,
            annotations,
            settle_at: Some(Millis(core.now().0.saturating_add(SETTLE_AFTER.0))),
        };
        self.guard.open.insert(id.clone(), open);
    }
}

fn admission(
    id: &RequestId,
    version: &Version,
    line: Line,
    annotations: BTreeMap<String, String>,
) -> Admission {
    let resource_version = match line {
        Line::Enforce => Some(version.text.clone()), // mutant: version-precondition
        Line::Warn | Line::Off => None,
    };
    Admission { uid: id.uid.clone(), resource_version, annotations }
}
