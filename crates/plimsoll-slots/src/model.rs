//! A model: a declaration that was validated, and the numbers of GPUs that it may be split over.

mod command;

use std::num::NonZeroU64;

use plimsoll_core::units::Bytes;
use plimsoll_models::runtime::error::RenderError;
use plimsoll_models::runtime::{DeviceCharge, render};
use plimsoll_models::settings::RuntimeKind;
use serde::{Deserialize, Serialize};

use crate::launch_spec::launch_spec;
use crate::runtime::{AddedFile, Runtime, ServerOptions};
use crate::size::{Memory, Size};
use crate::template::TemplateError;

pub use crate::declaration::{Declaration, Eviction, Selector, Where};

/// The largest number of GPUs that one slot may be split over.
const MAX_GPUS: u16 = 64;

/// The longest name of a model.
const MAX_NAME: usize = 200;

/// A model with a valid declaration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Declaration", into = "Declaration")]
pub struct Model {
    declared: Declaration,
    sizes: Vec<u16>,
}

/// An invalid declaration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("model {model:?}, {field}: {problem}")]
pub struct ModelError {
    pub model: String,
    /// The field that must change, such as `runtime.vllm.args`.
    pub field: String,
    pub problem: ModelProblem,
}

/// The problem of an invalid declaration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelProblem {
    #[error("must have 1 to {MAX_NAME} characters, but has {characters}")]
    NameLength { characters: usize },
    #[error("must not contain {character:?}; whitespace and control characters are not allowed")]
    NameCharacter { character: char },
    #[error("must be at least 1")]
    Zero { field: &'static str },
    #[error("required also has gpu_models; declare them in only one of the two")]
    GpuModelsTwice,
    #[error("is {gpus}, but tensor_parallel is {tensor_parallel:?}; declare only one of the two")]
    GpusAndTensorParallel { gpus: u16, tensor_parallel: Vec<u16> },
    #[error("{gpus} GPUs exceed the limit of {MAX_GPUS}")]
    TooManyGpus { gpus: u16 },
    #[error("{tensor_parallel:?} contains 0; declare gpus: 0 for a model that uses no GPU")]
    ZeroInTensorParallel { tensor_parallel: Vec<u16> },
    #[error("a model with gpus: 0 has no GPU memory; declare only one of the two")]
    MemoryWithoutGpu,
    #[error(
        "must not be 0; declare gpus: 0 for a model that uses no GPU, and omit what is unknown"
    )]
    ZeroMemory,
    #[error("lists {listed} GPUs, but the model may be split over {gpus}")]
    MemoryListLength { listed: usize, gpus: u16 },
    #[error("vLLM uses all memory that it is given, so that it cannot be measured; declare a size")]
    MeasuredVllm,
    #[error("{file:?} is not an absolute path")]
    RelativeFile { file: String },
    #[error("{file:?} is not an absolute path without a comma or a quotation mark")]
    RelativeAddition { option: &'static str, file: String },
    #[error("is missing; declare it, or the model's `file`")]
    MissingModelOrFile,
    #[error("is missing; it is the model's name in Ollama's store")]
    MissingOllamaModel,
    #[error("is not supported by {runtime}")]
    UnsupportedOption { runtime: RuntimeKind, option: &'static str },
    #[error("is {model:?}, but file is {file:?}; declare only one of the two")]
    ModelAndFile { model: String, file: String },
    #[error("argv is empty; its first element is the program")]
    EmptyArgv,
    #[error(transparent)]
    Template(#[from] TemplateError),
    #[error("{template:?} uses {{context}}, but the model declares no context")]
    UndeclaredContext { template: String },
    #[error("{value:?} contains {character:?}; control characters are not allowed here")]
    ControlCharacter { field: &'static str, value: String, character: char },
    #[error("is {path:?}, but must be a path such as /health")]
    InvalidReadyPath { path: String },
    #[error(
        "no argument and no variable contains {{port}}, so that {path} cannot be requested; add {{port}} to argv, or remove ready"
    )]
    ReadyWithoutPort { path: String },
    #[error(
        "has the variable {variable:?}; a name must not be empty or contain = or control characters"
    )]
    VariableName { variable: String },
    #[error("must not be empty; omit it for NVIDIA")]
    EmptyVendor,
    #[error("sets {variable}, which Plimsoll sets from the charged devices; remove it")]
    ConfiningVariable { variable: String },
    #[error("is missing; without it the runtime would choose a length that is not charged")]
    MissingContext,
    #[error(transparent)]
    Render(#[from] RenderError),
}

