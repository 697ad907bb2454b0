//! From a path to a model: a GGUF file, a `config.json`, or a directory with either.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::config::{self, ConfigError};
use crate::gguf::{self, GgufError};
use crate::safetensors::{SafetensorsError, shards, weights};
use crate::shape::{Format, Shape};
use crate::source::Fact;

/// Reads the model at `path`: only headers, never a tensor's data.
pub fn open(path: &Path) -> Result<Shape, OpenError> {
    let found = fs::metadata(path).map_err(|source| OpenError::Io { path: path.to_path_buf(), source })?;
    if found.is_dir() {
        return directory(path);
    }
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("json") => config_alone(path),
        Some("safetensors") => directory(beside(path)),
        _ => Ok(gguf::shape::read(path)?),
    }
}

fn beside(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn directory(path: &Path) -> Result<Shape, OpenError> {
    let config = path.join("config.json");
    if !config.exists() {
        return gguf_in(path);
    }
    let shape = config_alone(&config)?;
    match shards::read(path) {
        Ok(tensors) => with_tensors(shape, &tensors),
        Err(SafetensorsError::Nothing) => Ok(shape),
        Err(error) => Err(error.into()),
    }
}

fn config_alone(path: &Path) -> Result<Shape, OpenError> {
    let file = File::open(path).map_err(ConfigError::Io)?;
    Ok(config::shape::read(file)?)
}

fn with_tensors(mut shape: Shape, tensors: &shards::Tensors) -> Result<Shape, OpenError> {
    let count = shape.layers.get().map_or(0, Vec::len);
    shape.format = Format::Safetensors;
    let sum = weights::of(tensors, count).ok_or(OpenError::TooLarge)?;
    shape.weights = Fact::read(sum, "the headers of the safetensors files");
    if !tensors.absent.is_zero() {
        let absent = tensors.absent;
        shape.remarks.push(format!(
            "{absent} of the tensors' data is not in the files; the sizes are those that the headers state"
        ));
    }
    Ok(shape)
}

/// The one GGUF model of a directory. The parts of a split model count as one.
fn gguf_in(path: &Path) -> Result<Shape, OpenError> {
    let failed = |source| OpenError::Io { path: path.to_path_buf(), source };
    let mut models = Vec::new();
    for entry in fs::read_dir(path).map_err(failed)? {
        let file = entry.map_err(failed)?.path();
        let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let later_part = name.contains("-of-") && !name.contains("-00001-of-");
        if name.ends_with(".gguf") && !name.starts_with("mmproj") && !later_part {
            models.push(file);
        }
    }
    match models.as_slice() {
        [] => Err(OpenError::Nothing { path: path.to_path_buf() }),
        [model] => Ok(gguf::shape::read(model)?),
        _ => Err(OpenError::Several { path: path.to_path_buf(), count: models.len() }),
    }
}

/// Why a model could not be read.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The path could not be looked at.
    #[error("could not read {path}")]
    Io {
        /// Which.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// It is a GGUF file, but not one that can be read.
    #[error(transparent)]
    Gguf(#[from] GgufError),
    /// They are safetensors files, but not ones that can be read.
    #[error(transparent)]
    Safetensors(#[from] SafetensorsError),
    /// The `config.json` cannot be read.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The weights are more than can be counted.
    #[error("the weights are more memory than can be counted")]
    TooLarge,
    /// The directory has no model in it.
    #[error("{path} has neither a config.json nor a GGUF file in it")]
    Nothing {
        /// Which.
        path: PathBuf,
    },
    /// The directory has several models in it.
    #[error("{path} has {count} GGUF models in it; name one of them")]
    Several {
        /// Which.
        path: PathBuf,
        /// How many.
        count: usize,
    },
}
