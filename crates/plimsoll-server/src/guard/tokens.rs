//! Tokens, their names and their roles. The server keeps only the SHA-256 of a token.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq, CtOption};

use super::access::{NamePattern, Role};

/// The valid tokens.
#[derive(Default)]
pub(crate) struct Tokens {
    known: Vec<Token>,
}

struct Token {
    name: String,
    digest: [u8; 32],
    role: Role,
}

/// A token in the configuration.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TokenEntry {
    name: String,
    role: RoleName,
    #[serde(default)]
    sha256: Option<String>,
    #[serde(default)]
    file: Option<PathBuf>,
    #[serde(default)]
    runner: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RoleName {
    Read,
    Operate,
    Runner,
    All,
}

/// The minimum length. Shorter tokens could be guessed.
const MIN_LENGTH: usize = 16;

impl Tokens {
    /// Reads the tokens of the configuration, and the token file of the command line. Relative
    /// files of entries are in `dir`.
    pub(crate) fn load(
        entries: &[TokenEntry],
        dir: &Path,
        token_file: Option<&Path>,
        warnings: &mut Vec<String>,
    ) -> Result<Tokens> {
        let mut known = Vec::new();
        for entry in entries {
            let name = &entry.name;
            let digest = match (&entry.sha256, &entry.file) {
                (Some(hex), None) => digest_of_hex(hex)
                    .with_context(|| format!("tokens: sha256 of {name:?} is not a SHA-256"))?,
                (None, Some(file)) => digest_of_file(&dir.join(file), warnings)?,
                _ => bail!("tokens: {name:?} needs either sha256 or file"),
            };
            known.push(Token { name: name.clone(), digest, role: role(entry)? });
        }
        if let Some(file) = token_file {
            let digest = digest_of_file(file, warnings)?;
            known.push(Token { name: "--token-file".to_string(), digest, role: Role::All });
        }
        reject_duplicates(&known)?;
        Ok(Tokens { known })
    }

    /// Returns whether no token is required.
    pub(crate) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Returns the name and the role of a token. Takes the same time for every token, so that the
    /// time tells nothing about the valid ones.
    pub(crate) fn find(&self, presented: &[u8]) -> Option<(&str, &Role)> {
        let digest = digest(presented);
        let mut found: CtOption<u64> = CtOption::new(0, Choice::from(0));
        for (index, token) in (0_u64..).zip(&self.known) {
            let is_equal = token.digest.ct_eq(&digest);
            let this = CtOption::new(index, Choice::from(1));
            found = CtOption::conditional_select(&found, &this, is_equal);
        }
        let index: Option<u64> = found.into();
        let token = self.known.get(usize::try_from(index?).ok()?)?;
        Some((&token.name, &token.role))
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.known.iter().map(|token| &token.name)).finish()
    }
}

fn role(entry: &TokenEntry) -> Result<Role> {
    let name = &entry.name;
    match (entry.role, &entry.runner) {
        (RoleName::Runner, Some(runner)) if !runner.is_empty() => {
            Ok(Role::Runner(NamePattern::parse(runner)))
        }
        (RoleName::Runner, _) => bail!(
            "tokens: {name:?} must name its runner: runner: NAME, or runner: \"gpu-*\" for a prefix"
        ),
        (_, Some(_)) => bail!("tokens: {name:?} has a runner, but its role is not runner"),
        (RoleName::Read, None) => Ok(Role::Read),
        (RoleName::Operate, None) => Ok(Role::Operate),
        (RoleName::All, None) => Ok(Role::All),
    }
}

/// Rejects equal names, which the log could not tell apart, and equal tokens, whose role would
/// depend on their order.
fn reject_duplicates(known: &[Token]) -> Result<()> {
    let mut digests = BTreeMap::new();
    for (index, token) in known.iter().enumerate() {
        if known[..index].iter().any(|other| other.name == token.name) {
            bail!("tokens: duplicate name {:?}", token.name);
        }
        if let Some(other) = digests.insert(token.digest, &token.name) {
            bail!("tokens: {other:?} and {:?} are the same token", token.name);
        }
    }
    Ok(())
}

fn digest_of_file(file: &Path, warnings: &mut Vec<String>) -> Result<[u8; 32]> {
    let shown = file.display();
    let text = fs::read(file).with_context(|| format!("cannot read the token file {shown}"))?;
    let mode = fs::metadata(file).map(|facts| facts.permissions().mode() & 0o777).unwrap_or(0o600);
    if mode & 0o077 != 0 {
        warnings.push(format!(
            "the token file {shown} is readable by other users (mode {mode:o}); run chmod 600 on it"
        ));
    }
    let token = text.trim_ascii();
    if token.is_empty() || !token.iter().all(u8::is_ascii_graphic) {
        bail!("{shown} must contain one token of printable ASCII characters, and nothing else");
    }
    if token.len() < MIN_LENGTH {
        bail!(
            "the token in {shown} has {} characters; it must have at least {MIN_LENGTH}",
            token.len()
        );
    }
    Ok(digest(token))
}

