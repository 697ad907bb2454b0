//! Models as they are declared: what they need, where they may run, and how they are started.

use std::collections::BTreeMap;

use plimsoll_core::units::Bytes;
use plimsoll_models::settings::RuntimeKind;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::runtime::{Command, Kv, Runtime};
use crate::size::{Memory, Size, Span};
use crate::template;
use crate::told::{self, Wanted};

/// A model, as an operator declares it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Declaration {
    /// Its name.
    pub name: String,
    /// What serves it.
    pub runtime: Runtime,
    /// The memory that it needs: all of it, or a list with so much for each GPU. Where it is left out, what its slots were
    /// seen to use or what its file says is charged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
    /// Over how many GPUs it may be split, best first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tensor_parallel: Vec<u16>,
    /// How many GPUs it needs, where that is one number; 0 is work for the processor alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<u16>,
    /// The kind of its GPUs.
    #[serde(default = "nvidia")]
    pub vendor: String,
    /// Its context length in tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<u64>,
    /// How its cache of keys and values is stored; `f16` if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kv: Option<Kv>,
    /// Its file or directory on the runners.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// How many requests one slot serves at once.
    #[serde(default = "one")]
    pub concurrency: u32,
    /// How many slots of it there may be.
    #[serde(default = "one")]
    pub max_slots: u32,
    /// Where it may run, and where it would rather run.
    #[serde(default, rename = "where", skip_serializing_if = "Where::is_anywhere")]
    pub place: Where,
    /// Whether its slots are never evicted.
    #[serde(default)]
    pub pinned: bool,
    /// Whether a slot is started before anybody asks. It never evicts, never overtakes, and goes first.
    #[serde(default)]
    pub prewarm: bool,
    /// Higher goes first.
    #[serde(default)]
    pub priority: i32,
    /// How long a slot must have been idle before it may be evicted.
    #[serde(default = "five_minutes")]
    pub idle_limit: Span,
    /// What may be taken from others to make room for it.
    #[serde(default)]
    pub eviction: Eviction,
    /// How long it takes to bring it back; measured where it is not declared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reload_cost: Option<Span>,
}

impl Declaration {
    /// What it says of how the model is served.
    pub fn wanted(&self) -> Wanted<'_> {
        Wanted {
            runtime: &self.runtime,
            file: self.file.as_ref(),
            context: self.context,
            kv: self.kv,
            concurrency: self.concurrency,
        }
    }
}

fn nvidia() -> String {
    "NVIDIA".to_string()
}

fn one() -> u32 {
    1
}

fn five_minutes() -> Span {
    Span::seconds(300)
}

/// What may be taken from others to make room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Eviction {
    /// Nothing.
    Never,
    /// Slots that have been idle past their limit.
    #[default]
    Idle,
    /// Those, and slots of a lower priority even while they are active.
    LowerPriority,
}

/// Where a model may run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Where {
    /// All of this must hold.
    #[serde(default, skip_serializing_if = "Selector::is_anything")]
    pub required: Selector,
    /// This is better.
    #[serde(default, skip_serializing_if = "Selector::is_anything")]
    pub preferred: Selector,
}

impl Where {
    fn is_anywhere(&self) -> bool {
        self.required.is_anything() && self.preferred.is_anything()
    }
}

/// Runners and GPUs, by what they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Selector {
    /// Labels of the runner.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Parts of GPU models' names, one of which must occur.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpu_models: Vec<String>,
    /// UUIDs of GPUs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uuids: Vec<String>,
    /// Indices of GPUs on their runner.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub indices: Vec<u16>,
}

impl Selector {
    fn is_anything(&self) -> bool {
        self.labels.is_empty() && !self.selects_gpus()
    }

    /// Whether it says anything about GPUs.
    pub fn selects_gpus(&self) -> bool {
        !(self.gpu_models.is_empty() && self.uuids.is_empty() && self.indices.is_empty())
    }
}

/// A model whose declaration makes sense.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Declaration", into = "Declaration")]
pub struct Model {
    declared: Declaration,
    sizes: Vec<u16>,
}

/// What is wrong with a declaration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("model {model:?}, {field}: {problem}")]
pub struct ModelError {
    /// The model.
    pub model: String,
    /// The field.
    pub field: String,
    /// What is wrong with it, and what to write instead.
    pub problem: String,
}

impl Model {
    /// As it was declared.
    pub fn declared(&self) -> &Declaration {
        &self.declared
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.declared.name
    }

    /// Over how many GPUs it may be split, best first; none for work for the processor alone.
    pub fn sizes(&self) -> &[u16] {
        &self.sizes
    }

    /// What it needs of each GPU when it is split over so many; `None` where nobody said.
    pub fn memory_on(&self, gpus: u16) -> Option<Vec<Size>> {
        memory_on(&self.declared, gpus)
    }
}

fn memory_on(declared: &Declaration, gpus: u16) -> Option<Vec<Size>> {
    match declared.memory.as_ref()? {
        Memory::PerGpu(sizes) => Some(sizes.clone()),
        Memory::Total(total) => {
            let part = total.0.split_up(std::num::NonZeroU64::new(u64::from(gpus))?);
            Some(vec![Size(part); usize::from(gpus)])
        }
    }
}

