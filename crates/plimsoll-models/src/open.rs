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
    let found =
        fs::metadata(path).map_err(|source| OpenError::Io { path: path.to_path_buf(), source })?;
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

#[cfg(test)]
mod tests {
    use plimsoll_core::units::Bytes;

    use super::*;
    use crate::gguf::sample;

    const CONFIG: &str = r#"{"architectures":["LlamaForCausalLM"],"model_type":"llama","num_hidden_layers":1,
        "hidden_size":8,"num_attention_heads":2,"num_key_value_heads":1,"intermediate_size":16,"vocab_size":10,
        "torch_dtype":"bfloat16","max_position_embeddings":2048}"#;

    fn tensors(names: &[&str]) -> Vec<u8> {
        let entry = |(at, name): (usize, &&str)| {
            format!(
                r#""{name}":{{"dtype":"BF16","shape":[2,8],"data_offsets":[{},{}]}}"#,
                32 * at,
                32 * (at + 1)
            )
        };
        let header =
            format!("{{{}}}", names.iter().enumerate().map(entry).collect::<Vec<_>>().join(","));
        [(header.len() as u64).to_le_bytes().to_vec(), header.into_bytes()].concat()
    }

    fn folder(files: &[(&str, Vec<u8>)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, bytes) in files {
            fs::write(folder.path().join(name), bytes).expect("written");
        }
        folder
    }

    fn refused(files: &[(&str, Vec<u8>)]) -> String {
        open(folder(files).path()).expect_err("refused").to_string()
    }

    #[test]
    fn a_folder_is_what_is_in_it() {
        let gguf = sample::llama().bytes();
        assert_eq!(
            open(folder(&[("m.gguf", gguf.clone())]).path()).expect("a model").format,
            Format::Gguf
        );
        let config = ("config.json", CONFIG.as_bytes().to_vec());
        assert_eq!(
            open(folder(std::slice::from_ref(&config)).path()).expect("a model").format,
            Format::Config
        );
        let names = ["model.embed_tokens.weight", "model.layers.0.self_attn.q_proj.weight"];
        let both = folder(&[config, ("model.safetensors", tensors(&names))]);
        let shape = open(both.path()).expect("a model");
        let weights = shape.weights.get().expect("weights");
        assert_eq!((weights.embedding, weights.layers[0]), (Bytes::new(32), Bytes::new(32)));
        assert_eq!(weights.tied, Some(Bytes::new(32)));
        assert!(shape.remarks[0].contains("64 B of the tensors' data"));
        let two = [("a.gguf", gguf.clone()), ("b.gguf", gguf)];
        assert!(refused(&two).contains("has 2 GGUF models in it"));
        assert!(refused(&[]).contains("neither a config.json nor a GGUF file"));
    }

    #[test]
    fn an_index_names_the_files_and_every_one_must_be_there() {
        let index = |file: &str| {
            let map = format!(
                r#"{{"weight_map":{{"model.layers.0.a":"one.safetensors","lm_head.weight":"{file}"}}}}"#
            );
            ("model.safetensors.index.json", map.into_bytes())
        };
        let config = ("config.json", CONFIG.as_bytes().to_vec());
        let one = ("one.safetensors", tensors(&["model.layers.0.a"]));
        let two = ("two.safetensors", tensors(&["lm_head.weight"]));
        let whole = folder(&[config.clone(), index("two.safetensors"), one.clone(), two.clone()]);
        let shape = open(whole.path()).expect("a model");
        assert_eq!(shape.weights.get().map(|weights| weights.output), Some(Bytes::new(32)));
        let missing = refused(&[config.clone(), index("two.safetensors"), one.clone()]);
        assert!(
            missing.contains("two.safetensors, which the index names, is not there"),
            "{missing}"
        );
        let away = refused(&[config.clone(), index("../two.safetensors"), one.clone()]);
        assert!(away.contains("is not beside it"), "{away}");
        let empty = refused(&[
            config.clone(),
            index("two.safetensors"),
            one.clone(),
            ("two.safetensors", tensors(&[])),
        ]);
        assert!(empty.contains("does not have the tensor lm_head.weight"), "{empty}");
        let unsorted = refused(&[config, one, two]);
        assert!(
            unsorted.contains("2 safetensors files are there, but no model.safetensors.index.json"),
            "{unsorted}"
        );
    }
}
