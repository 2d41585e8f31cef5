//! The whole pipeline end to end: from signed transactions over the TCP ingest, or a file of
//! blocks, to durable blocks.
//!
//! `cargo bench --profile release --workspace --bench pipeline -- accounts=1000000 count=2000000`.
//! Every setting is optional:
//!
//! - `accounts=1000000`: funded accounts, among which senders and recipients are random
//! - `count=1000000`: transactions
//! - `workload=transfers`: or `erc20`, or `mixed` (one in four)
//! - `mode=ingest`: over TCP through recover, ante, mempool and proposals; or `import`: as blocks
//! - `block=10000`: plain transfers that fill a block
//! - `window=4`: maximum transactions submitted but not mined, in blocks
//! - `recent=12582912`: the setting `storage.recent-accounts`
//! - `seed=1`, `recover=2` (recovery threads), `folder=` (where the home is made)
//! - `json=FILE`: also writes the figures as JSON, for `benches/growth` and `benches/saturation`
//!
//! Transactions are signed once in advance and kept under `target/bench-cache`. The feeder is a
//! thread of this process; its row shows its cost.

use alloy_primitives::Address;
use benches::{
    threads::{self, Use},
    workload::{self, Frames, Kind},
    world,
};
use chain::block::join;
use home::Home;
use pipeline::{Options, Pipeline};
use std::{
    collections::BTreeMap,
    fs::File,
    io::{BufWriter, Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};
use verify::Backend;

/// Gas of a plain transfer.
const TRANSFER_GAS: u64 = 21_000;
/// Transactions per write of the feeder.
const FRAMES_PER_WRITE: usize = 512;
/// Sampling interval of the CPU time of threads.
const THREAD_POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Maximum cores in the table of recovery threads.
const MAX_CORES: usize = 64;
/// Polling interval of the feeder for space in its window, and of the window for durable blocks. A
/// wake-up takes about 20 us on a virtual machine.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

struct Settings {
    accounts: usize,
    count: u64,
    kind: Kind,
    import: bool,
    block: u64,
    window: u64,
    seed: u64,
    recover: usize,
    recent: Option<usize>,
    folder: Option<PathBuf>,
    json: Option<PathBuf>,
}

impl Settings {
    fn read() -> Self {
        let mut settings = Self {
            accounts: 1_000_000,
            count: 1_000_000,
            kind: Kind::Transfers,
            import: false,
            block: 10_000,
            window: 4,
            seed: 1,
            recover: 2,
            recent: None,
            folder: None,
            json: None,
        };
        for argument in std::env::args().skip(1).filter(|argument| argument != "--bench") {
            let (key, value) = argument.split_once('=').expect("settings are key=value");
            let number = || value.replace('_', "").parse::<u64>().expect("a number");
            match key {
                "accounts" => settings.accounts = number() as usize,
                "count" => settings.count = number(),
                "workload" => {
                    settings.kind = Kind::from_name(value).expect("transfers, erc20 or mixed");
                }
                "mode" => match value {
                    "ingest" => {}
                    "import" => settings.import = true,
                    _ => panic!("ingest or import"),
                },
                "block" => settings.block = number(),
                "window" => settings.window = number(),
                "seed" => settings.seed = number(),
                "recover" => settings.recover = number() as usize,
                "recent" => settings.recent = Some(number() as usize),
                "folder" => settings.folder = Some(value.into()),
                "json" => settings.json = Some(value.into()),
                _ => panic!("no setting {key}"),
            }
        }
        settings
    }

    const fn gas(&self) -> u64 {
        self.block * TRANSFER_GAS
    }

    fn home(&self, accounts: &[Address], path: &Path) -> Home {
        let mut home = world::copy_home(accounts, self.kind != Kind::Transfers, self.gas(), path);
        if let Some(recent) = self.recent {
            home.config.storage.recent_accounts = recent;
        }
        home
    }

    fn options(&self) -> Options {
        Options {
            transactions: Some("127.0.0.1:0".parse().expect("an address")),
            block_time: Some(Duration::from_millis(200)),
            files: Vec::new(),
            recover_workers: self.recover,
            backend: Backend::detect().expect("a backend"),
        }
    }
}

fn main() {
    // `cargo test --benches` runs this without settings. There is nothing to test.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let settings = Settings::read();
    let accounts = workload::addresses(settings.accounts);
    let file = workload::file(&accounts, settings.kind, settings.seed, settings.count);
    let folder = match &settings.folder {
        Some(folder) => tempfile::tempdir_in(folder),
        None => tempfile::tempdir_in(workload::cache_folder()),
    }
    .expect("a temporary folder");
    let chain = settings.import.then(|| chain_file(&settings, &accounts, &file, folder.path()));
    let home = settings.home(&accounts, &folder.path().join("home"));
    drop(accounts);
    println!(
        "{} x {} | signatures: checked | state root: each block | commit: fsync each group | \
         state: {} accounts in LMDB | blocks of {} transfers' gas",
        settings.count,
        settings.kind.name(),
        settings.accounts,
        settings.block,
    );
    let run = match &chain {
        Some(chain) => import(&settings, &home, chain),
        None => ingest(&settings, &home, &file),
    };
    run.print(&settings);
    if let Some(path) = &settings.json {
        std::fs::write(path, format!("{:#}\n", run.json(&settings))).expect("written");
    }
    let begun = Instant::now();
    let path = home.path.clone();
    drop(home);
    drop(Home::open(&path).expect("opens again"));
    println!("reopened after an orderly shutdown in {:.2} s", begun.elapsed().as_secs_f64());
}

/// The measurements of one run.
struct Run {
    txs: u64,
    blocks: u64,
    seconds: f64,
    /// Durable transactions at the end of each second.
    series: Vec<u64>,
    threads: BTreeMap<String, Use>,
    peak_kib: u64,
    anonymous_kib: u64,
    stages: Vec<pipeline::Reading>,
}

impl Run {
    fn print(&self, settings: &Settings) {
        let txs = self.txs as f64;
        println!(
            "{:.0} tx/s: {} transactions in {} blocks, {:.2} s",
            txs / self.seconds,
            self.txs,
            self.blocks,
            self.seconds
        );
        let mut rates: Vec<_> = self.series.windows(2).map(|pair| pair[1] - pair[0]).collect();
        rates.sort_unstable();
        if let (Some(min), Some(max)) = (rates.first(), rates.last()) {
            let median = rates[rates.len() / 2];
            println!(
                "transactions made durable per second: minimum {min}, median {median}, maximum {max}"
            );
        }
        println!(
            "memory: peak resident {} MiB (including mapped files), maximum anonymous {} MiB",
            self.peak_kib / 1024,
            self.anonymous_kib / 1024
        );
        println!("{:<12} {:>10} {:>10} {:>8}", "thread", "us/tx cpu", "us/tx wait", "of wall");
        let (mut cpu, mut feeder) = (0.0, 0.0);
        for (name, used) in &self.threads {
            let per_tx = |ns: u64| ns as f64 / 1000.0 / txs;
            let share = used.cpu_ns as f64 / 1e9 / self.seconds;
            cpu += per_tx(used.cpu_ns);
            if name.starts_with("feeder") {
                feeder += per_tx(used.cpu_ns);
            }
            if per_tx(used.cpu_ns) >= 0.005 {
                println!(
                    "{name:<12} {:>10.2} {:>10.2} {:>7.1}%",
                    per_tx(used.cpu_ns),
                    per_tx(used.waiting_ns),
                    share * 100.0
                );
            }
        }
        println!("{:<12} {:>10.2}  without the feeder {:.2}", "sum", cpu, cpu - feeder);
        println!("{:<12} {:>10} {:>8} {:>9}", "stage", "us/tx busy", "idle s", "blocked");
        for stage in &self.stages {
            println!(
                "{:<12} {:>10.2} {:>8.2} {:>9}",
                stage.name,
                stage.busy_seconds * 1e6 / txs,
                stage.idle_seconds,
                stage.blocked
            );
        }
        let rejected: Vec<_> = self.stages.iter().flat_map(|stage| &stage.rejected).collect();
        if !rejected.is_empty() {
            println!("rejected: {rejected:?}");
        }
        assert_eq!(self.txs, settings.count, "every transaction is in a block");
    }

    fn json(&self, settings: &Settings) -> serde_json::Value {
        let us = |seconds: f64| seconds * 1e6 / self.txs as f64;
        let threads: BTreeMap<_, _> =
            self.threads.iter().map(|(name, used)| (name, us(used.cpu_ns as f64 / 1e9))).collect();
        let stages: BTreeMap<_, _> =
            self.stages.iter().map(|stage| (stage.name, us(stage.busy_seconds))).collect();
        let rule = config::Pipeline::default();
        let workers: Vec<_> = (1..=MAX_CORES).map(|cores| rule.recover_workers_on(cores)).collect();
        serde_json::json!({
            "accounts": settings.accounts,
            "workload": settings.kind.name(),
            "import": settings.import,
            "transactions": self.txs,
            "blocks": self.blocks,
            "seconds": self.seconds,
            "txPerSecond": self.txs as f64 / self.seconds,
            "durableBySecond": self.series.windows(2).map(|pair| pair[1] - pair[0]).collect::<Vec<_>>(),
            "recoverWorkers": settings.recover,
            "recoverWorkersByCores": workers,
            "peakResidentKib": self.peak_kib,
            "peakAnonymousKib": self.anonymous_kib,
            "threadCpuUs": threads,
            "stageBusyUs": stages,
        })
    }
}

/// Observes a pipeline while it runs.
struct RunMonitor {
    begun: Instant,
    last_sample: Instant,
    series: Vec<u64>,
    anonymous_kib: u64,
    before: BTreeMap<String, Use>,
    /// The last sample of each thread: some end before the last block is durable.
    seen: BTreeMap<String, Use>,
}

impl RunMonitor {
    fn start() -> Self {
        Self {
            begun: Instant::now(),
            last_sample: Instant::now(),
            series: Vec::new(),
            anonymous_kib: 0,
            before: threads::snapshot(),
            seen: BTreeMap::new(),
        }
    }

    fn sample_threads(&mut self) {
        for (name, used) in threads::snapshot() {
            let seen = self.seen.entry(name).or_default();
            seen.cpu_ns = seen.cpu_ns.max(used.cpu_ns);
            seen.waiting_ns = seen.waiting_ns.max(used.waiting_ns);
        }
    }

    fn observe(&mut self, durable: u64) {
        if self.last_sample.elapsed() >= THREAD_POLL_INTERVAL {
            self.last_sample = Instant::now();
            self.sample_threads();
        }
        let second = self.begun.elapsed().as_secs() as usize;
        if self.series.len() <= second {
            self.series.push(durable);
            self.anonymous_kib = self.anonymous_kib.max(threads::memory_kib("RssAnon"));
        }
    }

    fn finish(mut self, first: u64, home: &Home, pipeline: &Pipeline) -> Run {
        let seconds = self.begun.elapsed().as_secs_f64();
        self.anonymous_kib = self.anonymous_kib.max(threads::memory_kib("RssAnon"));
        self.sample_threads();
        let mut threads = self.seen;
        for (name, used) in &mut threads {
            let before = self.before.get(name).copied().unwrap_or_default();
            used.cpu_ns = used.cpu_ns.saturating_sub(before.cpu_ns);
            used.waiting_ns = used.waiting_ns.saturating_sub(before.waiting_ns);
        }
        let stages = pipeline.monitor().readings();
        let blocks = home.chain.reader().expect("a reader");
        let last = pipeline.published.load().number();
        let txs = (first + 1..=last)
            .map(|number| blocks.tx_count(number).expect("readable") as u64)
            .sum();
        Run {
            txs,
            blocks: last - first,
            seconds,
            series: self.series,
            threads,
            peak_kib: threads::memory_kib("VmHWM"),
            anonymous_kib: self.anonymous_kib,
            stages,
        }
    }
}

/// Follows the published head, and counts the transactions of durable blocks.
struct Durable<'a> {
    home: &'a Home,
    pipeline: &'a Pipeline,
    head: u64,
    txs: u64,
}

