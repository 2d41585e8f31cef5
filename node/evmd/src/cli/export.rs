//! `evmd export` writes blocks to an RLP file.

use super::{HomeArg, Output, is_stdout_closed};
use anyhow::{Context, bail};
use chain::block;
use flate2::{Compression, write::GzEncoder};
use home::Home;
use platform::whole_file::NewFile;
use std::{
    io::{BufWriter, Write},
    ops::RangeInclusive,
    path::PathBuf,
};
use storage::ChainReader;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// File to write, compressed with gzip if its name ends in .gz; - is standard output
    file: PathBuf,
    #[command(flatten)]
    home: HomeArg,
    /// First block
    #[arg(long, value_name = "N", default_value_t = 1)]
    from: u64,
    /// Last block; by default the head
    #[arg(long, value_name = "N")]
    to: Option<u64>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let home = Home::open(&args.home.path()?)?;
    let blocks = home.chain.reader()?;
    let (head, _) = blocks.head()?.context("the chain is empty")?;
    let last = args.to.unwrap_or(head);
    if last > head {
        bail!("block {last} is above the head, {head}");
    }
    if args.from > last {
        bail!("there are no blocks from {} to {last}", args.from);
    }
    let numbers = args.from..=last;
    if args.file.as_os_str() == "-" {
        return Ok(write(&blocks, numbers, crate::cli::stdout())?.flush()?);
    }
    let writing = || format!("cannot write {}", args.file.display());
    let file = NewFile::create(&args.file).with_context(writing)?;
    let file = if args.file.extension().is_some_and(|extension| extension == "gz") {
        let packed = write(&blocks, numbers, GzEncoder::new(file, Compression::default()));
        packed.with_context(writing)?.finish().with_context(writing)?
    } else {
        write(&blocks, numbers, file).with_context(writing)?
    };
    file.finish().with_context(writing)?;
    let count = (last + 1).saturating_sub(args.from);
    let mut out = crate::cli::stdout();
    match args.output {
        Output::Text => writeln!(out, "exported {count} blocks to {}", args.file.display())?,
        Output::Json => {
            writeln!(
                out,
                "{}",
                serde_json::json!({ "blocks": count, "file": args.file.to_string_lossy() })
            )?;
        }
    }
    Ok(())
}

/// Fails for a block that a client of a development chain has changed, because other nodes would refuse it.
fn check_flags(blocks: &ChainReader, number: u64) -> anyhow::Result<()> {
    let flags = blocks.flags(number)?.context("a header is missing")?;
    if let Some(reason) = flags.reason() {
        bail!(
            "block {number} cannot be exported, because no other node would accept it: {reason}. \
             --to {} exports the blocks before it",
            number.saturating_sub(1)
        );
    }
    Ok(())
}

/// Writes consecutive blocks until standard output is closed, and returns the writer.
fn write<W: Write>(blocks: &ChainReader, numbers: RangeInclusive<u64>, to: W) -> anyhow::Result<W> {
    let mut out = BufWriter::new(to);
    for number in numbers {
        check_flags(blocks, number)?;
        let (_, header) = blocks.header(number)?.context("a header is missing")?;
        let body = blocks.body(number)?.context("a body is missing")?;
        out.write_all(&block::join(&header, &body))?;
        if is_stdout_closed() {
            break;
        }
    }
    Ok(out.into_inner().map_err(std::io::IntoInnerError::into_error)?)
}
