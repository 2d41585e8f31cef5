//! Provides the precompiled contracts of the fork, and the additional ones of a native chain. The overrides of a call
//! or of a simulated block can move them.
//!
//! As in geth, a move does not change which addresses are warm.

mod bech32;
mod recovery;

use std::{
    collections::HashMap,
    sync::{LazyLock, Mutex, PoisonError},
};

use alloy_primitives::{Address, map::AddressMap};
use revm::{
    context_interface::{Cfg, ContextTr},
    handler::{EthPrecompiles, PrecompileProvider},
    interpreter::{CallInputs, InterpreterResult},
    precompile::{Precompile, PrecompileId, Precompiles, secp256r1::P256VERIFY},
    primitives::{AddressSet, hardfork::SpecId},
};

use chain::{ExtraPrecompile, ExtraPrecompiles};

/// Number of leading bytes that are zero in the address of every precompile.
const ZERO_BYTES: usize = 18;

/// Quickly tests an address: returns true for every precompile, and for some other addresses.
pub(super) fn may_be_precompile(address: Address) -> bool {
    address[..ZERO_BYTES] == [0; ZERO_BYTES]
}

/// Returns whether a precompile of any fork or of a native chain can be at this address: 0x01 to 0x11 (the last of
/// EIP-2537), 0x0100 (EIP-7951) and 0x0400 (bech32).
pub(super) fn is_any_precompile(address: Address) -> bool {
    let number = u16::from_be_bytes([address[ZERO_BYTES], address[ZERO_BYTES + 1]]);
    may_be_precompile(address) && matches!(number, 0x01..=0x11 | 0x0100 | 0x0400)
}

/// The precompiles of a block; see the module documentation.
#[derive(Debug)]
pub(super) struct NodePrecompiles {
    fork: EthPrecompiles,
    /// For each address whose contract a move changed: the original address of the contract that is there now, if any.
    changed: AddressMap<Option<Address>>,
}

impl NodePrecompiles {
    /// Creates the precompiles of a fork with the additional ones of a chain.
    pub(super) fn new(spec: SpecId, extra: &ExtraPrecompiles) -> Self {
        recovery::install();
        let mut fork = EthPrecompiles::new(spec);
        if !extra.is_empty() {
            fork.precompiles = joined(&fork, extra);
        }
        Self { fork, changed: AddressMap::default() }
    }

    /// Returns the original address of the contract that is at `address` now, or `None` if there is none.
    pub(super) fn origin(&self, address: Address) -> Option<Address> {
        match self.changed.get(&address) {
            Some(changed) => *changed,
            None => self.fork.contains(&address).then_some(address),
        }
    }

    /// Returns the original addresses of all contracts.
    pub(super) fn fork_addresses(&self) -> impl Iterator<Item = Address> {
        self.fork.warm_addresses().iter().copied()
    }

    /// Removes the contract at `address`.
    pub(super) fn remove(&mut self, address: Address) {
        self.changed.insert(address, None);
    }

    /// Puts the contract whose original address is `origin` at `address`.
    pub(super) fn put(&mut self, address: Address, origin: Address) {
        self.changed.insert(address, Some(origin));
    }
}

/// Returns the precompiles of a fork with those of a chain. Each set is created once per process and never freed. There
/// are at most three per fork.
fn joined(fork: &EthPrecompiles, extra: &ExtraPrecompiles) -> &'static Precompiles {
    type Sets = HashMap<(SpecId, ExtraPrecompiles), &'static Precompiles>;
    static SETS: LazyLock<Mutex<Sets>> = LazyLock::new(Mutex::default);
    let mut sets = SETS.lock().unwrap_or_else(PoisonError::into_inner);
    sets.entry((fork.spec, extra.clone())).or_insert_with(|| {
        let mut set = fork.precompiles.clone();
        // Precompiles of the fork take precedence.
        let missing = extra.iter().filter(|extra| !fork.contains(&extra.address()));
        set.extend(missing.map(contract));
        Box::leak(Box::new(set))
    })
}

fn contract(extra: ExtraPrecompile) -> Precompile {
    match extra {
        ExtraPrecompile::P256 => P256VERIFY,
        ExtraPrecompile::Bech32 => {
            let id = PrecompileId::Custom("bech32".into());
            Precompile::new(id, extra.address(), bech32::run)
        }
    }
}

impl<C> PrecompileProvider<C> for NodePrecompiles
where
    C: ContextTr<Cfg: Cfg<Spec = SpecId>>,
{
    type Output = InterpreterResult;

    fn set_spec(&mut self, spec: SpecId) -> bool {
        <EthPrecompiles as PrecompileProvider<C>>::set_spec(&mut self.fork, spec)
    }

    fn run(
        &mut self,
        context: &mut C,
        inputs: &CallInputs,
    ) -> Result<Option<InterpreterResult>, String> {
        if self.changed.is_empty() {
            return self.fork.run(context, inputs);
        }
        let Some(origin) = self.origin(inputs.bytecode_address) else { return Ok(None) };
        let inputs = CallInputs { bytecode_address: origin, ..inputs.clone() };
        self.fork.run(context, &inputs)
    }

    fn warm_addresses(&self) -> &AddressSet {
        self.fork.warm_addresses()
    }
}
