//! `evmd version`

use super::Output;
use std::io::Write;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let version = env!("CARGO_PKG_VERSION");
    let backend = verify::Backend::detect()?;
    let mut out = std::io::stdout();
    match args.output {
        Output::Text => writeln!(out, "evmd {version}\nrecovery backend: {backend}")?,
        Output::Json => {
            let value = serde_json::json!({ "version": version, "backend": backend.name() });
            writeln!(out, "{value}")?;
        }
    }
    Ok(())
}
