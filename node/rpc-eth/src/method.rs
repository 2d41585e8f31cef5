//! Defines the rows in the tables of methods, and the call of a method.

use crate::{Context, PendingBlock, services::Services};
use alloy_primitives::Bytes;
use rpc_types::{
    PendingDetail,
    block_id::BlockId,
    error::Error,
    params::Arguments,
    text::{Json, WriteJson},
};
use serde::Serialize;
use server::interrupt::{Deadline, Interrupt};
use state::View;
use std::{fmt, future::Future, net::IpAddr, pin::Pin, sync::Arc};

/// The queue of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueClass {
    /// For calls that take milliseconds.
    Short,
    /// For calls that may take seconds.
    Long,
}

/// The client that makes a call.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The IP address.
    pub address: IpAddr,
    /// The namespaces that are enabled for it.
    pub api: Arc<[String]>,
}

/// The JSON text of a result, or an error.
pub type Answer = Result<Json, Error>;
type Pending = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// Where a method runs.
#[derive(Clone, Copy)]
pub enum Run {
    /// On the thread that serves the socket, for calls that take microseconds.
    Inline(fn(&Call) -> Answer),
    /// In a queue, for calls that may take a long time.
    Queued(QueueClass, fn(&Call) -> Answer),
    /// Inline if the call takes microseconds, otherwise in a queue.
    Quick {
        /// Returns the result, or `None` if the call would take too long.
        inline: fn(&Call) -> Result<Option<Json>, Error>,
        /// Returns the result in the queue.
        queued: fn(&Call) -> Answer,
        /// The queue for calls that would take too long inline.
        queue: QueueClass,
    },
    /// On the thread that serves the socket, as a future that waits for the pipeline.
    Waiting(fn(Call) -> Pending),
}

impl Run {
    /// Returns the description for `docs/costs.md`.
    pub const fn description(&self) -> &'static str {
        match self {
            Self::Inline(_) => "inline",
            Self::Quick { queue: QueueClass::Short, .. } => "inline or short queue",
            Self::Quick { queue: QueueClass::Long, .. } => "inline or long queue",
            Self::Queued(QueueClass::Short, _) => "short queue",
            Self::Queued(QueueClass::Long, _) => "long queue",
            Self::Waiting(_) => "inline, waits for the pipeline",
        }
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.description())
    }
}

/// A method, which is a row in the table of its namespace.
#[derive(Debug)]
pub struct Method {
    /// Namespace and name.
    pub name: &'static str,
    /// The parameters in order. An optional one has the form `name = default`.
    pub parameters: &'static [&'static str],
    /// The result, and the differences from geth.
    pub help: &'static str,
    /// Where it runs.
    pub run: Run,
}

/// Methods that are enabled by another namespace as well. They are safe and clients expect them, but the rest of their
/// namespace is disabled by default.
const SERVED_WITH: &[(&str, &str)] = &[("personal_listAccounts", "eth")];

impl Method {
    /// Returns the part of the name before the underscore, or before the dot of OpenRPC's `rpc.discover`.
    pub fn namespace(&self) -> &'static str {
        self.name.split_once(['_', '.']).map_or(self.name, |(namespace, _)| namespace)
    }

    /// Returns whether the method is enabled by these namespaces.
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
    /// The JSON text of the parameters, which is empty if there are none.
    pub params: Bytes,
    /// The view that the whole call or batch uses. Its head is the pending block if `pending` is set.
    pub view: Arc<View>,
    /// The pending block, once the method has required it.
    pub pending: Option<Arc<PendingBlock>>,
    /// The parts of the node that the methods use.
    pub context: Arc<Context>,
    /// The state that all calls share.
    pub services: Arc<Services>,
    /// The client that makes the call.
    pub caller: Caller,
    /// Reports whether the caller has disconnected.
    pub interrupt: Interrupt,
}

impl Call {
    /// Returns the parameters, or an error if there are too many.
    pub fn arguments(&self) -> Result<Arguments<'_>, Error> {
        Arguments::new(&self.params, self.method.parameters.len(), &self.context.spec)
    }

    /// Returns the pending block.
    ///
    /// # Errors
    /// Returns an error if the call does not have the block yet. The dispatcher then runs the method again with it.
    pub fn pending(&self, detail: PendingDetail) -> Result<&PendingBlock, Error> {
        let pending = self.pending.as_deref().filter(|pending| pending.has(detail));
        pending.ok_or_else(|| Error::pending_required(detail))
    }

    /// Returns this call with the view of a pending block.
    pub fn with_pending(self, pending: Arc<PendingBlock>) -> Self {
        Self { view: Arc::clone(&pending.view), pending: Some(pending), ..self }
    }

    /// Returns the base fee of the block after the head of the view, in wei.
    pub fn next_base_fee(&self) -> u64 {
        let set = self.context.pool.next_block_settings().header.base_fee;
        // The setting is for the block after the newest one, and not for the block after the pending block.
        let set = set.filter(|_| self.pending.is_none());
        set.unwrap_or(self.view.head.next_base_fee)
    }

    /// Returns the number of a block, or `None` if it does not exist. The pending block is the head of the view when
    /// the call has it.
    pub fn find(&self, id: BlockId) -> Result<Option<u64>, Error> {
        if id.is_pending() {
            self.pending(PendingDetail::State)?;
        }
        id.find(&self.view)
    }

    /// Like [`Self::find`], but returns geth's error if the block does not exist.
    pub fn require(&self, id: BlockId) -> Result<u64, Error> {
        if id.is_pending() {
            self.pending(PendingDetail::State)?;
        }
        id.require(&self.view)
    }

    /// Like [`Self::find`], but for methods that do not support the pending block.
    pub fn find_canonical(&self, id: BlockId) -> Result<Option<u64>, Error> {
        if id.is_pending() {
            return Err(Error::pending_refused());
        }
        id.find(&self.view)
    }

    /// Like [`Self::require`], but for methods that do not support the pending block.
    pub fn require_canonical(&self, id: BlockId) -> Result<u64, Error> {
        if id.is_pending() {
            return Err(Error::pending_refused());
        }
        id.require(&self.view)
    }

    /// Returns the deadline of a single execution.
    pub fn call_deadline(&self) -> Deadline {
        self.interrupt.within(self.services.limits.call_timeout)
    }

    /// Checks that a method without parameters is called without any, as in geth.
    pub fn no_arguments(&self) -> Result<(), Error> {
        self.arguments().map(drop)
    }
}

/// Serialises a result with serde.
pub fn json(result: &(impl Serialize + ?Sized)) -> Answer {
    Json::of(result)
}

/// Serialises a result with its own writer.
pub fn write_json(result: &(impl WriteJson + ?Sized)) -> Answer {
    Ok(Json::write(result))
}
