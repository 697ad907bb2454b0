//! The safetensors files of one model: one file, or those that an index names.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use plimsoll_core::units::Bytes;
use serde::Deserialize;

use super::SafetensorsError;
use super::header::{self, Header, Tensor};

/// The name of the index of several files.
pub const INDEX: &str = "model.safetensors.index.json";

/// The longest index.
pub const INDEX_MOST: u64 = 100_000_000;

/// The tensors of one model, from all of its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensors {
    /// Every tensor.
    pub all: Vec<Tensor>,
    /// How many bytes of their data are not there.
    pub absent: Bytes,
}

/// Reads the headers of all files of the model in a directory.
pub fn read(directory: &Path) -> Result<Tensors, SafetensorsError> {
    if directory.join(INDEX).exists() {
        return indexed(directory);
    }
    if directory.join("model.safetensors").exists() {
        return file(directory, "model.safetensors").map(|header| join([header]));
    }
    let names = names(directory)?;
    match names.as_slice() {
        [] => Err(SafetensorsError::Nothing),
        [name] => file(directory, name).map(|header| join([header])),
        _ => Err(SafetensorsError::NoIndex { count: names.len() }),
    }
}

#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

fn indexed(directory: &Path) -> Result<Tensors, SafetensorsError> {
    let index = index(directory)?;
    let mut headers = Vec::new();
    let names: BTreeSet<&String> = index.weight_map.values().collect();
    for name in names {
        let problem = |problem: &str| SafetensorsError::Shard {
            file: name.clone(),
            problem: problem.to_string(),
        };
        if name.contains(['/', '\\']) || name == ".." {
            return Err(problem("is not beside it"));
        }
        if !directory.join(name).exists() {
            return Err(problem("is not there"));
        }
        let header = file(directory, name)?;
        let found: BTreeSet<&str> =
            header.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
        let promised = index.weight_map.iter().filter(|(_, file)| *file == name);
        if let Some((tensor, _)) =
            promised.into_iter().find(|(tensor, _)| !found.contains(tensor.as_str()))
        {
            return Err(problem(&format!("does not have the tensor {tensor}")));
        }
        headers.push(header);
    }
    let joined = join(headers);
    let mut seen = BTreeSet::new();
    match joined.all.iter().find(|tensor| !seen.insert(tensor.name.as_str())) {
        Some(twice) => {
            let problem = "stands in two files".to_string();
            Err(SafetensorsError::Tensor {
                name: twice.name.clone(),
                file: INDEX.to_string(),
                problem,
            })
        }
        None => Ok(joined),
    }
}

fn index(directory: &Path) -> Result<Index, SafetensorsError> {
    let failed = |source| SafetensorsError::Io { file: INDEX.to_string(), source };
    let open = File::open(directory.join(INDEX)).map_err(failed)?;
    let mut text = Vec::new();
    open.take(INDEX_MOST + 1).read_to_end(&mut text).map_err(failed)?;
    let value = text.len() as u64;
    if value > INDEX_MOST {
        let (what, file) = ("the length", INDEX.to_string());
        return Err(SafetensorsError::TooMuch { what, file, value, most: INDEX_MOST });
    }
    serde_json::from_slice(&text)
        .map_err(|source| SafetensorsError::Malformed { file: INDEX.to_string(), source })
}

fn file(directory: &Path, name: &str) -> Result<Header, SafetensorsError> {
    let open = File::open(directory.join(name));
    header::read(
        open.map_err(|source| SafetensorsError::Io { file: name.to_string(), source })?,
        name,
    )
}

fn join(headers: impl IntoIterator<Item = Header>) -> Tensors {
    let mut joined = Tensors { all: Vec::new(), absent: Bytes::ZERO };
    for header in headers {
        joined.all.extend(header.tensors);
        joined.absent = joined.absent.plus(header.absent);
    }
    joined
}

fn names(directory: &Path) -> Result<Vec<String>, SafetensorsError> {
    let failed = |source| SafetensorsError::Io { file: directory.display().to_string(), source };
    let mut names = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        names.extend(
            name.to_str().filter(|name| name.ends_with(".safetensors")).map(str::to_string),
        );
    }
    Ok(names)
}
