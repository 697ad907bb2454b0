//! Runs llama.cpp inside node: questions go in as JSON, answers come out.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use plimsoll_goldens::judged::{Answer, Judged, Question};
use serde_json::{Value, json};

use super::Backend;

/// Vulkan cuts a buffer into pieces, and leaves gaps between them. CUDA does not, and its numbers are what we want.
const UNLIMITED: [&str; 3] = [
    "GGML_VK_SUBALLOCATION_BLOCK_SIZE",
    "GGML_VK_FORCE_MAX_BUFFER_SIZE",
    "GGML_VK_FORCE_MAX_ALLOCATION_SIZE",
];

/// llama.cpp, installed and ready to be asked.
pub(super) struct Judge {
    folder: PathBuf,
    backend: Backend,
}

impl Judge {
    /// Installs llama.cpp in the folder at its first use.
    pub(super) fn ready(workspace: &Path, folder: &Path, backend: Backend) -> Result<Judge> {
        for file in ["package.json", "judge.mjs"] {
            fs::copy(workspace.join("xtask/judge").join(file), folder.join(file))
                .with_context(|| format!("could not copy {file}"))?;
        }
        if !folder.join("node_modules/node-llama-cpp").exists() {
            let args = ["install", "--ignore-scripts", "--no-audit", "--no-fund"];
            let status = Command::new("npm").args(args).current_dir(folder).status();
            if !status.context("could not start npm, which comes with node")?.success() {
                bail!("npm could not install llama.cpp");
            }
        }
        Ok(Judge { folder: folder.to_owned(), backend })
    }

    /// Asks all questions, and says which versions answered. Each model has a process of its own.
    pub(super) fn ask_all(&self, questions: &[Question]) -> Result<(String, Vec<Judged>)> {
        let mut versions = String::new();
        let mut answers = Vec::new();
        for about in
            questions.chunk_by(|one, other| (&one.model, one.gpus) == (&other.model, other.gpus))
        {
            let said = self.ask(about).with_context(|| format!("about {}", about[0].model))?;
            if versions.is_empty() {
                versions = said["versions"].as_str().unwrap_or_default().to_owned();
            }
            for (question, said) in
                about.iter().zip(said["answers"].as_array().into_iter().flatten())
            {
                answers.push(Judged { question: question.clone(), answer: answer(said)? });
            }
        }
        Ok((versions, answers))
    }

    fn ask(&self, questions: &[Question]) -> Result<Value> {
        let mut node = Command::new("node")
            .arg("judge.mjs")
            .current_dir(&self.folder)
            .env("JUDGE_BACKEND", self.backend.name())
            .envs(self.devices(questions))
            .envs(UNLIMITED.map(|name| (name, "1099511627776")))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("could not start node")?;
        let asked = Value::from_iter(questions.iter().map(wire)).to_string();
        node.stdin.take().context("node has no standard input")?.write_all(asked.as_bytes())?;
        let out = node.wait_with_output().context("could not read from node")?;
        if !out.status.success() {
            bail!("llama.cpp ended the process: {}", out.status);
        }
        serde_json::from_slice(&out.stdout).context("node wrote no JSON")
    }

    /// Two devices are the same one twice; nothing is computed on it.
    fn devices(&self, questions: &[Question]) -> Option<(&'static str, &'static str)> {
        let two = questions.iter().any(|question| question.gpus == 2);
        (self.backend == Backend::Vulkan)
            .then_some(("GGML_VK_VISIBLE_DEVICES", if two { "0,0" } else { "0" }))
    }
}

fn wire(question: &Question) -> Value {
    let Question { model, context, ubatch, parallel, flash, kv, gpus: _ } = question;
    let file = format!("gguf/{model}.gguf");
    json!({"file": file, "context": context, "ubatch": ubatch, "parallel": parallel, "flash": flash, "kv": kv})
}

fn answer(said: &Value) -> Result<Answer> {
    if let Some(reason) = said["refused"].as_str() {
        bail!("llama.cpp refuses {said}: {reason}");
    }
    let number =
        |name: &str| said[name].as_u64().with_context(|| format!("{name} is missing in {said}"));
    let devices = said["device_compute"].as_array().map(Vec::as_slice).unwrap_or_default();
    Ok(Answer {
        weights: number("weights")?,
        cache: number("cache")?,
        compute: number("compute")?,
        device_weights: number("device_weights")?,
        device_compute: devices.iter().filter_map(Value::as_u64).collect(),
    })
}