impl ModelProblem {
    /// Returns the field of a declaration that the problem is about.
    fn field(&self, declared: &Declaration) -> String {
        match self {
            ModelProblem::NameLength { .. } | ModelProblem::NameCharacter { .. } => "name",
            ModelProblem::Zero { field } => field,
            ModelProblem::GpuModelsTwice => "where.preferred.gpu_models",
            ModelProblem::GpusAndTensorParallel { .. } => "gpus",
            ModelProblem::TooManyGpus { .. } | ModelProblem::ZeroInTensorParallel { .. } => {
                "tensor_parallel"
            }
            ModelProblem::MemoryWithoutGpu
            | ModelProblem::ZeroMemory
            | ModelProblem::MeasuredVllm
            | ModelProblem::MemoryListLength { .. } => "memory",
            ModelProblem::RelativeFile { .. } => "file",
            ModelProblem::MissingContext => "context",
            ModelProblem::EmptyArgv
            | ModelProblem::Template(_)
            | ModelProblem::UndeclaredContext { .. } => "runtime.command",
            ModelProblem::MissingModelOrFile
            | ModelProblem::MissingOllamaModel
            | ModelProblem::ModelAndFile { .. } => return runtime_field(declared, "model"),
            ModelProblem::UnsupportedOption { option, .. }
            | ModelProblem::RelativeAddition { option, .. } => {
                return runtime_field(declared, option);
            }
            ModelProblem::ControlCharacter { field, .. } => {
                return runtime_field(declared, field);
            }
            ModelProblem::InvalidReadyPath { .. } | ModelProblem::ReadyWithoutPort { .. } => {
                "runtime.command.ready"
            }
            ModelProblem::EmptyVendor => "vendor",
            ModelProblem::ConfiningVariable { .. } | ModelProblem::VariableName { .. } => {
                return runtime_field(declared, "env");
            }
            ModelProblem::Render(error) => match error.field() {
                "gpus" if !declared.tensor_parallel.is_empty() => "tensor_parallel",
                field @ ("gpus" | "memory" | "kv" | "context" | "concurrency") => field,
                field => return runtime_field(declared, field),
            },
        }
        .to_string()
    }
}

fn runtime_field(declared: &Declaration, field: &str) -> String {
    format!("runtime.{}.{field}", declared.runtime.key())
}

impl Model {
    /// Returns the declaration.
    pub fn declared(&self) -> &Declaration {
        &self.declared
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.declared.name
    }

    /// Returns the numbers of GPUs that it may be split over, most preferred first; none for a
    /// model that runs on the CPU only.
    pub fn sizes(&self) -> &[u16] {
        &self.sizes
    }

    /// Returns the declared memory on each GPU when it is split over this many; `None` if it is not
    /// declared.
    pub fn memory_on(&self, gpus: u16) -> Option<Vec<Size>> {
        memory_on(&self.declared, gpus)
    }
}

