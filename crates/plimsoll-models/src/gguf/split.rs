//! A model in several files: every part is read, or the missing one is named.

use std::fs::File;
use std::path::{Path, PathBuf};

use super::GgufError;
use super::header::{self, Header};

/// The most parts of one model.
pub const PARTS_MOST: u64 = 1000;

/// Reads the file at `path`, and every other part when it is one of several. The first part comes first.
pub fn read(path: &Path) -> Result<Vec<Header>, GgufError> {
    let asked = open(path)?;
    let count = asked.metadata.number("split.count")?.unwrap_or(0);
    if count <= 1 {
        return Ok(vec![asked]);
    }
    if count > PARTS_MOST {
        let field = "split.count".to_string();
        return Err(GgufError::TooMuch { at: 0, field, value: count, most: PARTS_MOST });
    }
    let mut parts = Vec::new();
    for number in 1..=count {
        parts.push(part(path, number, count)?);
    }
    complete(&parts, path, count)?;
    Ok(parts)
}

fn open(path: &Path) -> Result<Header, GgufError> {
    let file = File::open(path);
    header::read(file.map_err(|source| GgufError::Io {
        at: 0,
        field: path.display().to_string(),
        source,
    })?)
}

fn part(path: &Path, number: u64, count: u64) -> Result<Header, GgufError> {
    let wrong = |file: &Path, problem: String| {
        let file = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        GgufError::Part { part: number, parts: count, file, problem }
    };
    let Some(file) = sibling(path, number, count) else {
        let problem = format!("cannot be found: a part's name ends in -00001-of-{count:05}.gguf");
        return Err(wrong(path, problem));
    };
    if !file.exists() {
        return Err(wrong(&file, "is not there".to_string()));
    }
    let header = open(&file)?;
    let says = (header.metadata.number("split.no")?, header.metadata.number("split.count")?);
    if says != (Some(number - 1), Some(count)) {
        return Err(wrong(&file, "says that it is another part".to_string()));
    }
    Ok(header)
}

/// The name of another part of the same model: `model-00002-of-00003.gguf`.
fn sibling(path: &Path, number: u64, count: u64) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let stem = name.strip_suffix(&format!("-of-{count:05}.gguf"))?;
    let (stem, digits) = stem.rsplit_once('-')?;
    let is_number = digits.len() == 5 && digits.bytes().all(|digit| digit.is_ascii_digit());
    is_number.then(|| path.with_file_name(format!("{stem}-{number:05}-of-{count:05}.gguf")))
}

fn complete(parts: &[Header], path: &Path, count: u64) -> Result<(), GgufError> {
    let first =
        parts.first().and_then(|part| part.metadata.number("split.tensors.count").transpose());
    let Some(expected) = first.transpose()? else { return Ok(()) };
    let found: u64 = parts.iter().map(|part| part.tensors.len() as u64).sum();
    if found == expected {
        return Ok(());
    }
    let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let problem = format!(
        "belongs to parts with {found} tensors, not the {expected} that the first one promises"
    );
    Err(GgufError::Part { part: 1, parts: count, file, problem })
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

    fn written(parts: &[(&str, Sample)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, sample) in parts {
            fs::write(folder.path().join(name), sample.bytes()).expect("written");
        }
        folder
    }

    #[test]
    fn any_part_finds_all_the_others() {
        let (one, two) = ("m-00001-of-00002.gguf", "m-00002-of-00002.gguf");
        let folder = written(&[(one, part(0, 2, 2)), (two, part(1, 2, 2))]);
        for asked in [one, two] {
            let parts = read(&folder.path().join(asked)).expect("all parts");
            let names: Vec<_> =
                parts.iter().flat_map(|part| &part.tensors).map(|t| t.name.as_str()).collect();
            assert_eq!(names, ["blk.0.weight", "blk.1.weight"]);
        }
    }

    #[test]
    fn a_part_that_is_missing_or_another_is_named() {
        let (one, two) = ("m-00001-of-00002.gguf", "m-00002-of-00002.gguf");
        for (files, part) in [
            (vec![(one, part(0, 2, 2))], "part 2 of 2, m-00002-of-00002.gguf, is not there"),
            (vec![(one, part(0, 2, 2)), (two, part(0, 2, 2))], "says that it is another part"),
            (vec![(one, part(0, 2, 3)), (two, part(1, 2, 3))], "2 tensors, not the 3"),
            (vec![(one, part(0, 5000, 2))], "more than 1000"),
        ] {
            let error = read(&written(&files).path().join(one)).expect_err("refused").to_string();
            assert!(error.contains(part), "{error}");
        }
        let odd = written(&[("renamed.gguf", part(0, 2, 2))]);
        let error = read(&odd.path().join("renamed.gguf")).expect_err("refused").to_string();
        assert!(error.contains("a part's name ends in -00001-of-00002.gguf"), "{error}");
    }
}
