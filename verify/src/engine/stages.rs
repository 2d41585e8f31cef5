//! The stages of batch recovery, in the order in which they process a chunk.
//!
//! Each takes the whole workspace. `pairs`, `base` and `ladder` process the groups of its `block`, and the other stages
//! its first `used` groups. All are `#[inline(always)]`: `kernels.rs` has an entry point per instruction set.
// In lockstep code, `k` is the index of the same group in every array.
#![allow(clippy::needless_range_loop)]

use super::{
    equal_part,
    invert::{Inverter, ModuloP},
    point::{Accumulators, Affine},
    workspace::{Exchange, Group, ODD, Words, Workspace},
};
use crate::{
    field::{Field, LOCKSTEP, square_root},
    lanes::{LANES, Lanes},
    order::{Scalar, WINDOWS, split},
};

/// A cube root of one modulo p: lambda (x, y) = (beta x, y).
const BETA: [u64; 4] =
    [0xc139_6c28_7195_01ee, 0x9cf0_4975_12f5_8995, 0x6e64_479e_ac34_34e9, 0x7ae9_6a2b_657c_0710];
/// 1/2 modulo p.
const HALF: [u64; 4] = [0xffff_ffff_7fff_fe18, u64::MAX, u64::MAX, u64::MAX >> 1];

/// Computes y of -R for every x, and which x are on the curve.
#[inline(always)]
pub(super) fn decompress<F: Field>(ws: &mut Workspace<F>) {
    let used = ws.used;
    for block in ws.exchange[..used].chunks_mut(equal_part(used, LOCKSTEP)) {
        let n = block.len();
        let mut squares = [F::splat([0; 4]); LOCKSTEP];
        for (square, exchange) in squares.iter_mut().zip(block.iter()) {
            let x = F::from_words(exchange.x.vectors());
            let sum = F::mul_plus::<1>(&F::square(&x), &x, &F::small(7));
            *square = F::masked(&sum);
        }
        let mut roots = squares;
        // A single group fits into registers, so it has separate code.
        if n == 1 {
            square_root::<F>(&mut roots, 1);
        } else {
            square_root::<F>(&mut roots, n);
        }
        for (k, exchange) in block.iter_mut().enumerate() {
            let root = roots[k];
            let square = F::masked(&F::square(&root));
            exchange.on_curve = F::zero_mask(&F::sub(&square, &squares[k]));
            let [low, ..] = F::to_words(&root);
            let even = low.and(F::Lanes::splat(1)).zero_mask();
            // -R is the root whose parity differs from that of R.
            let negate = even ^ exchange.odd;
            exchange.y = Words::of(F::to_words(&F::negate_where(&root, negate)));
        }
    }
}

/// Computes u2 = s / r and u1 = z / r modulo n, split and recoded.
#[inline(always)]
pub(super) fn scalars<F: Field>(ws: &mut Workspace<F>) {
    let used = ws.used;
    for exchange in &ws.exchange[..used] {
        let r = Scalar::from_words(exchange.r.vectors()).to_montgomery();
        ws.order.push(0, r);
    }
    ws.order.invert(&mut ws.zeros);
    for (exchange, group) in ws.exchange[..used].iter().zip(&mut ws.groups[..used]).rev() {
        let (inverse, _) = ws.order.pop();
        let u2 = Scalar::from_words(exchange.s.vectors()).mul(&inverse);
        let u1 = Scalar::from_words(exchange.z.vectors()).mul(&inverse);
        let (d1, d2) = split(&u2);
        let (e1, e2) = split(&u1);
        group.digits = [d1, d2, e1, e2];
    }
}

/// A point of a table under construction.
#[derive(Clone, Copy)]
enum At {
    /// (2 i + 1) P
    Odd(usize),
    /// 2^(i + 1) P
    Even(usize),
}

