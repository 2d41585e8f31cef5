//! Prompts for the person at the terminal, or for the program that writes standard input. They go to standard
//! error, and secrets are not echoed.

use anyhow::{Context, bail};
use std::io::{BufRead, IsTerminal, Read, Write};
use zeroize::Zeroizing;

/// Maximum length of an answer in bytes. A mnemonic of 24 words is below 1 KiB.
const MAX_ANSWER_BYTES: usize = 4096;

/// Reads answers.
#[derive(Debug)]
pub(super) struct Prompt {
    terminal: bool,
}

impl Prompt {
    pub(super) fn new() -> Self {
        Self { terminal: std::io::stdin().is_terminal() }
    }

    /// Whether a person answers.
    pub(super) const fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// An answer that is not echoed.
    pub(super) fn secret(&self, question: &str) -> anyhow::Result<Zeroizing<String>> {
        if !self.terminal {
            return self.line(question);
        }
        let answer = rpassword::prompt_password(format!("{question} "));
        Ok(Zeroizing::new(answer.context("cannot read from the terminal")?))
    }

    /// A new secret, which a person types twice.
    pub(super) fn new_secret(&self, what: &str) -> anyhow::Result<Zeroizing<String>> {
        let secret = self.secret(&format!("Enter {what}:"))?;
        if self.terminal && self.secret(&format!("Re-enter {what}:"))? != secret {
            bail!("the two answers differ");
        }
        Ok(secret)
    }

    /// An answer that is echoed.
    pub(super) fn line(&self, question: &str) -> anyhow::Result<Zeroizing<String>> {
        let mut err = std::io::stderr();
        write!(err, "{question} ")?;
        err.flush()?;
        let mut answer = Zeroizing::new(String::with_capacity(MAX_ANSWER_BYTES + 1));
        let most = MAX_ANSWER_BYTES as u64 + 1;
        let read = std::io::stdin().lock().take(most).read_line(&mut answer);
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

    /// A confirmation. Every answer except yes is a no.
    pub(super) fn confirm(&self, question: &str) -> anyhow::Result<bool> {
        let answer = self.line(&format!("{question} [y/N]:"))?;
        Ok(matches!(answer.trim(), "y" | "Y" | "yes" | "Yes"))
    }
}
