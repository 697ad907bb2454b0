//! Writes all golden models into a directory, for a reader or a runtime to open.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use plimsoll_goldens::gguf::{self, Body};
use plimsoll_goldens::list::{Golden, SAFETENSORS};
use plimsoll_goldens::safetensors;

/// Writes `gguf/<name>.gguf` and `safetensors/<name>/` at their real length, with a hole for the
/// weights.
pub(crate) fn run(directory: &Path) -> Result<()> {
    let gguf_directory = directory.join("gguf");
    fs::create_dir_all(&gguf_directory)
        .with_context(|| format!("cannot create {}", gguf_directory.display()))?;
    for golden in Golden::all_gguf() {
        let path = gguf_directory.join(format!("{}.gguf", golden.name));
        gguf::write(&golden.card()?, &path, Body::Sparse)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    for golden in SAFETENSORS {
        let path = directory.join("safetensors").join(golden.name);
        safetensors::write(&golden.card()?, &path, 2, Body::Sparse)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    let files = Golden::all_gguf().count();
    println!("goldens: {files} GGUF files, {} safetensors directories", SAFETENSORS.len());
    Ok(())
}
