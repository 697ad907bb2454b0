//! Reads a live cluster once.

use anyhow::{Context, Result};
use plimsoll_cluster::{Access, Connection};
use plimsoll_kube::read::{Object, Origin};

use crate::output::Verbosity;
use crate::progress;

/// The name of a live cluster in the origin of its objects.
pub(crate) const SOURCE: &str = "the cluster";

/// The objects of a live cluster.
pub(crate) struct Live {
    pub(crate) objects: Vec<(Origin, Object)>,
    /// The namespace of the context.
    pub(crate) namespace: String,
}

/// Lists the objects of a cluster.
pub(crate) fn read(access: &Access, verbosity: Verbosity) -> Result<Live> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("could not start the client")?;
    let list = || {
        runtime.block_on(async {
            let connection = Connection::open(access).await?;
            let listing = plimsoll_cluster::list(&connection, SOURCE).await?;
            Ok(Live { objects: listing.objects, namespace: connection.namespace().to_owned() })
        })
    };
    progress::meanwhile(verbosity, "reading the cluster", list)
}