pub(super) fn digest(text: &[u8]) -> [u8; 32] {
    let digest = ring::digest::digest(&ring::digest::SHA256, text);
    digest.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

fn digest_of_hex(hex: &str) -> Result<[u8; 32]> {
    let digits = hex.as_bytes();
    if digits.len() != 64 {
        bail!("it has {} characters instead of 64", digits.len());
    }
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let pair = hex_digit(pair[0]).zip(hex_digit(pair[1]));
        let (high, low) = pair.context("it is not hexadecimal")?;
        *byte = high << 4 | low;
    }
    Ok(bytes)
}

fn hex_digit(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `printf %s an-example-of-a-token | sha256sum`
    const EXAMPLE: &str = "22cbd52af16017b58320d599767ea290660f6be9d3029ebc7bdef8dc03c101b6";

    fn entries(yaml: &str) -> Vec<TokenEntry> {
        serde_saphyr::from_str(yaml).expect("it is YAML")
    }

    fn load(yaml: &str) -> Result<Tokens, String> {
        let tokens = Tokens::load(&entries(yaml), Path::new(""), None, &mut Vec::new());
        tokens.map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn a_token_is_found_by_its_digest_alone() {
        let tokens = load(&format!(
            "[{{name: a, role: read, sha256: {}}}, {{name: b, role: operate, sha256: {EXAMPLE}}}]",
            "0".repeat(64)
        ));
        let tokens = tokens.expect("valid tokens");
        assert_eq!(tokens.find(b"an-example-of-a-token"), Some(("b", &Role::Operate)));
        for wrong in
            [&b"an-example-of-a-toke"[..], b"an-example-of-a-token ", b"", EXAMPLE.as_bytes()]
        {
            assert_eq!(tokens.find(wrong), None);
        }
        assert_eq!(Tokens::default().find(b""), None);
    }

    #[test]
    fn a_token_file_has_one_token_and_should_be_private() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("token");
        let put = |text: &str, mode| {
            fs::write(&file, text).expect("a file");
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).expect("a mode");
            let mut warnings = Vec::new();
            let tokens = Tokens::load(&[], Path::new(""), Some(&file), &mut warnings);
            (tokens.map_err(|error| error.to_string()), warnings)
        };
        let (tokens, warnings) = put("an-example-of-a-token\n", 0o600);
        assert_eq!(
            tokens.expect("valid tokens").find(b"an-example-of-a-token").map(|f| f.1),
            Some(&Role::All)
        );
        assert_eq!(warnings, [""; 0]);
        let (tokens, warnings) = put("an-example-of-a-token", 0o640);
        assert!(tokens.is_ok() && warnings[0].contains("640"), "{warnings:?}");
        for (text, part) in
            [("", "one token"), ("short", "at least 16"), ("two tokens in one file", "one token")]
        {
            let (tokens, _) = put(text, 0o600);
            let error = tokens.map(|_| ()).expect_err(text);
            assert!(error.contains(part) && (text.is_empty() || !error.contains(text)), "{error}");
        }
    }

    #[test]
    fn an_invalid_token_is_reported_without_the_secret() {
        let same = format!(
            "[{{name: a, role: read, sha256: {EXAMPLE}}}, {{name: b, role: read, sha256: {EXAMPLE}}}]"
        );
        for (yaml, part) in [
            ("[{name: a, role: read}]", "needs either sha256 or file"),
            ("[{name: a, role: read, sha256: abcd}]", "instead of 64"),
            ("[{name: a, role: read, file: no/such/file}]", "no/such/file"),
            (&format!("[{{name: a, role: runner, sha256: {EXAMPLE}}}]"), "must name its runner"),
            (
                &format!("[{{name: a, role: read, runner: r, sha256: {EXAMPLE}}}]"),
                "role is not runner",
            ),
            (&same, "are the same token"),
            (&same.replace("name: b", "name: a"), "duplicate name"),
        ] {
            let error = load(yaml).map(|_| ()).expect_err(yaml);
            assert!(error.contains(part) && !error.contains(EXAMPLE), "{yaml}: {error}");
        }
        let tokens =
            load(&format!("[{{name: a, role: read, sha256: {EXAMPLE}}}]")).expect("valid tokens");
        assert_eq!(format!("{tokens:?}"), r#"["a"]"#);
    }
}
