//! Scenario `tx` signs transactions in advance, sends them over one or several transports, and
//! follows them until they are mined. Scenario `sign` only writes them to a file.

use crate::{
    atomic_file::AtomicFile,
    drive::{Plan, Source, Watch, drive},
    follow::{self, Progress},
    fund::{self, GWEI, SenderSpec, Senders},
    interrupt, keys,
    options::{Common, Node, bar},
    report::Report,
    round::Round,
    rounds::{self, Part, measure},
    signed::{self, Header, Reader},
    stats::Stats,
    tx_template::Load,
    wire::Endpoint,
};
use alloy_primitives::{Address, hex};
use anyhow::{Context, bail};
use indicatif::ProgressBar;
use std::{
    fs::File,
    io::Write,
    net::SocketAddr,
    path::PathBuf,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

/// Maximum calls of a batch: the limit of common nodes.
const MAX_BATCH_CALLS: usize = 1000;
/// Maximum number of senders whose nonces are checked before and after a run.
const MAX_CHECKED_SENDERS: usize = 1000;

#[derive(Debug, clap::Args)]
pub(crate) struct TxArgs {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    settings: TxSettings,
    /// Transports, measured one after another
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Transport::Batch])]
    via: Vec<Transport>,
    /// Address of evmd's TCP ingest, which is off unless the node has `--ingest.address`
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8547")]
    ingest: SocketAddr,
    /// Calls per JSON-RPC batch
    #[arg(long, value_name = "N", default_value_t = 100)]
    batch: usize,
    /// Send a file written by `loadtest sign` instead of signing now
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Maximum transactions sent but not mined; it should not exceed the size of the node's pool
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    ahead: u64,
    /// Maximum wait for the next block with transactions, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0)]
    patience: f64,
}

/// Settings of the signed transactions.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct TxSettings {
    /// Transactions per measurement
    #[arg(long, short = 'n', value_name = "N", default_value_t = 20_000)]
    pub(crate) count: u64,
    /// Kind of transactions
    #[arg(long, value_enum, default_value_t)]
    pub(crate) load: Load,
    /// Number of sending accounts; they are generated, and funded by the development accounts if
    /// needed
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub(crate) senders: usize,
    /// Number of receiving accounts
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub(crate) recipients: u64,
    /// Maximum fee of a transaction, in gwei per gas; it must stay above the base fee during the
    /// run
    #[arg(long, value_name = "GWEI", default_value_t = 200.0)]
    pub(crate) fee_cap: f64,
    /// Priority fee, in gwei per gas
    #[arg(long, value_name = "GWEI", default_value_t = 1.0)]
    pub(crate) tip: f64,
    /// The senders are funded by `loadtest genesis` with the same seed; they also receive
    #[arg(long)]
    pub(crate) prefunded: bool,
}

impl TxSettings {
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        if self.count == 0 || self.senders == 0 || self.recipients == 0 {
            bail!("--count, --senders and --recipients must be at least 1");
        }
        if !(self.fee_cap > 0.0 && self.fee_cap < 1e12 && self.tip >= 0.0 && self.tip < 1e12) {
            bail!(
                "--fee-cap must be above 0, --tip at least 0, and both below 10^12 gwei, got {} and {}",
                self.fee_cap,
                self.tip
            );
        }
        if self.prefunded && self.load != Load::Transfer {
            bail!("--prefunded funds ether only, but --load {} needs a token", self.load.name());
        }
        Ok(())
    }

    /// Returns what the senders need for this number of files of signed transactions.
    pub(crate) fn sender_spec(&self, seed: u64, files: u64) -> SenderSpec {
        SenderSpec {
            load: self.load,
            senders: self.senders,
            txs_each: files * self.count.div_ceil(self.senders as u64),
            fee_cap: (self.fee_cap * GWEI) as u128,
            priority_fee: (self.tip * GWEI) as u128,
            seed,
            recipients: self.recipients,
            prefunded: self.prefunded,
        }
    }
}

/// How transactions are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Transport {
    /// evmd's TCP ingest
    Ingest,
    /// One eth_sendRawTransaction in each HTTP request
    Single,
    /// JSON-RPC batches over HTTP
    Batch,
    /// One eth_sendRawTransaction in each WebSocket message
    Ws,
    /// JSON-RPC batches over WebSocket
    WsBatch,
}

