//! The table of methods, and what a method gets and gives.

use super::{
    Context,
    block_id::BlockId,
    debug,
    error::Error,
    eth, evmd,
    front::Client,
    lines::Line,
    net, ots,
    params::Arguments,
    pending::{PendingBlock, PendingDetail},
    personal,
    services::Services,
    testing,
    text::{Json, Put},
    trace, txpool, web3,
};
use alloy_primitives::{Bytes, map::HashMap};
use serde::Serialize;
use server::interrupt::{Deadline, Interrupt};
use state::View;
use std::{collections::BTreeSet, fmt, future::Future, pin::Pin, sync::Arc};

/// The JSON text of a result.
pub(super) type Answer = Result<Json, Error>;
type Pending = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// How a method is run.
#[derive(Clone, Copy)]
pub enum Run {
    /// At once, where the socket is served: for reads of microseconds.
    Inline(fn(&Call) -> Answer),
    /// In a line: for reads and executions that may take long.
    Line(Line, fn(&Call) -> Answer),
    /// At once where that is a matter of microseconds, else in a line.
    Quick {
        /// Answers at once, or finds that it would take long.
        at_once: fn(&Call) -> Result<Option<Json>, Error>,
        /// Answers in the line.
        whole: fn(&Call) -> Answer,
        /// Which line.
        line: Line,
    },
    /// Where the socket is served, waiting for the pipeline in between.
    Waiting(fn(Call) -> Pending),
}

impl Run {
    /// Where, in words for the documentation.
    pub const fn place(&self) -> &'static str {
        match self {
            Self::Inline(_) => "at once",
            Self::Quick { line: Line::Short, .. } => "at once, or short line",
            Self::Quick { line: Line::Long, .. } => "at once, or long line",
            Self::Line(Line::Short, _) => "short line",
            Self::Line(Line::Long, _) => "long line",
            Self::Waiting(_) => "at once, and waits for the pipeline",
        }
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.place())
    }
}

/// A method: a row of a namespace's table.
#[derive(Debug)]
pub struct Method {
    /// Namespace and name.
    pub name: &'static str,
    /// Its parameters in order, with the default of those that may be left out.
    pub parameters: &'static [&'static str],
    /// What it answers, and where it differs from geth.
    pub help: &'static str,
    /// What runs it.
    pub run: Run,
}

/// Methods that are served with another namespace, too, because they are safe and clients expect them:
/// the rest of their own namespace is off by default.
const SERVED_WITH: &[(&str, &str)] = &[("personal_listAccounts", "eth")];

impl Method {
    /// What is before the underscore, or before the dot in the name of OpenRPC's `rpc.discover`.
    pub fn namespace(&self) -> &'static str {
        self.name.split_once(['_', '.']).map_or(self.name, |(namespace, _)| namespace)
    }

    /// Whether the method is served where these namespaces are.
    pub(super) fn is_served(&self, api: &[String]) -> bool {
        let others = SERVED_WITH.iter().filter(|(name, _)| *name == self.name);
        let mut namespaces = others.map(|(_, namespace)| *namespace).chain([self.namespace()]);
        namespaces.any(|namespace| api.iter().any(|name| name == namespace))
    }
}

/// Every method there is, by namespace.
pub fn methods() -> impl Iterator<Item = &'static Method> {
    let tables = [
        eth::METHODS,
        net::METHODS,
        web3::METHODS,
        txpool::METHODS,
        debug::METHODS,
        trace::METHODS,
        ots::METHODS,
        testing::METHODS,
        evmd::METHODS,
        personal::METHODS,
    ];
    tables.into_iter().flatten()
}

/// The namespaces of all methods.
pub fn namespaces() -> BTreeSet<&'static str> {
    methods().map(Method::namespace).collect()
}

/// Finds methods by name.
#[derive(Debug)]
pub(super) struct MethodIndex(HashMap<&'static str, (usize, &'static Method)>);

impl MethodIndex {
    /// The methods of the namespaces served, numbered in the order of [`methods`].
    pub(super) fn new(api: &[String]) -> Self {
        let numbered = methods().enumerate().filter(|(_, method)| method.is_served(api));
        Self(numbered.map(|(index, method)| (method.name, (index, method))).collect())
    }

