//! `evmd status`

mod watch;

use super::{Output, query::NodeArg};
use anyhow::Context;
use serde_json::{Map, Value};
use std::io::Write;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    node: NodeArg,
    /// Show the status again every second until Ctrl-C; a terminal is redrawn
    #[arg(short, long)]
    watch: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    if args.watch {
        return watch::run(args);
    }
    super::stdout().write_all(&args.status()?)?;
    Ok(())
}

impl Args {
    /// The status of the node in the output format.
    fn status(&self) -> anyhow::Result<Vec<u8>> {
        let body = self.node.status()?;
        let status: Map<String, Value> =
            serde_json::from_str(&body).context("the response is not a status")?;
        let mut out = Vec::new();
        match self.output {
            Output::Json => writeln!(out, "{}", Value::Object(status))?,
            Output::Text => print_tree(&mut out, &status, 0)?,
        }
        Ok(out)
    }
}

/// Prints one key per line, then nested values with indentation, then lists as tables.
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

/// Prints one line per row. The columns are the keys of the first row, except lists, which are only in the
/// JSON.
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
