//! The thread that follows the chain. It loads the view again for each block and never keeps one, because a view keeps
//! its layers in memory.

use super::{
    Printed,
    block::{self, BlockFigures},
    rate::LineRate,
    transactions::{MAX_TX_LINES, TxPrinter},
};
use chain::ChainSpec;
use evm::ExecutionCaches;
use state::{Published, View};
use std::{
    io,
    sync::{Arc, atomic::AtomicBool},
    thread::{self, JoinHandle},
    time::Instant,
};
use tokio::{runtime::Handle, sync::oneshot, sync::watch, time::sleep_until};

/// Maximum number of lines about blocks per second. A person cannot read more: at this rate a terminal scrolls by one
/// screen every few seconds.
const MAX_LINES_PER_SECOND: u64 = 10;
/// Maximum number of lines per second on a development chain, including those about transactions. Test suites mine a
/// block for each transaction, and developers need the failures and messages.
const MAX_DEVELOPMENT_LINES_PER_SECOND: u64 = 200;
/// Niceness of the thread, as in `nice(1)`: the pipeline and clients have priority.
const NICENESS: i32 = 5;

/// The thread before its start: what it prints, and what it reads.
#[derive(Debug)]
pub struct BlockPrinter {
    published: Published,
    heads: watch::Receiver<u64>,
    /// The newest block that was printed or left out.
    last: u64,
    /// The number of undone branches, see [`View::undone`].
    undone: u64,
    rate: LineRate,
    printed: Printed,
    /// `None` unless transactions of a development chain are printed.
    txs: Option<TxPrinter>,
}

/// The running thread. When this is dropped, it prints the blocks up to the head and ends.
#[derive(Debug)]
pub struct Terminal {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl BlockPrinter {
    /// Begins after the current head. `shown` is set while transactions of a development chain are shown; it is `None`
    /// on other chains.
    pub fn new(
        spec: Arc<ChainSpec>,
        published: Published,
        caches: Option<Arc<ExecutionCaches>>,
        printed: Printed,
        shown: Option<Arc<AtomicBool>>,
    ) -> Self {
        let heads = published.heads();
        let view = published.load();
        let max_lines = match shown.is_some() {
            true => MAX_DEVELOPMENT_LINES_PER_SECOND,
            false => MAX_LINES_PER_SECOND,
        };
        let shown = shown.filter(|_| printed.txs || printed.console);
        Self {
            heads,
            last: view.number(),
            undone: view.undone,
            rate: LineRate::new(max_lines, Instant::now()),
            printed,
            txs: shown.map(|shown| TxPrinter { spec, caches, printed, shown }),
            published,
        }
    }

    /// Starts the thread, unless it would print nothing.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start(self, runtime: Handle) -> io::Result<Terminal> {
        if !self.printed.blocks && self.txs.is_none() {
            return Ok(Terminal { stop: None, thread: None });
        }
        let (stop, stopped) = oneshot::channel();
        let thread = thread::Builder::new().name("terminal".to_owned());
        let follow = move || {
            // On Linux this sets the priority of the calling thread. If it fails, the thread competes with the others.
            let _ = rustix::process::setpriority_process(None, NICENESS);
            runtime.block_on(self.follow(stopped));
        };
        let thread = thread.spawn(follow)?;
        Ok(Terminal { stop: Some(stop), thread: Some(thread) })
    }

    async fn follow(mut self, mut stopped: oneshot::Receiver<()>) {
        loop {
            let due = self.rate.due();
            let summary = async {
                match due {
                    Some(due) => sleep_until(due.into()).await,
                    None => std::future::pending().await,
                }
            };
            let is_over = tokio::select! {
                _ = &mut stopped => true,
                changed = self.heads.changed() => changed.is_err(),
                () = summary => false,
            };
            self.catch_up();
            self.end_period(Instant::now());
            if is_over {
                if let Some(summary) = self.rate.finish(Instant::now()) {
                    block::print_summary(&summary);
                }
                return;
            }
        }
    }

    /// Prints all blocks up to the head.
    fn catch_up(&mut self) {
        loop {
            let view = self.published.load();
            self.follow_undo(&view);
            if self.last >= view.number() {
                return;
            }
            let number = self.last + 1;
            self.end_period(Instant::now());
            if let Err(error) = self.print(&view, number) {
                if self.published.load().undone != self.undone {
                    // The block was undone while it was read.
                    continue;
                }
                tracing::warn!(%error, number, "a block cannot be printed");
            }
            self.last = number;
        }
    }

    /// Continues at the ancestor of blocks that were undone since the last view.
    fn follow_undo(&mut self, view: &View) {
        for branch in self.published.undone(self.undone, view) {
            if branch.ancestor < self.last && self.printed.blocks {
                let blocks = branch.blocks.iter().filter(|block| block.number <= self.last);
                block::print_undone(blocks.count(), branch.ancestor);
            }
            self.last = self.last.min(branch.ancestor);
        }
        if self.undone != view.undone {
            // `undone` does not return old branches, whose blocks may be above the head.
            self.last = self.last.min(view.number());
            self.undone = view.undone;
        }
    }

    fn end_period(&mut self, now: Instant) {
        if let Some(summary) = self.rate.end_period(now) {
            block::print_summary(&summary);
        }
    }

    fn print(&mut self, view: &View, number: u64) -> anyhow::Result<()> {
        let figures = BlockFigures::read(view, number)?;
        let printer = self.txs.as_ref().filter(|txs| txs.is_shown() && figures.txs > 0);
        let txs = if printer.is_some() { figures.txs.min(MAX_TX_LINES as u64) } else { 0 };
        if !self.rate.admit(1 + txs) {
            self.rate.leave_out(number, figures.txs, figures.gas_used);
            return Ok(());
        }
        if let Some(printer) = printer {
            printer.print(view, number)?;
        }
        figures.print();
        Ok(())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // The panic hook has reported a panic, which must not prevent a clean shutdown.
            let _ = thread.join();
        }
    }
}
