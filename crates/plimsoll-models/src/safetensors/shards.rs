//! The safetensors files of one model: one file, or those that an index lists.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use plimsoll_core::units::Bytes;
use serde::Deserialize;

use super::error::{SafetensorsError, ShardProblem, TensorProblem};
use super::header::{self, Header, Tensor};

/// The name of the index of several files.
pub const INDEX: &str = "model.safetensors.index.json";

/// The largest index that is read.
pub const MAX_INDEX_BYTES: u64 = 100_000_000;

/// The tensors of one model, from all of its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensors {
    pub all: Vec<Tensor>,
    /// The bytes of tensor data that the files lack.
    pub absent: Bytes,
}

/// Reads the headers of all files of the model in a directory.
///
/// Several files without an index are an error: a directory may hold two variants of a model, and
/// the sum of both would be charged.
pub fn read(directory: &Path) -> Result<Tensors, SafetensorsError> {
    if directory.join(INDEX).exists() {
        return read_indexed(directory);
    }
    if directory.join("model.safetensors").exists() {
        return read_file(directory, "model.safetensors").map(|header| join([header]));
    }
    let names = safetensors_files(directory)?;
    match names.as_slice() {
        [] => Err(SafetensorsError::NoFiles),
        [name] => read_file(directory, name).map(|header| join([header])),
        _ => Err(SafetensorsError::NoIndex { count: names.len() }),
    }
}

#[derive(Deserialize)]
struct Index {
    /// From the name of a tensor to the file that contains it.
    weight_map: BTreeMap<String, String>,
}

fn read_indexed(directory: &Path) -> Result<Tensors, SafetensorsError> {
    let index = read_index(directory)?;
    let files: BTreeSet<&str> = index.weight_map.values().map(String::as_str).collect();
    let headers = files.into_iter().map(|file| read_shard(directory, &index, file));
    let joined = join(headers.collect::<Result<Vec<_>, _>>()?);
    let mut seen = BTreeSet::new();
    match joined.all.iter().find(|tensor| !seen.insert(tensor.name.as_str())) {
        Some(duplicate) => Err(SafetensorsError::Tensor {
            name: duplicate.name.clone(),
            file: INDEX.to_string(),
            problem: TensorProblem::InTwoFiles,
        }),
        None => Ok(joined),
    }
}

/// Reads one file of an index. The name comes from the file's author, so it must not lead out of
/// the directory.
fn read_shard(directory: &Path, index: &Index, file: &str) -> Result<Header, SafetensorsError> {
    let error = |problem| SafetensorsError::Shard { file: file.to_string(), problem };
    if file.contains(['/', '\\']) || file == ".." {
        return Err(error(ShardProblem::OtherDirectory));
    }
    if !directory.join(file).exists() {
        return Err(error(ShardProblem::Missing));
    }
    let header = read_file(directory, file)?;
    let found: BTreeSet<&str> = header.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    let mut listed = index.weight_map.iter().filter(|(_, of)| *of == file);
    match listed.find(|(tensor, _)| !found.contains(tensor.as_str())) {
        Some((tensor, _)) => Err(error(ShardProblem::TensorMissing { tensor: tensor.clone() })),
        None => Ok(header),
    }
}

fn read_index(directory: &Path) -> Result<Index, SafetensorsError> {
    let io_error = |source| SafetensorsError::Io { file: INDEX.to_string(), source };
    let open = File::open(directory.join(INDEX)).map_err(io_error)?;
    let mut text = Vec::new();
    open.take(MAX_INDEX_BYTES + 1).read_to_end(&mut text).map_err(io_error)?;
    let value = text.len() as u64;
    if value > MAX_INDEX_BYTES {
        let (file, limit) = (INDEX.to_string(), MAX_INDEX_BYTES);
        return Err(SafetensorsError::LimitExceeded { file, value, limit });
    }
    serde_json::from_slice(&text)
        .map_err(|source| SafetensorsError::Malformed { file: INDEX.to_string(), source })
}

fn read_file(directory: &Path, name: &str) -> Result<Header, SafetensorsError> {
    match File::open(directory.join(name)) {
        Ok(file) => header::read(file, name),
        Err(source) => Err(SafetensorsError::Io { file: name.to_string(), source }),
    }
}

fn join(headers: impl IntoIterator<Item = Header>) -> Tensors {
    let mut joined = Tensors { all: Vec::new(), absent: Bytes::ZERO };
    for header in headers {
        joined.all.extend(header.tensors);
        joined.absent = joined.absent.plus(header.absent);
    }
    joined
}

fn safetensors_files(directory: &Path) -> Result<Vec<String>, SafetensorsError> {
    let io_error = |source| SafetensorsError::Io { file: directory.display().to_string(), source };
    let mut names = Vec::new();
    for entry in fs::read_dir(directory).map_err(io_error)? {
        let name = entry.map_err(io_error)?.file_name();
        names.extend(
            name.to_str().filter(|name| name.ends_with(".safetensors")).map(str::to_string),
        );
    }
    Ok(names)
}
