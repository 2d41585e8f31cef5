//! `evmd start` runs the node until a signal, a fault or a newer producer term stops it.

mod addresses;
mod banner;
mod development;
mod following;
mod interrupts;
mod listeners;
mod minimum_gas_prices;
mod servers;
mod system_contracts;
mod validating;

use super::{
    HomeArg,
    init::{development_genesis, warn_of},
    keys,
    logs::{self, LogArgs, RUST_LOG_HELP},
    running_node::Record,
    tested_backend,
};
use crate::snapshots::Snapshots;
use ::keys::Signers;
use alloy_primitives::U256;
use anyhow::bail;
use banner::Banner;
use chain::{ChainSpec, Rules};
use config::{
    Config, JsonRpc, KeyringChoice, Listen, MinimumGasPrices, Pages, ValidatorAddress, Verification,
};
pub(super) use following::tls_roots;
use home::Home;
use interrupts::{Interrupts, until_over};
use listeners::Listeners;
use pipeline::{
    Certify, Mining, MiningControl, Options, Pipeline, SystemTimeSource, TransactionForwarder,
};
use platform::slice;
use replication::{Forwarder, Terms};
use rpc_eth::CallForwarder;
use server::descriptors;
use servers::{Served, serve};
use std::{
    net::SocketAddr,
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};
use terminal::{BlockPrinter, CallPrinter, Printed, Terminal};

/// Niceness of the threads of the web pages, as in `nice(1)`. A higher value makes pages slow on a busy node without
/// protecting JSON-RPC better from a flood of page requests (docs/pages.md).
const PAGES_NICENESS: i32 = 2;

#[derive(Debug, clap::Args)]
#[command(after_help = RUST_LOG_HELP)]
pub(super) struct Args {
    #[command(flatten)]
    home: HomeArg,
    #[command(flatten)]
    log: LogArgs,
    /// Do not produce blocks
    #[arg(long)]
    no_produce: bool,
    /// Time between blocks, such as 1s or 500ms; required to produce blocks on a chain that follows Ethereum's
    /// rules. Without it, a development chain produces a block as soon as there is a transaction
    #[arg(long, value_name = "TIME", value_parser = duration)]
    block_time: Option<Duration>,
    /// Number that is added to the port of every server, so that several nodes can run on one machine
    #[arg(long, value_name = "NUMBER")]
    port_offset: Option<u16>,
    /// Address of JSON-RPC over HTTP and WebSocket; `off` switches a server off
    #[arg(long = "json-rpc.address", value_name = "HOST:PORT", value_parser = addresses::listen)]
    json_rpc_address: Option<Listen>,
    /// Address of JSON-RPC over WebSocket only; off by default
    #[arg(long = "json-rpc.ws-address", value_name = "HOST:PORT", value_parser = addresses::listen)]
    ws_address: Option<Listen>,
    /// Let JSON-RPC clients sign with the keys of this keyring; off by default
    #[arg(long = "json-rpc.keyring", value_name = "BACKEND", value_enum)]
    keyring: Option<KeyringChoice>,
    /// Let clients sign even if other machines can reach the address of JSON-RPC
    #[arg(long = "json-rpc.allow-remote-signing")]
    allow_remote_signing: bool,
    /// Comma-separated namespaces of JSON-RPC over HTTP and WebSocket, instead of the default
    /// eth,net,web3,rpc,txpool,evmd
    #[arg(long = "json-rpc.api", value_name = "NAMES", value_delimiter = ',')]
    api: Option<Vec<String>>,
    /// The same for the address that only serves WebSocket
    #[arg(long = "json-rpc.ws-api", value_name = "NAMES", value_delimiter = ',')]
    ws_api: Option<Vec<String>>,
    /// Address of Cosmos queries over REST
    #[arg(long = "rest.address", value_name = "HOST:PORT", value_parser = addresses::listen)]
    rest_address: Option<Listen>,
    /// Address of Cosmos queries over gRPC
    #[arg(long = "grpc.address", value_name = "HOST:PORT", value_parser = addresses::listen)]
    grpc_address: Option<Listen>,
    /// Address of CometBFT's RPC, for Cosmos clients
    #[arg(long = "comet.address", value_name = "HOST:PORT", value_parser = addresses::listen)]
    comet_address: Option<Listen>,
    /// Address of raw transactions over TCP; off by default
    #[arg(long = "ingest.address", value_name = "HOST:PORT", value_parser = addresses::listen)]
    ingest_address: Option<Listen>,
    /// Accept transactions although this node does not produce blocks; they wait until the node is started with
    /// block production
    #[arg(long = "mempool.accept-without-production")]
    accept_without_production: bool,
    /// Minimum gas price of transactions that enter the mempool, such as 0.5atest. It does not apply to
    /// Ethereum transactions from London on, so it applies to none on a native chain
    #[arg(
        long = "mempool.minimum-gas-prices",
        value_name = "PRICE",
        visible_alias = "minimum-gas-prices"
    )]
    minimum_gas_prices: Option<MinimumGasPrices>,
    /// Address of metrics, health and status
    #[arg(long = "metrics.address", value_name = "HOST:PORT", value_parser = addresses::listen)]
    metrics_address: Option<Listen>,
    /// Address of the web pages
    #[arg(long = "pages.address", value_name = "HOST:PORT", value_parser = addresses::listen)]
    pages_address: Option<Listen>,
    /// Address at which other nodes can follow this one; off by default
    #[arg(long = "replication.address", value_name = "HOST:PORT", value_parser = addresses::listen)]
    replication_address: Option<Listen>,
    /// Address at which the other validators reach this one; off by default
    #[arg(long = "p2p.address", value_name = "HOST:PORT", value_parser = addresses::listen)]
    p2p_address: Option<Listen>,
    /// The other validators: consensus key, host and port of each
    #[arg(long = "p2p.peers", value_name = "KEY@HOST:PORT", value_delimiter = ',')]
    p2p_peers: Option<Vec<ValidatorAddress>>,
    /// Follow the blocks of one of these nodes, such as http://10.0.0.1:9100, instead of producing blocks
    #[arg(long, value_name = "URL", value_delimiter = ',')]
    follow: Option<Vec<String>>,
    /// Which signatures of received transactions are verified: `all`, those of every N-th block (`sample:N`), or all
    /// of them while every block is executed again (`execute`). All roots and hashes are always checked
    #[arg(long, value_name = "all|sample:N|execute")]
    verify: Option<Verification>,
    /// Start even if the timestamp of the newest block is further ahead of the system clock than
    /// engine.max-clock-step-s; new blocks have at least that timestamp
    #[arg(long)]
    accept_future_head: bool,
    /// Do not print the keys of the development accounts; -q is for the log
    #[arg(long)]
    quiet: bool,
}

pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit_ms) = match text {
        text if text.ends_with("ms") => (&text[..text.len() - 2], 1.0),
        text if text.ends_with('s') => (&text[..text.len() - 1], 1000.0),
        _ => return Err("expected a number with its unit, such as 1s or 500ms".to_owned()),
    };
    let number: f64 = number.parse().map_err(|_| format!("{number} is not a number"))?;
    let ms = number * unit_ms;
    if !(1.0..=86_400_000.0).contains(&ms) {
        return Err("it must be between 1ms and 86400s".to_owned());
    }
    Ok(Duration::from_millis(ms as u64))
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let printed = Printed::by(&logs::start_with(&args.log)?);
    let open_files = descriptors::raise_limit();
    let path = args.home.path()?;
    let backend = tested_backend()?;
    let mut home = open_home(&path, args)?;
    home.check_genesis_file()?;
    let is_development = home.spec.is_development();
    if is_development {
        development::adjust(&mut home.config);
    }
    apply(args, &mut home.config);
    home.config.shift_ports()?;
    // Clients of a development chain may have moved its time into the future.
    if !args.accept_future_head && !is_development {
        home.check_head_time(SystemTime::now(), home.config.engine.max_clock_step())?;
    }
    lower_connections(&mut home.config, open_files);
    check_namespaces(&home.config.json_rpc)?;
    if !is_development {
        development::refuse_namespaces(&home.config.json_rpc)?;
    }
    minimum_gas_prices::warn(&home)?;
    if is_development {
        development::require_loopback(&home.config.json_rpc)?;
    }
    refuse_remote_signing(&home.config.json_rpc)?;
    let signers = signers(&home)?;
    let mining = mining(args, &home)?;
    let validator = validating::prepare(&home)?;
    let is_validator = validator.is_some();
    if is_validator {
        home.config.mempool.accept_without_production = true;
        // An accepted transaction may exist on this node only, so a crash must not lose it.
        home.config.mempool.journal_sync = true;
        // A leader without transactions proposes an empty block, regardless of the setting.
        home.config.engine.empty_blocks = true;
    } else {
        home.config.p2p.address = Listen::Off;
    }
    system_contracts::check(&home, mining.is_some() || is_validator)?;
    let authority = following::authority(&home)?;
    let certifier = mining.is_some().then(|| home.certifier()).transpose()?.flatten().map(Arc::new);
    let producer = certifier.as_ref().map(|certifier| certifier.producer());
    let terms = home.authority()?.map(|authority| Arc::new(Terms::new(home.terms(), authority)));
    let mining = mining.map(MiningControl::new);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("serve")
        .on_thread_start(|| slice::request(slice::SOCKETS))
        .build()?;
    // A separate runtime serves health checks, so that no query of another server delays them.
    let metrics_runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .thread_name("observe")
        .on_thread_start(|| slice::request(slice::SOCKETS))
        .build()?;
    let page_runtime = pages_runtime(&home.config.pages)?;
    // The signal handlers are installed before the sockets are opened: a client that can connect may also send SIGTERM,
    // and the node must then shut down cleanly.
    let mut interrupts = runtime.block_on(async { Interrupts::listen() })?;
    let listeners = runtime.block_on(Listeners::open(
        &mut home.config,
        metrics_runtime.handle(),
        page_runtime.handle(),
    ))?;
    let in_use = listeners.in_use.clone();
    let roots = following::tls_roots(&home.config, &home.path)?;
    let tls = following::certificate(&home.config, &home.path)?;
    if let (Some(terms), true) = (&terms, certifier.is_some()) {
        let (followers, head) = (&home.config.replication.followers, home.view()?.number());
        let waiting = following::wait_for_follower(followers, &roots, terms, head, &mut interrupts);
        if !runtime.block_on(waiting)? {
            return Ok(());
        }
    }
    let queries = home.config.replication.forward_pool_queries;
    let forwarder =
        authority.as_ref().map(|authority| Arc::new(Forwarder::new(authority.genesis(), queries)));
    let options = Options {
        forwarder: forwarder.clone().map(|forwarder| forwarder as Arc<dyn TransactionForwarder>),
        transactions: Some(home.config.ingest.address),
        mining: mining.clone(),
        certifier: match &validator {
            Some(validator) => Some(validator.certifier()),
            None => certifier.map(|certifier| certifier as Arc<dyn Certify>),
        },
        files: Vec::new(),
        given_blocks: is_development || authority.is_some() || is_validator,
        recover_workers: home.config.pipeline.recover_workers(),
        backend,
        clocks: SystemTimeSource::boxed,
    };
    let pipeline = Pipeline::start(&home, options)?;
    if let Some(address) = pipeline.ingest_address {
        home.config.ingest.address = Listen::At(address);
    }
    // The printer starts at the current head, so it is created before the servers accept transactions.
    let (published, caches) = (pipeline.published.clone(), home.caches.clone());
    let development = development::control(&home, &pipeline, CallPrinter::observer(printed));
    let shown = development.as_ref().map(|development| Arc::clone(&development.shown));
    let printer = BlockPrinter::new(home.spec.clone(), published, caches, printed, shown);
    let (metrics_runtime, page_runtime) = (metrics_runtime.handle(), page_runtime.handle());
    let validator = validator.map(|validator| validator.start(&home, &pipeline)).transpose()?;
    let snapshot_maker = Snapshots::start(&home.path, &home.config, pipeline.published.clone())?;
    let snapshots = snapshot_maker.counters();
    let calls = forwarder.clone().filter(|_| queries);
    let calls = calls.map(|forwarder| forwarder as Arc<dyn CallForwarder>);
    let following = match terms.clone().zip(forwarder) {
        Some((terms, forwarder)) => {
            let _inside = runtime.enter();
            Some(following::start(&home, &pipeline, terms, forwarder, backend, roots)?)
        }
        None => None,
    };
    let served = Served {
        mining: mining.clone(),
        producer,
        backend,
        signers,
        development,
        snapshots,
        forwarder: calls,
        terms: terms.clone(),
        tls,
    };
    let servers = serve(&home, &pipeline, listeners, served, (metrics_runtime, page_runtime));
    let servers = runtime.block_on(servers)?;
    let record = Record::write(&home.path, home.config.endpoints());
    if let Err(error) = &record {
        tracing::warn!(%error, "cannot record the addresses: commands with --home do not find this node");
    }
    let mining = mining.as_ref();
    let summary = Banner { home: &home, pipeline: &pipeline, in_use: &in_use, mining, backend };
    if let Err(error) = summary.print(args.quiet) {
        // A full disk or a closed pipe behind standard output must not stop a node.
        tracing::warn!(%error, "cannot write the summary to standard output");
    }
    // Block lines go to standard error, so they could otherwise appear in the middle of the summary.
    let terminal = start_terminal(printer, metrics_runtime.clone());
    let superseded = following::until_superseded(terms.as_deref(), mining.is_some());
    let has_failed = || validator.as_ref().is_some_and(|validator| !validator.is_running());
    let is_over = || pipeline.is_over() || has_failed();
    if let Some(newer) = runtime.block_on(until_over(is_over, interrupts, superseded)) {
        drop(record);
        drop(terminal);
        // Otherwise the process that makes a snapshot would survive this one.
        drop(snapshot_maker);
        let head = pipeline.published.load().number();
        // An orderly shutdown would still produce blocks from the pool, which the newer term forbids.
        tracing::error!("{}", following::superseded(&newer, head));
        std::process::exit(1);
    }
    let has_failed = has_failed();
    if let Some(validator) = validator {
        // The engine waits for responses of the pipeline, so it stops first.
        validator.stop();
    }
    drop(following);
    drop(snapshot_maker);
    tracing::info!("stopping: processing the accepted transactions");
    pipeline.stop();
    let view = pipeline.published.clone();
    let ended = pipeline.join();
    drop(terminal);
    runtime.block_on(servers.stop());
    drop(record);
    tracing::info!(head = view.load().number(), "stopped");
    ended?;
    if has_failed {
        return Err(validating::engine_has_ended(&home.path));
    }
    Ok(())
}