/// One affine operation of the table rounds.
#[derive(Clone, Copy)]
enum Step {
    Double { of: At, into: usize },
    Add { a: At, b: usize, into: usize },
}

/// The steps that compute the odd multiples, in five rounds. The steps of a round are independent of each other.
const ROUNDS: [&[Step]; 5] = {
    use At::{Even, Odd};
    use Step::{Add, Double};
    [
        &[Double { of: Odd(0), into: 0 }],
        &[Double { of: Even(0), into: 1 }, Add { a: Odd(0), b: 0, into: 1 }],
        &[
            Double { of: Even(1), into: 2 },
            Add { a: Odd(0), b: 1, into: 2 },
            Add { a: Odd(1), b: 1, into: 3 },
        ],
        &[
            Double { of: Even(2), into: 3 },
            Add { a: Odd(0), b: 2, into: 4 },
            Add { a: Odd(1), b: 2, into: 5 },
            Add { a: Odd(2), b: 2, into: 6 },
            Add { a: Odd(3), b: 2, into: 7 },
        ],
        &[
            Add { a: Odd(0), b: 3, into: 8 },
            Add { a: Odd(1), b: 3, into: 9 },
            Add { a: Odd(2), b: 3, into: 10 },
            Add { a: Odd(3), b: 3, into: 11 },
            Add { a: Odd(4), b: 3, into: 12 },
            Add { a: Odd(5), b: 3, into: 13 },
            Add { a: Odd(6), b: 3, into: 14 },
            Add { a: Odd(7), b: 3, into: 15 },
        ],
    ]
};

impl<F: Field> Group<F> {
    #[inline(always)]
    fn at(&self, at: At) -> &Affine<F> {
        match at {
            At::Odd(i) => &self.odd[i],
            At::Even(i) => &self.even[i],
        }
    }

    #[inline(always)]
    fn denominator(&self, step: Step) -> F::Factor {
        match step {
            Step::Double { of, .. } => F::factor(&F::twice(&self.at(of).y)),
            Step::Add { a, b, .. } => F::sub_factor(&self.even[b].x, &self.at(a).x),
        }
    }

    /// Returns the slope of the line through the operands of a step.
    #[inline(always)]
    fn slope(&self, step: Step, inverse: &F::Factor) -> F::Factor {
        let rise = match step {
            Step::Double { of, .. } => F::square_scaled::<3>(&self.at(of).x),
            Step::Add { a, b, .. } => F::sub_factor(&self.even[b].y, &self.at(a).y),
        };
        F::mul(&rise, inverse)
    }

    /// Returns the point from which a step starts, and x of the other point.
    #[inline(always)]
    fn operands(&self, step: Step) -> (&Affine<F>, &F::Fe) {
        match step {
            Step::Double { of, .. } => (self.at(of), &self.at(of).x),
            Step::Add { a, b, .. } => (self.at(a), &self.even[b].x),
        }
    }

    /// Returns the indices of the odd multiples for the digits `half`.
    #[inline(always)]
    fn multiples(&self, half: usize) -> Indices {
        let mut indices = [[0; LANES]; WINDOWS];
        for (w, words) in indices.iter_mut().enumerate() {
            *words = self.digits[half].digit(w).0.to_words();
        }
        indices
    }

    /// Returns y of the multiple with this `index`, with the sign of window `w` of the digits `half`.
    #[inline(always)]
    fn signed_y(&self, half: usize, w: usize, index: &[u64; LANES]) -> F::Fe {
        let (_, negative) = self.digits[half].digit(w);
        F::negate_where(&pick::<F>(index, |i| &self.odd[i].y), negative)
    }

    /// Returns the indices of the rows of the base table for the digits of u1.
    #[inline(always)]
    fn rows(&self) -> Indices {
        let [_, _, high, low] = &self.digits;
        let mut indices = [[0; LANES]; WINDOWS];
        for (w, words) in indices.iter_mut().enumerate() {
            *words = high.string(w).shl::<5>().or(low.string(w)).to_words();
        }
        indices
    }

