//! What `evmd start` does on a chain of `evmd init --dev` (ADR 0033): blocks are mined at once, the development accounts sign
//! for clients, and pages of every origin may use JSON-RPC. The keys are public, so the servers must not be reachable
//! from other machines unless an option allows it.

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

/// The namespace that stays closed: it is for the test suites of clients.
const CLOSED: &str = "testing";

/// Replaces the defaults of settings that the operator did not set.
pub(super) fn adjust(config: &mut Config) {
    let (set, default) = (&mut config.json_rpc, JsonRpc::default());
    let every = || rpc::namespaces().into_iter().filter(|name| *name != CLOSED);
    for (api, default) in [(&mut set.api, default.api), (&mut set.ws_api, default.ws_api)] {
        if *api == default {
            *api = every().map(str::to_owned).collect();
        }
    }
    if set.cors_origins == default.cors_origins {
        set.cors_origins = vec!["*".to_owned()];
    }
    // A client may set a base fee of 0 and then send transactions without a price.
    if config.mempool.price_limit == Mempool::default().price_limit {
        config.mempool.price_limit = 0;
    }
}

/// What clients control. `observer` receives their calls.
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

/// Refuses the namespaces of development chains on another chain.
pub(super) fn no_namespaces(config: &JsonRpc) -> anyhow::Result<()> {
    let mut named = config.api.iter().chain(&config.ws_api);
    match named.find(|name| NAMESPACES.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => bail!(
            "json-rpc.api: the namespace {name} exists on development chains only, because its methods change the \
             chain: remove it, or create a development chain in another home folder (evmd init --dev)"
        ),
    }
}

/// When blocks are produced: at once, unless an interval is set.
pub(super) fn mining(block_time: Option<Duration>, engine: &Engine) -> Mining {
    match block_time {
        Some(interval) => Mining::Every(interval),
        None if engine.block_time_ms == Engine::default().block_time_ms => Mining::Instant,
        None => Mining::Every(engine.block_time()),
    }
}

/// The keys of the development accounts.
pub(super) fn keys() -> impl Iterator<Item = PrivateKey> {
    let key = |bytes: &[u8]| PrivateKey::from_bytes(bytes).expect("they are valid keys");
    DEV_ACCOUNTS.iter().map(move |account| key(account.private_key.as_slice()))
}

/// Refuses to serve a development chain to other machines, unless that is allowed.
pub(super) fn is_local(config: &JsonRpc) -> anyhow::Result<()> {
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
    fn an_interval_that_was_set_is_kept() {
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
        assert!(!config.json_rpc.ws_api.iter().any(|served| served == CLOSED));
    }

    #[test]
    fn development_chain_is_not_served_to_other_machines() {
        let mut config = JsonRpc { address: "0.0.0.0:8545".parse().unwrap(), ..JsonRpc::default() };
        let error = is_local(&config).unwrap_err().to_string();
        assert!(error.contains("--json-rpc.allow-remote-signing"), "{error}");
        config.allow_remote_signing = true;
        assert!(is_local(&config).is_ok());
    }
}
