//! Runs llama.cpp inside node, with questions and answers as JSON.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use plimsoll_goldens::judged::{Answer, Judged, Question};
use serde_json::{Value, json};

use super::Backend;

/// The Vulkan backend splits buffers, which leaves gaps between the pieces. CUDA does not, and the
/// answers should be close to CUDA's, so these limits are lifted.
const BUFFER_LIMITS: [&str; 3] = [
    "GGML_VK_SUBALLOCATION_BLOCK_SIZE",
    "GGML_VK_FORCE_MAX_BUFFER_SIZE",
    "GGML_VK_FORCE_MAX_ALLOCATION_SIZE",
];

/// An installed llama.cpp.
pub(super) struct Judge {
    directory: PathBuf,
    backend: Backend,
}

/// The recorded answers, and the versions that gave them.
pub(super) struct Answers {
    pub(super) versions: String,
    pub(super) judged: Vec<Judged>,
}

impl Judge {
    /// Installs llama.cpp in the directory, unless it is there already.
    pub(super) fn install(workspace: &Path, directory: &Path, backend: Backend) -> Result<Judge> {
        for file in ["package.json", "judge.mjs"] {
            fs::copy(workspace.join("xtask/judge").join(file), directory.join(file))
                .with_context(|| format!("cannot copy {file}"))?;
        }
        if !directory.join("node_modules/node-llama-cpp").exists() {
            let args = ["install", "--ignore-scripts", "--no-audit", "--no-fund"];
            let status = Command::new("npm").args(args).current_dir(directory).status();
            if !status.context("cannot start npm, which comes with node")?.success() {
                bail!("npm failed to install llama.cpp");
            }
        }
        Ok(Judge { directory: directory.to_owned(), backend })
    }

    /// Asks all questions. Each model gets its own process, because llama.cpp may abort.
    pub(super) fn ask_all(&self, questions: &[Question]) -> Result<Answers> {
        let mut versions = String::new();
        let mut judged = Vec::new();
        for about in
            questions.chunk_by(|one, other| (&one.model, one.gpus) == (&other.model, other.gpus))
        {
            let reply = self.ask(about).with_context(|| format!("about {}", about[0].model))?;
            if versions.is_empty() {
                versions = reply["versions"].as_str().unwrap_or_default().to_owned();
            }
            for (question, answer) in
                about.iter().zip(reply["answers"].as_array().into_iter().flatten())
            {
                judged.push(Judged { question: question.clone(), answer: parse_answer(answer)? });
            }
        }
        Ok(Answers { versions, judged })
    }

    fn ask(&self, questions: &[Question]) -> Result<Value> {
        let mut node = Command::new("node")
            .arg("judge.mjs")
            .current_dir(&self.directory)
            .env("JUDGE_BACKEND", self.backend.name())
            .envs(self.device_variable(questions))
            .envs(BUFFER_LIMITS.map(|name| (name, "1099511627776")))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start node")?;
        let input = Value::from_iter(questions.iter().map(to_json)).to_string();
        node.stdin.take().context("node has no standard input")?.write_all(input.as_bytes())?;
        let out = node.wait_with_output().context("cannot read from node")?;
        if !out.status.success() {
            bail!("llama.cpp exited: {}", out.status);
        }
        serde_json::from_slice(&out.stdout).context("node wrote invalid JSON")
    }

    /// Selects the Vulkan devices. Two devices are the same one twice; nothing is computed on it.
    fn device_variable(&self, questions: &[Question]) -> Option<(&'static str, &'static str)> {
        let two = questions.iter().any(|question| question.gpus == 2);
        (self.backend == Backend::Vulkan)
            .then_some(("GGML_VK_VISIBLE_DEVICES", if two { "0,0" } else { "0" }))
    }
}

fn to_json(question: &Question) -> Value {
    let Question { model, context, ubatch, parallel, flash, kv, gpus: _ } = question;
    let file = format!("gguf/{model}.gguf");
    json!({"file": file, "context": context, "ubatch": ubatch, "parallel": parallel, "flash": flash, "kv": kv})
}

fn parse_answer(answer: &Value) -> Result<Answer> {
    if let Some(reason) = answer["rejected"].as_str() {
        bail!("llama.cpp rejects {answer}: {reason}");
    }
    let number = |name: &str| {
        answer[name].as_u64().with_context(|| format!("{name} is missing in {answer}"))
    };
    let devices = answer["device_compute"].as_array().map(Vec::as_slice).unwrap_or_default();
    Ok(Answer {
        weights: number("weights")?,
        cache: number("cache")?,
        compute: number("compute")?,
        device_weights: number("device_weights")?,
        device_compute: devices.iter().filter_map(Value::as_u64).collect(),
    })
}
