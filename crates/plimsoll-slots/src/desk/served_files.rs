//! The files of models that load more than one: a model with its projector, adapters and draft
//! model, as each runner has them.

use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_core::units::Name;
use plimsoll_models::shape::{Addition, Shape};

use crate::declaration::{AddedFile, Declaration};
use crate::wire::FileContent;

/// The content of files, by path and runner.
pub(super) type Files = BTreeMap<String, BTreeMap<Name, FileContent>>;

/// Returns the model with all files that its server loads beside it, by runner. Where one of them
/// cannot be used, its problem is that of the model.
pub(super) fn combined(declared: &Declaration, files: &Files) -> BTreeMap<Name, FileContent> {
    let file = declared.file.as_ref().and_then(|file| files.get(file));
    let combine = |(runner, content): (&Name, &FileContent)| {
        let mut content = content.clone();
        for (added, path) in declared.runtime.added_files() {
            content = match (content, files.get(path).and_then(|found| found.get(runner))) {
                (FileContent::Model { shape }, Some(FileContent::Model { shape: beside })) => {
                    FileContent::Model { shape: with_addition(&shape, added, beside) }
                }
                (FileContent::Model { .. }, Some(problem)) => problem.clone(),
                (FileContent::Model { .. }, None) => FileContent::Unreadable {
                    problem: format!("{path} has not been inspected yet"),
                },
                (problem, _) => return (runner.clone(), problem),
            };
        }
        (runner.clone(), content)
    };
    file.into_iter().flatten().map(combine).collect()
}

fn with_addition(model: &Shape, added: AddedFile, beside: &Arc<Shape>) -> Arc<Shape> {
    let beside = Shape::clone(beside);
    let mut model = model.clone();
    model.additions.push(match added {
        AddedFile::Projector => Addition::Projector(beside),
        AddedFile::Adapter => Addition::Adapter(beside),
        AddedFile::Draft => Addition::Draft(beside),
    });
    Arc::new(model)
}
