//! Home folders without a chain: checks what `init`, `start` and a restore may create there.
//!
//! A folder without a chain is not always a new one. The volume of the chain may not be mounted, or an operator
//! may have put a genesis file there. Therefore existing data is never replaced by a default: a genesis file is
//! either used or the command fails, and an index or a journal of a missing chain is kept until it is removed by
//! hand.

use super::{CHAIN_FOLDER, GENESIS_FILE, Home, HomeError, INDEX_FOLDER, JOURNAL_FILE};
use chain::Genesis;
use config::Config;
use mempool::journal;
use platform::whole_file::is_present;
use std::path::Path;
use storage::{IndexDb, IndexOptions};

/// How the genesis file in a folder without a chain compares with the requested genesis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GenesisFile {
    /// The folder has no genesis file.
    Missing,
    /// It is the genesis of the requested chain.
    Same,
}

impl Home {
    /// Reads the genesis file of a folder; `None` if there is no file.
    ///
    /// # Errors
    /// If the file cannot be read, or is not a valid genesis.
    pub fn genesis_file(path: &Path) -> Result<Option<Genesis>, HomeError> {
        let file = path.join(GENESIS_FILE);
        if !is_present(&file) {
            return Ok(None);
        }
        let unusable = |reason| HomeError::UnusableGenesis { path: file.clone(), reason };
        let text = std::fs::read_to_string(&file).map_err(|error| unusable(error.to_string()))?;
        Genesis::from_json(&text).map(Some).map_err(|error| unusable(error.to_string()))
    }

    /// Returns the genesis with which `start` creates a chain in a folder without one: that of the genesis file,
    /// or `None` for the default.
    ///
    /// # Errors
    /// If the genesis file cannot be used, or if there is any sign that the folder had a chain before.
    pub fn genesis_for_start(path: &Path) -> Result<Option<Genesis>, HomeError> {
        if !path.is_dir() {
            // A missing or unreadable folder: `init` creates it, or reports why it cannot.
            return Ok(None);
        }
        let genesis = Self::genesis_file(path)?;
        let mut found = remains(path, &Config::load(path)?)?;
        if genesis.is_some() {
            // A folder that an operator prepared holds no data. An empty `chain` may be a mount point.
            let signs = [CHAIN_FOLDER, INDEX_FOLDER, JOURNAL_FILE];
            let signs = signs.into_iter().filter(|name| is_present(&path.join(name)));
            let known = |name: &&str| found.iter().all(|remains| remains.name != *name);
            let signs: Vec<_> = signs.filter(known).map(Remains::sign).collect();
            found.extend(signs);
        }
        if found.is_empty() { Ok(genesis) } else { Err(missing_chain(path, &found)) }
    }
}

/// Checks that a chain with this genesis may be created in a folder without a chain.
///
/// # Errors
/// If the genesis file belongs to another chain or cannot be used, or if there is an index or a journal of a
/// missing chain.
pub(crate) fn check_for_init(
    path: &Path,
    config: &Config,
    genesis: &Genesis,
) -> Result<GenesisFile, HomeError> {
    let file = check_file(path, genesis)?;
    let found = remains(path, config)?;
    if found.is_empty() { Ok(file) } else { Err(missing_chain(path, &found)) }
}

/// Checks that a copy of a chain with this genesis may be placed in a folder without a chain. The copy replaces
/// the index. The journal may stay if the genesis file shows that it belongs to the same chain.
///
/// # Errors
/// If the genesis file belongs to another chain or cannot be used, or if a journal with transactions belongs to
/// an unknown chain.
pub fn check_for_restore(path: &Path, genesis: &Genesis) -> Result<GenesisFile, HomeError> {
    let file = check_file(path, genesis)?;
    let found = Vec::from_iter(journal(path)?);
    if file == GenesisFile::Same || found.is_empty() {
        return Ok(file);
    }
    Err(missing_chain(path, &found))
}

