//! `evmd tx broadcast|sign|simulate|encode|decode` process transactions in files.

use super::{
    flags::{BroadcastFlags, KeyFlags, NodeFlags, account_number},
    json,
    node::print,
    send::{mode, sign as sign_tx, signer},
};
use crate::cli::Output;
use alloy_primitives::hex;
use anyhow::{Context, ensure};
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use prost::Message;
use proto::cosmos::tx::{
    signing::v1beta1::SignMode,
    v1beta1::{AuthInfo, Tx, TxBody, TxRaw},
};
use std::{
    io::{Read, Write},
    path::PathBuf,
};

#[derive(Debug, clap::Args)]
pub(super) struct Broadcast {
    /// A signed transaction in JSON; - reads standard input
    file: PathBuf,
    #[command(flatten)]
    node: NodeFlags,
    #[command(flatten)]
    broadcast: BroadcastFlags,
}

#[derive(Debug, clap::Args)]
pub(super) struct Sign {
    /// A transaction in JSON; - reads standard input
    file: PathBuf,
    /// Name or address of the signer's key
    #[arg(long, value_name = "KEY")]
    from: String,
    /// Chain id; by default queried from the node
    #[arg(long, value_name = "ID")]
    chain_id: Option<u64>,
    /// Sequence; by default queried from the node
    #[arg(long, short, value_name = "NUMBER")]
    sequence: Option<u64>,
    /// Account number; it is 0 for every account of this chain
    #[arg(long, short, value_name = "NUMBER", value_parser = account_number)]
    account_number: Option<u64>,
    /// Do not query a node
    #[arg(long, requires_all = ["chain_id", "sequence"])]
    offline: bool,
    /// Sign mode
    #[arg(long, value_name = "MODE", default_value = "direct", value_parser = ["direct", "amino-json"])]
    sign_mode: String,
    #[command(flatten)]
    keys: KeyFlags,
    #[command(flatten)]
    node: NodeFlags,
}

#[derive(Debug, clap::Args)]
pub(super) struct Simulate {
    /// A transaction in JSON, signed or not; - reads standard input
    file: PathBuf,
    /// Name or address of the signer's key; by default the signer in the file
    #[arg(long, value_name = "KEY")]
    from: Option<String>,
    #[command(flatten)]
    keys: KeyFlags,
    #[command(flatten)]
    node: NodeFlags,
}

#[derive(Debug, clap::Args)]
pub(super) struct Encode {
    /// A transaction in JSON; - reads standard input
    file: PathBuf,
}

#[derive(Debug, clap::Args)]
pub(super) struct Decode {
    /// Base64, or hex with --hex
    bytes: String,
    /// The bytes are in hex
    #[arg(long, short = 'x')]
    hex: bool,
}

pub(super) fn broadcast(args: &Broadcast) -> anyhow::Result<()> {
    let tx = read(&args.file)?;
    ensure!(!tx.signatures.is_empty(), "the transaction is not signed: see `evmd tx sign`");
    args.node.open()?.broadcast(&json::raw(&tx), args.broadcast.mode, args.node.output)
}

pub(super) fn sign(args: &Sign) -> anyhow::Result<()> {
    let mut tx = read(&args.file)?;
    let key = args.keys.key(args.node.home(), &args.from)?;
    let sequence = match args.sequence {
        Some(sequence) => sequence,
        None => args.node.open()?.sequence(key.address())?,
    };
    let chain_id = match args.chain_id {
        Some(chain_id) => chain_id,
        None => args.node.open()?.chain_id()?,
    };
    let auth = tx.auth_info.get_or_insert_default();
    auth.signer_infos = vec![signer(Some(&key), sequence, mode(&args.sign_mode))];
    sign_tx(&mut tx, &key, chain_id)?;
    print(&json::tx_json(&tx)?, Output::Json)
}

/// Simulates a transaction, with an empty signature for each signer that has none: the node does not check signatures.
pub(super) fn simulate(args: &Simulate) -> anyhow::Result<()> {
    let mut tx = read(&args.file)?;
    let node = args.node.open()?;
    if let Some(from) = &args.from {
        let key = args.keys.key(args.node.home(), from)?;
        let sequence = node.sequence(key.address())?;
        let auth = tx.auth_info.get_or_insert_default();
        auth.signer_infos = vec![signer(Some(&key), sequence, SignMode::Direct)];
    }
    let signers = tx.auth_info.as_ref().map_or(0, |auth| auth.signer_infos.len());
    ensure!(
        signers > 0,
        "{}: the transaction has no signer: name one with --from",
        args.file.display()
    );
    tx.signatures.resize(signers, Vec::new());
    print(&node.simulated(&json::raw(&tx))?, args.node.output)
}

pub(super) fn encode(args: &Encode) -> anyhow::Result<()> {
    let text = BASE64.encode(json::raw(&read(&args.file)?));
    writeln!(crate::cli::stdout(), "{text}")?;
    Ok(())
}

pub(super) fn decode(args: &Decode) -> anyhow::Result<()> {
    let text = args.bytes.trim();
    let bytes = if args.hex {
        hex::decode(text).context("the transaction is not hex")?
    } else {
        BASE64.decode(text).context("the transaction is not base64 (--hex reads hex)")?
    };
    ensure!(!bytes.is_empty(), "the transaction is empty");
    // The bytes may start with the EIP-2718 type byte, as in blocks. `TxRaw` starts with an equal byte, a field tag.
    let bytes = match bytes.as_slice() {
        [transactions::cosmos::TX_TYPE, inner @ ..]
            if inner.first() == Some(&transactions::cosmos::TX_TYPE) =>
        {
            inner
        }
        bytes => bytes,
    };
    let raw = TxRaw::decode(bytes).context("not a transaction")?;
    let tx = Tx {
        body: Some(TxBody::decode(raw.body_bytes.as_slice()).context("its body")?),
        auth_info: Some(AuthInfo::decode(raw.auth_info_bytes.as_slice()).context("its fee")?),
        signatures: raw.signatures,
    };
    print(&json::tx_json(&tx)?, Output::Json)
}

fn read(file: &PathBuf) -> anyhow::Result<Tx> {
    let name = || file.display().to_string();
    let text = if file.as_os_str() == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text)?;
        text
    } else {
        std::fs::read_to_string(file).with_context(name)?
    };
    json::tx(&serde_json::from_str(&text).with_context(name)?).with_context(name)
}
