//! Writes every golden model into a folder, for a reader or a runtime to open.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use plimsoll_goldens::gguf::{self, Body};
use plimsoll_goldens::list::{GGUF, SAFETENSORS};
use plimsoll_goldens::safetensors;

/// Writes `gguf/<name>.gguf` and `safetensors/<name>/`, as long as the real ones but without their weights.
pub(crate) fn run(folder: &Path) -> Result<()> {
    let ggufs = folder.join("gguf");
    fs::create_dir_all(&ggufs).with_context(|| format!("could not make {}", ggufs.display()))?;
    for golden in GGUF {
        let path = ggufs.join(format!("{}.gguf", golden.name));
        gguf::write(&golden.card()?, &path, Body::Sparse)
            .with_context(|| format!("could not write {}", path.display()))?;
    }
    for golden in SAFETENSORS {
        let path = folder.join("safetensors").join(golden.name);
        safetensors::write(&golden.card()?, &path, 2, Body::Sparse)
            .with_context(|| format!("could not write {}", path.display()))?;
    }
    println!("goldens: {} GGUF files, {} folders of safetensors", GGUF.len(), SAFETENSORS.len());
    Ok(())
}
