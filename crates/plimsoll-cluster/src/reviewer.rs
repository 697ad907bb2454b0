//! Questions about callers: TokenReview and SubjectAccessReview.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::Api;
use kube::api::PostParams;
use plimsoll_server::guard::reviews::{Access, Asked, Reviewer, Right, Target, Unanswered, User};

use crate::access::Connection;
use crate::error::ClusterError;

/// Asks an API server about callers.
pub struct ClusterReviewer {
    connection: Connection,
}

impl ClusterReviewer {
    /// Prepares a reviewer. Nothing is sent yet.
    pub fn new(connection: Connection) -> ClusterReviewer {
        ClusterReviewer { connection }
    }

    async fn find_user(&self, token: String) -> Result<Option<User>, Unanswered> {
        let review = TokenReview {
            spec: TokenReviewSpec { token, ..Default::default() },
            ..Default::default()
        };
        let reviews: Api<TokenReview> = Api::all(self.connection.client.clone());
        let answer = reviews.create(&PostParams::default(), &review).await;
        let answer = answer.map_err(|error| {
            self.unanswered("create tokenreviews.authentication.k8s.io", &error)
        })?;
        let status = answer.status.unwrap_or_default();
        if status.authenticated != Some(true) {
            return Ok(None);
        }
        let user = status.user.unwrap_or_default();
        Ok(Some(User {
            name: user.username.unwrap_or_default(),
            uid: user.uid.unwrap_or_default(),
            groups: user.groups.unwrap_or_default(),
            extra: user.extra.unwrap_or_default().into_iter().collect(),
        }))
    }

    async fn ask(&self, user: Arc<User>, right: Right) -> Result<Access, Unanswered> {
        let extra: BTreeMap<String, Vec<String>> = user.extra.iter().cloned().collect();
        let (resource_attributes, non_resource_attributes) = attributes(right);
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(user.name.clone()),
                uid: Some(user.uid.clone()),
                groups: Some(user.groups.clone()),
                extra: Some(extra),
                resource_attributes,
                non_resource_attributes,
            },
            ..Default::default()
        };
        let reviews: Api<SubjectAccessReview> = Api::all(self.connection.client.clone());
        let answer = reviews.create(&PostParams::default(), &review).await;
        let answer = answer.map_err(|error| {
            self.unanswered("create subjectaccessreviews.authorization.k8s.io", &error)
        })?;
        let is_allowed = answer.status.is_some_and(|status| status.allowed);
        Ok(if is_allowed { Access::Granted } else { Access::Denied })
    }

    fn unanswered(&self, what: &str, error: &kube::Error) -> Unanswered {
        Unanswered(ClusterError::from_request(self.connection.server(), what, error).to_string())
    }
}

impl Reviewer for ClusterReviewer {
    fn authenticate(&self, token: String) -> Asked<'_, Option<User>> {
        Box::pin(self.find_user(token))
    }

    fn authorize(&self, user: Arc<User>, right: Right) -> Asked<'_, Access> {
        Box::pin(self.ask(user, right))
    }
}

fn attributes(right: Right) -> (Option<ResourceAttributes>, Option<NonResourceAttributes>) {
    let verb = Some(right.verb.to_owned());
    let of_resource = |resource: &str| ResourceAttributes {
        verb: Some(right.verb.to_owned()),
        version: Some("v1".to_owned()),
        resource: Some(resource.to_owned()),
        ..Default::default()
    };
    match right.target {
        Target::All { resource, subresource } => {
            let subresource = subresource.map(str::to_owned);
            (Some(ResourceAttributes { subresource, ..of_resource(resource) }), None)
        }
        Target::Object { resource, namespace, name } => {
            let (namespace, name) = (Some(namespace), Some(name));
            (Some(ResourceAttributes { namespace, name, ..of_resource(resource) }), None)
        }
        Target::Path(path) => {
            (None, Some(NonResourceAttributes { path: Some(path.to_owned()), verb }))
        }
    }
}
