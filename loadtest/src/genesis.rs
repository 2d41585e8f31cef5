//! `loadtest genesis`: writes a genesis file that funds the generated senders, so that a load over a
//! million accounts needs no funding transactions.

use crate::{atomic_file::AtomicFile, keys, options::bar};
use alloy_primitives::U256;
use anyhow::{Context, bail};
use serde_json::{Map, Value};
use std::{
    io::{BufWriter, Write},
    path::{Path, PathBuf},
    time::{Instant, SystemTime, UNIX_EPOCH},
};

/// Genesis of evmd's development chain.
const TEMPLATE: &str = include_str!("genesis.json");
/// Accounts generated and written at a time, which limits memory.
const ACCOUNTS_PER_WRITE: u64 = 65_536;
/// Denominator of the maximum change of the base fee per block. Blocks stay full for minutes during
/// a load, and with the usual 8 the base fee would soon exceed any fee cap.
const BASE_FEE_CHANGE_DENOMINATOR: u64 = 1_000_000;

#[derive(Debug, clap::Args)]
pub(crate) struct GenesisArgs {
    /// Number of accounts: the senders of `--senders N --prefunded` for any N up to this
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub(crate) accounts: u64,
    /// Ether per account
    #[arg(long, value_name = "ETHER", default_value_t = 1000)]
    pub(crate) ether: u64,
    /// Gas limit of a block
    #[arg(long, value_name = "GAS", default_value_t = 210_000_000)]
    pub(crate) block_gas: u64,
    /// Seed of the accounts
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// geth genesis.json to which the accounts are added, instead of evmd's development chain
    #[arg(long, value_name = "FILE")]
    pub(crate) template: Option<PathBuf>,
    /// Output file
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}

pub(crate) fn run(args: &GenesisArgs) -> anyhow::Result<()> {
    if args.accounts == 0 {
        bail!("--accounts must be at least 1, got 0");
    }
    let begun = Instant::now();
    let bytes = make(args)?;
    Ok(writeln!(
        std::io::stdout(),
        "{} accounts of {} ether, {bytes} bytes, made in {:.1} s",
        args.accounts,
        args.ether,
        begun.elapsed().as_secs_f64()
    )?)
}

/// Writes the file. Returns its size in bytes.
pub(crate) fn make(args: &GenesisArgs) -> anyhow::Result<u64> {
    let (rest, alloc) = settings(args)?;
    let mut output = AtomicFile::create(&args.file)?;
    let mut out = BufWriter::with_capacity(1 << 20, &mut output.file);
    write(&mut out, &rest, &alloc, args)?;
    out.flush().context("cannot write the genesis")?;
    drop(out);
    output.finish()
}

/// Returns the fields of the file without its accounts, and the accounts that the template already contains.
fn settings(args: &GenesisArgs) -> anyhow::Result<(Map<String, Value>, Map<String, Value>)> {
    let text = match &args.template {
        Some(path) => read(path)?,
        None => TEMPLATE.to_owned(),
    };
    let template: Value = serde_json::from_str(&text).context("the template is not valid JSON")?;
    let Value::Object(mut fields) = template else { bail!("the template is not a JSON object") };
    let alloc = match fields.remove("alloc") {
        Some(Value::Object(alloc)) => alloc,
        None => Map::new(),
        Some(_) => bail!("alloc of the template is not a JSON object"),
    };
    fields.insert("gasLimit".to_owned(), format!("{:#x}", args.block_gas).into());
    if let Some(section) = fields.get_mut("config").and_then(|config| config.get_mut("evmd")) {
        section["maxGas"] = args.block_gas.to_string().into();
        section["feemarket"]["params"]["base_fee_change_denominator"] =
            BASE_FEE_CHANGE_DENOMINATOR.into();
    }
    if args.template.is_none() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        fields.insert("timestamp".to_owned(), format!("{now:#x}").into());
    }
    Ok((fields, alloc))
}

fn read(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

fn write(
    out: &mut impl Write,
    rest: &Map<String, Value>,
    alloc: &Map<String, Value>,
    args: &GenesisArgs,
) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(rest)?;
    let open = text.trim_end().strip_suffix('}').context("a JSON object ends with a brace")?;
    write!(out, "{},\n  \"alloc\": {{\n", open.trim_end())?;
    for (address, account) in alloc {
        writeln!(out, "    \"{address}\": {account},")?;
    }
    let wei = U256::from(args.ether) * U256::from(10).pow(U256::from(18));
    let bar = bar("genesis");
    bar.set_length(args.accounts);
    for from in (0..args.accounts).step_by(ACCOUNTS_PER_WRITE as usize) {
        let to = (from + ACCOUNTS_PER_WRITE).min(args.accounts);
        for (number, key) in (from..).zip(keys::senders_in(args.seed, from..to)) {
            let end = if number + 1 == args.accounts { "\n" } else { ",\n" };
            write!(out, "    \"{:#x}\": {{\"balance\": \"{wei:#x}\"}}{end}", key.address)?;
        }
        bar.set_position(to);
    }
    bar.finish_and_clear();
    Ok(out.write_all(b"  }\n}\n")?)
}
