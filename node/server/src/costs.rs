//! The tables of `docs/costs.md`: for each query, what its work grows with, what limits it, and the threads on which it runs.
//! Each interface has its own table in its own crate.
//!
//! Tests compare the tables with the program: every method of every interface is in one class, and a JSON-RPC
//! or CometBFT method runs where its class states.

use std::collections::BTreeMap;

/// Methods whose work grows with the same thing.
#[derive(Clone, Copy, Debug)]
pub struct CostClass {
    /// What the methods do.
    pub work: &'static str,
    /// What the work grows with.
    pub grows_with: &'static str,
    /// What limits it.
    pub bound: &'static str,
    /// Where such methods run, as the method table of the interface names it.
    pub places: &'static [&'static str],
    /// The methods.
    pub methods: &'static [&'static str],
}

/// The classes of one interface.
#[derive(Clone, Copy, Debug)]
pub struct InterfaceCosts {
    /// The interface.
    pub name: &'static str,
    /// An explanation of the places.
    pub places: &'static str,
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
