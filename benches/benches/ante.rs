//! Measures the native chain's checks in check mode for transactions with recovered senders: with a
//! state in memory, and with the state reader of a node's newest view.

use alloy_primitives::{Address, B256, Bytes, U256, map::AddressMap};
use benches::transfer;
use chain::{DEV_ACCOUNTS, Genesis};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use home::Home;
use modules::decorator::{CheckContext, Mode, check};
use std::{convert::Infallible, hint::black_box};
use storage::{Account, StateRead};
use transactions::{RecoveredTx, recover_senders};
use verify::{Backend, Recoverer};

/// Transactions per round.
const TXS: usize = 1_000;

/// Accounts without code.
struct Accounts(AddressMap<Account>);

impl StateRead for Accounts {
    type Error = Infallible;

    fn account(&self, address: Address) -> Result<Option<Account>, Infallible> {
        Ok(self.0.get(&address).copied())
    }

    fn storage(&self, _: Address, _: U256) -> Result<U256, Infallible> {
        Ok(U256::ZERO)
    }

    fn code(&self, _: B256) -> Result<Bytes, Infallible> {
        Ok(Bytes::new())
    }

    fn has_storage(&self, _: Address) -> Result<bool, Infallible> {
        Ok(false)
    }
}

/// Transfers from alternating development accounts.
fn transfers() -> Vec<RecoveredTx> {
    let raw: Vec<_> = (0..TXS)
        .map(|index| {
            let nonce = (index / DEV_ACCOUNTS.len()) as u64;
            transfer(index % DEV_ACCOUNTS.len(), nonce, Address::repeat_byte(0x77))
        })
        .collect();
    let mut recoverer = Recoverer::new(Backend::detect().expect("some backend works"));
    let recovered = recover_senders(&mut recoverer, &raw);
    recovered.into_iter().map(|tx| tx.expect("signed here")).collect()
}

fn check_all<S: StateRead>(txs: &[RecoveredTx], context: &CheckContext<'_>, state: &S)
where
    S::Error: std::fmt::Debug,
{
    for tx in txs {
        let verdict = check(black_box(tx), context, state, Mode::Check);
        assert!(black_box(verdict).expect("state is readable").is_ok());
    }
}

fn bench(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let home = Home::init(folder.path(), &Genesis::native_dev(0)).expect("a home can be made");
    let view = home.view().expect("genesis is there");
    let context = CheckContext::after(
        &home.spec,
        &view.head.header,
        view.head.header.timestamp,
        view.head.next_base_fee,
        view.head.modules.as_deref(),
    );
    let txs = transfers();
    let mut group = criterion.benchmark_group("ante");
    group.throughput(Throughput::Elements(TXS as u64));
    let account = Account { balance: U256::MAX, ..Account::default() };
    let accounts = Accounts(DEV_ACCOUNTS.iter().map(|dev| (dev.address, account)).collect());
    group.bench_function("check, state in memory", |bencher| {
        bencher.iter(|| check_all(&txs, &context, &accounts));
    });
    group.bench_function("check, state on disk", |bencher| {
        let reader = || view.state.reader().expect("a reader is free");
        bencher.iter_batched(
            reader,
            |state| check_all(&txs, &context, &state),
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

criterion_group!(ante, bench);
criterion_main!(ante);