/// Builds the runtime of the web pages. Its threads have a low priority, so that a flood of page requests does not slow
/// down JSON-RPC or the pipeline.
fn pages_runtime(config: &Pages) -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .max_blocking_threads(config.max_concurrent as usize)
        .enable_all()
        .thread_name("pages")
        .on_thread_start(|| {
            // On Linux this sets the priority of the calling thread. If it fails, the thread keeps the usual priority.
            let _ = rustix::process::setpriority_process(None, PAGES_NICENESS);
            slice::request(slice::SOCKETS);
        })
        .build()
}

/// Starts the thread that prints blocks. A node without this thread still serves its clients.
fn start_terminal(printer: BlockPrinter, runtime: tokio::runtime::Handle) -> Option<Terminal> {
    let started = printer.start(runtime);
    started.inspect_err(|error| tracing::warn!(%error, "blocks are not printed")).ok()
}

/// Opens the chain of a home folder. In a folder without a chain, creates the chain of its genesis.json, or else a
/// development chain (ADR 0033).
fn open_home(path: &Path, args: &Args) -> anyhow::Result<Home> {
    if Home::exists(path) {
        return Ok(Home::open(path)?);
    }
    let genesis = match Home::genesis_for_start(path)? {
        Some(genesis) => {
            tracing::info!(home = %path.display(), "creating the chain of genesis.json");
            warn_of(&genesis);
            genesis
        }
        None => {
            // Refuse before the chain is created, so that a different chain can still be created in this folder.
            let mut config = match path.is_dir() {
                true => Config::load(path)?,
                false => Config::default(),
            };
            apply(args, &mut config);
            following::require_chain_to_follow(&config)?;
            config.shift_ports()?;
            development::require_loopback(&config.json_rpc)?;
            development_genesis()
        }
    };
    Ok(Home::init(path, &genesis)?)
}