impl<'a> Durable<'a> {
    fn new(home: &'a Home, pipeline: &'a Pipeline) -> Self {
        let head = pipeline.published.load().number();
        Self { home, pipeline, head, txs: 0 }
    }

    fn count(&mut self) -> u64 {
        let head = self.pipeline.published.load().number();
        if head > self.head {
            let blocks = self.home.chain.reader().expect("a reader");
            for number in self.head + 1..=head {
                self.txs += blocks.tx_count(number).expect("readable") as u64;
            }
            self.head = head;
        }
        self.txs
    }
}

/// Feeds frames over TCP until all are in durable blocks.
fn ingest(settings: &Settings, home: &Home, file: &Path) -> Run {
    let pipeline = Pipeline::start(home, settings.options()).expect("started");
    let first = pipeline.published.load().number();
    let address = pipeline.ingest_address.expect("the ingest is enabled");
    let mined = Arc::new(AtomicU64::new(0));
    let mut stream = TcpStream::connect(address).expect("connected");
    let answers = stream.try_clone().expect("cloned");
    let mut monitor = RunMonitor::start();
    let reader = thread::Builder::new().name("feeder-answers".to_owned());
    let count = settings.count;
    // The system reports the CPU time of a thread only while it exists, so these two end after the
    // measurement.
    let measured = Arc::new(AtomicBool::new(false));
    let wait = |measured: Arc<AtomicBool>| {
        while !measured.load(Relaxed) {
            thread::park_timeout(POLL_INTERVAL * 10);
        }
    };
    let flag = Arc::clone(&measured);
    let reader = reader.spawn(move || {
        let refused = read_answers(answers, count);
        wait(flag);
        refused
    });
    let reader = reader.expect("a thread");
    let feeder = thread::Builder::new().name("feeder".to_owned());
    let (window, path, done) =
        (settings.window * settings.block, file.to_owned(), Arc::clone(&mined));
    let flag = Arc::clone(&measured);
    let feeder = feeder.spawn(move || {
        let mut frames = Frames::open(&path);
        let (mut sent, mut piece) = (0, Vec::new());
        while sent < count {
            while sent > done.load(Relaxed) + window {
                thread::park_timeout(POLL_INTERVAL);
            }
            piece.clear();
            let size = FRAMES_PER_WRITE.min((count - sent) as usize);
            let read = frames.read(size, &mut piece);
            assert_eq!(read, size, "the file has all transactions");
            stream.write_all(&piece).expect("the node accepts them");
            sent += read as u64;
        }
        wait(flag);
    });
    let feeder = feeder.expect("a thread");
    let mut durable = Durable::new(home, &pipeline);
    while durable.count() < count && !pipeline.is_over() {
        mined.store(durable.txs, Relaxed);
        monitor.observe(durable.txs);
        thread::park_timeout(POLL_INTERVAL);
    }
    let run = monitor.finish(first, home, &pipeline);
    measured.store(true, Relaxed);
    feeder.join().expect("the feeder ends");
    assert_eq!(reader.join().expect("the reader ends"), 0, "no transaction is refused");
    pipeline.stop();
    pipeline.join().expect("an orderly shutdown");
    run
}

