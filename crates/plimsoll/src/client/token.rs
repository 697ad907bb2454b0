//! The token of a client. It is never printed.

use std::fmt;
use std::path::Path;

use anyhow::{Context, Result, ensure};

/// The environment variable with the token.
const VARIABLE: &str = "PLIMSOLL_TOKEN";

/// A bearer token.
pub(super) struct Token(String);

impl Token {
    /// Reads the token from a file or the environment.
    pub(super) fn find(file: Option<&Path>) -> Result<Option<Token>> {
        match file {
            Some(file) => {
                let name = file.display();
                let text = std::fs::read_to_string(file)
                    .with_context(|| format!("could not read the token file {name}"))?;
                Token::parse(&text, &name.to_string()).map(Some)
            }
            None => match std::env::var(VARIABLE) {
                Ok(text) if !text.is_empty() => Token::parse(&text, VARIABLE).map(Some),
                _ => Ok(None),
            },
        }
    }

    fn parse(text: &str, source: &str) -> Result<Token> {
        let token = text.trim();
        let plain = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
        ensure!(
            plain,
            "{source} contains no token: expected one word of printable ASCII characters"
        );
        Ok(Token(token.to_string()))
    }

    /// Returns the value of the `Authorization` header.
    pub(super) fn header(&self) -> String {
        format!("Bearer {}", self.0)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}
