//! Models that are split over several GGUF files: all parts are read, or the missing one is named.

use std::fs::File;
use std::path::{Path, PathBuf};

use super::error::{GgufError, PartProblem};
use super::header::{self, Header};

/// The largest number of parts of one model.
pub const MAX_PARTS: u64 = 1000;

/// Reads the file at `path` and, if it belongs to a split model, all parts of it in order.
///
/// Only the first part has the metadata, and each part has tensors of its own. A model with a
/// missing part would be estimated too low, so an incomplete set is an error.
pub fn read(path: &Path) -> Result<Vec<Header>, GgufError> {
    let header = read_header(path)?;
    let parts = header.metadata.number("split.count")?.unwrap_or(0);
    if parts <= 1 {
        return Ok(vec![header]);
    }
    if parts > MAX_PARTS {
        let field = "split.count".to_string();
        return Err(GgufError::LimitExceeded { at: 0, field, value: parts, limit: MAX_PARTS });
    }
    let headers = (1..=parts).map(|part| read_part(path, part, parts));
    let headers = headers.collect::<Result<Vec<_>, _>>()?;
    check_tensor_count(&headers, path, parts)?;
    Ok(headers)
}

fn read_header(path: &Path) -> Result<Header, GgufError> {
    match File::open(path) {
        Ok(file) => header::read(file),
        Err(source) => Err(GgufError::Io { at: 0, field: path.display().to_string(), source }),
    }
}

fn read_part(path: &Path, part: u64, parts: u64) -> Result<Header, GgufError> {
    let Some(file) = sibling(path, part, parts) else {
        return Err(part_error(path, part, parts, PartProblem::FileName { parts }));
    };
    if !file.exists() {
        return Err(part_error(&file, part, parts, PartProblem::Missing));
    }
    let header = read_header(&file)?;
    let number = header.metadata.number("split.no")?;
    let count = header.metadata.number("split.count")?;
    // `split.no` counts from 0, file names count from 1.
    if (number, count) != (Some(part - 1), Some(parts)) {
        return Err(part_error(&file, part, parts, PartProblem::WrongPart));
    }
    Ok(header)
}

fn part_error(path: &Path, part: u64, parts: u64, problem: PartProblem) -> GgufError {
    let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    GgufError::Part { part, parts, file, problem }
}

/// Returns the path of another part of the same model: `model-00002-of-00003.gguf`.
fn sibling(path: &Path, part: u64, parts: u64) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let stem = name.strip_suffix(&format!("-of-{parts:05}.gguf"))?;
    let (stem, digits) = stem.rsplit_once('-')?;
    let is_number = digits.len() == 5 && digits.bytes().all(|digit| digit.is_ascii_digit());
    is_number.then(|| path.with_file_name(format!("{stem}-{part:05}-of-{parts:05}.gguf")))
}

/// Checks that the parts together have as many tensors as the first part declares.
fn check_tensor_count(headers: &[Header], path: &Path, parts: u64) -> Result<(), GgufError> {
    let Some(first) = headers.first() else { return Ok(()) };
    let Some(expected) = first.metadata.number("split.tensors.count")? else { return Ok(()) };
    let found: u64 = headers.iter().map(|header| header.tensors.len() as u64).sum();
    if found == expected {
        return Ok(());
    }
    Err(part_error(path, 1, parts, PartProblem::TensorCount { found, expected }))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::gguf::sample::Sample;

    fn part(number: u32, of: u32, tensors: u32) -> Sample {
        let sample = Sample::default().number("split.no", number).number("split.count", of);
        let sample = sample.number("split.tensors.count", tensors);
        sample.tensor(&format!("blk.{number}.weight"), &[32])
    }

    fn write_parts(parts: &[(&str, Sample)]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().expect("creates a directory");
        for (name, sample) in parts {
            fs::write(directory.path().join(name), sample.bytes()).expect("writes the file");
        }
        directory
    }

    #[test]
    fn each_part_leads_to_all_parts() {
        let (one, two) = ("m-00001-of-00002.gguf", "m-00002-of-00002.gguf");
        let directory = write_parts(&[(one, part(0, 2, 2)), (two, part(1, 2, 2))]);
        for path in [one, two] {
            let parts = read(&directory.path().join(path)).expect("reads all parts");
            let names: Vec<_> =
                parts.iter().flat_map(|part| &part.tensors).map(|t| t.name.as_str()).collect();
            assert_eq!(names, ["blk.0.weight", "blk.1.weight"]);
        }
    }

    #[test]
    fn a_missing_or_wrong_part_is_named() {
        let (one, two) = ("m-00001-of-00002.gguf", "m-00002-of-00002.gguf");
        for (files, message) in [
            (vec![(one, part(0, 2, 2))], "part 2 of 2 (m-00002-of-00002.gguf) is missing"),
            (vec![(one, part(0, 2, 2)), (two, part(0, 2, 2))], "contains a different part"),
            (
                vec![(one, part(0, 2, 3)), (two, part(1, 2, 3))],
                "declares 3 tensors for the whole model, but the parts have 2",
            ),
            (vec![(one, part(0, 5000, 2))], "the limit is 1000"),
        ] {
            let error =
                read(&write_parts(&files).path().join(one)).expect_err("is rejected").to_string();
            assert!(error.contains(message), "{error}");
        }
        let renamed = write_parts(&[("renamed.gguf", part(0, 2, 2))]);
        let error =
            read(&renamed.path().join("renamed.gguf")).expect_err("is rejected").to_string();
        assert!(error.contains("does not end in -00001-of-00002.gguf"), "{error}");
    }
}
