//! Sends the transactions of this node's clients to the other validators, so that each validator can propose them.
//!
//! If a message is lost, its transactions are delayed, but not lost: the node that accepted them proposes them itself
//! when it is the leader.

use super::application::Chain;
use alloy_primitives::Bytes;
use commonware_p2p::{Receiver, Recipients, Sender};
use commonware_runtime::{Buf, Handle, Spawner, Supervisor};

/// Maximum bytes of a message with transactions: a transaction of maximum size with its length fits.
pub const MAX_TRANSACTION_MESSAGE_BYTES: usize = 256 * 1024;

/// Starts to send and receive transactions. Returns the two tasks, which end only with the network.
pub(super) fn exchange<E, C, S, R>(
    runtime: E,
    chain: &C,
    (sender, receiver): (S, R),
) -> [Handle<()>; 2]
where
    E: Spawner + Supervisor,
    C: Chain,
    S: Sender,
    R: Receiver,
{
    let (sends, receives) = (chain.clone(), chain.clone());
    [
        runtime.child("sends").spawn(move |_| send(sends, sender)),
        runtime.child("receives").spawn(move |_| receive(receives, receiver)),
    ]
}

async fn send<S: Sender>(chain: impl Chain, mut to: S) {
    loop {
        let message = chain.outgoing_transactions().await;
        assert!(message.len() <= MAX_TRANSACTION_MESSAGE_BYTES, "the node limits its messages");
        // A validator that is not connected receives the transactions in a block.
        let _ = to.send(Recipients::All, message.0, false);
    }
}

async fn receive(chain: impl Chain, mut from: impl Receiver) {
    while let Ok((peer, mut message)) = from.recv().await {
        let bytes = message.remaining();
        if bytes > MAX_TRANSACTION_MESSAGE_BYTES {
            tracing::warn!(%peer, bytes, "dropped a message with transactions that is too long");
            continue;
        }
        chain.incoming_transactions(Bytes(message.copy_to_bytes(bytes))).await;
    }
}
