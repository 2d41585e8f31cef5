//! Reads the counters of stages and the fill levels of rings from outside the pipeline.

use super::{
    fault::FaultCell,
    meter::{Meter, Reading},
    ring::Gauge,
};
use consensus::ClockStatus;
use std::sync::Arc;

/// The counters of all stages, and the fill levels of all rings.
#[derive(Clone, Debug)]
pub struct Monitor {
    pub(super) meters: Vec<Arc<Meter>>,
    pub(super) gauges: Arc<Vec<Gauge>>,
    pub(super) faults: FaultCell,
    pub(super) clock: ClockStatus,
}

/// The fill level of one ring.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct RingReading {
    /// The name of the ring.
    pub name: &'static str,
    /// Batches waiting.
    pub depth: usize,
    /// Maximum number of batches waiting.
    pub capacity: usize,
}

impl Monitor {
    /// Returns the counters of every stage, in pipeline order.
    pub fn readings(&self) -> Vec<Reading> {
        self.meters.iter().map(|meter| meter.read()).collect()
    }

    /// Returns the fill level of every ring.
    pub fn rings(&self) -> Vec<RingReading> {
        let read = |gauge: &Gauge| RingReading {
            name: gauge.name,
            depth: gauge.depth(),
            capacity: gauge.capacity,
        };
        self.gauges.iter().map(read).collect()
    }

    /// Returns the seconds by which the system clock differs from the time of new blocks, if block production did
    /// not follow a step of the system clock; otherwise 0.
    pub fn clock_step_seconds(&self) -> i64 {
        self.clock.step_seconds()
    }

    /// Returns the status that [`Self::clock_step_seconds`] reads. A validator's clock updates it.
    pub fn clock_status(&self) -> ClockStatus {
        self.clock.clone()
    }

    /// Returns whether a stage has failed.
    pub fn fault(&self) -> bool {
        self.faults.is_set()
    }
}
