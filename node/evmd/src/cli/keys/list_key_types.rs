//! `evmd keys list-key-types` shows the key algorithms.

use super::Common;
use keys::ALGORITHM;
use std::io::Write;

pub(super) fn run(common: &Common) -> anyhow::Result<()> {
    let mut out = crate::cli::stdout();
    if common.json() {
        writeln!(out, "{}", serde_json::json!([ALGORITHM]))?;
    } else {
        writeln!(out, "{ALGORITHM}")?;
    }
    Ok(())
}
