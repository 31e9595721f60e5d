//! The way to an application: requests to its server, repeated a few times where that may help.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tracing::debug;

use super::ExecutorOptions;
use crate::client::tasks::{RETRIES_MAX, Workers};
use crate::error::{Error, Kind, Result};
use crate::ids::{ApplicationId, PartitionId};
use crate::net::{Client, RequestError};
use crate::wire::executor::{Answer, Request, VERSION, kind_of};
use crate::wire::message::Message;
use crate::wire::{DecodeError, Header};

/// An executor's way to its application, and to the workers.
pub(in crate::client) struct Link {
    pub options: ExecutorOptions,
    pub application: ApplicationId,
    /// The process of the application that answered first. Another one does not know what this executor has heard.
    pub life: String,
    pub workers: Arc<Workers>,
    names: RandomState,
    next_name: AtomicU64,
}

impl Link {
    /// Finds out who listens at the application's address.
    ///
    /// # Errors
    /// `Unavailable` if nobody does; `Invalid` if it is an application that speaks another version; `Corrupt` if it is no
    /// application.
    pub async fn open(options: ExecutorOptions, client: Client) -> Result<Self> {
        let hello = Request::Hello { version: VERSION };
        let answer = ask(&client, &options, &hello, PartitionId::default()).await?;
        let Answer::Welcome { application, life } = answer else { return Err(strange(&hello)) };
        Ok(Self {
            options,
            application: application.into(),
            life,
            workers: Arc::new(Workers::new(client)),
            names: RandomState::new(),
            next_name: AtomicU64::new(1),
        })
    }

    /// Asks the application. `partition` is what is asked about, if that is a partition.
    ///
    /// # Errors
    /// Those of the application; `Unavailable` if it does not answer; `Corrupt` if its answer is malformed.
    pub async fn ask(&self, request: &Request, partition: PartitionId) -> Result<Answer> {
        ask(&self.workers.client, &self.options, request, partition).await
    }

    /// A name for a request by which it is known when it is repeated: drawn at random, and never 0.
    pub fn request_name(&self) -> u64 {
        self.names.hash_one(self.next_name.fetch_add(1, Ordering::Relaxed)).max(1)
    }
}

async fn ask(
    client: &Client,
    options: &ExecutorOptions,
    request: &Request,
    partition: PartitionId,
) -> Result<Answer> {
    let (message, address, within) = (request.to_message(), &options.application, options.application_max);
    let mut retries = 0;
    loop {
        let header = Header::RpcRequest { request_id: 0 };
        let error = match client.request(address, header, message.to_bare(), within).await {
            Ok(body) => return answer_in(body, partition),
            Err(error) => error,
        };
        debug!(address, request = kind_of(&message), retries, %error, "an application did not answer");
        // One that is silent has had all of its time.
        let may_pass = matches!(error, RequestError::Connect { .. } | RequestError::Lost { .. });
        if retries == RETRIES_MAX || !may_pass {
            let text = format!("the application at {address} does not answer");
            return Err(Error::new(Kind::Unavailable, text)
                .with_hint("see whether its process is alive and the address is its own")
                .with_source(error));
        }
        retries += 1;
        tokio::time::sleep(wait(options.retry_wait, retries)).await;
    }
}

/// Back-off before retry `retry`, counted from 1; doubles each time.
fn wait(retry_wait: Duration, retry: u32) -> Duration {
    retry_wait * (1 << (retry - 1))
}

fn answer_in(body: bytes::Bytes, partition: PartitionId) -> Result<Answer> {
    let decode =
        || -> Result<Answer, DecodeError> { Answer::of_message(&Message::decode_bare(body)?, partition) };
    match decode()? {
        Answer::Refused(error) => Err(error),
        answer => Ok(answer),
    }
}

/// The error of an answer that is none to this request.
pub(in crate::client) fn strange(request: &Request) -> Error {
    let text = format!("what answers a {} is no application", kind_of(&request.to_message()));
    Error::new(Kind::Corrupt, text)
}
