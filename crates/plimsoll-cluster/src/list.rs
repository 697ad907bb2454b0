//! All objects of a cluster, listed once.

use std::collections::BTreeMap;

use http::Request;
use plimsoll_kube::read::{self, Object, Origin};
use serde::Deserialize;

use crate::access::Connection;
use crate::error::ClusterError;
use crate::served::{Resource, served};

/// Objects per request, as kubectl asks for them. A page of pods has a few megabytes.
const PAGE: u32 = 500;

/// The objects of a cluster.
#[derive(Debug, Default)]
pub struct Listing {
    /// In listing order: nodes, pods, then the rest.
    pub objects: Vec<(Origin, Object)>,
    /// The number of objects of kinds that are not read; none are asked for.
    pub ignored: BTreeMap<String, usize>,
}

/// Lists all objects that placement reads. `source` names the cluster in the origin of objects.
pub async fn list(connection: &Connection, source: &str) -> Result<Listing, ClusterError> {
    let mut listing = Listing::default();
    let mut missing = Vec::new();
    for resource in served(connection).await? {
        match read_objects(connection, &resource, source).await {
            Ok((objects, _)) => listing.objects.extend(objects),
            Err(ClusterError::MissingRights { rights, .. }) => missing.extend(rights),
            Err(other) => return Err(other),
        }
    }
    if missing.is_empty() {
        return Ok(listing);
    }
    Err(ClusterError::MissingRights { server: connection.server.clone(), rights: missing })
}

/// Lists the objects of one resource, and returns the resourceVersion to watch from.
async fn read_objects(
    connection: &Connection,
    resource: &Resource,
    source: &str,
) -> Result<(Vec<(Origin, Object)>, String), ClusterError> {
    let mut objects = Vec::new();
    let version = list_pages(connection, resource, |page| {
        match page {
            Page::First => objects.clear(),
            Page::Text(text) => {
                read::read(source, text, &mut objects)?;
            }
        }
        Ok(())
    });
    let version = version.await?;
    Ok((objects, version))
}

/// A step of listing in pages.
pub(crate) enum Page<'a> {
    /// The list begins, or begins again: pages so far do not count.
    First,
    Text(&'a str),
}

/// Lists one resource page by page, and returns the resourceVersion of the list.
pub(crate) async fn list_pages(
    connection: &Connection,
    resource: &Resource,
    mut each: impl FnMut(Page<'_>) -> Result<(), ClusterError>,
) -> Result<String, ClusterError> {
    let what = format!("list {}", resource.name());
    let (mut rest, mut limit): (Option<String>, Option<u32>) = (None, Some(PAGE));
    each(Page::First)?;
    loop {
        let uri = page_uri(resource, limit, rest.as_deref());
        let request = Request::get(uri).body(Vec::new()).expect("a path of constants is valid");
        let text = match connection.client.request_text(request).await {
            Ok(text) => text,
            // The pages of a list are of one moment, which the server forgot: all at once.
            Err(kube::Error::Api(status)) if status.code == 410 && rest.is_some() => {
                (rest, limit) = (None, None);
                each(Page::First)?;
                continue;
            }
            Err(error) => {
                return Err(ClusterError::from_request(&connection.server, &what, &error));
            }
        };
        let page: PageHead = serde_json::from_str(&text).map_err(|error| {
            let (server, why) = (connection.server.clone(), error.to_string());
            ClusterError::Answer { server, what: what.clone(), why }
        })?;
        each(Page::Text(&text))?;
        rest = page.metadata.rest.filter(|token| !token.is_empty());
        if rest.is_none() {
            return Ok(page.metadata.resource_version);
        }
    }
}

fn page_uri(resource: &Resource, limit: Option<u32>, rest: Option<&str>) -> String {
    let mut uri = resource.path();
    if let Some(limit) = limit {
        uri.push_str(&format!("?limit={limit}"));
    }
    if let Some(rest) = rest {
        // Tokens are base64 for URLs.
        uri.push_str(&format!("&continue={rest}"));
    }
    uri
}

#[derive(Deserialize)]
struct PageHead {
    #[serde(default)]
    metadata: PageMetadata,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PageMetadata {
    resource_version: String,
    #[serde(rename = "continue")]
    rest: Option<String>,
}
