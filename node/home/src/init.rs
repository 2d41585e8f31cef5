//! Creates a home folder. If that fails, everything that was created is removed: an incomplete home would
//! prevent the next attempt, or be mistaken for a chain.

use super::{
    CHAIN_FOLDER, GENESIS_FILE, GENESIS_KEY, GenesisFile, Home, HomeError, INDEX_FOLDER,
    PRODUCER_KEY_FILE, authority::write_key, ensure_self_tested, genesis_record, open_chain,
    open_or_migrate_chain, remove_index, vacant,
};
use certificates::SecretKey;
use chain::Genesis;
use config::{CONFIG_FILE, Config};
use platform::whole_file::{self, is_present};
use std::{
    fs, io,
    path::{Path, PathBuf},
};
use storage::{HomeLock, LOCK_FILE};

/// The files of a new home, except for its lock.
const FILES: [&str; 7] = [
    "chain/data.mdb",
    "chain/lock.mdb",
    "index/data.mdb",
    "index/lock.mdb",
    GENESIS_FILE,
    CONFIG_FILE,
    PRODUCER_KEY_FILE,
];

impl Home {
    /// Creates a home folder with the chain that starts at `genesis`. Continues an `init` that was killed before
    /// the genesis was stored. An index that contains only a genesis block is rebuilt.
    ///
    /// # Errors
    /// If the folder has a chain, the genesis file of another chain, or data of a missing chain, and if
    /// something cannot be written. In that case everything that was created is removed.
    pub fn init(path: &Path, genesis: &Genesis) -> Result<Self, HomeError> {
        Self::init_with_key(path, genesis, None)
    }

    /// Does the same as [`Self::init`], and writes the secret key of the producer.
    ///
    /// # Errors
    /// Those of [`Self::init`].
    pub fn init_with_key(
        path: &Path,
        genesis: &Genesis,
        key: Option<&SecretKey>,
    ) -> Result<Self, HomeError> {
        ensure_self_tested()?;
        let folders = Folders::missing(path);
        let makes_lock = !is_present(&path.join(LOCK_FILE));
        // If this fails, another process may be creating a chain there, so only empty folders are removed.
        let lock = HomeLock::acquire(path).inspect_err(|_| folders.remove())?;
        // This must come after the lock is acquired, because its previous holder may have created a chain.
        let unfinished = Unfinished::before(path, folders, makes_lock);
        let made = make(path, genesis, key).and_then(|()| Self::open_locked(path));
        let home = made.inspect_err(|_| unfinished.remove())?;
        Ok(Self { _lock: Some(lock), ..home })
    }
}

/// Creates the content of a folder whose lock is held.
fn make(path: &Path, genesis: &Genesis, key: Option<&SecretKey>) -> Result<(), HomeError> {
    let config = Config::load(path)?;
    if Home::exists(path) {
        let chain = open_or_migrate_chain(path, &config)?;
        if chain.meta(GENESIS_KEY)?.is_some() || chain.reader()?.head_number()?.is_some() {
            return Err(HomeError::Exists(path.to_owned()));
        }
    }
    let file = vacant::check_for_init(path, &config, genesis)?;
    let chain = open_chain(path, &config)?;
    config.write_new(path)?;
    remove_index(path)?;
    // The key is written before the genesis file that names it: an `init` that continues from that file needs its key.
    if let Some(key) = key {
        write_key(path, key)?;
    }
    let text = genesis.to_json();
    if file == GenesisFile::Missing {
        let io = |source| HomeError::Io { path: path.to_owned(), source };
        whole_file::write(&path.join(GENESIS_FILE), text.as_bytes()).map_err(io)?;
    }
    chain.put_meta(GENESIS_KEY, text.as_bytes())?;
    Ok(chain.append(&[genesis_record(genesis)])?)
}

/// The missing ancestors of a home folder and the folder itself, innermost first.
struct Folders(Vec<PathBuf>);

impl Folders {
    fn missing(home: &Path) -> Self {
        let outer = home.ancestors().filter(|folder| !folder.as_os_str().is_empty());
        Self(outer.map(Path::to_owned).filter(|folder| !is_present(folder)).collect())
    }

    /// Removes those that are empty.
    fn remove(&self) {
        for folder in &self.0 {
            report(folder, fs::remove_dir(folder));
        }
    }
}

/// The files and folders that did not exist before a home was created.
struct Unfinished {
    files: Vec<PathBuf>,
    inner: Vec<PathBuf>,
    outer: Folders,
}

impl Unfinished {
    /// Records what is missing in a home whose lock is held. `makes_lock` states whether the lock file was
    /// missing before.
    fn before(home: &Path, outer: Folders, makes_lock: bool) -> Self {
        let missing = |path: &PathBuf| !is_present(path);
        let files = FILES.map(|file| home.join(file)).into_iter().filter(missing);
        // A lock file that another process created before this one stays with the chain of that process.
        let lock = (makes_lock && !Home::exists(home)).then(|| home.join(LOCK_FILE));
        let inner = [CHAIN_FOLDER, INDEX_FOLDER].map(|folder| home.join(folder));
        Self {
            files: files.chain(lock).collect(),
            inner: inner.into_iter().filter(missing).collect(),
            outer,
        }
    }