/// Returns the maximum number of connections of all servers together, except the metrics server.
pub(super) fn connections(config: &Config) -> u64 {
    let mut config = config.clone();
    connection_limits(&mut config).iter().map(|(_, limit)| u64::from(**limit)).sum()
}

fn connection_limits(config: &mut Config) -> [(&'static str, &mut u32); 7] {
    [
        ("json-rpc.max-connections", &mut config.json_rpc.max_connections),
        ("rest.max-connections", &mut config.rest.max_connections),
        ("grpc.max-connections", &mut config.grpc.max_connections),
        ("comet.max-connections", &mut config.comet.max_connections),
        ("pages.max-connections", &mut config.pages.max_connections),
        ("replication.max-followers", &mut config.replication.max_followers),
        ("ingest.max-connections", &mut config.ingest.max_connections),
    ]
}

/// Lowers the connection limits of the servers to what the open-files limit of the process allows.
fn lower_connections(config: &mut Config, open_files: u64) {
    let available = descriptors::for_connections(open_files, config.json_rpc.threads());
    let mut limits = connection_limits(config);
    let wanted = limits.each_ref().map(|(_, limit)| **limit);
    let shares = descriptors::share(available, &wanted);
    for ((setting, limit), share) in limits.iter_mut().zip(shares) {
        if share < **limit {
            tracing::warn!(
                setting,
                wanted = **limit,
                used = share,
                open_files,
                "lowered: the open-files limit (ulimit -n) does not allow more connections"
            );
            **limit = share;
        }
    }
}

/// Returns when this node produces blocks, or `None` if it does not. On a chain that follows Ethereum's rules it
/// produces blocks only with `--block-time`.
fn mining(args: &Args, home: &Home) -> anyhow::Result<Option<Mining>> {
    let engine = &home.config.engine;
    if !home.config.replication.follow.is_empty() || has_validators(&home.spec) {
        return Ok(None);
    }
    let native = home.spec.rules == Rules::Native;
    if !engine.produce || !native && args.block_time.is_none() {
        return Ok(None);
    }
    if !native && !is_merged(home)? {
        bail!(
            "--block-time: the next block of this chain needs proof of work, which this node does \
             not do; leave the option out to serve the blocks that are there"
        );
    }
    if home.spec.is_development() {
        return Ok(Some(development::mining(args.block_time, engine)));
    }
    Ok(Some(Mining::Every(engine.block_time())))
}

/// Returns whether validators produce the blocks of the chain.
fn has_validators(spec: &ChainSpec) -> bool {
    spec.native().is_some_and(|native| native.gov.consensus_validators().next().is_some())
}

/// Returns whether the block after the head has no proof of work (EIP-3675).
fn is_merged(home: &Home) -> anyhow::Result<bool> {
    let head = home.view()?.head.header;
    Ok(home.spec.merged_after(U256::ZERO) || head.number > 0 && head.difficulty.is_zero())
}

/// Overrides settings with the flags of `evmd start`.
fn apply(args: &Args, config: &mut Config) {
    config.engine.produce &= !args.no_produce;
    config.mempool.accept_without_production |= args.accept_without_production;
    if let Some(prices) = &args.minimum_gas_prices {
        config.mempool.minimum_gas_prices.clone_from(prices);
    }
    if let Some(time) = args.block_time {
        config.engine.block_time_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    }
    let pairs = [
        (args.json_rpc_address, &mut config.json_rpc.address),
        (args.ws_address, &mut config.json_rpc.ws_address),
        (args.rest_address, &mut config.rest.address),
        (args.grpc_address, &mut config.grpc.address),
        (args.comet_address, &mut config.comet.address),
        (args.ingest_address, &mut config.ingest.address),
        (args.metrics_address, &mut config.metrics.address),
        (args.pages_address, &mut config.pages.address),
        (args.replication_address, &mut config.replication.address),
        (args.p2p_address, &mut config.p2p.address),
    ];
    if let Some(keyring) = args.keyring {
        config.json_rpc.keyring = keyring;
    }
    config.json_rpc.allow_remote_signing |= args.allow_remote_signing;
    if let Some(api) = &args.api {
        config.json_rpc.api.clone_from(api);
    }
    if let Some(api) = &args.ws_api {
        config.json_rpc.ws_api.clone_from(api);
    }
    for (flag, setting) in pairs {
        if let Some(flag) = flag {
            *setting = flag;
        }
    }
    if let Some(peers) = &args.p2p_peers {
        config.p2p.peers.clone_from(peers);
    }
    if let Some(follow) = &args.follow {
        config.replication.follow.clone_from(follow);
    }
    config.replication.verify = args.verify.unwrap_or(config.replication.verify);
    if let Some(offset) = args.port_offset {
        config.server.port_offset = offset;
    }
}

/// Refuses unknown namespaces, because a misspelt one would have no effect.
pub(super) fn check_namespaces(config: &JsonRpc) -> anyhow::Result<()> {
    let known = rpc::namespaces();
    let mut named = config.api.iter().chain(&config.ws_api);
    match named.find(|name| !known.contains(name.as_str())) {
        None => Ok(()),
        Some(name) => {
            let known = known.into_iter().collect::<Vec<_>>().join(", ");
            bail!("unknown JSON-RPC namespace {name:?}: the namespaces are {known}")
        }
    }
}

/// Returns the name and value of the first JSON-RPC setting whose address other machines can reach, if any.
fn reachable_from_elsewhere(config: &JsonRpc) -> Option<(&'static str, SocketAddr)> {
    let addresses = [("address", config.address), ("ws-address", config.ws_address)];
    let mut served = addresses.into_iter().filter_map(|(name, at)| Some((name, at.address()?)));
    served.find(|(_, address)| !address.ip().to_canonical().is_loopback())
}

/// Refuses to let other machines sign with the keys of the keyring, unless a setting allows it. Without a keyring, only
/// the accounts of a development chain sign; [`development::require_loopback`] protects them.
fn refuse_remote_signing(config: &JsonRpc) -> anyhow::Result<()> {
    if config.keyring == KeyringChoice::Off || config.allow_remote_signing {
        return Ok(());
    }
    match reachable_from_elsewhere(config) {
        None => Ok(()),
        Some((name, address)) => bail!(
            "json-rpc.keyring signs for every client that reaches json-rpc.{name} {address}, which is not a \
             loopback address: serve JSON-RPC at 127.0.0.1, turn json-rpc.keyring off, or set \
             json-rpc.allow-remote-signing (--json-rpc.allow-remote-signing)"
        ),
    }
}

/// Returns the keys that sign for clients: those in the keyring and, on a development chain, those of its accounts.
fn signers(home: &Home) -> anyhow::Result<Option<Arc<Signers>>> {
    let is_development = home.spec.is_development();
    let Some(backend) = home.config.json_rpc.keyring.backend() else {
        let signers = || Arc::new(Signers::of_development(development::keys()));
        return Ok(is_development.then(signers));
    };
    let keyring = keys::unlock(backend, &home.path)?;
    let mut signers = Signers::new(backend, home.path.clone(), &keyring);
    if is_development {
        signers = signers.with_development(development::keys());
    }
    tracing::warn!(
        keys = signers.accounts().len(),
        "every client of JSON-RPC can sign with the keys of the {backend} keyring"
    );
    Ok(Some(Arc::new(signers)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keyring_signs_only_for_this_machine_unless_allowed() {
        let config = |address: &str, ws_address: &str, keyring| JsonRpc {
            address: address.parse().unwrap(),
            ws_address: ws_address.parse().unwrap(),
            keyring,
            ..JsonRpc::default()
        };
        let local = "127.0.0.1:8545";
        for other in ["127.1.2.3:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            assert!(refuse_remote_signing(&config(other, local, KeyringChoice::Test)).is_ok());
        }
        for other in ["0.0.0.0:1", "10.0.0.1:1", "[::]:1", "[::ffff:10.0.0.1]:1"] {
            assert!(refuse_remote_signing(&config(other, local, KeyringChoice::Off)).is_ok());
            for keyring in [KeyringChoice::Test, KeyringChoice::File, KeyringChoice::Os] {
                let refused = [config(other, local, keyring), config(local, other, keyring)];
                let names = ["json-rpc.address", "json-rpc.ws-address"];
                for (config, name) in refused.into_iter().zip(names) {
                    let error = refuse_remote_signing(&config).unwrap_err().to_string();
                    assert!(error.contains(name), "{error}");
                    let allowed = JsonRpc { allow_remote_signing: true, ..config };
                    assert!(refuse_remote_signing(&allowed).is_ok());
                }
            }
        }
    }
}
