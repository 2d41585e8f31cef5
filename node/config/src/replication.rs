//! Settings of replication: the server that sends blocks to followers, and the sources that this node follows.

use super::{Listen, bounds};
use serde::{Deserialize, Serialize};
use std::{
    fmt,
    num::NonZeroU64,
    path::{Path, PathBuf},
    str::FromStr,
    time::Duration,
};

/// Default of `max-followers`.
const MAX_FOLLOWERS: u32 = 32;
/// Default of `max-lag-ms`: a switch to another source takes less time.
const MAX_LAG_MS: u64 = 10_000;

/// `[replication]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Replication {
    /// The address to listen on for followers.
    pub address: Listen,
    /// Maximum number of connections of followers.
    #[serde(deserialize_with = "bounds::not_zero")]
    pub max_followers: u32,
    /// The nodes whose blocks this node follows, in the order of preference. A node that follows others produces no
    /// blocks.
    pub follow: Vec<String>,
    /// Nodes that follow this producer. After a start it produces blocks only once one of them has sent the producer
    /// terms that it knows, so that this node does not continue if another node was promoted meanwhile.
    pub followers: Vec<String>,
    /// Forward calls about the mempool and the pending block to the producer. If false, this node answers them from its
    /// own head and an empty mempool.
    pub forward_pool_queries: bool,
    /// Milliseconds for which this node may lack the newest block of its source, or a source, before it reports that it
    /// is behind: `eth_syncing`, `syncing` of REST, `catching_up` of CometBFT's RPC, and 503 for `/ready`.
    pub max_lag_ms: u64,
    /// File with the certificates (PEM) of the server at `address`, its own first, with which it encrypts connections.
    /// If the path is not absolute, it begins at the home folder. If the text is empty, connections are not encrypted.
    pub tls_certificate: String,
    /// File with the private key (PEM) of that certificate.
    pub tls_key: String,
    /// File with the certificates (PEM) of the authorities that certify sources with an address that begins with
    /// `https://`. If the text is empty, the authorities of the system are used.
    pub tls_roots: String,
    /// Which signatures of transactions are verified: `all`, `sample:N` for one block in N, or `execute`, which also
    /// executes every block again. All roots and hashes of every block are always checked.
    pub verify: Verification,
}

impl Default for Replication {
    fn default() -> Self {
        Self {
            // Sending all blocks to others takes bandwidth.
            address: Listen::Off,
            max_followers: MAX_FOLLOWERS,
            follow: Vec::new(),
            followers: Vec::new(),
            forward_pool_queries: true,
            max_lag_ms: MAX_LAG_MS,
            tls_certificate: String::new(),
            tls_key: String::new(),
            tls_roots: String::new(),
            verify: Verification::All,
        }
    }
}

impl Replication {
    /// Returns the time after which a node that lacks blocks counts as behind.
    pub const fn max_lag(&self) -> Duration {
        Duration::from_millis(self.max_lag_ms)
    }

    /// Returns the files of the certificate and its key; `None` if connections are not encrypted.
    ///
    /// # Errors
    /// If only one of them is set.
    pub fn tls_pair(&self, home: &Path) -> Result<Option<(PathBuf, PathBuf)>, HalfOfPair> {
        let pair = (file(home, &self.tls_certificate), file(home, &self.tls_key));
        match pair {
            (Some(certificate), Some(key)) => Ok(Some((certificate, key))),
            (None, None) => Ok(None),
            (Some(_), None) => Err(HalfOfPair { missing: "tls-key", set: "tls-certificate" }),
            (None, Some(_)) => Err(HalfOfPair { missing: "tls-certificate", set: "tls-key" }),
        }
    }

    /// Returns the file of the authorities; `None` for those of the system.
    pub fn tls_roots_in(&self, home: &Path) -> Option<PathBuf> {
        file(home, &self.tls_roots)
    }
}

/// A certificate without its key, or the reverse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("replication.{missing} is empty, and replication.{set} is not: set both or none")]
pub struct HalfOfPair {
    missing: &'static str,
    set: &'static str,
}

/// Returns the file that a setting names; `None` if the setting is empty.
fn file(home: &Path, setting: &str) -> Option<PathBuf> {
    (!setting.is_empty()).then(|| home.join(setting))
}

/// Which signatures of transactions a follower verifies. All roots and hashes of every block are always checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Verification {
    /// The signatures of all transactions.
    #[default]
    All,
    /// Those of every block whose number plus a random offset is a multiple of this number, and of blocks whose header
    /// does not commit to the senders (before rules version 2).
    Sample(NonZeroU64),
    /// All of them, and every block is executed again.
    Execute,
}

/// The text is not a kind of verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be all, execute, or sample:N with a number N from 1 on, such as sample:64")]
pub struct InvalidVerification;

impl FromStr for Verification {
    type Err = InvalidVerification;

    fn from_str(text: &str) -> Result<Self, InvalidVerification> {
        match (text, text.strip_prefix("sample:")) {
            ("all", _) => Ok(Self::All),
            ("execute", _) => Ok(Self::Execute),
            (_, Some(number)) => number.parse().map(Self::Sample).map_err(|_| InvalidVerification),
            _ => Err(InvalidVerification),
        }
    }
}

impl fmt::Display for Verification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Sample(every) => write!(f, "sample:{every}"),
            Self::Execute => f.write_str("execute"),
        }
    }
}

impl TryFrom<String> for Verification {
    type Error = InvalidVerification;

    fn try_from(text: String) -> Result<Self, InvalidVerification> {
        text.parse()
    }
}

impl From<Verification> for String {
    fn from(verification: Verification) -> Self {
        verification.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_verification_are_read_as_they_are_shown() {
        for text in ["all", "execute", "sample:1", "sample:64"] {
            assert_eq!(text.parse::<Verification>().unwrap().to_string(), text);
        }
        for text in ["", "none", "sample", "sample:", "sample:0", "sample:-1", "All"] {
            assert_eq!(text.parse::<Verification>(), Err(InvalidVerification), "{text}");
        }
    }
}