    /// The method and its number.
    pub(super) fn find(&self, name: &str) -> Option<(usize, &'static Method)> {
        self.0.get(name).copied()
    }
}

/// One call of a method.
#[derive(Clone, Debug)]
pub struct Call {
    pub(super) method: &'static Method,
    /// JSON text of the parameters; empty where none are given.
    pub(super) params: Bytes,
    /// What the whole call, or batch of calls, sees. Its head is the pending block if `pending` is set.
    pub(super) view: Arc<View>,
    /// The pending block, after the method has required it.
    pub(super) pending: Option<Arc<PendingBlock>>,
    pub(super) context: Arc<Context>,
    pub(super) services: Arc<Services>,
    /// Who calls.
    pub(super) client: Arc<Client>,
    /// Whether the answer still is wanted.
    pub(super) interrupt: Interrupt,
}

impl Call {
    /// The parameters, not more than the method has.
    pub(super) fn arguments(&self) -> Result<Arguments<'_>, Error> {
        Arguments::new(&self.params, self.method.parameters.len(), &self.context.spec)
    }

    /// The pending block.
    ///
    /// # Errors
    /// If the call does not have it yet: the dispatcher then runs the method again with it.
    pub(super) fn pending(&self, detail: PendingDetail) -> Result<&PendingBlock, Error> {
        let pending = self.pending.as_deref().filter(|pending| pending.has(detail));
        pending.ok_or_else(|| Error::pending_required(detail))
    }

    /// This call with the view of a pending block.
    pub(super) fn with_pending(self, pending: Arc<PendingBlock>) -> Self {
        Self { view: Arc::clone(&pending.view), pending: Some(pending), ..self }
    }

    /// The number of a block; `None` if there is no such block. The pending block is the head of the view once
    /// the call has it.
    pub(super) fn find(&self, id: BlockId) -> Result<Option<u64>, Error> {
        if id.is_pending() {
            self.pending(PendingDetail::State)?;
        }
        id.find(&self.view)
    }

    /// As [`Self::find`]; a block that is not there is geth's error.
    pub(super) fn require(&self, id: BlockId) -> Result<u64, Error> {
        if id.is_pending() {
            self.pending(PendingDetail::State)?;
        }
        id.require(&self.view)
    }

    /// As [`Self::find`], for methods that do not support the pending block.
    pub(super) fn find_canonical(&self, id: BlockId) -> Result<Option<u64>, Error> {
        if id.is_pending() {
            return Err(Error::pending_refused());
        }
        id.find(&self.view)
    }

    /// As [`Self::require`], for methods that do not support the pending block.
    pub(super) fn require_canonical(&self, id: BlockId) -> Result<u64, Error> {
        if id.is_pending() {
            return Err(Error::pending_refused());
        }
        id.require(&self.view)
    }

    /// When a single execution is to be given up.
    pub(super) fn call_deadline(&self) -> Deadline {
        self.interrupt.within(self.services.limits.call_time)
    }

    /// For methods without parameters; geth refuses any that are given.
    pub(super) fn no_arguments(&self) -> Result<(), Error> {
        self.arguments().map(drop)
    }
}

/// Writes a result as JSON.
pub(super) fn json(result: &(impl Serialize + ?Sized)) -> Answer {
    Json::of(result)
}

/// Writes a result as JSON by hand.
pub(super) fn put(result: &(impl Put + ?Sized)) -> Answer {
    Ok(Json::put(result))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_is_listed_once_and_described() {
        let api: Vec<_> = methods().map(|method| method.namespace().to_owned()).collect();
        let index = MethodIndex::new(&api);
        assert_eq!(index.0.len(), methods().count(), "a name is listed twice");
        for method in methods() {
            let is_qualified = method.namespace().len() < method.name.len();
            assert!(is_qualified && !method.help.is_empty(), "{}", method.name);
        }
    }

    #[test]
    fn of_personal_only_the_list_of_accounts_is_served_by_default() {
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
