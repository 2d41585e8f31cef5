//! Measures the whole pipeline end to end: from signed transactions over the TCP ingest, or a file
//! of blocks, to durable blocks.
//!
//! `cargo bench --profile release --workspace --bench pipeline -- accounts=1000000 count=2000000`.
//! Every setting is optional:
//!
//! - `accounts=1000000`: funded accounts, among which senders and recipients are random
//! - `count=1000000`: transactions
//! - `skew=0`: exponent of a Zipf distribution by which accounts are drawn; 0 draws all equally often
//! - `workload=transfers`: or `erc20`, or `mixed` (one token transfer in four)
//! - `mode=ingest`: over TCP through recover, ante, mempool and proposals; or `import`: as blocks
//! - `block=10000`: plain transfers that fill a block
//! - `window=4`: maximum transactions submitted but not mined, in blocks
//! - `recent=12582912`: the setting `storage.recent-accounts`
//! - `seed=1`, `recover=2` (recovery threads), `folder=` (the folder in which the home is created)
//! - `json=FILE`: also writes the figures as JSON, for `benches/growth` and `benches/saturation`
//!
//! Transactions are signed once in advance and kept under `target/bench-cache`. The feeder is a
//! thread of this process; its row shows its cost.

mod run;
mod settings;

use alloy_primitives::Address;
use benches::workload::{self, Draw, Frames};
use chain::block::join;
use home::Home;
use pipeline::{Options, Pipeline};
use run::{Run, RunMonitor};
use settings::Settings;
use std::{
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

/// Transactions per write of the feeder.
const FRAMES_PER_WRITE: usize = 512;
/// Polling interval of the feeder while its window is full, and of the head for durable blocks. A
/// wake-up takes about 20 us on a virtual machine.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

fn main() {
    // `cargo test --benches` runs this without settings. There is nothing to test.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let settings = Settings::read();
    let accounts = workload::addresses(settings.accounts);
    let draw = Draw::new(accounts.len(), settings.skew, settings.seed);
    let file = workload::file(&accounts, settings.kind, draw, settings.count);
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
    let mut monitor = RunMonitor::start(settings.count);
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
        let (mut sent, mut batch) = (0, Vec::new());
        while sent < count {
            while sent > done.load(Relaxed) + window {
                thread::park_timeout(POLL_INTERVAL);
            }
            batch.clear();
            let size = FRAMES_PER_WRITE.min((count - sent) as usize);
            let read = frames.read(size, &mut batch);
            assert_eq!(read, size, "the file has all transactions");
            stream.write_all(&batch).expect("the node accepts them");
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

/// Returns the path of a file of blocks with the same transactions, which are produced once.
fn chain_file(settings: &Settings, accounts: &[Address], file: &Path, folder: &Path) -> PathBuf {
    let name = format!(
        "chain-{}-{}-{}-{}-{}-{}.rlp",
        settings.kind.name(),
        settings.accounts,
        settings.skew,
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
        mining: None,
        files: vec![chain.to_owned()],
        ..settings.options()
    };
    let mut monitor = RunMonitor::start(settings.count);
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