/// Reads one answer per transaction and returns the number of refusals.
fn read_answers(stream: TcpStream, count: u64) -> u64 {
    let mut stream = std::io::BufReader::with_capacity(1 << 20, stream);
    let mut refused = 0;
    for _ in 0..count {
        let mut answer = [0; 33];
        stream.read_exact(&mut answer[..1]).expect("an answer");
        if answer[0] == 0 {
            stream.read_exact(&mut answer[1..]).expect("a hash");
            continue;
        }
        refused += 1;
        stream.read_exact(&mut answer[..4]).expect("a length");
        let length = u32::from_be_bytes(answer[..4].try_into().expect("four bytes"));
        let mut text = vec![0; length as usize];
        stream.read_exact(&mut text).expect("a reason");
        eprintln!("refused: {}", String::from_utf8_lossy(&text));
    }
    refused
}

/// The blocks with the same transactions, produced once through the ingest.
fn chain_file(settings: &Settings, accounts: &[Address], file: &Path, folder: &Path) -> PathBuf {
    let name = format!(
        "chain-{}-{}-{}-{}-{}.rlp",
        settings.kind.name(),
        settings.accounts,
        settings.seed,
        settings.count,
        settings.block
    );
    let path = workload::cache_folder().join(name);
    if path.exists() {
        return path;
    }
    eprintln!("producing the chain, once");
    let home = settings.home(accounts, &folder.join("maker"));
    let first = home.chain.reader().expect("a reader").head().expect("readable").expect("a head").0;
    drop(ingest(settings, &home, file));
    let blocks = home.chain.reader().expect("a reader");
    let (head, _) = blocks.head().expect("readable").expect("a head");
    let temporary = path.with_extension("tmp");
    let mut out = BufWriter::new(File::create(&temporary).expect("made"));
    for number in first + 1..=head {
        let (_, header) = blocks.header(number).expect("readable").expect("there");
        let body = blocks.body(number).expect("readable").expect("there");
        out.write_all(&join(&header, &body)).expect("written");
    }
    out.flush().expect("written");
    drop((blocks, home));
    std::fs::rename(temporary, &path).expect("renamed");
    path
}

/// Imports the file of blocks.
fn import(settings: &Settings, home: &Home, chain: &Path) -> Run {
    let options = Options {
        transactions: None,
        block_time: None,
        files: vec![chain.to_owned()],
        ..settings.options()
    };
    let mut monitor = RunMonitor::start();
    let pipeline = Pipeline::start(home, options).expect("started");
    let first = pipeline.published.load().number();
    let mut durable = Durable::new(home, &pipeline);
    while durable.count() < settings.count && !pipeline.is_over() {
        monitor.observe(durable.txs);
        thread::park_timeout(POLL_INTERVAL);
    }
    let run = monitor.finish(first, home, &pipeline);
    pipeline.join().expect("imported");
    run
}