/// Compares the genesis file of a folder, if there is one, with `genesis`.
fn check_file(path: &Path, genesis: &Genesis) -> Result<GenesisFile, HomeError> {
    let Some(found) = Home::genesis_file(path)? else { return Ok(GenesisFile::Missing) };
    // If both are equal, the state roots need not be computed, which takes long for a large genesis.
    if found == *genesis {
        return Ok(GenesisFile::Same);
    }
    let (file, wanted) = (found.header().hash_slow(), genesis.header().hash_slow());
    if file == wanted && found.spec == genesis.spec {
        return Ok(GenesisFile::Same);
    }
    Err(HomeError::GenesisFileInTheWay { path: path.join(GENESIS_FILE), file, wanted })
}

/// Something in a folder that belongs to a missing chain.
#[derive(Debug)]
struct Remains {
    name: &'static str,
    /// A description of its content. Empty for a sign that there was a chain: `init` ignores signs.
    holds: String,
}

impl Remains {
    const fn sign(name: &'static str) -> Self {
        Self { name, holds: String::new() }
    }
}

/// Returns what a missing chain left: an index with more than the genesis block, a journal with transactions, and links
/// whose target is missing.
fn remains(path: &Path, config: &Config) -> Result<Vec<Remains>, HomeError> {
    let mut found = Vec::from_iter(journal(path)?);
    found.extend(dangling(path, CHAIN_FOLDER));
    found.extend(index(path, config));
    Ok(found)
}

/// Returns a link whose target is missing: its disk may not be mounted.
fn dangling(path: &Path, name: &'static str) -> Option<Remains> {
    let folder = path.join(name);
    let is_dangling = is_present(&folder) && std::fs::metadata(&folder).is_err();
    is_dangling.then(|| Remains { name, holds: "a link whose target is missing".to_owned() })
}

/// Returns the index if it holds more than block 0. Otherwise nothing is lost, because any genesis can rebuild
/// it.
fn index(path: &Path, config: &Config) -> Option<Remains> {
    if let Some(dangling) = dangling(path, INDEX_FOLDER) {
        return Some(dangling);
    }
    let folder = path.join(INDEX_FOLDER);
    if !is_present(&folder.join("data.mdb")) {
        return None;
    }
    let holds = match newest_indexed(&folder, config.storage.index_map_bytes) {
        Ok(None | Some(0)) => return None,
        Ok(Some(number)) => format!("blocks up to {number}"),
        Err(reason) => format!("data that cannot be read: {reason}"),
    };
    Some(Remains { name: INDEX_FOLDER, holds })
}

fn newest_indexed(folder: &Path, map_bytes: u64) -> Result<Option<u64>, String> {
    let index = IndexDb::open(folder, IndexOptions { map_bytes }).map_err(|e| e.to_string())?;
    index.reader().and_then(|reader| reader.flushed()).map_err(|error| error.to_string())
}

fn journal(path: &Path) -> Result<Option<Remains>, HomeError> {
    let file = path.join(JOURNAL_FILE);
    match journal::has_transactions(&file) {
        Ok(false) => Ok(None),
        Ok(true) => Ok(Some(Remains { name: JOURNAL_FILE, holds: "transactions".to_owned() })),
        Err(source) => Err(HomeError::Io { path: file, source }),
    }
}

fn missing_chain(path: &Path, found: &[Remains]) -> HomeError {
    let describe = |remains: &Remains| match remains.holds.as_str() {
        "" => remains.name.to_owned(),
        holds => format!("{} ({holds})", remains.name),
    };
    let data = found.iter().filter(|remains| !remains.holds.is_empty());
    let remove: Vec<_> =
        data.map(|remains| path.join(remains.name).display().to_string()).collect();
    HomeError::ChainMissing {
        path: path.to_owned(),
        found: found.iter().map(describe).collect::<Vec<_>>().join(", "),
        remove: remove.join(" and "),
    }
}

#[cfg(test)]
mod tests;
