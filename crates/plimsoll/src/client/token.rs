//! The token: found, checked and sent, and never shown.

use std::fmt;
use std::path::Path;

use anyhow::{Context, Result, ensure};

/// The variable that holds it.
const VARIABLE: &str = "PLIMSOLL_TOKEN";

/// What lets somebody in.
pub(super) struct Token(String);

impl Token {
    /// From a file, else from the environment.
    pub(super) fn find(file: Option<&Path>) -> Result<Option<Token>> {
        match file {
            Some(file) => {
                let name = file.display();
                let text = std::fs::read_to_string(file)
                    .with_context(|| format!("could not read the token in {name}"))?;
                Token::read(&text, &name.to_string()).map(Some)
            }
            None => match std::env::var(VARIABLE) {
                Ok(text) if !text.is_empty() => Token::read(&text, VARIABLE).map(Some),
                _ => Ok(None),
            },
        }
    }

    fn read(text: &str, whence: &str) -> Result<Token> {
        let token = text.trim();
        let plain = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
        ensure!(plain, "{whence} holds no token: one word of letters, digits and signs is wanted");
        Ok(Token(token.to_string()))
    }

    /// The value of the header that carries it.
    pub(super) fn header(&self) -> String {
        format!("Bearer {}", self.0)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}
