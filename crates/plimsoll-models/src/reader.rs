//! Reads the model at a path: a GGUF file, a `config.json`, or a directory with either.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::config::{self, ConfigError};
use crate::gguf::{self, GgufError};
use crate::safetensors::{SafetensorsError, shards, weights};
use crate::shape::{Format, Shape};
use crate::source::Sourced;

/// Reads the model at `path`: headers only, never tensor data.
pub fn read_model(path: &Path) -> Result<Shape, ReadError> {
    let metadata =
        fs::metadata(path).map_err(|source| ReadError::Io { path: path.to_path_buf(), source })?;
    if metadata.is_dir() {
        return read_directory(path);
    }
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("json") => read_config(path),
        Some("safetensors") => read_directory(directory_of(path)),
        _ => Ok(gguf::shape::read(path)?),
    }
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Reads a directory. A `config.json` makes it a Hugging Face model, with or without tensors.
fn read_directory(path: &Path) -> Result<Shape, ReadError> {
    let config = path.join("config.json");
    if !config.exists() {
        return read_gguf_directory(path);
    }
    let shape = read_config(&config)?;
    match shards::read(path) {
        Ok(tensors) => with_tensors(shape, &tensors),
        Err(SafetensorsError::NoFiles) => Ok(shape),
        Err(error) => Err(error.into()),
    }
}

fn read_config(path: &Path) -> Result<Shape, ReadError> {
    let file = File::open(path).map_err(ConfigError::Io)?;
    let mut shape = config::shape::read(file)?;
    if shape.identity.name.is_none() {
        shape.identity.name = directory_name(path);
    }
    Ok(shape)
}

/// Returns the name of the directory of a `config.json`, which is that of the model.
fn directory_name(config: &Path) -> Option<String> {
    let directory = fs::canonicalize(config).ok()?;
    Some(directory.parent()?.file_name()?.to_str()?.to_string())
}

fn with_tensors(mut shape: Shape, tensors: &shards::Tensors) -> Result<Shape, ReadError> {
    let count = shape.layers.get().map_or(0, Vec::len);
    let weights = weights::sum_by_layer(tensors, count).ok_or(ReadError::Overflow)?;
    shape.format = Format::Safetensors;
    shape.identity.parameters = parameters(tensors);
    shape.weights = Sourced::read(weights, "the headers of the safetensors files");
    if !tensors.absent.is_zero() {
        let absent = tensors.absent;
        shape.remarks.push(format!(
            "{absent} of tensor data is not in the files; the sizes come from the headers"
        ));
    }
    Ok(shape)
}

/// Returns the number of weights. It is unknown if integers pack several weights into one element.
fn parameters(tensors: &shards::Tensors) -> Option<u64> {
    tensors.all.iter().try_fold(0_u64, |sum, tensor| {
        let is_packed = !tensor.dtype.contains('F');
        let elements = tensor.shape.iter().try_fold(1_u64, |all, length| all.checked_mul(*length));
        sum.checked_add(elements.filter(|_| !is_packed)?)
    })
}

/// Reads the only GGUF model of a directory. The parts of a split model count as one, and the
/// projector of a multimodal model (`mmproj`) is not a model.
fn read_gguf_directory(path: &Path) -> Result<Shape, ReadError> {
    let io_error = |source| ReadError::Io { path: path.to_path_buf(), source };
    let mut models = Vec::new();
    for entry in fs::read_dir(path).map_err(io_error)? {
        let file = entry.map_err(io_error)?.path();
        let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let is_later_part = name.contains("-of-") && !name.contains("-00001-of-");
        if name.ends_with(".gguf") && !name.starts_with("mmproj") && !is_later_part {
            models.push(file);
        }
    }
    match models.as_slice() {
        [] => Err(ReadError::NoModel { path: path.to_path_buf() }),
        [model] => Ok(gguf::shape::read(model)?),
        _ => Err(ReadError::SeveralModels { path: path.to_path_buf(), count: models.len() }),
    }
}

