//! Files of models that the server asks about: looked at in a thread of their own, since a disk may take its time.

use std::path::Path;
use std::sync::Arc;
use std::thread;

use plimsoll_models::open;
use plimsoll_slots::wire::FileReport;
use tracing::info;

use super::agent::Agent;
use super::books::Books;

/// Looks at the files that the server asks about and that nobody has looked at since it asked.
pub(super) fn look(agent: &Arc<Agent>, books: &mut Books, wanted: Vec<String>) {
    books.files.retain(|path, _| wanted.contains(path));
    let unread: Vec<String> =
        wanted.into_iter().filter(|path| !books.files.contains_key(path)).collect();
    if unread.is_empty() {
        return;
    }
    books.files.extend(unread.iter().map(|path| (path.clone(), None)));
    let agent = Arc::clone(agent);
    thread::spawn(move || {
        for path in unread {
            let report = read(&path);
            info!(path, problem = report.problem, "looked at a model's file");
            agent.shared.change(|books| {
                // Nobody may want it any more.
                if let Some(known) = books.files.get_mut(&path) {
                    *known = Some(report);
                    books.news += 1;
                }
            });
        }
    });
}

/// What is at a path: only headers are read.
fn read(path: &str) -> FileReport {
    let read = open::open(Path::new(path));
    let problem = read.as_ref().err().map(|error| with_causes(error));
    let is_there = Path::new(path).exists();
    FileReport { path: path.to_string(), is_there, shape: read.ok().map(Box::new), problem }
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_told_from_what_is_not_understood() {
        let dir = tempfile::tempdir().expect("a directory");
        let odd = dir.path().join("odd.gguf");
        std::fs::write(&odd, b"GGML").expect("a file");
        let odd = read(odd.to_str().expect("text"));
        assert!(odd.is_there && odd.shape.is_none() && odd.problem.is_some(), "{odd:?}");
        let gone = read("/nothing/is/here.gguf");
        assert!(!gone.is_there && gone.problem.is_some_and(|why| why.contains("No such file")));
    }
}
