//! `evmd rpc` calls a JSON-RPC method with parameters from the command line.

use super::query::{NodeArg, client::CallError, server::Server};
use anyhow::{Context, ensure};
use serde_json::Value;
use std::io::{Read, Write};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Name of the method, such as eth_getBalance
    method: String,
    /// Parameters: one that is JSON is sent as JSON, such as true, 12 or {"to": "0x..."}, and any other as a string
    #[arg(value_name = "ARGS", allow_negative_numbers = true)]
    params: Vec<String>,
    /// Send the only argument as the whole parameters, which must be a JSON array or object; without an argument, read
    /// them from standard input
    #[arg(long)]
    raw: bool,
    #[command(flatten)]
    node: NodeArg,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let params = if args.raw { raw(&args.params)? } else { separate(&args.params) };
    let client = args.node.client(Server::JsonRpc)?;
    let result = client.call_raw(&args.method, &params).map_err(described)?;
    writeln!(super::stdout(), "{result}")?;
    Ok(())
}

fn separate(args: &[String]) -> Value {
    let param = |arg: &String| -> Value {
        serde_json::from_str(arg).unwrap_or_else(|_| arg.as_str().into())
    };
    args.iter().map(param).collect()
}

fn raw(args: &[String]) -> anyhow::Result<Value> {
    ensure!(args.len() <= 1, "--raw takes one argument with all parameters, got {}", args.len());
    let text = match args.first() {
        Some(text) => text.clone(),
        None => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text)?;
            text
        }
    };
    let params: Value = serde_json::from_str(&text).context("the parameters are not JSON")?;
    ensure!(
        params.is_array() || params.is_object(),
        "the parameters must be an array or an object"
    );
    Ok(params)
}

/// Adds the code and the data to the message of an error that the method returned.
fn described(error: anyhow::Error) -> anyhow::Error {
    let Some(CallError { code, message, data }) = error.downcast_ref() else { return error };
    let data = data.as_ref().map(|data| format!(" (data: {data})")).unwrap_or_default();
    anyhow::anyhow!("{code}: {message}{data}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn arguments_that_are_not_json_are_strings() {
        let args = ["0x1", "latest", "12", "true", r#"{"to":"0x2"}"#, r#""7""#, "[1]", ""];
        let params = separate(&args.map(str::to_owned));
        assert_eq!(params, json!(["0x1", "latest", 12, true, { "to": "0x2" }, "7", [1], ""]));
    }
}
