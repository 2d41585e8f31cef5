//! Creates the responses of the SDK's modules to the messages of a successful Cosmos transaction.

use super::Message;
use feemarket::store::StoredEvent;
use prost::{Message as _, Name};
use prost_types::Any;
use proto::cosmos::{
    bank::v1beta1::MsgSendResponse,
    base::abci::v1beta1::TxMsgData,
    gov::{
        v1::{MsgDepositResponse, MsgSubmitProposalResponse, MsgVoteResponse},
        v1beta1,
    },
};

/// Type of the event that a new proposal emits.
pub const SUBMIT_EVENT: &str = "submit_proposal";

/// Returns one response for each message, in order. `stored` contains the events of these messages.
pub fn responses(messages: &[Message], stored: &[StoredEvent]) -> Vec<Any> {
    let mut new_proposals = stored.iter().filter_map(new_proposal_id);
    let response = |message: &Message| match message {
        Message::Send(_) => any(&MsgSendResponse {}),
        Message::Submit(submission) => {
            let proposal_id = new_proposals.next().unwrap_or_default();
            if submission.is_v1beta1 {
                any(&v1beta1::MsgSubmitProposalResponse { proposal_id })
            } else {
                any(&MsgSubmitProposalResponse { proposal_id })
            }
        }
        Message::Deposit(deposit) if deposit.is_v1beta1 => any(&v1beta1::MsgDepositResponse {}),
        Message::Deposit(_) => any(&MsgDepositResponse {}),
        Message::Vote(vote) if vote.is_v1beta1 => any(&v1beta1::MsgVoteResponse {}),
        Message::Vote(_) => any(&MsgVoteResponse {}),
    };
    messages.iter().map(response).collect()
}

/// Encodes the responses as a CometBFT chain stores them in the result of a transaction.
pub fn response_data(msg_responses: Vec<Any>) -> Vec<u8> {
    TxMsgData { msg_responses }.encode_to_vec()
}

fn any<M: Name>(message: &M) -> Any {
    Any::from_msg(message).expect("writing to a vector cannot fail")
}

fn new_proposal_id(event: &StoredEvent) -> Option<u64> {
    if event.kind != SUBMIT_EVENT {
        return None;
    }
    let id = event.attributes.iter().find(|attribute| attribute.key == "proposal_id")?;
    id.value.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::hex;

    #[test]
    fn data_of_a_transfer_equals_that_of_the_sdk() {
        let sdk =
            "12260A242F636F736D6F732E62616E6B2E763162657461312E4D736753656E64526573706F6E7365";
        assert_eq!(hex::encode_upper(response_data(vec![any(&MsgSendResponse {})])), sdk);
    }
}
