//! The layer that answers calls: finds the method, gives it the view, runs it where it belongs,
//! counts it. What is not in the table (subscriptions) goes on to the server below.

use super::{
    Context,
    error::Error,
    meter::CallMeter,
    method::{Answer, Call, Method, MethodIndex, Run, methods},
    services::Services,
    workers::Workers,
};
use crate::{config::JsonRpc, view::View};
use jsonrpsee::{
    core::{
        middleware::{Batch, BatchEntry, Notification},
        server::{BatchResponseBuilder, MethodResponse, ResponsePayload},
    },
    server::middleware::rpc::RpcServiceT,
    types::{ErrorObjectOwned, Request},
};
use std::{borrow::Cow, future::Future, panic::AssertUnwindSafe, sync::Arc, time::Instant};

/// What all connections share.
#[derive(Debug)]
pub(super) struct Dispatcher {
    context: Arc<Context>,
    services: Arc<Services>,
    index: MethodIndex,
    workers: Workers,
    meter: Arc<CallMeter>,
    /// Number of the counters of methods that are not served: one past the last method.
    unknown: usize,
    response_bytes_max: usize,
}

impl Dispatcher {
    pub(super) fn new(context: Context, config: &JsonRpc) -> Self {
        let names: Vec<_> = methods().map(|method| method.name).chain(["unknown"]).collect();
        Self {
            context: Arc::new(context),
            index: MethodIndex::new(&config.api),
            services: Arc::new(Services::new(config)),
            workers: Workers::new(),
            unknown: names.len() - 1,
            meter: Arc::new(CallMeter::new(names)),
            response_bytes_max: config.max_response_bytes as usize,
        }
    }

    /// The counters of calls.
    pub(super) fn meter(&self) -> Arc<CallMeter> {
        Arc::clone(&self.meter)
    }

    /// Answers a call over one view.
    async fn answer(&self, request: Request<'_>, view: Arc<View>) -> MethodResponse {
        let started = Instant::now();
        let (number, answer) = match self.index.find(&request.method) {
            None => (self.unknown, Err(Error::unknown_method(&request.method))),
            Some((number, method)) => {
                let params = request.params.map(Cow::into_owned);
                let context = Arc::clone(&self.context);
                let services = Arc::clone(&self.services);
                let call = Call { method, params, view, context, services };
                (number, self.run(method, call).await)
            }
        };
        let response = match answer {
            Ok(result) => MethodResponse::response(
                request.id,
                ResponsePayload::success_borrowed(&result),
                self.response_bytes_max,
            ),
            Err(error) => MethodResponse::error(request.id, ErrorObjectOwned::from(error)),
        };
        self.meter.count(number, started.elapsed(), response.as_error_code());
        response.with_extensions(request.extensions)
    }

    async fn run(&self, method: &'static Method, call: Call) -> Answer {
        match method.run {
            Run::Inline(run) => guard(method.name, || run(&call)),
            Run::Worker(run) => self.workers.run(move || run(&call)).await,
            Run::Waiting(run) => run(call).await,
        }
    }

    /// Answers a batch, every call of it over the same view.
    async fn answer_batch(&self, batch: Batch<'_>) -> MethodResponse {
        let view = self.context.published.load();
        let mut responses = BatchResponseBuilder::new_with_limit(self.response_bytes_max);
        let mut notified = false;
        for entry in batch {
            let response = match entry {
                Ok(BatchEntry::Call(request)) => self.answer(request, Arc::clone(&view)).await,
                Ok(BatchEntry::Notification(_)) => {
                    notified = true;
                    continue;
                }
                Err(error) => {
                    let (error, id) = error.into_parts();
                    MethodResponse::error(id, error)
                }
            };
            if let Err(too_large) = responses.append(response) {
                return too_large;
            }
        }
        if responses.is_empty() && notified {
            return MethodResponse::notification();
        }
        MethodResponse::from_batch(responses.finish())
    }
}

/// A panic in a method is a bug of ours; it fails that call and no other.
fn guard(name: &str, run: impl FnOnce() -> Answer) -> Answer {
    std::panic::catch_unwind(AssertUnwindSafe(run))
        .unwrap_or_else(|_| Err(Error::internal(format_args!("{name} panicked"))))
}

/// A connection's end of the dispatcher.
#[derive(Clone, Debug)]
pub(super) struct Service<S> {
    dispatcher: Arc<Dispatcher>,
    below: S,
}

impl<S> Service<S> {
    pub(super) const fn new(dispatcher: Arc<Dispatcher>, below: S) -> Self {
        Self { dispatcher, below }
    }
}

impl<S> RpcServiceT for Service<S>
where
    S: RpcServiceT<NotificationResponse = MethodResponse> + Send + Sync,
{
    type MethodResponse = MethodResponse;
    type NotificationResponse = MethodResponse;
    type BatchResponse = MethodResponse;

    fn call<'a>(&self, request: Request<'a>) -> impl Future<Output = MethodResponse> + Send + 'a {
        let dispatcher = Arc::clone(&self.dispatcher);
        async move {
            let view = dispatcher.context.published.load();
            dispatcher.answer(request, view).await
        }
    }

    fn batch<'a>(&self, batch: Batch<'a>) -> impl Future<Output = MethodResponse> + Send + 'a {
        let dispatcher = Arc::clone(&self.dispatcher);
        async move { dispatcher.answer_batch(batch).await }
    }

    fn notification<'a>(
        &self,
        notification: Notification<'a>,
    ) -> impl Future<Output = MethodResponse> + Send + 'a {
        self.below.notification(notification)
    }
}
