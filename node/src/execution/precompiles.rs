//! The fork's precompiled contracts, some of which a simulation may have moved away.
//!
//! Which addresses are warm does not change by a move, as in geth.

use alloy_primitives::{Address, map::AddressMap};
use revm::{
    context_interface::{Cfg, ContextTr},
    handler::{EthPrecompiles, PrecompileProvider},
    interpreter::{CallInputs, InterpreterResult},
    primitives::{AddressSet, hardfork::SpecId},
};

/// Bytes of an address that are zero in that of any precompile.
const ZERO_BYTES: usize = 18;

/// Whether a precompile of any fork may be at this address.
pub(super) fn may_be_one(address: Address) -> bool {
    address[..ZERO_BYTES] == [0; ZERO_BYTES]
}

/// See the module.
#[derive(Debug)]
pub(super) struct NodePrecompiles {
    fork: EthPrecompiles,
    /// Addresses whose contract is another than the fork says: that of another address, or none.
    changed: AddressMap<Option<Address>>,
}

impl NodePrecompiles {
    pub(super) fn new(spec: SpecId) -> Self {
        Self { fork: EthPrecompiles::new(spec), changed: AddressMap::default() }
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
