//! Shell completions and man pages, generated from the same definitions as the help.

use std::fs;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use clap::CommandFactory;

use crate::cli::Cli;
use crate::output::{self, Outcome};

/// Prints the completions of a shell.
pub(super) fn completions(shell: clap_complete::Shell) -> Result<Outcome> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "plimsoll", &mut script);
    let script = String::from_utf8_lossy(&script);
    let script = match shell {
        clap_complete::Shell::Zsh => zsh_with_live_names(&script),
        _ => script.into_owned(),
    };
    output::text(&script)?;
    output::text(live_names(shell))?;
    Ok(Outcome::Fine)
}

/// Returns what completes the names of slots, models and runners, by asking the server for them.
fn live_names(shell: clap_complete::Shell) -> &'static str {
    match shell {
        clap_complete::Shell::Bash => BASH_NAMES,
        clap_complete::Shell::Fish => FISH_NAMES,
        _ => "",
    }
}

const BASH_NAMES: &str = r#"
_plimsoll_live() {
    _plimsoll "$@"
    local list word="${COMP_WORDS[COMP_CWORD]}"
    [[ "$word" == -* ]] && return
    case "${COMP_WORDS[1]} ${COMP_WORDS[2]}" in
        "slots show" | "slots stop" | "logs "* | "explain "* | "release "*) list=slots ;;
        "models show" | "models delete" | "models rm" | "reserve "*) list=models ;;
        "runners show" | "runners cordon" | "runners uncordon" | "runners drain" | "runners delete" | "runners rm") list=runners ;;
        "renew "*) list=reservations ;;
        "context use" | "context delete" | "context rm") list=context ;;
        *) return ;;
    esac
    COMPREPLY+=($(compgen -W "$(plimsoll "$list" -o name 2>/dev/null)" -- "$word"))
}
complete -F _plimsoll_live -o bashdefault -o default plimsoll
"#;

const FISH_NAMES: &str = r#"
complete -c plimsoll -n "__fish_seen_subcommand_from logs explain release" -a "(plimsoll slots -o name 2>/dev/null)"
complete -c plimsoll -n "__fish_seen_subcommand_from slots; and __fish_seen_subcommand_from show stop" -a "(plimsoll slots -o name 2>/dev/null)"
complete -c plimsoll -n "__fish_seen_subcommand_from renew" -a "(plimsoll reservations -o name 2>/dev/null)"
complete -c plimsoll -n "__fish_seen_subcommand_from context; and __fish_seen_subcommand_from use delete rm" -a "(plimsoll context -o name 2>/dev/null)"
complete -c plimsoll -n "__fish_seen_subcommand_from reserve" -a "(plimsoll models -o name 2>/dev/null)"
complete -c plimsoll -n "__fish_seen_subcommand_from models; and __fish_seen_subcommand_from show delete" -a "(plimsoll models -o name 2>/dev/null)"
complete -c plimsoll -n "__fish_seen_subcommand_from runners; and __fish_seen_subcommand_from show cordon uncordon drain delete" -a "(plimsoll runners -o name 2>/dev/null)"
"#;

/// Wraps the function of a zsh script, which zsh calls by the name of its file, in one that adds
/// live names.
fn zsh_with_live_names(script: &str) -> String {
    const REGISTRATION: &str = "\nif [ \"$funcstack[1]\"";
    let (functions, registration) = match script.rfind(REGISTRATION) {
        Some(at) => script.split_at(at),
        None => (script, ""),
    };
    let functions = functions.replacen("\n_plimsoll() {", "\n_plimsoll_words() {", 1);
    format!("{functions}{ZSH_NAMES}{registration}")
}

// `words` begins with the name of the program.
const ZSH_NAMES: &str = r#"
_plimsoll() {
    local list
    if [[ "$words[CURRENT]" != -* ]]; then
        case "$words[2] $words[3]" in
            "slots show"|"slots stop"|"logs "*|"explain "*|"release "*) list=slots ;;
            "models show"|"models delete"|"models rm"|"reserve "*) list=models ;;
            "runners show"|"runners cordon"|"runners uncordon"|"runners drain"|"runners delete"|"runners rm") list=runners ;;
            "renew "*) list=reservations ;;
            "context use"|"context delete"|"context rm") list=context ;;
        esac
    fi
    if [[ -n "$list" ]]; then
        local -a names
        names=(${(f)"$(plimsoll $list -o name 2>/dev/null)"})
        (( ${#names} )) && compadd -a names
    fi
    _plimsoll_words "$@"
}
"#;

/// Prints the man page, or writes the pages of all commands.
pub(super) fn man(out: Option<&Path>) -> Result<Outcome> {
    let Some(directory) = out else {
        let mut page = Vec::new();
        clap_mangen::Man::new(Cli::command()).render(&mut page)?;
        output::text(&String::from_utf8_lossy(&page))?;
        return Ok(Outcome::Fine);
    };
    let failed = || format!("could not write the man pages into {}", directory.display());
    fs::create_dir_all(directory).with_context(failed)?;
    let mut command = Cli::command();
    command.build();
    pages(&command, directory).with_context(failed)?;
    Ok(Outcome::Fine)
}

fn pages(command: &clap::Command, directory: &Path) -> Result<()> {
    let name = command.get_display_name().unwrap_or(command.get_name()).to_string();
    let mut file = fs::File::create(directory.join(format!("{name}.1")))?;
    clap_mangen::Man::new(command.clone()).render(&mut file)?;
    file.flush()?;
    command
        .get_subcommands()
        .filter(|sub| sub.get_name() != "help")
        .try_for_each(|sub| pages(sub, directory))
}