impl From<Model> for Declaration {
    fn from(model: Model) -> Declaration {
        model.declared
    }
}

impl TryFrom<Declaration> for Model {
    type Error = ModelError;

    fn try_from(declared: Declaration) -> Result<Model, ModelError> {
        let wrong = |field: &str, problem: String| {
            let (model, field) = (declared.name.clone(), field.to_string());
            ModelError { model, field, problem }
        };
        check_name(&declared.name).map_err(|problem| wrong("name", problem))?;
        for (field, number) in
            [("concurrency", declared.concurrency), ("max_slots", declared.max_slots)]
        {
            if number == 0 {
                return Err(wrong(field, "it is 0, and must be at least 1".to_string()));
            }
        }
        let place = &declared.place;
        if !place.required.gpu_models.is_empty() && !place.preferred.gpu_models.is_empty() {
            let problem = "required names gpu_models too; name them in one of the two".to_string();
            return Err(wrong("where.preferred.gpu_models", problem));
        }
        let sizes = sizes(&declared).map_err(|(field, problem)| wrong(field, problem))?;
        check_file(&declared).map_err(|(field, problem)| wrong(&field, problem))?;
        if let Runtime::Command(command) = &declared.runtime {
            check_command(command, &declared)
                .map_err(|problem| wrong("runtime.command", problem))?;
        }
        let charges = charges(&declared, &sizes);
        told::check(declared.wanted(), &charges).map_err(|(field, problem)| {
            let splits = field == "gpus" && !declared.tensor_parallel.is_empty();
            wrong(if splits { "tensor_parallel" } else { &field }, problem)
        })?;
        Ok(Model { declared, sizes })
    }
}

/// A name stands in URLs, file names and logs.
fn check_name(name: &str) -> Result<(), String> {
    if name.is_empty() || name.len() > 200 {
        return Err(format!("it has {} characters, and must have 1 to 200", name.len()));
    }
    match name.chars().find(|c| c.is_whitespace() || c.is_control()) {
        Some(c) => {
            Err(format!("it contains {c:?}, and must not contain blanks or control characters"))
        }
        None => Ok(()),
    }
}

/// The most GPUs that one slot may be split over.
const MOST_GPUS: u16 = 64;

fn sizes(declared: &Declaration) -> Result<Vec<u16>, (&'static str, String)> {
    let mut sizes = match (declared.gpus, &declared.tensor_parallel[..], &declared.memory) {
        (Some(gpus), [], _) => vec![gpus],
        (None, [], Some(Memory::PerGpu(list))) => {
            vec![u16::try_from(list.len()).unwrap_or(u16::MAX)]
        }
        (None, [], _) => vec![1],
        (None, sizes, _) => sizes.to_vec(),
        (Some(gpus), sizes, _) if sizes == [gpus] => vec![gpus],
        (Some(gpus), sizes, _) => {
            return Err((
                "gpus",
                format!("it is {gpus}, and tensor_parallel is {sizes:?}; write one of the two"),
            ));
        }
    };
    if let Some(size) = sizes.iter().find(|size| **size > MOST_GPUS) {
        return Err(("tensor_parallel", format!("{size} GPUs are more than {MOST_GPUS}")));
    }
    if sizes.contains(&0) {
        if !declared.tensor_parallel.is_empty() {
            return Err((
                "tensor_parallel",
                format!("{sizes:?} contains 0; write gpus: 0 for work without a GPU"),
            ));
        }
        if declared.memory.is_some() {
            return Err((
                "memory",
                "work with gpus: 0 holds no GPU memory; leave one of the two out".to_string(),
            ));
        }
        sizes.clear();
    }
    let zero = match &declared.memory {
        Some(Memory::Total(size)) => size.0.is_zero(),
        Some(Memory::PerGpu(list)) => list.iter().any(|size| size.0.is_zero()),
        None => false,
    };
    if zero {
        let problem =
            "it is 0; write gpus: 0 for work without a GPU, and leave out what is not known";
        return Err(("memory", problem.to_string()));
    }
    if let Some(Memory::PerGpu(list)) = &declared.memory
        && let Some(size) = sizes.iter().find(|size| usize::from(**size) != list.len())
    {
        let problem =
            format!("it lists {} GPUs, and the model may be split over {size}", list.len());
        return Err(("memory", problem));
    }
    Ok(sizes)
}

/// What is charged on each GPU, for every number of GPUs that is allowed. Where nobody said yet, more than any model needs stands in.
fn charges(declared: &Declaration, sizes: &[u16]) -> Vec<Vec<Bytes>> {
    let on = |gpus: &u16| match memory_on(declared, *gpus) {
        Some(sizes) => sizes.iter().map(|size| size.0).collect(),
        None => vec![Bytes::DEVICE_MAX; usize::from(*gpus)],
    };
    if sizes.is_empty() { vec![Vec::new()] } else { sizes.iter().map(on).collect() }
}

