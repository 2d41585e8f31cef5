//! `evmd init` creates a home folder with a new chain.

use super::{HomeArg, Output, config};
use anyhow::Context;
use certificates::SecretKey;
use chain::{Genesis, GenesisError, Producer};
use home::{Home, PRODUCER_KEY_FILE, producer_key, read_or_create_key};
use std::{
    io::Write,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Name of the node, which is stored as node.moniker
    moniker: Option<String>,
    #[command(flatten)]
    home: HomeArg,
    /// A genesis.json: geth's (Ethereum's rules), or one with a section `config.evmd` (native rules); by
    /// default the genesis.json in the home folder, or else a native chain with default parameters
    #[arg(long, value_name = "FILE")]
    genesis: Option<PathBuf>,
    /// Create a development chain: blocks are mined at once, and the development accounts sign for clients
    #[arg(long, conflicts_with = "genesis")]
    dev: bool,
    /// Chain id of a chain without --genesis, for EIP-155 and for Cosmos transactions
    #[arg(long, value_name = "ID", conflicts_with = "genesis", value_parser = chain_id)]
    chain_id: Option<u64>,
    /// File with the secret key that may promote a replica if the producer is lost; it is created if it does not exist. The
    /// genesis of the new chain names its public key. Keep it offline
    #[arg(long, value_name = "FILE", conflicts_with_all = ["genesis", "dev"])]
    recovery_key: Option<PathBuf>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

fn chain_id(text: &str) -> Result<u64, String> {
    let reason =
        "expected a number from 1, such as 9001, which is also the ID for Cosmos transactions";
    text.parse().ok().filter(|id| *id > 0).ok_or_else(|| reason.to_owned())
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let path = args.home.path()?;
    let (genesis, key) = genesis_of(args, &path)?;
    let home = Home::init_with_key(&path, &genesis, key.as_ref())?;
    if let Some(moniker) = &args.moniker {
        config::set(&path, "node.moniker", moniker)?;
    }
    let moniker = args.moniker.as_ref().unwrap_or(&home.config.node.moniker);
    warn_of(&genesis);
    let view = home.view()?;
    let mut out = crate::cli::stdout();
    match args.output {
        Output::Text => writeln!(
            out,
            "{}: chain {} ({} rules), genesis {}, in {}\nStart it with: evmd start --home {}",
            moniker,
            home.spec.chain_id,
            home.spec.rules,
            view.head.hash,
            path.display(),
            path.display()
        )
        .and_then(|()| match signing(&genesis, &path) {
            Some(line) => writeln!(out, "{line}"),
            None => Ok(()),
        })
        .and_then(|()| match &args.recovery_key {
            Some(file) => writeln!(
                out,
                "The key in {} may promote a replica if the producer is lost: keep it offline",
                file.display()
            ),
            None => Ok(()),
        })?,
        Output::Json => {
            let value = serde_json::json!({
                "moniker": moniker,
                "home": path.to_string_lossy(),
                "chainId": home.spec.chain_id,
                "genesisHash": view.head.hash,
                "stateRoot": view.head.header.state_root,
                "producer": producer(&genesis).map(|producer| producer.key),
            });
            writeln!(out, "{value}")?;
        }
    }
    Ok(())
}

/// Returns the genesis that the options select, and the secret key of its producer if this command sets the producer.
fn genesis_of(args: &Args, path: &Path) -> anyhow::Result<(Genesis, Option<SecretKey>)> {
    if let Some(file) = &args.genesis {
        let text = std::fs::read_to_string(file)
            .with_context(|| format!("cannot read {}", file.display()))?;
        return Ok((Genesis::from_json(&text).with_context(|| file.display().to_string())?, None));
    }
    let with_id = |genesis: Genesis| match args.chain_id {
        Some(id) => with_chain_id(&genesis, id).context("--chain-id"),
        None => Ok(genesis),
    };
    if args.dev {
        return Ok((with_id(development_genesis())?, None));
    }
    if args.chain_id.is_none()
        && args.recovery_key.is_none()
        && let Some(genesis) = Home::genesis_file(path)?
    {
        return Ok((genesis, None));
    }
    let key = match producer_key(path)? {
        Some(key) => key,
        None => SecretKey::random()?,
    };
    let recovery = args.recovery_key.as_deref().map(read_or_create_key).transpose()?;
    let producer = Producer { key: key.public(), recovery: recovery.map(|key| key.public()) };
    Ok((with_id(new_genesis().with_producer(producer)?)?, Some(key)))
}

fn producer(genesis: &Genesis) -> Option<Producer> {
    genesis.spec.native()?.producer
}

/// Returns a text for the operator about the new chain's producer key, if the chain has a producer.
fn signing(genesis: &Genesis, home: &Path) -> Option<String> {
    let producer = producer(genesis)?;
    let path = home.join(PRODUCER_KEY_FILE);
    Some(match path.exists() {
        true => format!(
            "Blocks are signed with the secret key in {}: keep a copy of it in another place",
            path.display()
        ),
        false => format!(
            "Only a node with the secret key of {} in {} produces blocks",
            producer.key,
            path.display()
        ),
    })
}

/// Warns about valid but rarely intended content of a genesis: missing system contracts, and balances of accounts whose
/// keys are public. A missing contract is not an error, because it may be deployed before the fork that calls it.
pub(super) fn warn_of(genesis: &Genesis) {
    let missing = genesis.missing_system_contracts().into_iter().map(|missing| missing.to_string());
    let warnings = missing.chain(public_key_warning(genesis));
    for warning in warnings {
        // The command must succeed even if standard error is closed.
        drop(writeln!(std::io::stderr(), "warning: {warning}"));
    }
}

/// Returns the warning about balances of accounts whose keys are public. On a development chain they are intended.
fn public_key_warning(genesis: &Genesis) -> Option<String> {
    let mut funded = genesis.funded_dev_accounts().filter(|_| !genesis.spec.is_development());
    let first = funded.next()?;
    Some(format!(
        "development accounts have a balance ({}, the first is {first}), and their private keys are public: remove \
         them from \"alloc\" in the genesis file before the chain holds value",
        1 + funded.count()
    ))
}

/// Returns the same genesis with this chain id.
pub(super) fn with_chain_id(genesis: &Genesis, id: u64) -> Result<Genesis, GenesisError> {
    let mut file: serde_json::Value =
        serde_json::from_str(&genesis.to_json()).expect("to_json returns valid JSON");
    file["config"]["chainId"] = id.into();
    Genesis::from_json(&file.to_string())
}

/// Returns a genesis for a native chain with default parameters and the current time.
pub(super) fn new_genesis() -> Genesis {
    Genesis::native_dev(now())
}

/// Returns a genesis for a development chain with the current time.
pub(super) fn development_genesis() -> Genesis {
    Genesis::development(now())
}

/// Returns the current time in seconds since the Unix epoch.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
