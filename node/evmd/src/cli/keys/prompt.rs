//! Asks for answers and secrets. Prompts go to standard error, and answers are lines of standard input. If standard
//! input is a terminal, prompts for secrets go directly to the terminal, and secrets are not echoed.

use anyhow::{Context, bail};
use std::io::{BufRead, IsTerminal, Read, Write};
use zeroize::Zeroizing;

/// Maximum length of an input line in bytes, including the line break. A mnemonic of 24 words is shorter than 1 KiB.
const MAX_ANSWER_BYTES: usize = 4096;

/// Returns whether an answer means yes. Every answer except `y`, `Y`, `yes` and `Yes` means no.
pub(crate) fn is_yes(answer: &str) -> bool {
    matches!(answer.trim(), "y" | "Y" | "yes" | "Yes")
}

#[derive(Debug)]
pub(super) struct Prompt {
    terminal: bool,
}

impl Prompt {
    pub(super) fn new() -> Self {
        Self { terminal: std::io::stdin().is_terminal() }
    }

    /// Returns whether standard input is a terminal.
    pub(super) const fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Asks for an answer that a terminal does not echo.
    pub(super) fn secret(&self, question: &str) -> anyhow::Result<Zeroizing<String>> {
        if !self.terminal {
            return self.line(question);
        }
        let answer = rpassword::prompt_password(format!("{question} "));
        Ok(Zeroizing::new(answer.context("cannot read from the terminal")?))
    }

    /// Asks for a new secret, which must be typed twice at a terminal.
    pub(super) fn new_secret(&self, what: &str) -> anyhow::Result<Zeroizing<String>> {
        let secret = self.secret(&format!("Enter {what}:"))?;
        if self.terminal && self.secret(&format!("Re-enter {what}:"))? != secret {
            bail!("the two answers differ");
        }
        Ok(secret)
    }

    /// Asks for an answer that a terminal echoes.
    pub(super) fn line(&self, question: &str) -> anyhow::Result<Zeroizing<String>> {
        let mut err = std::io::stderr();
        write!(err, "{question} ")?;
        err.flush()?;
        let mut answer = Zeroizing::new(String::with_capacity(MAX_ANSWER_BYTES + 1));
        let max_bytes = MAX_ANSWER_BYTES as u64 + 1;
        let read = std::io::stdin().lock().take(max_bytes).read_line(&mut answer);
        if !self.terminal {
            writeln!(err)?;
        }
        if read.context("standard input")? == 0 {
            bail!("standard input ended before the answer to: {question}");
        }
        // The rest of a longer line must not be read as the next answer.
        if answer.len() > MAX_ANSWER_BYTES {
            bail!("an answer is longer than {MAX_ANSWER_BYTES} bytes: {question}");
        }
        let length = answer.trim_end_matches(['\r', '\n']).len();
        answer.truncate(length);
        Ok(answer)
    }

    /// Asks for a confirmation; see [`is_yes`].
    pub(super) fn confirm(&self, question: &str) -> anyhow::Result<bool> {
        let answer = self.line(&format!("{question} [y/N]:"))?;
        Ok(is_yes(&answer))
    }
}
