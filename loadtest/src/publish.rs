//! Prints a result, and writes its HTML page.

use crate::{
    html,
    options::{Common, Output},
    report::Report,
};
use anyhow::Context;
use std::io::Write as _;

/// Prints the result, and writes the HTML page if `--html` is set.
pub(crate) fn publish(report: &Report, common: &Common) -> anyhow::Result<()> {
    if let Some(path) = &common.html {
        std::fs::write(path, html::page(report))
            .with_context(|| format!("writing {}", path.display()))?;
    }
    let text = match common.output {
        Output::Json => format!("{:#}\n", report.json()),
        Output::Text => report.text(),
    };
    let mut out = std::io::stdout();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // The reader of the pipe has closed it.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}