    #[inline(always)]
    fn result(&mut self, step: Step) -> &mut Affine<F> {
        match step {
            Step::Double { into, .. } => &mut self.even[into],
            Step::Add { into, .. } => &mut self.odd[into],
        }
    }
}

/// Returns `SCALE` times y of the sum of `p` and another point. `x` is the x of the sum.
#[inline(always)]
fn y_on_line<F: Field, const SCALE: u32>(slope: &F::Factor, p: &Affine<F>, x: &F::Fe) -> F::Fe {
    F::masked(&F::mul_plus::<SCALE>(slope, &F::sub_factor(&p.x, x), &F::minus(&p.y)))
}

/// Completes the last steps whose denominators were pushed, at most [`LOCKSTEP`], in lockstep. `at` contains the group
/// and the step of each, starting with the last one.
#[inline(always)]
fn complete<F: Field>(
    groups: &mut [Group<F>],
    inverter: &mut Inverter<ModuloP<F>>,
    slopes: &mut [F::Factor; LOCKSTEP],
    at: &[(usize, Step)],
) {
    let n = at.len().min(LOCKSTEP);
    for k in 0..n {
        slopes[k] = inverter.pop().0;
    }
    for k in 0..n {
        let (g, step) = at[k];
        slopes[k] = groups[g].slope(step, &slopes[k]);
    }
    for k in 0..n {
        let (g, step) = at[k];
        let (p, other_x) = groups[g].operands(step);
        let minus_x = F::minus_both(&p.x, other_x);
        groups[g].result(step).x = F::square_plus_fe(&slopes[k], &minus_x);
    }
    for k in 0..n {
        let (g, step) = at[k];
        let x = groups[g].result(step).x;
        let y = y_on_line::<F, 1>(&slopes[k], groups[g].operands(step).0, &x);
        groups[g].result(step).y = y;
    }
}

/// Builds the odd multiples of P = -R and of lambda P.
#[inline(always)]
pub(super) fn tables<F: Field>(ws: &mut Workspace<F>) {
    let groups = &mut ws.groups[..ws.used];
    for (group, exchange) in groups.iter_mut().zip(&ws.exchange) {
        group.odd[0] = Affine {
            x: F::from_words(exchange.x.vectors()),
            y: F::from_words(exchange.y.vectors()),
        };
    }
    let mut slopes = [F::one(); LOCKSTEP];
    for round in ROUNDS {
        for (g, group) in groups.iter().enumerate() {
            for &step in round {
                ws.field.push(g, group.denominator(step));
            }
        }
        ws.field.invert(&mut ws.zeros);
        let steps = groups.len() * round.len();
        let mut done = 0;
        while done < steps {
            let n = LOCKSTEP.min(steps - done);
            let mut at = [(0, round[0]); LOCKSTEP];
            for (k, at) in at[..n].iter_mut().enumerate() {
                let i = steps - 1 - done - k;
                *at = (i / round.len(), round[i % round.len()]);
            }
            complete(groups, &mut ws.field, &mut slopes, &at[..n]);
            done += n;
        }
    }
    let beta = F::splat(BETA);
    for group in groups {
        for (beta_x, point) in group.beta_x.iter_mut().zip(&group.odd) {
            *beta_x = F::mul_fe(&point.x, &beta);
        }
    }
}

/// The index of the table entry for each window and lane. Indices are computed well before their use, because loading a
/// word of a recently stored vector stalls until the store has left the store buffer.
type Indices = [[u64; LANES]; WINDOWS];

/// Gathers the table entries with these indices, lane by lane.
#[inline(always)]
fn pick<'a, F: Field>(index: &[u64; LANES], entry: impl Fn(usize) -> &'a F::Fe) -> F::Fe {
    F::gather(index.map(|i| entry(i as usize % ODD)))
}

