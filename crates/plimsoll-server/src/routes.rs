//! Routes together with their rules: the role that each requires is declared where the route is.

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::MethodRouter;
use utoipa::openapi::path::Operation;
use utoipa::openapi::{OpenApi, PathItem, SecurityRequirement};
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};

use crate::guard::access::{Access, Rules};
use crate::guard::{self, Guard};

/// The name of the security scheme in the OpenAPI document.
pub(crate) const SECURITY_SCHEME: &str = "token";

/// Routes that are being declared, over a state that is not there yet.
pub(crate) struct Routes<S = ()> {
    router: OpenApiRouter<S>,
    guard: Arc<Guard>,
    declared: Vec<DeclaredRoute>,
}

/// A route and the role that it requires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeclaredRoute {
    /// In upper case.
    pub(crate) method: String,
    /// With parameters in braces.
    pub(crate) path: String,
    pub(crate) access: Access,
}

impl<S: Clone + Send + Sync + 'static> Routes<S> {
    pub(crate) fn new(guard: &Arc<Guard>) -> Self {
        Routes { router: OpenApiRouter::new(), guard: guard.clone(), declared: Vec::new() }
    }

    /// Adds documented handlers of one path, under the same rules.
    pub(crate) fn add(mut self, rules: Rules, routes: UtoipaMethodRouter<S>) -> Self {
        let (schemas, mut paths, handlers) = routes;
        for (path, item) in &mut paths.paths {
            for (method, operation) in operations(item) {
                let requirement = SecurityRequirement::new(SECURITY_SCHEME, [rules.access.role()]);
                operation.security = Some(vec![requirement]);
                self.declare(method, path, rules);
            }
        }
        let handlers = self.enforced(rules, handlers);
        Routes { router: self.router.routes((schemas, paths, handlers)), ..self }
    }

    /// Adds a `GET` route that is not part of the OpenAPI document.
    pub(crate) fn add_page(mut self, rules: Rules, path: &str, page: MethodRouter<S>) -> Self {
        self.declare("GET", path, rules);
        let page = self.enforced(rules, page);
        Routes { router: self.router.route(path, page), ..self }
    }

    /// Supplies the state of the handlers.
    pub(crate) fn with_state(self, state: S) -> Routes {
        let Routes { router, guard, declared } = self;
        Routes { router: router.with_state(state), guard, declared }
    }

    fn enforced(&self, rules: Rules, handlers: MethodRouter<S>) -> MethodRouter<S> {
        handlers.route_layer(from_fn_with_state((self.guard.clone(), rules), guard::enforce))
    }

    fn declare(&mut self, method: &str, path: &str, rules: Rules) {
        let (method, path) = (method.to_string(), path.to_string());
        self.declared.push(DeclaredRoute { method, path, access: rules.access });
    }
}

impl Routes {
    /// Adds the routes of another set.
    pub(crate) fn merge(mut self, other: Routes) -> Self {
        self.declared.extend(other.declared);
        Routes { router: self.router.merge(other.router), ..self }
    }

    /// Returns the OpenAPI description of the routes.
    pub(crate) fn openapi(&self) -> &OpenApi {
        self.router.get_openapi()
    }

    pub(crate) fn into_router(self) -> Router {
        self.router.into()
    }

    /// Returns all routes, in the order of their declaration.
    #[cfg(test)]
    pub(crate) fn declared(&self) -> &[DeclaredRoute] {
        &self.declared
    }
}

/// Returns the operations of a path with their methods.
pub(crate) fn operations(
    item: &mut PathItem,
) -> impl Iterator<Item = (&'static str, &mut Operation)> {
    let operations = [
        ("GET", &mut item.get),
        ("PUT", &mut item.put),
        ("POST", &mut item.post),
        ("DELETE", &mut item.delete),
        ("PATCH", &mut item.patch),
    ];
    operations.into_iter().filter_map(|(method, operation)| Some((method, operation.as_mut()?)))
}
