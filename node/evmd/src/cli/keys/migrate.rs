//! `evmd keys migrate` rewrites the keyring in the current format.

use super::{Common, prompt::Prompt};
use keys::keyring::Access;
use std::io::Write;

pub(super) fn run(common: &Common) -> anyhow::Result<()> {
    let prompt = Prompt::new();
    // With read access, a missing keyring is not created.
    let (keyring, passphrase) = common.open_with_passphrase(Access::Read, &prompt)?;
    let count = keyring.records().len();
    if count > 0 {
        let (backend, folder) = (common.backend()?, common.folder()?);
        let passphrase = passphrase.as_ref().map(|passphrase| passphrase.as_str());
        keys::keyring::Keyring::open(backend, &folder, Access::Write, passphrase)?
            .rewrite(passphrase)?;
    }
    let mut out = crate::cli::stdout();
    if common.json() {
        writeln!(out, "{{\"migrated\":{count}}}")?;
    } else {
        writeln!(out, "Keys migration has been successfully executed: {count} keys.")?;
    }
    Ok(())
}