/// Adds, for each window, the multiples of P and of lambda P that the digits of u2 select.
#[inline(always)]
pub(super) fn pairs<F: Field>(ws: &mut Workspace<F>) {
    let groups = &ws.groups[ws.block.clone()];
    let windows = &mut ws.windows[..groups.len()];
    for ((g, group), windows) in ws.block.clone().zip(groups).zip(windows.iter_mut()) {
        let index = [group.multiples(0), group.multiples(1)];
        for (w, window) in windows.iter_mut().enumerate() {
            window.x = pick::<F>(&index[0][w], |i| &group.odd[i].x);
            let other = pick::<F>(&index[1][w], |i| &group.beta_x[i]);
            ws.field.push(g, F::factor(&F::sub(&other, &window.x)));
        }
    }
    ws.field.invert(&mut ws.zeros);
    let mut scratch = Scratch::new();
    for (group, windows) in groups.iter().zip(windows).rev() {
        let index = [group.multiples(0), group.multiples(1)];
        let rise = |w: usize, window: &mut Affine<F>| {
            window.y = group.signed_y(0, w, &index[0][w]);
            F::sub_factor(&group.signed_y(1, w, &index[1][w]), &window.y)
        };
        add_to_windows::<F, 1>(windows, &mut ws.field, &mut scratch, rise);
    }
}

/// Adds, for each window, the row of the base table for the digits of u1.
#[inline(always)]
pub(super) fn base<F: Field>(ws: &mut Workspace<F>) {
    let table = &*ws.base;
    let groups = &ws.groups[ws.block.clone()];
    let windows = &mut ws.windows[..groups.len()];
    for ((g, group), windows) in ws.block.clone().zip(groups).zip(windows.iter_mut()) {
        for (index, window) in group.rows().iter().zip(windows) {
            let rows = index.map(|i| &table.row(i as usize).x);
            let x = F::from_words(F::Lanes::transpose(rows));
            ws.field.push(g, F::factor(&F::sub(&x, &window.x)));
        }
    }
    ws.field.invert(&mut ws.zeros);
    let mut scratch = Scratch::new();
    for (group, windows) in groups.iter().zip(windows).rev() {
        let index = group.rows();
        let rise = |w: usize, window: &mut Affine<F>| {
            let rows = index[w].map(|i| &table.row(i as usize).y);
            F::sub_factor(&F::from_words(F::Lanes::transpose(rows)), &window.y)
        };
        add_to_windows::<F, 2>(windows, &mut ws.field, &mut scratch, rise);
    }
}

/// Completes an addition to every window of a group, in lockstep. The differences of x must have been pushed
/// last. `rise(w, point)` returns the difference of y. The sum is stored as x and `SCALE` times y.
#[inline(always)]
fn add_to_windows<F: Field, const SCALE: u32>(
    windows: &mut [Affine<F>; WINDOWS],
    inverter: &mut Inverter<ModuloP<F>>,
    scratch: &mut Scratch<F>,
    rise: impl Fn(usize, &mut Affine<F>) -> F::Factor,
) {
    let Scratch { slopes, rises, x } = scratch;
    for first in (0..WINDOWS).step_by(LOCKSTEP).rev() {
        let n = LOCKSTEP.min(WINDOWS - first);
        let windows = &mut windows[first..first + n];
        // One loop, so that the gathers of one window overlap with the products of another.
        for k in (0..n).rev() {
            let (inverse, run) = inverter.pop();
            slopes[k] = inverse;
            x[k] = F::masked(&run);
            rises[k] = rise(first + k, &mut windows[k]);
        }
        for k in 0..n {
            slopes[k] = F::mul(&rises[k], &slopes[k]);
        }
        for k in 0..n {
            // x1 + x2 = 2 x1 + run.
            let minus_x = F::minus_and_twice(&x[k], &windows[k].x);
            x[k] = F::square_plus_fe(&slopes[k], &minus_x);
        }
        for k in 0..n {
            windows[k].y = y_on_line::<F, SCALE>(&slopes[k], &windows[k], &x[k]);
            windows[k].x = x[k];
        }
    }
}