impl Transport {
    const fn name(self) -> &'static str {
        match self {
            Self::Ingest => "TCP ingest",
            Self::Single => "JSON-RPC single",
            Self::Batch => "JSON-RPC batch",
            Self::Ws => "WebSocket single",
            Self::WsBatch => "WebSocket batch",
        }
    }

    fn endpoint(self, node: &Node, ingest: SocketAddr) -> Endpoint {
        match self {
            Self::Ingest => Endpoint::Ingest(ingest),
            Self::Single | Self::Batch => Endpoint::Http(node.url.clone()),
            Self::Ws | Self::WsBatch => Endpoint::Ws(node.url.clone()),
        }
    }
}

/// Requests from a file of signed transactions.
pub(crate) struct Submissions<'a> {
    reader: Reader,
    format: RequestFormat,
    sent: u64,
    /// Maximum transactions sent but not mined.
    ahead: u64,
    mined: &'a AtomicU64,
}

/// Format of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RequestFormat {
    /// The raw bytes of a transaction.
    Raw,
    /// A JSON-RPC call.
    Call,
    /// A batch of at most this many calls.
    Batch(usize),
}

impl<'a> Submissions<'a> {
    pub(crate) const fn new(
        reader: Reader,
        format: RequestFormat,
        ahead: u64,
        mined: &'a AtomicU64,
    ) -> Self {
        Self { reader, format, sent: 0, ahead, mined }
    }
}

/// Appends a call of `eth_sendRawTransaction`.
pub(crate) fn append_call(out: &mut Vec<u8>, raw: &[u8]) {
    out.extend_from_slice(
        br#"{"jsonrpc":"2.0","id":1,"method":"eth_sendRawTransaction","params":["0x"#,
    );
    let at = out.len();
    out.resize(at + 2 * raw.len(), 0);
    hex::encode_to_slice(raw, &mut out[at..]).expect("the buffer has twice the length");
    out.extend_from_slice(br#""]}"#);
}

impl Source for Submissions<'_> {
    fn next(&mut self, connection: usize, out: &mut Vec<u8>) -> anyhow::Result<Option<u32>> {
        let Some(raw) = self.reader.next(connection)? else { return Ok(None) };
        let mut count = 1;
        match self.format {
            RequestFormat::Raw => out.extend_from_slice(raw),
            RequestFormat::Call => append_call(out, raw),
            RequestFormat::Batch(max_calls) => {
                out.push(b'[');
                append_call(out, raw);
                while count < max_calls as u32 {
                    let Some(raw) = self.reader.next(connection)? else { break };
                    out.push(b',');
                    append_call(out, raw);
                    count += 1;
                }
                out.push(b']');
            }
        }
        self.sent += u64::from(count);
        Ok(Some(count))
    }

    fn is_ready(&mut self) -> bool {
        self.sent < self.mined.load(Relaxed).saturating_add(self.ahead)
    }
}

pub(crate) fn run(args: &TxArgs) -> anyhow::Result<(Report, &Common)> {
    let common = &args.common;
    common.check()?;
    args.settings.check()?;
    if !(1..=MAX_BATCH_CALLS).contains(&args.batch) {
        bail!("--batch must be between 1 and {MAX_BATCH_CALLS}, got {}", args.batch);
    }
    if args.ahead == 0 {
        bail!("--ahead must be at least 1, got 0");
    }
    if args.common.threads > 1 {
        bail!("--threads must be 1 for transactions, got {}", args.common.threads);
    }
    let nodes = common.nodes()?;
    if args.file.is_some() && (nodes.len() > 1 || common.rounds() > 1 || args.via.len() > 1) {
        bail!("--file requires one transport, one round and one node");
    }
    let parts = nodes.iter().map(|node| parts(args, node)).collect::<anyhow::Result<_>>()?;
    Ok((rounds::run("tx", common, &nodes, parts)?, common))
}

