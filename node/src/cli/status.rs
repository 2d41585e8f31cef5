//! `evmd status`

use super::Output;
use anyhow::Context;
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Where the node serves its metrics
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:26660")]
    node: SocketAddr,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// Longest wait for the node.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Most bytes of an answer: far more than a status has.
const ANSWER_BYTES_MAX: u64 = 1024 * 1024;

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let body = get_status(args.node)
        .with_context(|| format!("no node answers at {} (--node)", args.node))?;
    let status: serde_json::Value =
        serde_json::from_str(&body).context("the answer is not a status")?;
    let mut out = std::io::stdout();
    match args.output {
        Output::Json => writeln!(out, "{status}")?,
        Output::Text => print_tree(&mut out, &status, 0)?,
    }
    Ok(())
}

fn get_status(node: SocketAddr) -> anyhow::Result<String> {
    let mut stream = TcpStream::connect_timeout(&node, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    write!(stream, "GET /status HTTP/1.0\r\nHost: {node}\r\n\r\n")?;
    let mut answer = String::new();
    stream.take(ANSWER_BYTES_MAX).read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("not an HTTP answer")?;
    anyhow::ensure!(head.split(' ').nth(1) == Some("200"), "{}", head.lines().next().unwrap_or(""));
    Ok(body.to_owned())
}

/// One key a line, nested values indented.
fn print_tree(
    out: &mut impl Write,
    value: &serde_json::Value,
    depth: usize,
) -> std::io::Result<()> {
    let pairs: Vec<(String, &serde_json::Value)> = match value {
        serde_json::Value::Object(map) => map.iter().map(|(k, v)| (k.clone(), v)).collect(),
        serde_json::Value::Array(list) => {
            list.iter().enumerate().map(|(i, v)| (i.to_string(), v)).collect()
        }
        plain => return writeln!(out, "{:indent$}{plain}", "", indent = depth * 2),
    };
    for (key, value) in pairs {
        if value.is_object() || value.is_array() {
            writeln!(out, "{:indent$}{key}:", "", indent = depth * 2)?;
            print_tree(out, value, depth + 1)?;
        } else {
            let text = value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
            writeln!(out, "{:indent$}{key}: {text}", "", indent = depth * 2)?;
        }
    }
    Ok(())
}
