//! Inspection of model files that the server asks about.

use std::path::Path;
use std::sync::Arc;
use std::thread;

use plimsoll_models::config::ConfigError;
use plimsoll_models::gguf::GgufError;
use plimsoll_models::gguf::error::PartProblem;
use plimsoll_models::reader::{ReadError, read_model};
use plimsoll_models::safetensors::SafetensorsError;
use plimsoll_slots::wire::{FileContent, FileReport};
use tracing::info;

use super::agent::Agent;
use super::error::with_causes;
use super::state::RunnerState;

/// Inspects the wanted files that were not inspected since the server asked. It runs in a thread,
/// because a network file system can take minutes to answer.
pub(crate) fn inspect(agent: &Arc<Agent>, state: &mut RunnerState, wanted: Vec<String>) {
    state.files.retain(|path, _| wanted.contains(path));
    let new: Vec<String> =
        wanted.into_iter().filter(|path| !state.files.contains_key(path)).collect();
    if new.is_empty() {
        return;
    }
    state.files.extend(new.iter().map(|path| (path.clone(), None)));
    let agent = Arc::clone(agent);
    thread::spawn(move || {
        for path in new {
            let report = read_header(&path);
            info!(path, problem = report.content.problem(), "inspected model file");
            agent.shared.update(|state| {
                // The server may have stopped asking for the file.
                if let Some(entry) = state.files.get_mut(&path) {
                    *entry = Some(report);
                    state.changes += 1;
                }
            });
        }
    });
}

/// Reads the header of a model file.
fn read_header(path: &str) -> FileReport {
    let content = match read_model(Path::new(path)) {
        Ok(shape) if !shape.absent.is_zero() => {
            // Every start would fail in the same way, so no slot may be placed here.
            let problem =
                format!("the file is incomplete: {} of tensor data is missing", shape.absent);
            FileContent::Damaged { problem }
        }
        Ok(shape) => FileContent::Model { shape: Arc::new(shape) },
        Err(error) => {
            let problem = with_causes(&error);
            match kind_of(&error) {
                Failure::Unreadable => FileContent::Unreadable { problem },
                Failure::Damaged => FileContent::Damaged { problem },
                Failure::Unsupported => FileContent::Unsupported { problem },
            }
        }
    };
    FileReport { path: path.to_string(), content }
}

/// The kind of a failed inspection.
enum Failure {
    /// The file is missing or cannot be read.
    Unreadable,
    /// The file is cut short or no model file, so that every runtime rejects it.
    Damaged,
    /// The file may be one that only Plimsoll does not know.
    Unsupported,
}

fn kind_of(error: &ReadError) -> Failure {
    match error {
        ReadError::Io { .. }
        | ReadError::Gguf(GgufError::Io { .. })
        | ReadError::Config(ConfigError::Io(_))
        | ReadError::Safetensors(SafetensorsError::Io { .. }) => Failure::Unreadable,
        ReadError::Gguf(
            GgufError::Truncated { .. }
            | GgufError::NotGguf { .. }
            | GgufError::Part { problem: PartProblem::Missing, .. },
        )
        | ReadError::Safetensors(
            SafetensorsError::Truncated { .. }
            | SafetensorsError::Malformed { .. }
            | SafetensorsError::Shard { .. },
        ) => Failure::Damaged,
        _ => Failure::Unsupported,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_cut_short_is_not_a_model() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("short.gguf");
        let text = |text: &str| [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat();
        let number = |name: &str, value: u32| {
            [text(name), 4_u32.to_le_bytes().to_vec(), value.to_le_bytes().to_vec()].concat()
        };
        let architecture =
            [text("general.architecture"), 8_u32.to_le_bytes().to_vec(), text("llama")].concat();
        let tensor = [
            text("output_norm.weight"),
            1_u32.to_le_bytes().to_vec(),
            1024_u64.to_le_bytes().to_vec(),
            0_u32.to_le_bytes().to_vec(),
            0_u64.to_le_bytes().to_vec(),
        ];
        let counts = [1_u64, 2].map(u64::to_le_bytes).concat();
        let header = [b"GGUF".to_vec(), 3_u32.to_le_bytes().to_vec(), counts, architecture];
        let mut bytes = [header.concat(), number("llama.block_count", 1), tensor.concat()].concat();
        bytes.resize(bytes.len().next_multiple_of(32) + 1000, 0);
        std::fs::write(&path, &bytes).expect("the file is written");
        let short = read_header(path.to_str().expect("UTF-8")).content;
        let problem = "the file is incomplete: 3096 B of tensor data is missing".to_string();
        assert_eq!(short, FileContent::Damaged { problem });
        std::fs::write(&path, &bytes[..40]).expect("the file is written");
        let headless = read_header(path.to_str().expect("UTF-8")).content;
        assert!(
            matches!(&headless, FileContent::Damaged { problem } if problem.contains("ends at byte 40")),
            "{headless:?}"
        );
        bytes.resize(bytes.len() + 3096, 0);
        std::fs::write(&path, bytes).expect("the file is written");
        let whole = read_header(path.to_str().expect("UTF-8")).content;
        assert!(matches!(whole, FileContent::Model { .. }), "{whole:?}");
    }

    #[test]
    fn a_missing_file_differs_from_a_wrong_one_and_that_from_an_unknown_version() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("odd.gguf");
        let inspect = |bytes: &[u8]| {
            std::fs::write(&path, bytes).expect("the file is written");
            read_header(path.to_str().expect("UTF-8")).content
        };
        let wrong = inspect(b"<html>404</html>");
        assert!(matches!(wrong, FileContent::Damaged { .. }), "{wrong:?}");
        let newer = inspect(b"GGUF\x63\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
        assert!(matches!(newer, FileContent::Unsupported { .. }), "{newer:?}");
        let missing = read_header("/nothing/is/here.gguf").content;
        assert!(
            matches!(&missing, FileContent::Unreadable { problem } if problem.contains("No such file")),
            "{missing:?}"
        );
    }
}
