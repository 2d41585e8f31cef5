//! `evmd db` shows the sizes of the tables in the database of a home folder.

use super::{HomeArg, Output};
use home::Home;
use std::io::Write;
use storage::{EnvStats, TableSize};

#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Show the rows and bytes of each table; the node may be running
    Inspect {
        #[command(flatten)]
        home: HomeArg,
        /// Output format
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
}

/// An LMDB environment with its tables.
struct Environment {
    name: &'static str,
    stats: EnvStats,
    tables: Vec<TableSize>,
}

impl Environment {
    /// Returns the bytes in pages that belong to no table: free pages, and the pages that store the list of tables.
    fn other_bytes(&self) -> u64 {
        let tables: u64 = self.tables.iter().map(|table| table.bytes).sum();
        self.stats.used_bytes.saturating_sub(tables)
    }
}

pub(super) fn run(command: &Command) -> anyhow::Result<()> {
    let Command::Inspect { home, output } = command;
    let (chain, index) = Home::attach(&home.path()?)?;
    let environments = [
        Environment { name: "chain", stats: chain.stats(), tables: chain.table_sizes()? },
        Environment { name: "index", stats: index.stats(), tables: index.table_sizes()? },
    ];
    let mut out = super::stdout();
    match output {
        Output::Text => print(&mut out, &environments)?,
        Output::Json => {
            let list: Vec<_> = environments.iter().map(to_json).collect();
            writeln!(out, "{}", serde_json::json!({ "environments": list }))?;
        }
    }
    Ok(())
}

fn to_json(environment: &Environment) -> serde_json::Value {
    let table = |table: &TableSize| serde_json::json!({ "name": table.name, "rows": table.rows, "bytes": table.bytes });
    serde_json::json!({
        "name": environment.name,
        "usedBytes": environment.stats.used_bytes,
        "maxBytes": environment.stats.map_bytes,
        "otherBytes": environment.other_bytes(),
        "tables": environment.tables.iter().map(table).collect::<Vec<_>>(),
    })
}

fn print(out: &mut impl Write, environments: &[Environment]) -> std::io::Result<()> {
    writeln!(out, "{:<12} {:<16} {:>14} {:>14}", "environment", "table", "rows", "size")?;
    let mut line = |environment: &str, table: &str, rows: &str, bytes: u64| {
        writeln!(out, "{environment:<12} {table:<16} {rows:>14} {:>14}", size(bytes))
    };
    for environment in environments {
        for table in &environment.tables {
            line(environment.name, table.name, &table.rows.to_string(), table.bytes)?;
        }
        line(environment.name, "(free and other)", "", environment.other_bytes())?;
        line(environment.name, "(total)", "", environment.stats.used_bytes)?;
    }
    Ok(())
}

/// Formats a number of bytes with a binary unit.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let power = (bytes.checked_ilog2().unwrap_or(0) / 10).min(4);
    match power {
        0 => format!("{bytes} B"),
        _ => format!(
            "{:.2} {}",
            bytes as f64 / f64::from(2_u32).powi(10 * power as i32),
            UNITS[power as usize]
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn sizes_are_shown_with_a_binary_unit() {
        let sizes = [0, 1023, 1024, 5 << 20, (3 << 30) + (1 << 29), 7 << 40].map(size);
        assert_eq!(sizes, ["0 B", "1023 B", "1.00 KiB", "5.00 MiB", "3.50 GiB", "7.00 TiB"]);
    }
}
