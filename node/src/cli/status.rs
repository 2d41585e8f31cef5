//! `evmd status`

use super::Output;
use anyhow::Context;
use serde_json::{Map, Value};
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
    let status: Map<String, Value> =
        serde_json::from_str(&body).context("the answer is not a status")?;
    let mut out = std::io::stdout();
    match args.output {
        Output::Json => writeln!(out, "{}", Value::Object(status))?,
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

/// One key a line, then nested values indented, then lists as tables.
fn print_tree(out: &mut impl Write, map: &Map<String, Value>, depth: usize) -> std::io::Result<()> {
    let mut pairs: Vec<_> = map.iter().collect();
    pairs.sort_by_key(|(_, value)| (value.is_array(), value.is_object()));
    for (key, value) in pairs {
        match value {
            Value::Object(inner) => {
                writeln!(out, "{:indent$}{key}:", "", indent = depth * 2)?;
                print_tree(out, inner, depth + 1)?;
            }
            Value::Array(rows) => {
                writeln!(out, "\n{key}")?;
                print_table(out, rows)?;
            }
            plain => writeln!(out, "{:indent$}{key}: {}", "", cell(plain), indent = depth * 2)?,
        }
    }
    Ok(())
}

/// A line a row; the columns are the first row's keys, lists left out (they are for machines).
fn print_table(out: &mut impl Write, rows: &[Value]) -> std::io::Result<()> {
    let Some(Value::Object(first)) = rows.first() else { return Ok(()) };
    let mut keys: Vec<_> = first.iter().filter(|(_, v)| !v.is_array()).map(|(k, _)| k).collect();
    keys.sort_by_key(|key| !first[*key].is_string()); // Names first.
    let mut lines = vec![keys.iter().map(ToString::to_string).collect::<Vec<_>>()];
    lines.extend(rows.iter().map(|row| keys.iter().map(|key| cell(&row[*key])).collect()));
    let width = |column: usize| lines.iter().map(|line| line[column].len()).max().unwrap_or(0);
    let widths: Vec<_> = (0..keys.len()).map(width).collect();
    for line in &lines {
        let cells = line.iter().zip(&widths).enumerate().map(|(i, (cell, &width))| match i {
            0 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        writeln!(out, "  {}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    Ok(())
}

fn cell(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Object(map) => {
            map.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
        }
        Value::Number(number) if number.is_f64() => {
            format!("{:.3}", number.as_f64().unwrap_or_default())
        }
        other => other.to_string(),
    }
}
