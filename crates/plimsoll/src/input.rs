//! Reads files, directories of manifests and standard input, with a progress bar if it takes long.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use plimsoll_kube::read::{self, Object, Origin, Sink};

use crate::output::{self, Verbosity};

/// The extensions of files that are read from a directory.
const ENDINGS: [&str; 3] = ["yaml", "yml", "json"];

/// The time after which progress is shown.
const PATIENCE: Duration = Duration::from_secs(1);

/// The name of standard input in messages.
pub(crate) const STDIN: &str = "standard input";

/// The objects that were read.
#[derive(Default)]
pub(crate) struct Material {
    pub(crate) objects: Vec<(Origin, Object)>,
    /// The number of ignored objects of each kind.
    pub(crate) ignored: BTreeMap<String, usize>,
}

/// Reads all objects in files, directories and, for `-`, standard input.
pub(crate) fn read(paths: &[PathBuf], verbosity: Verbosity) -> Result<Material> {
    let mut all = Material::default();
    let mut sink = Gather { objects: Vec::new(), progress: Progress::new(verbosity) };
    let mut skipped: Vec<String> = Vec::new();
    for source in sources(paths)? {
        let bytes = source.bytes()?;
        sink.progress.begin(&source.name(), bytes.len());
        let known = sink.objects.len();
        let summary = match read::read_bytes(&source.name(), &bytes, &mut sink) {
            Ok(summary) => summary,
            Err(error)
                if source.may_be_skipped()
                    && error.problem.is_foreign()
                    && sink.objects.len() == known =>
            {
                skipped.push(source.name().to_string());
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        for (kind, number) in summary.ignored {
            *all.ignored.entry(kind).or_default() += number;
        }
    }
    sink.progress.end();
    if verbosity.is_normal() && !skipped.is_empty() {
        output::note(&format!("skipped, no Kubernetes objects: {}", shortened(&skipped)));
    }
    all.objects = sink.objects;
    Ok(all)
}

/// Joins names; beyond three it says how many more there are.
fn shortened(names: &[String]) -> String {
    match names.len() {
        0..=3 => names.join(", "),
        more => format!("{} and {} more", names[..3].join(", "), more - 3),
    }
}

/// One text to read.
enum Source {
    Stdin,
    File(PathBuf),
    /// A file of a directory that was given.
    Found(PathBuf),
}

impl Source {
    /// Returns whether a file without Kubernetes objects is left out. One that was given by name is
    /// an error.
    fn may_be_skipped(&self) -> bool {
        matches!(self, Source::Found(_))
    }

    fn name(&self) -> Arc<str> {
        match self {
            Source::Stdin => STDIN.into(),
            Source::File(path) | Source::Found(path) => path.to_string_lossy().into(),
        }
    }

    fn bytes(&self) -> Result<Vec<u8>> {
        match self {
            Source::Stdin => {
                let mut bytes = Vec::new();
                std::io::stdin()
                    .lock()
                    .read_to_end(&mut bytes)
                    .context("could not read standard input")?;
                Ok(bytes)
            }
            Source::File(path) | Source::Found(path) => {
                fs::read(path).with_context(|| format!("could not read {}", path.display()))
            }
        }
    }
}

fn sources(paths: &[PathBuf]) -> Result<Vec<Source>> {
    let mut sources = Vec::new();
    let mut stdin = false;
    for path in paths {
        if path.as_os_str() == "-" {
            ensure!(!stdin, "standard input can be read only once; give - once");
            stdin = true;
            sources.push(Source::Stdin);
            continue;
        }
        let facts =
            fs::metadata(path).with_context(|| format!("could not read {}", path.display()))?;
        if !facts.is_dir() {
            sources.push(Source::File(path.clone()));
            continue;
        }
        let mut files = Vec::new();
        gather(path, &mut BTreeSet::new(), &mut files)?;
        if files.is_empty() {
            bail!("no manifests in {} (*.yaml, *.yml or *.json)", path.display());
        }
        files.sort();
        sources.extend(files.into_iter().map(Source::Found));
    }
    Ok(sources)
}

/// Collects the manifests below a directory. Each directory is read once, also if links repeat it.
fn gather(directory: &Path, seen: &mut BTreeSet<PathBuf>, files: &mut Vec<PathBuf>) -> Result<()> {
    let failed = || format!("could not read the directory {}", directory.display());
    if !seen.insert(fs::canonicalize(directory).with_context(failed)?) {
        return Ok(());
    }
    for entry in fs::read_dir(directory).with_context(failed)? {
        let path = entry.with_context(failed)?.path();
        let facts =
            fs::metadata(&path).with_context(|| format!("could not read {}", path.display()))?;
        if facts.is_dir() {
            gather(&path, seen, files)?;
        } else if path
            .extension()
            .is_some_and(|ending| ENDINGS.iter().any(|known| ending.eq_ignore_ascii_case(known)))
        {
            files.push(path);
        }
    }
    Ok(())
}

struct Gather {
    objects: Vec<(Origin, Object)>,
    progress: Progress,
}

impl Sink for Gather {
    fn object(&mut self, origin: Origin, object: Object) {
        self.objects.push((origin, object));
    }

    fn progress(&mut self, bytes: usize) {
        self.progress.at(bytes);
    }
}

/// A progress bar on a terminal, shown after a while.
struct Progress {
    shown: bool,
    since: Instant,
    bar: Option<ProgressBar>,
    name: String,
    length: u64,
}

impl Progress {
    fn new(verbosity: Verbosity) -> Self {
        let shown = verbosity.is_normal() && std::io::stderr().is_terminal();
        Progress { shown, since: Instant::now(), bar: None, name: String::new(), length: 0 }
    }

    fn begin(&mut self, name: &str, length: usize) {
        (self.name, self.length) = (name.to_string(), length as u64);
        self.end();
    }

    fn at(&mut self, bytes: usize) {
        if !self.shown || self.since.elapsed() < PATIENCE {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| {
            let bar = ProgressBar::new(self.length).with_message(self.name.clone());
            let style = ProgressStyle::with_template(
                "reading {msg} [{bar:32}] {bytes} of {total_bytes}, {eta} left",
            );
            bar.with_style(style.expect("the template is a constant").progress_chars("##-"))
        });
        bar.set_position(bytes as u64);
    }

    fn end(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(paths: &[PathBuf]) -> Result<Vec<String>> {
        Ok(sources(paths)?.iter().map(|source| source.name().to_string()).collect())
    }

    #[test]
    fn a_directory_is_read_in_order() {
        let root = std::env::temp_dir().join(format!("plimsoll-input-{}", std::process::id()));
        fs::create_dir_all(root.join("deep")).expect("a directory");
        for file in ["b.yml", "a.yaml", "deep/c.JSON", "notes.txt"] {
            fs::write(root.join(file), "{}").expect("a file");
        }
        let found = names(std::slice::from_ref(&root)).expect("manifests");
        let found: Vec<&str> =
            found.iter().map(|name| name.rsplit('/').next().unwrap_or(name)).collect();
        assert_eq!(found, ["a.yaml", "b.yml", "c.JSON"]);
        fs::remove_dir_all(&root).expect("it was made here");
    }

    #[test]
    fn files_of_a_directory_without_kubernetes_objects_are_skipped() {
        let root = std::env::temp_dir().join(format!("plimsoll-skipped-{}", std::process::id()));
        fs::create_dir_all(&root).expect("a directory");
        let node = "apiVersion: v1\nkind: Node\nmetadata: {name: n}\n";
        let files = [
            ("a-model.yaml", "- {name: m}"),
            ("b.json", "[1]"),
            ("config.json", "{}"),
            ("n.yaml", node),
        ];
        for (name, text) in files {
            fs::write(root.join(name), text).expect("a file");
        }
        let read = |path: PathBuf| read(&[path], Verbosity::Quiet).map(|all| all.objects.len());
        assert_eq!(read(root.clone()).expect("one object"), 1);
        assert!(read(root.join("config.json")).is_err(), "it is named");
        fs::write(root.join("n.yaml"), format!("{node}---\nmetadata: {{}}\n")).expect("a file");
        assert!(read(root.clone()).is_err(), "a file with objects must be right");
        fs::write(root.join("n.yaml"), "a: [").expect("a file");
        assert!(read(root.clone()).is_err(), "broken YAML is no other kind of file");
        fs::remove_dir_all(&root).expect("it was made here");
    }

    #[test]
    fn an_unreadable_file_is_named() {
        let error = names(&["/no/such/file.yaml".into()]).expect_err("it is not there");
        assert_eq!(error.to_string(), "could not read /no/such/file.yaml");
        let error = names(&["-".into(), "-".into()]).expect_err("twice");
        assert!(error.to_string().contains("only once"));
    }
}
