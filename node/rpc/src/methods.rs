//! Joins the tables of methods of all namespaces, and finds methods by name.

use super::discover::Document;
use alloy_primitives::map::HashMap;
use rpc_eth::method::{Answer, Call, Method, Run, json};
use std::collections::BTreeSet;

const DISCOVER: &[Method] = &[
    Method {
        name: "rpc.discover",
        parameters: &[],
        help: "The enabled methods as an OpenRPC document.",
        run: Run::Inline(discover),
    },
    Method {
        name: "rpc_discover",
        parameters: &[],
        help: "Like rpc.discover.",
        run: Run::Inline(discover),
    },
];

fn discover(call: &Call) -> Answer {
    call.no_arguments()?;
    json(&Document::of(methods().filter(|method| method.is_served(&call.caller.api))))
}

/// Returns the methods of all tables.
pub fn methods() -> impl Iterator<Item = &'static Method> {
    let tables = [
        rpc_eth::eth::METHODS,
        rpc_eth::net::METHODS,
        DISCOVER,
        rpc_eth::web3::METHODS,
        rpc_eth::txpool::METHODS,
        rpc_debug::debug::METHODS,
        rpc_debug::trace::METHODS,
        rpc_debug::ots::METHODS,
        rpc_debug::testing::METHODS,
        rpc_eth::evmd::METHODS,
        rpc_eth::personal::METHODS,
        rpc_debug::development::EVM,
        rpc_debug::development::ANVIL,
        rpc_debug::development::HARDHAT,
    ];
    tables.into_iter().flatten()
}

/// Returns the namespaces of all methods.
pub fn namespaces() -> BTreeSet<&'static str> {
    methods().map(Method::namespace).collect()
}

/// An index of methods by name.
#[derive(Debug)]
pub(crate) struct MethodIndex(HashMap<&'static str, (usize, &'static Method)>);

impl MethodIndex {
    /// Indexes the methods of the enabled namespaces. The number of a method is its position in [`methods`].
    pub(crate) fn new(api: &[String]) -> Self {
        let numbered = methods().enumerate().filter(|(_, method)| method.is_served(api));
        Self(numbered.map(|(index, method)| (method.name, (index, method))).collect())
    }

    /// Returns the method and its number.
    pub(crate) fn find(&self, name: &str) -> Option<(usize, &'static Method)> {
        self.0.get(name).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_is_listed_once_and_has_a_help_text() {
        let api: Vec<_> = methods().map(|method| method.namespace().to_owned()).collect();
        let index = MethodIndex::new(&api);
        assert_eq!(index.0.len(), methods().count(), "a name is listed twice");
        for method in methods() {
            let is_qualified = method.namespace().len() < method.name.len();
            assert!(is_qualified && !method.help.is_empty(), "{}", method.name);
        }
    }

    #[test]
    fn only_list_accounts_of_personal_is_enabled_by_default() {
        let default = config::JsonRpc::default();
        for api in [&default.api, &default.ws_api] {
            let index = MethodIndex::new(api);
            let personal = methods().filter(|method| method.namespace() == "personal");
            let served = personal.filter(|method| index.find(method.name).is_some());
            let names: Vec<_> = served.map(|method| method.name).collect();
            assert_eq!(names, ["personal_listAccounts"]);
        }
        let only = |name: &str| MethodIndex::new(&[name.to_owned()]).find("personal_listAccounts");
        assert!(only("eth").is_some() && only("personal").is_some() && only("net").is_none());
    }
}