    /// Removes the files that were created, and their folders. Keeps what existed before, and what other
    /// processes created in the folders.
    fn remove(&self) {
        for file in &self.files {
            report(file, fs::remove_file(file));
        }
        for folder in &self.inner {
            report(folder, fs::remove_dir(folder));
        }
        self.outer.remove();
    }
}

/// Logs why something could not be removed. The caller returns the error of `init` itself.
fn report(path: &Path, removed: io::Result<()>) {
    use io::ErrorKind::{DirectoryNotEmpty, NotADirectory, NotFound};
    if let Err(error) = removed
        && ![NotFound, NotADirectory, DirectoryNotEmpty].contains(&error.kind())
    {
        tracing::warn!("cannot remove {}: {error}", path.display());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns all files and folders below a folder.
    fn entries(folder: &Path) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                found.extend(entries(&path));
            }
            found.push(path);
        }
        found.sort();
        found
    }

    /// Creates a folder whose settings limit an environment to less than a genesis with much code needs.
    fn prepare(home: &Path, setting: &str) -> Genesis {
        fs::create_dir_all(home).expect("a folder");
        let least = storage::MIN_MAP_BYTES;
        fs::write(home.join(CONFIG_FILE), format!("[storage]\n{setting} = {least}\n"))
            .expect("written");
        let code = "60".repeat(1 << 20);
        let text = format!(
            r#"{{"config": {{"chainId": 1}}, "gasLimit": "0x1000", "difficulty": "0x1",
                "alloc": {{"{:040x}": {{"balance": "0x0", "code": "0x{code}"}}}}}}"#,
            7
        );
        Genesis::from_json(&text).expect("a valid genesis")
    }

    #[test]
    fn a_failed_init_leaves_what_was_there_before() {
        for setting in ["chain-map-bytes", "index-map-bytes"] {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let home = folder.path().join("home");
            let genesis = prepare(&home, setting);
            fs::create_dir(home.join(CHAIN_FOLDER)).expect("a mount point");
            fs::write(home.join("notes.txt"), "mine").expect("written");
            let before = entries(folder.path());
            let error = Home::init(&home, &genesis).expect_err("the map is too small").to_string();
            assert!(error.contains(setting), "{error}");
            assert_eq!(entries(folder.path()), before, "{setting}");
            fs::remove_file(home.join(CONFIG_FILE)).expect("was there");
            Home::init(&home, &genesis).expect("the default maps are large enough");
        }
    }

    #[test]
    fn folders_that_were_made_for_a_failed_init_are_removed() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let home = folder.path().join("a/b/home");
        let unfinished = Unfinished::before(&home, Folders::missing(&home), true);
        fs::create_dir_all(home.join(INDEX_FOLDER)).expect("folders");
        for file in [GENESIS_FILE, "LOCK", "index/data.mdb"] {
            fs::write(home.join(file), "").expect("written");
        }
        unfinished.remove();
        assert_eq!(entries(folder.path()), Vec::<PathBuf>::new());
        // Files of another process are kept.
        let unfinished = Unfinished::before(&home, Folders::missing(&home), true);
        fs::create_dir_all(&home).expect("folders");
        fs::write(home.join("other"), "").expect("written");
        unfinished.remove();
        assert!(home.join("other").exists());
    }

    /// Two processes start at the same time: the second examines the folder before the first has created
    /// anything, and acquires the lock after the first has finished.
    #[test]
    fn an_init_that_comes_second_leaves_the_chain_of_the_first() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let home = folder.path().join("home");
        let (folders, makes_lock) = (Folders::missing(&home), !is_present(&home.join(LOCK_FILE)));
        drop(Home::init(&home, &Genesis::native_dev(1_700_000_000)).expect("a chain"));
        let before = entries(&home);
        let lock = HomeLock::acquire(&home).expect("a lock");
        Unfinished::before(&home, folders, makes_lock).remove();
        drop(lock);
        assert_eq!(entries(&home), before);
        Home::open(&home).expect("the chain is whole");
    }

    #[test]
    fn an_init_that_another_process_locks_out_removes_nothing() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let genesis = Genesis::native_dev(1_700_000_000);
        let lock = HomeLock::acquire(folder.path()).expect("a lock");
        let before = entries(folder.path());
        Home::init(folder.path(), &genesis).expect_err("locked");
        assert_eq!(entries(folder.path()), before);
        drop(lock);
        let home = Home::init(folder.path(), &genesis).expect("a chain");
        let before = entries(folder.path());
        drop(home);
        let error = Home::init(folder.path(), &genesis).expect_err("there is a chain");
        assert!(matches!(error, HomeError::Exists(_)), "{error}");
        assert_eq!(entries(folder.path()), before);
    }
}