fn parts<'a>(args: &'a TxArgs, node: &Node) -> anyhow::Result<Vec<Box<dyn Part + 'a>>> {
    let senders = match &args.file {
        Some(_) => None,
        None => {
            let files = u64::from(args.common.rounds()) * args.via.len() as u64;
            Some(fund::prepare(node, args.settings.sender_spec(args.common.seed, files))?)
        }
    };
    let part = |via: &Transport| {
        let (node, senders) = (node.clone(), senders.clone());
        Box::new(SendPart { args, via: *via, node, senders }) as Box<dyn Part + 'a>
    };
    Ok(args.via.iter().map(part).collect())
}

/// One transport to measure.
struct SendPart<'a> {
    args: &'a TxArgs,
    via: Transport,
    node: Node,
    senders: Option<Senders>,
}

impl SendPart<'_> {
    /// Opens the file of `--file`, or signs a new one.
    fn file(&self, bar: &ProgressBar) -> anyhow::Result<File> {
        let (settings, seed) = (&self.args.settings, self.args.common.seed);
        match (&self.args.file, &self.senders) {
            (Some(path), _) => {
                File::open(path).with_context(|| format!("cannot read {}", path.display()))
            }
            (None, Some(senders)) => {
                let mut file = tempfile::tempfile()
                    .context("cannot create a temporary file for signed transactions")?;
                let header = header(settings, senders, seed, nonces(&self.node, senders)?);
                signed::write(&mut file, &header, senders, bar)?;
                Ok(file)
            }
            (None, None) => bail!("nothing to send"),
        }
    }

    fn format(&self) -> RequestFormat {
        match self.via {
            Transport::Ingest => RequestFormat::Raw,
            Transport::Single | Transport::Ws => RequestFormat::Call,
            Transport::Batch | Transport::WsBatch => RequestFormat::Batch(self.args.batch),
        }
    }
}

const fn header(tx: &TxSettings, senders: &Senders, seed: u64, first_nonces: Vec<u64>) -> Header {
    Header {
        chain_id: senders.template.chain_id,
        load: tx.load,
        count: tx.count,
        senders: first_nonces.len(),
        seed,
        first_nonces,
    }
}

fn nonces(node: &Node, senders: &Senders) -> anyhow::Result<Vec<u64>> {
    let addresses: Vec<_> = senders.keys.iter().map(|key| key.address).collect();
    node.rpc.nonces(&addresses)
}

/// Returns the indices of the senders to check, spread evenly.
fn checked(header: &Header) -> Vec<usize> {
    let count = header.senders.min(MAX_CHECKED_SENDERS);
    (0..count).map(|number| number * header.senders / count).collect()
}

/// Fails if the file does not fit the chain id and nonces of this chain. Returns the checked
/// senders.
fn check_file(node: &Node, header: &Header, checked: &[usize]) -> anyhow::Result<Vec<Address>> {
    let chain_id = node.rpc.chain_id()?;
    if header.chain_id != chain_id {
        bail!("the file is for chain {}, but the node has chain {chain_id}", header.chain_id);
    }
    let address = |sender: &usize| keys::sender(header.seed, *sender as u64).address;
    let addresses: Vec<_> = checked.iter().map(address).collect();
    let nonces = node.rpc.nonces(&addresses)?;
    for ((address, nonce), sender) in addresses.iter().zip(nonces).zip(checked) {
        let first = header.first_nonces[*sender];
        if nonce != first {
            bail!(
                "the file begins with nonce {first} of {address}, but the chain has {nonce}: sign it again"
            );
        }
    }
    Ok(addresses)
}

