//! Compares a node under test with a fresh node that replays its chain: data, responses and index must be the same.

use super::{answers::Twins, compare_views, traffic::Rules, verify};
use crate::{
    client::{Node, config},
    common::{export_view, import, producing, reopened},
    random::Random,
};
use alloy_primitives::{Address, B256};
use chain::DEV_ACCOUNTS;
use home::Home;
use std::path::Path;
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// Number of blocks below the head for which every read is compared.
const NEWEST: u64 = 20;
/// Number of random blocks for which every read is compared.
const RANDOM: u64 = 6;
/// Number of accounts, and number of contracts, for which reads are compared.
const ACCOUNTS: usize = 4;
const CONTRACTS: usize = 4;

pub(super) fn runtime() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().unwrap()
}

/// Serves a home with all JSON-RPC namespaces.
pub(super) async fn serve(folder: TempDir, home: Home, options: pipeline::Options) -> Node {
    let mut settings = config();
    settings.json_rpc.api = rpc::namespaces().into_iter().map(str::to_owned).collect();
    Node::start_with(folder, home, options, settings).await
}

/// Compares blocks, receipts, state, logs, fee history and responses.
pub(super) async fn compare_with_replay(
    node: &Node,
    rules: Rules,
    contracts: &[Address],
    random: &mut Random,
) {
    let ours = node.pipeline.published.load();
    let folder = tempfile::tempdir().unwrap();
    let home = replayed(&ours, rules, folder.path());
    compare_views(&ours, &home.view().unwrap(), contracts);
    let newest = contracts.iter().rev().take(CONTRACTS).copied();
    let addresses: Vec<_> =
        DEV_ACCOUNTS[..ACCOUNTS].iter().map(|account| account.address).chain(newest).collect();
    let fresh = serve(folder, home, producing(None)).await;
    let head = ours.number();
    let mut numbers: Vec<_> = (head.saturating_sub(NEWEST)..=head).collect();
    numbers.extend((0..RANDOM).map(|_| random.below(head + 1)));
    drop(ours);
    let twins = Twins {
        ours: &node.endpoints,
        theirs: &fresh.endpoints,
        rules,
        head,
        addresses: &addresses,
    };
    twins.compare(&numbers).await;
    fresh.stop().await;
}

/// Creates a home with the chain of a view.
fn replayed(view: &state::View, rules: Rules, folder: &Path) -> Home {
    let file = folder.join("chain.rlp");
    let head = export_view(view, &file);
    let home = rules.home(&folder.join("replayed"));
    import(&home, vec![file]).unwrap();
    assert_eq!(home.view().unwrap().head.hash, head);
    home
}

/// Stops a node. The node must then have `head`, and the same index entries as a node that replays the chain.
pub(super) async fn stop_and_compare_indexes(node: Node, rules: Rules, path: &Path, head: B256) {
    let _folder = node.stop().await;
    let ours = reopened(path);
    assert_eq!(ours.view().unwrap().head.hash, head);
    // An import flushes the blocks that could still be undone.
    import(&ours, Vec::new()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let theirs = replayed(&ours.view().unwrap(), rules, folder.path());
    let [ours, theirs] = [ours, theirs].map(|home| entries(&home));
    assert_eq!(ours.len(), theirs.len());
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(ours, theirs);
    }
    verify(path);
}

fn entries(home: &Home) -> Vec<(&'static str, Vec<u8>, Vec<u8>)> {
    let (reader, mut entries) = (home.index.reader().unwrap(), Vec::new());
    let flushed = reader.flushed().unwrap();
    assert_eq!(flushed, Some(home.view().unwrap().number()), "all blocks are in the index");
    let take =
        |table, key: &[u8], value: &[u8]| entries.push((table, key.to_vec(), value.to_vec()));
    reader.each_entry(take).unwrap();
    entries
}
