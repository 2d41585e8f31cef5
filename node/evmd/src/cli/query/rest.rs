//! Queries REST, and prints the JSON of the response or converts it to YAML.

use super::{node::NodeArg, yaml};
use crate::cli::Output;
use anyhow::{Context, anyhow};
use cosmos_api::grpc::HEIGHT_HEADER;
use serde_json::Value;
use std::io::Write;

/// The options of all REST queries.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct RestArgs {
    #[command(flatten)]
    pub(super) node: NodeArg,
    /// Block to query; by default the newest
    #[arg(long, value_name = "NUMBER")]
    height: Option<u64>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

impl RestArgs {
    /// Sends a GET request for a path; returns the JSON text of the response.
    fn text(&self, path: &str) -> anyhow::Result<String> {
        let header = self.height.map(|height| format!("{HEIGHT_HEADER}: {height}\r\n"));
        let (status, body) = self.node.rest(path, header.as_deref().unwrap_or_default())?;
        if status == 200 {
            return Ok(body);
        }
        Err(refusal(&body))
    }

    /// Sends a GET request for a path; returns the parsed response.
    pub(super) fn get(&self, path: &str) -> anyhow::Result<Value> {
        serde_json::from_str(&self.text(path)?).context("the response is not JSON")
    }

    pub(super) fn print(&self, response: &Value) -> anyhow::Result<()> {
        match self.output {
            Output::Text => write_stdout(&yaml::text(response)),
            Output::Json => write_stdout(&format!("{response}\n")),
        }
    }

    /// Sends a GET request for a path and prints the response.
    pub(super) fn show(&self, path: &str) -> anyhow::Result<()> {
        print_json(&self.text(path)?, self.output)
    }
}

/// Prints a response, which must be JSON.
pub(super) fn print_json(text: &str, output: Output) -> anyhow::Result<()> {
    match output {
        Output::Text => {
            let response = serde_json::from_str(text).context("the response is not JSON")?;
            write_stdout(&yaml::text(&response))
        }
        // The text is not parsed, so the fields keep their order.
        Output::Json => write_stdout(&format!("{text}\n")),
    }
}

/// Converts the response to a failed query into an error that contains the reason.
pub(super) fn refusal(body: &str) -> anyhow::Error {
    let response: Value = serde_json::from_str(body).unwrap_or_default();
    anyhow!("{}", response["message"].as_str().unwrap_or("the node returned no reason"))
}

fn write_stdout(text: &str) -> anyhow::Result<()> {
    let mut out = crate::cli::stdout();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// Percent-encodes a value for a path or a query string.
pub(in crate::cli) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}
