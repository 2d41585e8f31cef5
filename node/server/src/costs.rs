//! Defines the types of the tables in `docs/costs.md`, which state for each query what its work grows with, what limits
//! that work, and where it runs. Each interface has a table in its own crate.
//!
//! Tests compare the tables with the program: every method of every interface is in exactly one class, and a JSON-RPC
//! or CometBFT method runs where its class states.

use std::collections::BTreeMap;

/// Methods that do the same kind of work, with the same limit.
#[derive(Clone, Copy, Debug)]
pub struct CostClass {
    /// What the methods do.
    pub work: &'static str,
    /// What the work grows with.
    pub grows_with: &'static str,
    /// What limits the work.
    pub bound: &'static str,
    /// The names of the threads or queues that run the methods, as in the method table of the interface.
    pub threads: &'static [&'static str],
    /// The names of the methods.
    pub methods: &'static [&'static str],
}

/// The classes of one interface.
#[derive(Clone, Copy, Debug)]
pub struct InterfaceCosts {
    /// The name of the interface.
    pub name: &'static str,
    /// Explains the names in [`CostClass::threads`].
    pub threads: &'static str,
    /// The classes, cheapest first.
    pub classes: &'static [CostClass],
}

impl InterfaceCosts {
    /// The class of each method.
    ///
    /// # Panics
    /// If a method is in two classes.
    pub fn by_method(&self) -> BTreeMap<&'static str, &'static CostClass> {
        let mut found = BTreeMap::new();
        for class in self.classes {
            for method in class.methods {
                assert!(found.insert(*method, class).is_none(), "{method} is in two classes");
            }
        }
        found
    }
}