/// Intermediate values of a lockstep addition.
struct Scratch<F: Field> {
    slopes: [F::Factor; LOCKSTEP],
    rises: [F::Factor; LOCKSTEP],
    /// Differences of x, later x of the sums.
    x: [F::Fe; LOCKSTEP],
}

impl<F: Field> Scratch<F> {
    #[inline(always)]
    fn new() -> Self {
        let one = [F::one(); LOCKSTEP];
        Self { slopes: one, rises: one, x: [F::splat([0; 4]); LOCKSTEP] }
    }
}

/// Runs the main loop: Horner's rule over the windows, starting with the highest.
#[inline(always)]
pub(super) fn ladder<F: Field>(ws: &mut Workspace<F>) {
    let start = ws.base.start();
    let start = Affine { x: F::splat(start.x), y: F::twice(&F::splat(start.y)) };
    let groups = &mut ws.groups[ws.block.clone()];
    let exchanges = &mut ws.exchange[ws.block.clone()];
    let length = equal_part(groups.len(), LOCKSTEP);
    let parts = groups.chunks_mut(length).zip(exchanges.chunks_mut(length));
    for ((groups, exchanges), windows) in parts.zip(ws.windows.chunks(length)) {
        // See `decompress`.
        if groups.len() == 1 {
            ladder_block(1, &start, groups, exchanges, windows);
        } else {
            ladder_block(groups.len(), &start, groups, exchanges, windows);
        }
    }
}

/// Executes [`ladder`] for `n` groups, at most [`LOCKSTEP`].
#[inline(always)]
fn ladder_block<F: Field>(
    n: usize,
    start: &Affine<F>,
    groups: &mut [Group<F>],
    exchanges: &mut [Exchange],
    windows: &[[Affine<F>; WINDOWS]],
) {
    let mut sum = Accumulators::start(start);
    for window in (1..WINDOWS).rev() {
        sum.add(n, windows, window);
        for _ in 0..5 {
            sum.double(n);
        }
    }
    let before_last = sum.clone();
    sum.add(n, windows, 0);
    for (k, (group, exchange)) in groups.iter_mut().zip(exchanges).enumerate() {
        let lost = F::zero_mask(&F::masked(&sum.z[k]));
        exchange.infinite = 0;
        exchange.redo = 0;
        if lost != 0 {
            let opposite = before_last.opposite_mask(k, &windows[k][0]);
            exchange.infinite = lost & opposite;
            exchange.redo = lost & !opposite;
        }
        group.x = sum.x[k];
        group.w = sum.w[k];
        group.z = F::select(lost, &F::one(), &sum.z[k]);
    }
}

/// Converts to affine coordinates and stores the public keys in place of R.
#[inline(always)]
pub(super) fn finish<F: Field>(ws: &mut Workspace<F>) {
    let groups = &ws.groups[..ws.used];
    for (g, group) in groups.iter().enumerate() {
        ws.field.push(g, group.z);
    }
    ws.field.invert(&mut ws.zeros);
    let half = F::splat(HALF);
    for (g, group) in groups.iter().enumerate().rev() {
        let (zi, _) = ws.field.pop();
        let zi2 = F::square(&zi);
        let zi3 = F::mul(&F::mul(&zi2, &zi), &half);
        let exchange: &mut Exchange = &mut ws.exchange[g];
        exchange.x = Words::of(F::to_words(&F::mul_fe(&group.x, &zi2)));
        exchange.y = Words::of(F::to_words(&F::mul_fe(&group.w, &zi3)));
        exchange.redo |= ws.zeros[g];
        exchange.infinite &= !ws.zeros[g];
    }
}
