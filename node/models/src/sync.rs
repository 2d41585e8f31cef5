//! Replaces the types of `pipeline/src/sync.rs` with types that the model checker observes.

pub(crate) use loom::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU64, AtomicUsize, fence},
};

use loom::sync::Condvar;
use std::{
    collections::VecDeque,
    sync::{Arc, PoisonError, atomic::Ordering},
    time::Duration,
};

/// A bounded queue that replaces crossbeam's, which the model checker cannot observe.
///
/// It guarantees less order than crossbeam's: it decides whether it is empty or full by a relaxed load, which may
/// return an old value. The files of the pipeline must therefore contain each fence that they need. The only order is
/// that of the lock: taking a batch happens after putting it.
#[derive(Debug)]
pub(crate) struct ArrayQueue<T> {
    items: Mutex<VecDeque<T>>,
    length: AtomicUsize,
    capacity: usize,
}

impl<T> ArrayQueue<T> {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { items: Mutex::new(VecDeque::new()), length: AtomicUsize::new(0), capacity }
    }

    pub(crate) fn push(&self, item: T) -> Result<(), T> {
        if self.len() == self.capacity {
            return Err(item);
        }
        let mut items = self.items();
        if items.len() == self.capacity {
            return Err(item);
        }
        items.push_back(item);
        self.length.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    pub(crate) fn pop(&self) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        let mut items = self.items();
        let item = items.pop_front()?;
        self.length.fetch_sub(1, Ordering::Relaxed);
        Some(item)
    }

    pub(crate) fn len(&self) -> usize {
        self.length.load(Ordering::Relaxed)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) const fn capacity(&self) -> usize {
        self.capacity
    }

    fn items(&self) -> MutexGuard<'_, VecDeque<T>> {
        self.items.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, Default)]
struct Permit {
    is_available: Mutex<bool>,
    changed: Condvar,
}

/// Replaces crossbeam's parker; it never times out. If two notifications follow each other, the `Condvar` of loom 0.7
/// loses one of them if its mutex is released between the two (`release_lock` resets the state of each thread whose
/// last operation was on the mutex). Models in which two callers wait therefore allow only two preemptions.
#[derive(Debug)]
pub(crate) struct Parker(Unparker);

/// The handle that wakes a thread.
#[derive(Clone, Debug)]
pub(crate) struct Unparker(Arc<Permit>);

impl Parker {
    pub(crate) fn new() -> Self {
        Self(Unparker(Arc::default()))
    }

    pub(crate) const fn unparker(&self) -> &Unparker {
        &self.0
    }

    pub(crate) fn park_timeout(&self, _: Duration) {
        let Permit { is_available, changed } = &*self.0.0;
        let mut permit = is_available.lock().unwrap_or_else(PoisonError::into_inner);
        while !*permit {
            permit = changed.wait(permit).unwrap_or_else(PoisonError::into_inner);
        }
        *permit = false;
    }
}

impl Unparker {
    pub(crate) fn unpark(&self) {
        *self.0.is_available.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.changed.notify_one();
    }
}

/// `std::thread`, with stacks that are large enough for a stage.
pub(crate) mod thread {
    pub(crate) use loom::thread::JoinHandle;
    use std::io;

    /// Size of a stack, in words.
    const STACK_WORDS: usize = 1 << 16;

    /// `std::thread::Builder` with the larger stack.
    pub(crate) struct Builder(loom::thread::Builder);

    impl Builder {
        pub(crate) fn new() -> Self {
            Self(loom::thread::Builder::new().stack_size(STACK_WORDS))
        }

        pub(crate) fn name(self, name: String) -> Self {
            Self(self.0.name(name))
        }

        pub(crate) fn spawn<T: Send + 'static>(
            self,
            work: impl FnOnce() -> T + Send + 'static,
        ) -> io::Result<JoinHandle<T>> {
            self.0.spawn(work)
        }
    }

    /// Starts a thread without a name.
    pub(crate) fn spawn<T: Send + 'static>(
        work: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        Builder::new().spawn(work).expect("the model starts any thread")
    }
}
