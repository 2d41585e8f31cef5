//! The entry point of each stage for each instruction set.
//!
//! A stage is generic code. It is fast only if it is compiled, together with everything that it inlines, with
//! the `#[target_feature]` of its instruction set. Stages are never inlined into each other, because each has
//! thousands of instructions.
#![allow(unsafe_code)]

use super::{stages, workspace::Workspace};
use crate::{Backend, field::Field};
#[cfg(target_arch = "x86_64")]
use crate::{
    field::{Doubles, Limbs52},
    lanes::{fma::Fma, ifma::Ifma},
    processor::{Avx2, Avx512Ifma},
};

/// The stages over one instruction set.
pub(crate) trait Kernels: Field {
    /// The proof that the processor can run the stages.
    type Processor: Copy + core::fmt::Debug;
    /// Smaller batches are faster one by one, because the cost of a vector does not depend on the number of
    /// lanes in use.
    const MIN_BATCH: usize;
    /// Returns the backend that hashes the keys.
    fn backend(processor: Self::Processor) -> Backend;
    /// Returns the proof, if this processor can run the stages.
    #[cfg(test)]
    fn detect() -> Option<Self::Processor>;
    fn decompress(processor: Self::Processor, ws: &mut Workspace<Self>);
    fn scalars(processor: Self::Processor, ws: &mut Workspace<Self>);
    fn tables(processor: Self::Processor, ws: &mut Workspace<Self>);
    fn pairs(processor: Self::Processor, ws: &mut Workspace<Self>);
    fn base(processor: Self::Processor, ws: &mut Workspace<Self>);
    fn ladder(processor: Self::Processor, ws: &mut Workspace<Self>);
    fn finish(processor: Self::Processor, ws: &mut Workspace<Self>);
}

#[cfg(target_arch = "x86_64")]
macro_rules! stages {
    ($field:ty, $features:literal: $($stage:ident)*) => {$(
        fn $stage(_: Self::Processor, ws: &mut Workspace<Self>) {
            #[target_feature(enable = $features)]
            fn run(ws: &mut Workspace<$field>) {
                stages::$stage(ws);
            }
            // SAFETY: the first argument proves that the processor has these features.
            unsafe { run(ws) }
        }
    )*};
}

#[cfg(target_arch = "x86_64")]
impl Kernels for Limbs52<Ifma> {
    type Processor = Avx512Ifma;
    const MIN_BATCH: usize = 2;

    fn backend(processor: Avx512Ifma) -> Backend {
        Backend::Ifma(processor)
    }

    #[cfg(test)]
    fn detect() -> Option<Avx512Ifma> {
        Avx512Ifma::detect()
    }

    stages!(
        Limbs52<Ifma>, "avx512f,avx512ifma,avx512dq,avx512bw,avx512vl,avx512vbmi2,bmi2":
        decompress scalars tables pairs base ladder finish
    );
}

#[cfg(target_arch = "x86_64")]
impl Kernels for Doubles<Fma> {
    type Processor = Avx2;
    const MIN_BATCH: usize = 4;

    fn backend(processor: Avx2) -> Backend {
        Backend::Avx2(processor)
    }

    #[cfg(test)]
    fn detect() -> Option<Avx2> {
        Avx2::detect()
    }

    stages!(Doubles<Fma>, "avx2,fma,bmi2": decompress scalars tables pairs base ladder finish);
}

#[cfg(test)]
macro_rules! model_stage {
    ($($stage:ident)*) => {$(
        fn $stage((): (), ws: &mut Workspace<Self>) {
            stages::$stage(ws);
        }
    )*};
}

/// Implements the stages over a checked model.
#[cfg(test)]
macro_rules! model {
    ($field:ident) => {
        impl Kernels for crate::field::$field<crate::lanes::model::Model> {
            type Processor = ();
            const MIN_BATCH: usize = 2;

            fn backend((): ()) -> Backend {
                Backend::Scalar
            }

            fn detect() -> Option<()> {
                Some(())
            }

            model_stage!(decompress scalars tables pairs base ladder finish);
        }
    };
}

#[cfg(test)]
model!(Limbs52);
#[cfg(test)]
model!(Doubles);
