//! The table of methods, and what a method gets and gives.

use crate::{Context, PendingBlock, services::Services};
use alloy_primitives::Bytes;
use rpc_types::{
    PendingDetail,
    block_id::BlockId,
    error::Error,
    params::Arguments,
    text::{Json, Put},
};
use serde::Serialize;
use server::interrupt::{Deadline, Interrupt};
use state::View;
use std::{fmt, future::Future, net::IpAddr, pin::Pin, sync::Arc};

/// Which line a call stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// Milliseconds.
    Short,
    /// Up to seconds.
    Long,
}

/// Who calls.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The client's address.
    pub address: IpAddr,
    /// The namespaces that are served to it.
    pub api: Arc<[String]>,
}

/// The JSON text of a result.
pub type Answer = Result<Json, Error>;
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
    pub fn is_served(&self, api: &[String]) -> bool {
        let others = SERVED_WITH.iter().filter(|(name, _)| *name == self.name);
        let mut namespaces = others.map(|(_, namespace)| *namespace).chain([self.namespace()]);
        namespaces.any(|namespace| api.iter().any(|name| name == namespace))
    }
}

/// One call of a method.
#[derive(Clone, Debug)]
pub struct Call {
    /// The method.
    pub method: &'static Method,
    /// JSON text of the parameters; empty where none are given.
    pub params: Bytes,
    /// What the whole call, or batch of calls, sees. Its head is the pending block if `pending` is set.
    pub view: Arc<View>,
    /// The pending block, after the method has required it.
    pub pending: Option<Arc<PendingBlock>>,
    /// What the methods work on.
    pub context: Arc<Context>,
    /// What all calls share.
    pub services: Arc<Services>,
    /// Who calls.
    pub caller: Caller,
    /// Whether the answer still is wanted.
    pub interrupt: Interrupt,
}

impl Call {
    /// The parameters, not more than the method has.
    pub fn arguments(&self) -> Result<Arguments<'_>, Error> {
        Arguments::new(&self.params, self.method.parameters.len(), &self.context.spec)
    }

    /// The pending block.
    ///
    /// # Errors
    /// If the call does not have it yet: the dispatcher then runs the method again with it.
    pub fn pending(&self, detail: PendingDetail) -> Result<&PendingBlock, Error> {
        let pending = self.pending.as_deref().filter(|pending| pending.has(detail));
        pending.ok_or_else(|| Error::pending_required(detail))
    }

    /// This call with the view of a pending block.
    pub fn with_pending(self, pending: Arc<PendingBlock>) -> Self {
        Self { view: Arc::clone(&pending.view), pending: Some(pending), ..self }
    }

    /// The number of a block; `None` if there is no such block. The pending block is the head of the view once
    /// the call has it.
    pub fn find(&self, id: BlockId) -> Result<Option<u64>, Error> {
        if id.is_pending() {
            self.pending(PendingDetail::State)?;
        }
        id.find(&self.view)
    }

    /// As [`Self::find`]; a block that is not there is geth's error.
    pub fn require(&self, id: BlockId) -> Result<u64, Error> {
        if id.is_pending() {
            self.pending(PendingDetail::State)?;
        }
        id.require(&self.view)
    }

    /// As [`Self::find`], for methods that do not support the pending block.
    pub fn find_canonical(&self, id: BlockId) -> Result<Option<u64>, Error> {
        if id.is_pending() {
            return Err(Error::pending_refused());
        }
        id.find(&self.view)
    }

    /// As [`Self::require`], for methods that do not support the pending block.
    pub fn require_canonical(&self, id: BlockId) -> Result<u64, Error> {
        if id.is_pending() {
            return Err(Error::pending_refused());
        }
        id.require(&self.view)
    }

    /// When a single execution is to be given up.
    pub fn call_deadline(&self) -> Deadline {
        self.interrupt.within(self.services.limits.call_time)
    }

    /// For methods without parameters; geth refuses any that are given.
    pub fn no_arguments(&self) -> Result<(), Error> {
        self.arguments().map(drop)
    }
}

/// Writes a result as JSON.
pub fn json(result: &(impl Serialize + ?Sized)) -> Answer {
    Json::of(result)
}

/// Writes a result as JSON by hand.
pub fn put(result: &(impl Put + ?Sized)) -> Answer {
    Ok(Json::put(result))
}