/// The reason why a model cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("cannot read {path}")]
    Io {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(transparent)]
    Gguf(#[from] GgufError),
    #[error(transparent)]
    Safetensors(#[from] SafetensorsError),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("the sum of the tensor sizes does not fit in 64 bits")]
    Overflow,
    #[error("{path} has neither a config.json nor a GGUF file")]
    NoModel { path: PathBuf },
    #[error("{path} has {count} GGUF models; specify one of them")]
    SeveralModels { path: PathBuf, count: usize },
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
        let entry = |(index, name): (usize, &&str)| {
            format!(
                r#""{name}":{{"dtype":"BF16","shape":[2,8],"data_offsets":[{},{}]}}"#,
                32 * index,
                32 * (index + 1)
            )
        };
        let header =
            format!("{{{}}}", names.iter().enumerate().map(entry).collect::<Vec<_>>().join(","));
        [(header.len() as u64).to_le_bytes().to_vec(), header.into_bytes()].concat()
    }

    fn directory(files: &[(&str, Vec<u8>)]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().expect("creates a directory");
        for (name, bytes) in files {
            fs::write(directory.path().join(name), bytes).expect("writes the file");
        }
        directory
    }

    fn rejection(files: &[(&str, Vec<u8>)]) -> String {
        read_model(directory(files).path()).expect_err("is rejected").to_string()
    }

    #[test]
    fn a_directory_is_read_by_its_content() {
        let gguf = sample::llama().bytes();
        assert_eq!(
            read_model(directory(&[("m.gguf", gguf.clone())]).path())
                .expect("reads the model")
                .format,
            Format::Gguf
        );
        let config = ("config.json", CONFIG.as_bytes().to_vec());
        assert_eq!(
            read_model(directory(std::slice::from_ref(&config)).path())
                .expect("reads the model")
                .format,
            Format::Config
        );
        let names = ["model.embed_tokens.weight", "model.layers.0.self_attn.q_proj.weight"];
        let both = directory(&[config, ("model.safetensors", tensors(&names))]);
        let shape = read_model(both.path()).expect("reads the model");
        let weights = shape.weights.get().expect("weights are known");
        assert_eq!((weights.embedding, weights.layers[0]), (Bytes::new(32), Bytes::new(32)));
        assert_eq!(weights.tied, Some(Bytes::new(32)));
        assert!(shape.remarks[0].contains("64 B of tensor data"));
        let two = [("a.gguf", gguf.clone()), ("b.gguf", gguf)];
        assert!(rejection(&two).contains("has 2 GGUF models"));
        assert!(rejection(&[]).contains("neither a config.json nor a GGUF file"));
    }

    #[test]
    fn every_file_of_an_index_must_exist() {
        let index = |file: &str| {
            let map = format!(
                r#"{{"weight_map":{{"model.layers.0.a":"one.safetensors","lm_head.weight":"{file}"}}}}"#
            );
            ("model.safetensors.index.json", map.into_bytes())
        };
        let config = ("config.json", CONFIG.as_bytes().to_vec());
        let one = ("one.safetensors", tensors(&["model.layers.0.a"]));
        let two = ("two.safetensors", tensors(&["lm_head.weight"]));
        let whole =
            directory(&[config.clone(), index("two.safetensors"), one.clone(), two.clone()]);
        let shape = read_model(whole.path()).expect("reads the model");
        assert_eq!(shape.weights.get().map(|weights| weights.output), Some(Bytes::new(32)));
        let missing = rejection(&[config.clone(), index("two.safetensors"), one.clone()]);
        assert!(missing.contains("two.safetensors, listed in the index, is missing"), "{missing}");
        let away = rejection(&[config.clone(), index("../two.safetensors"), one.clone()]);
        assert!(away.contains("is not in the directory of the index"), "{away}");
        let empty = rejection(&[
            config.clone(),
            index("two.safetensors"),
            one.clone(),
            ("two.safetensors", tensors(&[])),
        ]);
        assert!(empty.contains("does not contain tensor lm_head.weight"), "{empty}");
        let unsorted = rejection(&[config, one, two]);
        assert!(
            unsorted.contains("2 safetensors files, but no model.safetensors.index.json"),
            "{unsorted}"
        );
    }
}