impl Part for SendPart<'_> {
    fn name(&self) -> String {
        let load = self.args.settings.load.name();
        match self.via {
            Transport::Batch | Transport::WsBatch => {
                format!("{load}, {} of {}", self.via.name(), self.args.batch)
            }
            _ => format!("{load}, {}", self.via.name()),
        }
    }

    fn run(&mut self, bar: &ProgressBar) -> anyhow::Result<Round> {
        let file = self.file(bar)?;
        let reader = Reader::open(file, self.args.common.connections)?;
        let header = reader.header.clone();
        let checked = checked(&header);
        let senders = check_file(&self.node, &header, &checked)?;
        let endpoint = self.via.endpoint(&self.node, self.args.ingest);
        let plan = Plan { duration: None, ..self.args.common.plan() };
        bar.set_length(header.count);
        let head = self.node.rpc.block_number()?;
        let (progress, begun) = (Progress::default(), Instant::now());
        let source = Submissions::new(reader, self.format(), self.args.ahead, &progress.mined);
        let source: Box<dyn Source + '_> = Box::new(source);
        let patience = Duration::from_secs_f64(self.args.patience);
        let mut blocks = Vec::new();
        let node = &self.node;
        let watch = Watch::default();
        let (progress, sending) = (&progress, &watch);
        let mut round = measure(node.process, || {
            std::thread::scope(|scope| {
                let following = scope.spawn(move || {
                    let seen = follow::follow(node, head, progress, sending, patience);
                    // Without new blocks, sending would wait forever.
                    seen.inspect_err(|_| sending.abandon.store(true, Relaxed))
                });
                let stats = drive(&endpoint, &plan, vec![source], sending, bar);
                progress.failed.store(stats.is_err(), Relaxed);
                if let Ok(stats) = &stats {
                    progress.accepted.store(stats.operations, Relaxed);
                }
                progress.sent.store(true, Relaxed);
                let seen = following.join();
                let stats = stats?;
                let seen = seen.map_err(|_| anyhow::anyhow!("following the chain panicked"))?;
                blocks = seen.map_err(|error| with_refusals(error, &stats))?;
                Ok(stats)
            })
        })?;
        if round.stats.errors == 0 && !interrupt::requested() {
            // Blocks may contain transactions of other clients, so check the nonces of our senders.
            let last: Vec<_> = checked.iter().map(|sender| header.last_nonce(*sender)).collect();
            fund::wait_for_nonces(node, &senders, &last, patience)?;
        }
        let included = blocks.iter().rev().find(|block| block.txs > 0);
        let seconds = included.map_or(round.elapsed, |block| block.at - begun).as_secs_f64();
        let with_txs = blocks.iter().filter(|block| block.txs > 0).count();
        round.figures = vec![
            ("included/s", round.stats.operations as f64 / seconds.max(1e-9)),
            ("accepted/s", round.stats.per_second()),
            ("blocks", with_txs as f64),
        ];
        round.base_fees = follow::base_fees(node, &blocks, begun);
        Ok(round)
    }
}

/// Adds the first refusal to the error: later transactions of a sender wait for the refused one.
fn with_refusals(error: anyhow::Error, stats: &Stats) -> anyhow::Error {
    match stats.error_texts.first() {
        Some(first) => error.context(format!(
            "{} transactions were refused, the first with: {first}",
            stats.errors
        )),
        None => error,
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct SignArgs {
    #[command(flatten)]
    settings: TxSettings,
    /// JSON-RPC URL of the node, from which chain id and nonces are read and where accounts are
    /// funded
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8545")]
    url: String,
    /// Sign without a node, for a chain with this id whose --prefunded senders all have the same
    /// nonce
    #[arg(long, value_name = "CHAIN_ID", requires = "prefunded")]
    offline: Option<u64>,
    /// First nonce of all senders, with --offline
    #[arg(long, value_name = "N", default_value_t = 0, requires = "offline")]
    first_nonce: u64,
    /// Seed of the transactions
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Output file
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub(crate) fn sign(args: &SignArgs) -> anyhow::Result<()> {
    args.settings.check()?;
    let mut output = AtomicFile::create(&args.file)?;
    let wanted = args.settings.sender_spec(args.seed, 1);
    let (senders, header) = match args.offline {
        Some(chain_id) => {
            let senders = fund::without_funding(wanted, chain_id);
            let first_nonces = vec![args.first_nonce; senders.keys.len()];
            let header = header(&args.settings, &senders, args.seed, first_nonces);
            (senders, header)
        }
        None => {
            let node = Node::connect(&args.url, None)?;
            let senders = fund::prepare(&node, wanted)?;
            let header = header(&args.settings, &senders, args.seed, nonces(&node, &senders)?);
            (senders, header)
        }
    };
    let bar = bar("sign");
    let begun = Instant::now();
    signed::write(&mut output.file, &header, &senders, &bar)?;
    bar.finish_and_clear();
    let bytes = output.finish()?;
    Ok(writeln!(
        std::io::stdout(),
        "{} transactions, {bytes} bytes, signed in {:.1} s",
        header.count,
        begun.elapsed().as_secs_f64()
    )?)
}
