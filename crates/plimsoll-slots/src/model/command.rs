//! Checks of a declared program: its arguments, environment and path of readiness.

use crate::declaration::Declaration;
use crate::runtime::{CONFINING_VARIABLES, Command, Runtime};
use crate::template;

use super::ModelProblem;

/// Checks the arguments and the path of readiness.
pub(super) fn check(command: &Command, declared: &Declaration) -> Result<(), ModelProblem> {
    if command.argv.first().is_none_or(|program| program.trim().is_empty()) {
        return Err(ModelProblem::EmptyArgv);
    }
    let templates = command.argv.iter().chain(command.env.values()).chain(&command.ready);
    for template in templates {
        let placeholders = template::placeholders(template)?;
        if placeholders.contains(&"context") && declared.context.is_none() {
            return Err(ModelProblem::UndeclaredContext { template: template.clone() });
        }
    }
    // An argument may have line ends, but the kernel takes none with a NUL byte.
    command.argv.iter().try_for_each(|argument| reject("argv", argument, |c| c == '\0'))?;
    command.ready.as_ref().map_or(Ok(()), |path| check_ready(path, command))
}

/// Checks a path of readiness. It is sent as it is in an HTTP request, so that a line end in it
/// would add a header. Without a port nothing can be requested, and the program would count as
/// ready whether or not it runs.
fn check_ready(path: &str, command: &Command) -> Result<(), ModelProblem> {
    reject("ready", path, char::is_control)?;
    if !path.starts_with('/') || path.contains(' ') {
        return Err(ModelProblem::InvalidReadyPath { path: path.to_string() });
    }
    let mut templates = command.argv.iter().chain(command.env.values());
    if templates
        .any(|template| template::placeholders(template).is_ok_and(|names| names.contains(&"port")))
    {
        return Ok(());
    }
    Err(ModelProblem::ReadyWithoutPort { path: path.to_string() })
}

/// Checks the declared environment variables of any runtime.
pub(super) fn check_environment(runtime: &Runtime) -> Result<(), ModelProblem> {
    for (variable, value) in runtime.env() {
        if variable.is_empty() || variable.chars().any(|c| c == '=' || c.is_control()) {
            return Err(ModelProblem::VariableName { variable: variable.clone() });
        }
        if CONFINING_VARIABLES.contains(&variable.as_str()) {
            return Err(ModelProblem::ConfiningVariable { variable: variable.clone() });
        }
        reject("env", value, |c| c == '\0')?;
    }
    Ok(())
}

fn reject(
    field: &'static str,
    value: &str,
    is_forbidden: impl Fn(char) -> bool,
) -> Result<(), ModelProblem> {
    match value.chars().find(|c| is_forbidden(*c)) {
        Some(character) => {
            Err(ModelProblem::ControlCharacter { field, value: value.to_string(), character })
        }
        None => Ok(()),
    }
}
