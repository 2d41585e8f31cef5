//! Compares the genesis file of a home folder with the chain in that folder.

use super::{Home, HomeError, stored_genesis};
use chain::Genesis;
use platform::whole_file::is_present;
use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
};

/// Name of the genesis file in the home folder.
pub const GENESIS_FILE: &str = "genesis.json";
/// Bytes read at a time. The file of a million accounts has about a hundred million bytes, which need not all be
/// in memory to be compared.
const PIECE_BYTES: usize = 1 << 20;

impl Home {
    /// Checks that the genesis file, if there is one, is that of this chain, because a changed file would
    /// have no effect. The text from which the chain was created is stored with it, so an unchanged file is
    /// compared byte by byte. Only a changed file is parsed, and its block 0 is computed.
    ///
    /// # Errors
    /// If it belongs to another chain, is not a valid genesis, or cannot be read.
    pub fn check_genesis_file(&self) -> Result<(), HomeError> {
        let path = self.path.join(GENESIS_FILE);
        if !is_present(&path) || self.has_stored_text(&path)? {
            return Ok(());
        }
        let text = fs::read_to_string(&path).map_err(at(&path))?;
        let origin = path.display().to_string();
        let genesis = Genesis::from_json(&text)
            .map_err(|source| HomeError::Genesis { origin: origin.clone(), source })?;
        let first = self.chain.reader()?.first()?;
        let (_, chain) = first.ok_or_else(|| HomeError::Empty(self.path.clone()))?;
        let file = genesis.header().hash_slow();
        if file != chain {
            return Err(HomeError::OtherGenesis { path, file, chain });
        }
        // The chain id and the forks are not part of any header.
        if !genesis.spec.has_same_genesis(&self.spec) {
            return Err(HomeError::OtherRules { path, chain });
        }
        Ok(())
    }

    /// Returns whether a file equals the stored genesis text byte by byte.
    fn has_stored_text(&self, path: &Path) -> Result<bool, HomeError> {
        let Some(stored) = stored_genesis(&self.chain)? else { return Ok(false) };
        File::open(path).and_then(|file| holds(file, &stored)).map_err(at(path))
    }
}

/// Returns whether the content of a file is exactly this text.
fn holds(mut file: File, mut text: &[u8]) -> io::Result<bool> {
    if file.metadata()?.len() != text.len() as u64 {
        return Ok(false);
    }
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let count = file.read(&mut piece)?;
        if count == 0 {
            return Ok(text.is_empty());
        }
        match text.strip_prefix(&piece[..count]) {
            Some(rest) => text = rest,
            None => return Ok(false),
        }
    }
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> HomeError + use<> {
    let path = PathBuf::from(path);
    |source| HomeError::Io { path, source }
}
