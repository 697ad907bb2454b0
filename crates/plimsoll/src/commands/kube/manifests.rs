//! `plimsoll kube manifests`: prints what to apply.

use std::fmt::Write;

use anyhow::{Context, Result};
use plimsoll_cluster::manifests::{Installation, Manifest, Part};

use crate::cli::ManifestsArgs;
use crate::output::{self, Outcome};

pub(super) fn run(args: &ManifestsArgs) -> Result<Outcome> {
    let installation = Installation {
        namespace: args.namespace.clone(),
        image: args.image.clone(),
        part: if args.guard { Part::Guard } else { Part::Watch },
    };
    output::text(&yaml(&installation.manifests())?)?;
    Ok(Outcome::Fine)
}

/// Renders one document for each object, with a comment that says why it is there.
fn yaml(manifests: &[Manifest]) -> Result<String> {
    let mut text = String::new();
    for Manifest { why, object } in manifests {
        text.push_str("---\n");
        if !why.is_empty() {
            writeln!(text, "# {why}").context("text can be written")?;
        }
        let document = serde_saphyr::to_string(object).context("an object is valid YAML")?;
        text.push_str(document.trim_start_matches("---\n"));
        if !text.ends_with('\n') {
            text.push('\n');
        }
    }
    Ok(text)
}
