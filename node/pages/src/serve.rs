//! Starts the server of the pages.

use crate::{
    routes::router,
    samples::sample,
    shared::{Context, Pages},
};
use config::Pages as Settings;
use server::{
    access::{Access, PageRules},
    heights::Heights,
    listen::{self, Bounds, Protocol, Server},
    listener::Listener,
};
use std::sync::Arc;

/// Serves the address of `listener` until [`Server::stop`].
///
/// # Panics
/// Outside a Tokio runtime.
pub fn serve(config: &Settings, listener: Listener, context: Context) -> Server {
    let budget = Arc::clone(&context.budget);
    let access = Access::new(
        PageRules::QUERIES,
        ("pages.allowed-hosts", &config.allowed_hosts),
        ("pages.cors-origins", &[]),
    );
    let bounds = Bounds {
        heights: Some(Heights::of(&context.published)),
        connections: Arc::clone(&budget.pages),
        concurrent: config.max_concurrent,
        // Requests have no body.
        body: 0,
        protocol: Protocol::Http { access, health: &[] },
    };
    let samples = sample(context.monitor.clone(), context.published.clone());
    let pages = Arc::new(Pages::new(context, samples, config.max_concurrent));
    listen::serve(listener, bounds, &budget, router(pages))
}
