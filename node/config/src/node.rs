//! Settings of the node itself.

use serde::{Deserialize, Serialize};

/// The moniker of a node whose operator has not chosen one.
const DEFAULT_MONIKER: &str = "evmd";

/// `[node]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Node {
    /// The name of the node, which the Cosmos interfaces report.
    pub moniker: String,
}

impl Default for Node {
    fn default() -> Self {
        Self { moniker: DEFAULT_MONIKER.to_owned() }
    }
}
