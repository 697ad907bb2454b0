//! Runs llama.cpp on GPUs that do not exist: devices of ggml's RPC backend, with the CPU behind
//! them.
//!
//! The program `xtask/judge/rpc.cpp` is linked to a built llama.cpp. It gets the arguments that
//! Plimsoll renders for `llama-server` and parses them as that does, so the answers are those for a
//! real slot, including the number of layers on each GPU.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use plimsoll_core::units::Bytes;
use plimsoll_goldens::card::Card;
use plimsoll_goldens::gguf::{self, Body};
use plimsoll_goldens::judged::{JudgedDevices, Question};
use plimsoll_models::estimate::LayerCounts;
use plimsoll_models::runtime::overhead::Overhead;
use plimsoll_models::runtime::{
    AddedPaths, DeviceCharge, LaunchSpec, LayerSplit, MemoryBasis, UserOptions, render,
};
use plimsoll_models::settings::{RuntimeKind, Settings};
use plimsoll_models::shape::Shape;

use super::{card, compare};

/// The variable with the folder of a built llama.cpp; CONTRIBUTING.md has the commands.
const SOURCE: &str = "PLIMSOLL_LLAMA_CPP";

const INCLUDED: [&str; 6] = ["include", "src", "common", "ggml/include", "ggml/src", "vendor"];

const LIBRARIES: [&str; 7] = [
    "common/libllama-common.a",
    "common/libllama-common-base.a",
    "src/libllama.a",
    "ggml/src/libggml.a",
    "ggml/src/ggml-rpc/libggml-rpc.a",
    "ggml/src/libggml-cpu.a",
    "ggml/src/libggml-base.a",
];

/// Libraries that only some versions of llama.cpp have.
const FURTHER_LIBRARIES: [&str; 2] =
    ["vendor/cpp-httplib/libcpp-httplib.a", "vendor/hash/libvendor-hash.a"];

/// The program that asks.
pub(super) struct RpcJudge {
    program: PathBuf,
    directory: PathBuf,
}

impl RpcJudge {
    /// Compiles the program.
    pub(super) fn build(workspace: &Path, directory: &Path) -> Result<RpcJudge> {
        let source = std::env::var_os(SOURCE)
            .with_context(|| format!("{SOURCE} must name the folder of a built llama.cpp"))?;
        let source = PathBuf::from(source);
        fs::create_dir_all(directory)?;
        let program = directory.join("rpc");
        let libraries = LIBRARIES.iter().chain(&FURTHER_LIBRARIES);
        let libraries = libraries.map(|library| source.join("build").join(library));
        let status = Command::new("g++")
            .args(["-std=c++17", "-fopenmp", "-o"])
            .arg(&program)
            .arg(workspace.join("xtask/judge/rpc.cpp"))
            .args(INCLUDED.map(|folder| format!("-I{}", source.join(folder).display())))
            .arg("-Wl,--start-group")
            .args(libraries.filter(|library| library.exists()))
            .args(["-Wl,--end-group", "-lpthread", "-ldl"])
            .status()
            .context("cannot start g++")?;
        ensure!(status.success(), "g++ failed; build llama.cpp with -DGGML_RPC=ON");
        Ok(RpcJudge { program, directory: directory.to_owned() })
    }

    /// Asks all questions. Each model and number of devices gets its own process, because
    /// llama.cpp may abort. Questions that it does not answer are printed with its reason.
    pub(super) fn ask_all(&self, questions: &[Question]) -> Vec<JudgedDevices> {
        let mut judged = Vec::new();
        let groups =
            questions.chunk_by(|one, other| (&one.model, one.gpus) == (&other.model, other.gpus));
        for group in groups {
            let Question { model, gpus, .. } = &group[0];
            match self.ask(group) {
                Ok(answers) => judged.extend(answers),
                Err(error) => println!("judge: {model} on {gpus} devices: {error:#}"),
            }
        }
        judged
    }

    fn ask(&self, questions: &[Question]) -> Result<Vec<JudgedDevices>> {
        let (model, gpus) = (&questions[0].model, questions[0].gpus);
        let shape = compare::read_golden(model)?;
        let mut input = String::new();
        for question in questions {
            let path = self.directory.join("gguf").join(format!("{model}.gguf"));
            writeln!(input, "{}", server_arguments(&shape, &path, question)?)?;
        }
        let lines = self.run(&["devices", &gpus.to_string(), &free_port()?.to_string()], &input)?;
        ensure!(lines.len() == questions.len(), "{model} on {gpus}: llama.cpp ended early");
        let mut judged = Vec::new();
        for (question, line) in questions.iter().zip(&lines) {
            match line.strip_prefix("= ") {
                Some(devices) => judged.push(format!("{question} {devices}").parse()?),
                None => println!("judge: {question}: {line}"),
            }
        }
        Ok(judged)
    }

    /// Completes a card without tensors: adds those that llama.cpp expects for its metadata.
    pub(super) fn complete_card(&self, path: &Path) -> Result<()> {
        let text = fs::read_to_string(path)?;
        let (head, _) = text.split_once("\n---\n").context("the card has no line `---`")?;
        let empty = format!("{head}\n---\n");
        let metadata = self.directory.join("metadata.gguf");
        gguf::write(&Card::parse(&empty)?, &metadata, Body::Missing)?;
        let metadata = metadata.display().to_string();
        let lines = self.run(&["tensors", &metadata], "")?;
        let tensors = lines.iter().filter_map(|line| line.strip_prefix("= "));
        Ok(fs::write(path, empty + &card::tensor_lines(tensors)?)?)
    }

    /// Runs the program, and returns its own lines.
    fn run(&self, args: &[&str], input: &str) -> Result<Vec<String>> {
        let mut child = Command::new(&self.program)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the program that asks llama.cpp")?;
        child.stdin.take().context("no standard input")?.write_all(input.as_bytes())?;
        let out = child.wait_with_output()?;
        if !out.status.success() {
            bail!("llama.cpp exited: {}", out.status);
        }
        let lines = String::from_utf8_lossy(&out.stdout).into_owned();
        let is_answer = |line: &&str| line.starts_with("= ") || line.starts_with("! ");
        Ok(lines.lines().filter(is_answer).map(str::to_owned).collect())
    }
}

/// Returns the arguments of the server that Plimsoll would start for a question.
fn server_arguments(shape: &Shape, path: &Path, question: &Question) -> Result<String> {
    let settings = compare::server_settings(question)?;
    let Settings { gpus, runtime, .. } = settings;
    let spec = LaunchSpec {
        program: None,
        model: path.display().to_string(),
        settings,
        devices: vec![
            DeviceCharge { charge: Bytes::gib(1000), total: None };
            usize::try_from(gpus)?
        ],
        memory: MemoryBasis::Known,
        overhead: Overhead::default_of(RuntimeKind::LlamaCpp),
        additions: AddedPaths::default(),
        heads: None,
        layers: LayerSplit::Counted(LayerCounts::for_shape(shape, gpus)),
    };
    let command = render(&spec, &UserOptions::default())
        .with_context(|| format!("cannot render {runtime}"))?;
    let words = command.argv.iter().skip(1);
    let words = words.map(|word| word.replace("{host}", "127.0.0.1").replace("{port}", "8080"));
    Ok(words.collect::<Vec<_>>().join(" "))
}

fn free_port() -> Result<u16> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").context("no free port")?;
    Ok(listener.local_addr()?.port())
}
