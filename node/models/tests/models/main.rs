//! Runs the models of concurrent code; see the documentation of the crate `models`.

use models::{combining_model, journal_model, ring_model, submit, undo_model, waker_model};

macro_rules! models {
    ($($module:ident: $($name:ident),+;)+) => {
        $($(
            #[test]
            fn $name() {
                $module::$name();
            }
        )+)+
    };
}

models! {
    waker_model: write_before_a_wake_up_is_seen, concurrent_wake_ups_are_not_lost;
    ring_model: batches_arrive_in_order_and_the_last_is_not_lost, each_batch_reaches_one_of_two_consumers,
        batches_without_a_reader_are_dropped, producer_without_credit_ends_with_the_reader;
    combining_model: every_caller_is_answered;
    submit: callers_are_answered_through_one_queue, calls_during_shutdown_end,
        batches_reach_ante_in_the_order_of_the_queue;
    journal_model: answered_transactions_survive_the_process;
    undo_model: block_is_not_both_written_and_undone;
}
