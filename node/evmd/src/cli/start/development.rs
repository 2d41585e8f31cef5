//! Adapts `evmd start` to a development chain (ADR 0033): a transaction is mined at once, the development accounts sign
//! for clients, and web pages of every origin may use JSON-RPC. The keys are public, so other machines must not reach
//! JSON-RPC unless a setting allows it.

use super::reachable_from_elsewhere;
use anyhow::bail;
use chain::DEV_ACCOUNTS;
use config::{Config, Engine, JsonRpc, Mempool};
use home::Home;
use keys::PrivateKey;
use pipeline::{Mining, Pipeline};
use rpc::{DEVELOPMENT_NAMESPACES as NAMESPACES, Development};
use rpc_eth::development::CallObserver;
use std::{sync::Arc, time::Duration};

/// The namespace that is not served by default, because it exists for the test suites of clients.
const NOT_SERVED: &str = "testing";

/// Replaces the default values of settings with those of development chains. Values that were changed are kept.
pub(super) fn adjust(config: &mut Config) {
    let (set, default) = (&mut config.json_rpc, JsonRpc::default());
    let every = || rpc::namespaces().into_iter().filter(|name| *name != NOT_SERVED);
    for (api, default) in [(&mut set.api, default.api), (&mut set.ws_api, default.ws_api)] {
        if *api == default {
            *api = every().map(str::to_owned).collect();
        }
    }
    if set.cors_origins == default.cors_origins {
        set.cors_origins = vec!["*".to_owned()];
    }
    // A client may set a base fee of 0 and then send transactions with a gas price of 0.
    if config.mempool.price_limit == Mempool::default().price_limit {
        config.mempool.price_limit = 0;
    }
}

/// Returns the controls for the JSON-RPC clients of a development chain. `observer` receives their calls.
pub(super) fn control(
    home: &Home,
    pipeline: &Pipeline,
    observer: Option<Arc<dyn CallObserver>>,
) -> Option<Arc<Development>> {
    let blocks = pipeline.blocks().filter(|_| home.spec.is_development())?;
    let mut development = Development::new(blocks);
    development.observer = observer;
    Some(Arc::new(development))
}

/// Refuses the namespaces that only development chains serve.
pub(super) fn refuse_namespaces(config: &JsonRpc) -> anyhow::Result<()> {
    let mut named = config.api.iter().chain(&config.ws_api);
    match named.find(|name| NAMESPACES.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => bail!(
            "json-rpc.api: the namespace {name} exists on development chains only, because its methods change the \
             chain: remove it, or create a development chain in another home folder (evmd init --dev)"
        ),
    }
}

/// Returns when blocks are produced: as soon as there is a transaction, unless an interval is set.
pub(super) fn mining(block_time: Option<Duration>, engine: &Engine) -> Mining {
    match block_time {
        Some(interval) => Mining::Every(interval),
        None if engine.block_time_ms == Engine::default().block_time_ms => Mining::Instant,
        None => Mining::Every(engine.block_time()),
    }
}

/// Returns the keys of the development accounts.
pub(super) fn keys() -> impl Iterator<Item = PrivateKey> {
    let key = |bytes: &[u8]| PrivateKey::from_bytes(bytes).expect("development keys are valid");
    DEV_ACCOUNTS.iter().map(move |account| key(account.private_key.as_slice()))
}

/// Refuses to serve JSON-RPC of a development chain to other machines, unless the setting allows it.
pub(super) fn require_loopback(config: &JsonRpc) -> anyhow::Result<()> {
    if config.allow_remote_signing {
        return Ok(());
    }
    match reachable_from_elsewhere(config) {
        None => Ok(()),
        Some((name, address)) => bail!(
            "a development chain has public keys: every client that reaches \
             json-rpc.{name} {address} could sign with them and change its state. Serve JSON-RPC at 127.0.0.1, allow \
             it with --json-rpc.allow-remote-signing (json-rpc.allow-remote-signing), or create another chain first \
             (evmd init)"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_interval_that_was_set_is_kept() {
        let second = Duration::from_secs(1);
        let default = Engine::default();
        assert_eq!(mining(None, &default), Mining::Instant);
        assert_eq!(mining(Some(second), &default), Mining::Every(second));
        let set = Engine { block_time_ms: 200, ..default };
        assert_eq!(mining(None, &set), Mining::Every(Duration::from_millis(200)));
    }

    #[test]
    fn settings_that_were_set_are_kept() {
        let mut config = Config::default();
        config.json_rpc.api = vec!["eth".to_owned()];
        adjust(&mut config);
        assert_eq!(config.json_rpc.api, ["eth"]);
        assert_eq!(config.json_rpc.cors_origins, ["*"]);
        for name in ["debug", "trace", "ots", "erigon", "txpool", "personal"] {
            assert!(config.json_rpc.ws_api.iter().any(|served| served == name), "{name}");
        }
        assert!(!config.json_rpc.ws_api.iter().any(|served| served == NOT_SERVED));
    }

    #[test]
    fn development_chain_is_not_served_to_other_machines() {
        let mut config = JsonRpc { address: "0.0.0.0:8545".parse().unwrap(), ..JsonRpc::default() };
        let error = require_loopback(&config).unwrap_err().to_string();
        assert!(error.contains("--json-rpc.allow-remote-signing"), "{error}");
        config.allow_remote_signing = true;
        assert!(require_loopback(&config).is_ok());
    }
}
