//! What the methods of all connections share beside the chain: which namespaces are served.

use crate::config::JsonRpc;

/// See the module.
#[derive(Debug)]
pub(super) struct Services {
    /// Namespaces served.
    pub(super) api: Vec<String>,
}

impl Services {
    /// As the settings say.
    pub(super) fn new(config: &JsonRpc) -> Self {
        Self { api: config.api.clone() }
    }
}