/// A model's file is looked for on runners, each of which has its own directories.
fn check_file(declared: &Declaration) -> Result<(), (String, String)> {
    if let Some(file) = &declared.file
        && (!file.starts_with('/') || file.chars().any(char::is_control))
    {
        return Err((
            "file".to_string(),
            format!("{file:?} is not a path from the root; write it in full"),
        ));
    }
    let model = match &declared.runtime {
        Runtime::Vllm(vllm) => &vllm.model,
        Runtime::LlamaCpp(llama) => &llama.model,
        Runtime::Command(_) | Runtime::Ollama(_) => return Ok(()),
    };
    let key = format!("runtime.{}.model", declared.runtime.key());
    match (model, &declared.file) {
        (None, None) => Err((key, "it is missing; write it, or the model's `file`".to_string())),
        (Some(model), Some(file))
            if declared.runtime.kind() == Some(RuntimeKind::LlamaCpp) && model != file =>
        {
            Err((key, format!("it is {model:?}, and file is {file:?}; write one of the two")))
        }
        _ => Ok(()),
    }
}

fn check_command(command: &Command, declared: &Declaration) -> Result<(), String> {
    if command.argv.first().is_none_or(|program| program.trim().is_empty()) {
        return Err("argv is empty; its first element is the program".to_string());
    }
    let texts = command.argv.iter().chain(command.env.values()).chain(&command.ready);
    for text in texts {
        for field in template::fields(text)? {
            if field == "context" && declared.context.is_none() {
                return Err(format!(
                    "{text:?} uses {{context}}, and the model declares no context"
                ));
            }
        }
    }
    match command.env.keys().find(|key| template::CONFINING.contains(&key.as_str())) {
        Some(key) => {
            Err(format!("env sets {key}, which is set from the booked devices; leave it out"))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(rest: &str) -> Result<Model, String> {
        let text = format!("name: m\nruntime: {{command: {{argv: [serve]}}}}\n{rest}");
        let declared: Declaration =
            serde_saphyr::from_str(&text).map_err(|error| error.to_string())?;
        Model::try_from(declared).map_err(|error| error.to_string())
    }

    #[test]
    fn a_total_is_split_evenly_and_rounded_up() {
        let model = read("memory: 10\ntensor_parallel: [1, 3]").expect("it makes sense");
        let on = |gpus| {
            model.memory_on(gpus).expect("declared").iter().map(|s| s.0.get()).collect::<Vec<_>>()
        };
        assert_eq!((on(1), on(3)), (vec![10], vec![4, 4, 4]));
        assert_eq!(model.sizes(), [1, 3]);
    }

    #[test]
    fn a_list_says_how_many_gpus_there_are() {
        assert_eq!(read("memory: [1GiB, 2GiB]").expect("it makes sense").sizes(), [2]);
        assert_eq!(read("gpus: 0").expect("it makes sense").sizes(), [0_u16; 0]);
        assert_eq!(
            read("").expect("unknown memory is refused when it is placed").memory_on(1),
            None
        );
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_its_field() {
        for (rest, part) in [
            ("memroy: 1", "memroy"),
            ("memory: 8GB", "8GB"),
            ("memory: -1", "-1"),
            ("concurrency: 0", "concurrency: it is 0"),
            ("max_slots: 0", "max_slots: it is 0"),
            ("gpus: 2\ntensor_parallel: [1]", "gpus: it is 2"),
            ("tensor_parallel: [0, 1]", "contains 0"),
            ("memory: 1GiB\ntensor_parallel: [0]", "tensor_parallel: [0] contains 0"),
            ("memory: 0", "memory: it is 0"),
            ("memory: [1GiB, 0]", "memory: it is 0"),
            ("tensor_parallel: [65]", "65 GPUs"),
            ("gpus: 0\nmemory: 1GiB", "memory: work with gpus: 0"),
            ("gpus: 3\nmemory: [1GiB, 1GiB]", "lists 2 GPUs"),
            ("idle_limit: 5", "5"),
            ("where: {required: {label: {a: b}}}", "label"),
        ] {
            let error = read(rest).expect_err(rest);
            assert!(error.contains(part), "{rest}: {error}");
        }
    }

    #[test]
    fn a_command_names_only_what_can_be_filled_in() {
        let of = |command: &str| {
            let text = format!("name: m\nmemory: 1GiB\nruntime: {{command: {command}}}");
            let declared: Declaration = serde_saphyr::from_str(&text).expect("it is YAML");
            Model::try_from(declared).map_err(|error| error.to_string())
        };
        assert!(of(r#"{argv: [serve, "--port={port}", "{{literal}}"]}"#).is_ok());
        for (command, part) in [
            ("{argv: []}", "argv is empty"),
            (r#"{argv: [serve, "{prot}"]}"#, "{prot}"),
            (r#"{argv: [serve, "{context}"]}"#, "declares no context"),
            (r#"{argv: [serve, "{port"]}"#, "{port"),
            (r#"{argv: [serve], env: {CUDA_VISIBLE_DEVICES: "0"}}"#, "CUDA_VISIBLE_DEVICES"),
        ] {
            let error = of(command).expect_err(command);
            assert!(
                error.contains("runtime.command") && error.contains(part),
                "{command}: {error}"
            );
        }
    }
}
