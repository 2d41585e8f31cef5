//! The precompiled contracts of the fork, and those that a native chain has beside them; some of which a
//! simulation may have moved away.
//!
//! Which addresses are warm does not change by a move, as in geth.

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

/// Bytes of an address that are zero in that of any precompile.
const ZERO_BYTES: usize = 18;

/// Whether a precompile of any fork may be at this address.
pub(super) fn may_be_one(address: Address) -> bool {
    address[..ZERO_BYTES] == [0; ZERO_BYTES]
}

/// Whether some fork, or a parameter of a native chain, puts a precompile at this address: 0x01 to 0x11 (EIP-2537 is the
/// last), 0x0100 (EIP-7951) and 0x0400 (bech32).
pub(super) fn is_one_of_any_fork(address: Address) -> bool {
    let number = u16::from_be_bytes([address[ZERO_BYTES], address[ZERO_BYTES + 1]]);
    may_be_one(address) && matches!(number, 0x01..=0x11 | 0x0100 | 0x0400)
}

/// See the module.
#[derive(Debug)]
pub(super) struct NodePrecompiles {
    fork: EthPrecompiles,
    /// Addresses whose contract is another than the fork says: that of another address, or none.
    changed: AddressMap<Option<Address>>,
}

impl NodePrecompiles {
    /// Those of a fork and those that a chain has beside them.
    pub(super) fn new(spec: SpecId, extra: &ExtraPrecompiles) -> Self {
        recovery::install();
        let mut fork = EthPrecompiles::new(spec);
        if !extra.is_empty() {
            fork.precompiles = joined(&fork, extra);
        }
        Self { fork, changed: AddressMap::default() }
    }

    /// The address that the fork gave the contract at `address`; `None` where there is none.
    pub(super) fn origin(&self, address: Address) -> Option<Address> {
        match self.changed.get(&address) {
            Some(changed) => *changed,
            None => self.fork.contains(&address).then_some(address),
        }
    }

    /// Addresses at which the fork has contracts.
    pub(super) fn fork_addresses(&self) -> impl Iterator<Item = Address> {
        self.fork.warm_addresses().iter().copied()
    }

    /// Takes the contract at `address` away.
    pub(super) fn remove(&mut self, address: Address) {
        self.changed.insert(address, None);
    }

    /// Puts the contract that the fork has at `origin` at `address`.
    pub(super) fn put(&mut self, address: Address, origin: Address) {
        self.changed.insert(address, Some(origin));
    }
}

/// A fork's contracts with a chain's own. Each such set is made once in a process, and there are four for
/// a fork.
fn joined(fork: &EthPrecompiles, extra: &ExtraPrecompiles) -> &'static Precompiles {
    type Sets = HashMap<(SpecId, ExtraPrecompiles), &'static Precompiles>;
    static SETS: LazyLock<Mutex<Sets>> = LazyLock::new(Mutex::default);
    let mut sets = SETS.lock().unwrap_or_else(PoisonError::into_inner);
    sets.entry((fork.spec, extra.clone())).or_insert_with(|| {
        let mut set = fork.precompiles.clone();
        // What the fork has is the fork's.
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