fn memory_on(declared: &Declaration, gpus: u16) -> Option<Vec<Size>> {
    match declared.memory.as_ref()? {
        Memory::Measure(_) => None,
        Memory::PerGpu(sizes) => Some(sizes.clone()),
        Memory::Total(total) => {
            let part = total.0.split_up(NonZeroU64::new(u64::from(gpus))?);
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
        match validate(&declared) {
            Ok(sizes) => Ok(Model { declared, sizes }),
            Err(problem) => {
                let field = problem.field(&declared);
                Err(ModelError { model: declared.name, field, problem })
            }
        }
    }
}

/// Validates a declaration; returns the numbers of GPUs that the model may be split over.
fn validate(declared: &Declaration) -> Result<Vec<u16>, ModelProblem> {
    check_name(&declared.name)?;
    if declared.vendor.trim().is_empty() {
        return Err(ModelProblem::EmptyVendor);
    }
    for (field, number) in
        [("concurrency", declared.concurrency), ("max_slots", declared.max_slots)]
    {
        if number == 0 {
            return Err(ModelProblem::Zero { field });
        }
    }
    let placement = &declared.placement;
    if !placement.required.gpu_models.is_empty() && !placement.preferred.gpu_models.is_empty() {
        return Err(ModelProblem::GpuModelsTwice);
    }
    let sizes = sizes(declared)?;
    check_memory(declared, &sizes)?;
    check_file(declared)?;
    check_added_files(declared)?;
    command::check_environment(&declared.runtime)?;
    match &declared.runtime {
        Runtime::Command(command) => command::check(command, declared)?,
        Runtime::Vllm(options) | Runtime::LlamaCpp(options) | Runtime::Ollama(options) => {
            check_options(declared, options)?;
            check_launch(declared, &sizes)?;
        }
    }
    Ok(sizes)
}

/// Checks a name, which appears in URLs, file names and logs.
fn check_name(name: &str) -> Result<(), ModelProblem> {
    if name.is_empty() || name.len() > MAX_NAME {
        return Err(ModelProblem::NameLength { characters: name.len() });
    }
    match name.chars().find(|c| c.is_whitespace() || c.is_control()) {
        Some(character) => Err(ModelProblem::NameCharacter { character }),
        None => Ok(()),
    }
}

fn sizes(declared: &Declaration) -> Result<Vec<u16>, ModelProblem> {
    let tensor_parallel = &declared.tensor_parallel;
    let sizes = match (declared.gpus, &tensor_parallel[..], &declared.memory) {
        (Some(0), [], _) => return Ok(Vec::new()),
        (Some(gpus), [], _) => vec![gpus],
        (None, [], Some(Memory::PerGpu(list))) if list.is_empty() => return Ok(Vec::new()),
        (None, [], Some(Memory::PerGpu(list))) => {
            vec![u16::try_from(list.len()).unwrap_or(u16::MAX)]
        }
        (None, [], _) => vec![1],
        (None, sizes, _) => sizes.to_vec(),
        (Some(gpus), sizes, _) if sizes == [gpus] => vec![gpus],
        (Some(gpus), sizes, _) => {
            let tensor_parallel = sizes.to_vec();
            return Err(ModelProblem::GpusAndTensorParallel { gpus, tensor_parallel });
        }
    };
    if let Some(gpus) = sizes.iter().copied().find(|size| *size > MAX_GPUS) {
        return Err(ModelProblem::TooManyGpus { gpus });
    }
    if sizes.contains(&0) {
        return Err(ModelProblem::ZeroInTensorParallel { tensor_parallel: sizes });
    }
    Ok(sizes)
}

fn check_memory(declared: &Declaration, sizes: &[u16]) -> Result<(), ModelProblem> {
    let Some(memory) = &declared.memory else { return Ok(()) };
    if sizes.is_empty() {
        return Err(ModelProblem::MemoryWithoutGpu);
    }
    let is_zero = match memory {
        Memory::Total(size) => size.0.is_zero(),
        Memory::PerGpu(list) => list.iter().any(|size| size.0.is_zero()),
        Memory::Measure(_) => false,
    };
    if is_zero {
        return Err(ModelProblem::ZeroMemory);
    }
    match memory {
        Memory::Measure(_) if declared.runtime.kind() == Some(RuntimeKind::Vllm) => {
            Err(ModelProblem::MeasuredVllm)
        }
        Memory::Total(_) | Memory::Measure(_) => Ok(()),
        Memory::PerGpu(list) => {
            match sizes.iter().copied().find(|size| usize::from(*size) != list.len()) {
                Some(gpus) => Err(ModelProblem::MemoryListLength { listed: list.len(), gpus }),
                None => Ok(()),
            }
        }
    }
}

/// Checks the path of a model's file. It must be absolute: each runner has its own working
/// directory.
fn check_file(declared: &Declaration) -> Result<(), ModelProblem> {
    if let Some(file) = &declared.file
        && (!file.starts_with('/') || file.chars().any(char::is_control))
    {
        return Err(ModelProblem::RelativeFile { file: file.clone() });
    }
    Ok(())
}

/// Checks the paths of the files beside the model. llama-server takes a list with commas.
fn check_added_files(declared: &Declaration) -> Result<(), ModelProblem> {
    for (added, path) in declared.runtime.added_files() {
        let is_odd = |c: char| c.is_control() || c == ',' || c == '"';
        if !path.starts_with('/') || path.chars().any(is_odd) {
            let option = match added {
                AddedFile::Projector => "mmproj",
                AddedFile::Adapter => "lora",
                AddedFile::Draft => "draft",
            };
            return Err(ModelProblem::RelativeAddition { option, file: path.to_string() });
        }
    }
    Ok(())
}

fn check_options(declared: &Declaration, options: &ServerOptions) -> Result<(), ModelProblem> {
    let Some(runtime) = declared.runtime.kind() else { return Ok(()) };
    use RuntimeKind::{LlamaCpp, Ollama, Vllm};
    let known_to: [(&'static str, bool, &[RuntimeKind]); 6] = [
        ("ubatch", options.ubatch.is_some(), &[LlamaCpp]),
        ("flash_attention", options.flash_attention.is_some(), &[LlamaCpp, Ollama]),
        ("heads", options.heads.is_some(), &[Vllm]),
        ("mmproj", options.mmproj.is_some(), &[LlamaCpp]),
        ("lora", !options.lora.is_empty(), &[LlamaCpp]),
        ("draft", options.draft.is_some(), &[LlamaCpp]),
    ];
    let mut unsupported = known_to.into_iter().filter_map(|(option, is_set, runtimes)| {
        (is_set && !runtimes.contains(&runtime)).then_some(option)
    });
    if let Some(option) = unsupported.next() {
        return Err(ModelProblem::UnsupportedOption { runtime, option });
    }
    match (runtime, &options.model, &declared.file) {
        (RuntimeKind::Ollama, None, _) => Err(ModelProblem::MissingOllamaModel),
        (_, None, None) => Err(ModelProblem::MissingModelOrFile),
        (RuntimeKind::LlamaCpp, Some(model), Some(file)) if model != file => {
            Err(ModelProblem::ModelAndFile { model: model.clone(), file: file.clone() })
        }
        _ => Ok(()),
    }
}

/// Rejects a declaration that no placement could be rendered for. The flags are rendered for every
/// allowed number of GPUs, on GPUs that have exactly what is charged: the smallest ones on which
/// the model can be placed. While the memory is unknown, more than any model needs is assumed.
fn check_launch(declared: &Declaration, sizes: &[u16]) -> Result<(), ModelProblem> {
    if declared.context.is_none() {
        return Err(ModelProblem::MissingContext);
    }
    let without_gpu = [0];
    for gpus in if sizes.is_empty() { &without_gpu } else { sizes } {
        let charges = match memory_on(declared, *gpus) {
            Some(sizes) => sizes.iter().map(|size| size.0).collect(),
            None => vec![Bytes::DEVICE_MAX; usize::from(*gpus)],
        };
        let devices =
            charges.into_iter().map(|charge| DeviceCharge { charge, total: Some(charge) });
        if let Some((spec, user)) = launch_spec(declared, devices.collect(), None) {
            render(&spec, &user)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
