//! Checks the table of `docs/home-files.md`: the behaviour of `evmd start` if a file of a home folder is missing,
//! empty, truncated, or from another chain. `EVMD_WRITE_DOCS=1` writes the file.

use super::{Endpoints, Running, call, evmd, forking};
use crate::common::{exported_chain, import, native_home, producing, transfer};
use alloy_primitives::Address;
use chain::Genesis;
use home::Home;
use pipeline::Pipeline;
use serde_json::json;
use std::{
    fmt::Write,
    fs,
    io::Read,
    net::TcpStream,
    path::{Path, PathBuf},
    process::Stdio,
};
use testkit::copy_folder;

/// The files of a used home folder, except keyrings.
const FILES: [&str; 8] = [
    "config.toml",
    "genesis.json",
    "chain/data.mdb",
    "chain/lock.mdb",
    "index/data.mdb",
    "index/lock.mdb",
    "mempool.journal",
    "LOCK",
];

/// A change to a file: a column of the table.
#[derive(Clone, Copy)]
enum Damage {
    Missing,
    Empty,
    /// The second half is missing.
    Cut,
    /// The same file from the home folder of another chain.
    Foreign,
}

const DAMAGES: [(Damage, &str); 4] = [
    (Damage::Missing, "missing"),
    (Damage::Empty, "empty"),
    (Damage::Cut, "second half missing"),
    (Damage::Foreign, "of another chain"),
];

/// A home with a transaction in the journal and, if there is no `genesis`, with 12 imported blocks or more.
fn used_home(folder: &Path, genesis: Option<Genesis>) -> PathBuf {
    let path = folder.join("home");
    let mut home = match genesis {
        Some(genesis) => Home::init(&path, &genesis).unwrap(),
        None => {
            let blocks = folder.join("blocks.rlp");
            exported_chain(&blocks, 12);
            let home = native_home(&path);
            import(&home, vec![blocks]).unwrap();
            home
        }
    };
    home.config.mempool.accept_without_production = true;
    let pipeline = Pipeline::start(&home, producing(None)).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(pipeline.client().submit(transfer(1, 0, Address::ZERO))).unwrap();
    pipeline.stop();
    pipeline.join().unwrap();
    path
}

fn damage(file: &Path, foreign: &Path, damage: Damage) {
    match damage {
        Damage::Missing => fs::remove_file(file).unwrap(),
        Damage::Empty => fs::write(file, "").unwrap(),
        Damage::Cut => {
            let bytes = fs::read(file).unwrap();
            fs::write(file, &bytes[..bytes.len() / 2]).unwrap();
        }
        Damage::Foreign => drop(fs::copy(foreign, file).unwrap()),
    }
}

/// The result of `evmd start` with a home folder.
fn start(home: &Path) -> String {
    let endpoints = Endpoints::unused();
    let mut command = evmd();
    command
        .args(["start", "--quiet", "--no-produce", "--home"])
        .arg(home)
        .args(endpoints.options());
    command.args(["--mempool.accept-without-production", "--json-rpc.api", "eth,txpool"]);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut node = Running::start(&mut command);
    loop {
        if node.0.try_wait().unwrap().is_some() {
            let mut error = String::new();
            node.0.stderr.take().unwrap().read_to_string(&mut error).unwrap();
            let error = error.rsplit_once("error: ").unwrap_or(("", &error)).1;
            return format!("refused: {}", normalized(error.trim(), home));
        }
        if TcpStream::connect(endpoints.json_rpc).is_ok() {
            break;
        }
        std::thread::yield_now();
    }
    let number = call(endpoints.json_rpc, "eth_blockNumber", &json!([]))["result"].clone();
    let status = call(endpoints.json_rpc, "txpool_status", &json!([]))["result"].clone();
    assert!(node.terminate().success());
    let chain = if number == "0x0" { "starts a new chain" } else { "starts" };
    match status["pending"].as_str() {
        Some("0x0") => format!("{chain}, pool empty"),
        _ => chain.to_owned(),
    }
}

/// Replaces the parts of an error text that differ between runs.
fn normalized(error: &str, home: &Path) -> String {
    let mut text =
        error.replace(home.to_str().unwrap(), "HOME").replace('|', "\\|").replace('\n', " ");
    while let Some(at) = text.find("0x") {
        let digits = text[at + 2..].chars().take_while(char::is_ascii_hexdigit).count();
        text.replace_range(at..at + 2 + digits, "HASH");
    }
    // Sizes and numbers depend on how blocks were grouped.
    let mut out = String::new();
    let mut digits = String::new();
    for c in text.chars().chain([' ']) {
        if c.is_ascii_digit() {
            digits.push(c);
            continue;
        }
        out.push_str(if digits.len() > 1 { "N" } else { &digits });
        digits.clear();
        out.push(c);
    }
    out.trim_end().to_owned()
}

fn table() -> String {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir_all(at("own")).unwrap();
    fs::create_dir_all(at("other")).unwrap();
    let own = used_home(&at("own"), None);
    let foreign = used_home(&at("other"), Some(Genesis::native_dev(1_600_000_000)));
    let mut out = String::from("| File | If it is | `evmd start` |\n|---|---|---|\n");
    for file in FILES {
        for (kind, name) in DAMAGES {
            // Settings and locks do not belong to a chain.
            let is_bound = !["config.toml", "LOCK"].contains(&file) && !file.ends_with("lock.mdb");
            if matches!(kind, Damage::Foreign) && !is_bound {
                continue;
            }
            let home = at("home");
            copy_folder(&own, &home);
            if !home.join(file).exists() {
                fs::write(home.join(file), "").unwrap();
            }
            damage(&home.join(file), &foreign.join(file), kind);
            writeln!(out, "| `{file}` | {name} | {} |", start(&home)).unwrap();
            fs::remove_dir_all(&home).unwrap();
        }
    }
    out
}

#[test]
fn damaged_home_files_have_the_documented_effect() {
    const BEGIN: &str = "<!-- table -->\n";
    const END: &str = "<!-- end -->\n";
    let _forking = forking();
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let path = docs.join("home-files.md");
    let page = fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (written, after) = rest.split_once(END).unwrap();
    let table = table();
    if std::env::var_os("EVMD_WRITE_DOCS").is_some() {
        fs::write(&path, format!("{before}{BEGIN}{table}{END}{after}")).unwrap();
        return;
    }
    assert_eq!(written, table, "run with EVMD_WRITE_DOCS=1 to write {}", path.display());
}
