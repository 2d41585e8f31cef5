//! The messages of `pipeline/src/batch.rs` that the models send.

use crate::sync::Mutex;
use alloy_consensus::{SignableTransaction, TxLegacy};
use alloy_eips::eip2718::Encodable2718;
use alloy_primitives::{Address, B256, Bytes, Signature, U256, keccak256};
use loom::sync::Condvar;
use mempool::Reject;
use std::sync::{Arc, OnceLock, PoisonError};
use transactions::{RecoveredTx, Transaction};

pub(crate) type Submitted = Result<B256, Box<Reject>>;

#[derive(Debug)]
#[allow(dead_code, reason = "only the files of the pipeline use all variants")]
pub(crate) enum Reply {
    Tcp(u64),
    Rpc(Caller),
    Silent,
}

#[derive(Debug)]
pub(crate) struct RawTx {
    pub(crate) bytes: Result<Bytes, Box<Reject>>,
    pub(crate) reply: Reply,
}

pub(crate) type Recovered = (Result<Arc<RecoveredTx>, Box<Reject>>, Reply);

/// A function that runs just before a result is passed to the call that waits for it.
pub(crate) type OnAnswer = Arc<dyn Fn(&Submitted) + Send + Sync>;

#[derive(Debug, Default)]
struct Answer {
    /// The result; `Some(None)` if the [`Caller`] was dropped without one.
    result: Mutex<Option<Option<Submitted>>>,
    changed: Condvar,
}

/// The end through which the stage sends the result of a call. The other end is [`Call`].
pub(crate) struct Caller {
    answer: Arc<Answer>,
    on_answer: Option<OnAnswer>,
}

impl Caller {
    pub(crate) fn answer(mut self, submitted: Submitted) {
        if let Some(on_answer) = self.on_answer.take() {
            on_answer(&submitted);
        }
        self.put(Some(submitted));
    }

    fn put(&self, result: Option<Submitted>) {
        let mut stored = self.answer.result.lock().unwrap_or_else(PoisonError::into_inner);
        if stored.is_none() {
            *stored = Some(result);
            self.answer.changed.notify_one();
        }
    }
}

impl std::fmt::Debug for Caller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Caller").finish_non_exhaustive()
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.put(None);
    }
}

/// A call that waits for its result.
pub(crate) struct Call(Arc<Answer>);

impl Call {
    pub(crate) fn new(on_answer: Option<OnAnswer>) -> (Self, Caller) {
        let answer = Arc::<Answer>::default();
        (Self(Arc::clone(&answer)), Caller { answer, on_answer })
    }

    /// Waits for the result; `None` if there is none because the stage has ended.
    pub(crate) fn wait(self) -> Option<Submitted> {
        let mut result = self.0.result.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(result) = result.take() {
                return result;
            }
            result = self.0.changed.wait(result).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// The transaction with this number, created once for all executions.
///
/// # Panics
/// If the number is not 0 or 1: the models use two transactions.
pub(crate) fn tx(number: usize) -> Arc<RecoveredTx> {
    static TXS: [OnceLock<Arc<RecoveredTx>>; 2] = [const { OnceLock::new() }; 2];
    Arc::clone(TXS[number].get_or_init(|| {
        let body = TxLegacy { gas_price: 1, gas_limit: 21_000, ..TxLegacy::default() };
        let tx = Transaction::Legacy(body.into_signed(Signature::new(U256::ONE, U256::ONE, false)));
        let sender = Address::repeat_byte(u8::try_from(number + 1).expect("there are few"));
        // The sender is part of the bytes, so that the transactions have different hashes.
        let raw = Bytes::from([tx.encoded_2718().as_slice(), sender.as_slice()].concat());
        let hash = keccak256(&raw);
        let authorities = OnceLock::new();
        Arc::new(RecoveredTx { raw, tx, hash, sender, high_s: false, authorities, cosmos: None })
    }))
}
