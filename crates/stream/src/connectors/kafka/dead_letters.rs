use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{Int32Type, Int64Type};

use super::producer::{self, Outgoing, Producer};
use super::{KafkaSourceOptions, Transactions};
use crate::BatchId;
use crate::connectors::format::Malformed;
use crate::error::{Error, Result};

/// The topic of records that could not be read. Each comes there with its key and value, and with headers that say why, and
/// from where it is: `yeoul.reason`, `yeoul.topic`, `yeoul.partition`, `yeoul.offset`.
pub struct DeadLetters {
    topic: String,
    producer: Producer,
}

impl DeadLetters {
    /// The topic of these options, if they have one, for the epochs from `open` on; in the transactions of the output, if that is
    /// delivered exactly once.
    ///
    /// # Errors
    /// `Invalid` for options that Kafka's client refuses; `NotFound` for a topic that is not there; if brokers do not answer.
    pub fn open(
        options: &KafkaSourceOptions,
        transactions: Option<&Transactions>,
        open: BatchId,
    ) -> Result<Option<Self>> {
        let Some(topic) = options.dead_letter_topic.clone() else { return Ok(None) };
        let producer = match transactions {
            Some(transactions) => Producer::transactional(transactions.clone(), open),
            None => Producer::new(&settings(options), false, open)?,
        };
        producer.check_topic(&topic)?;
        Ok(Some(Self { topic, producer }))
    }

    /// Checks that a producer of its own can be made and that the topic is there, if there is to be one.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn check(options: &KafkaSourceOptions) -> Result<()> {
        let topic = options.dead_letter_topic.as_deref();
        topic.map_or(Ok(()), |topic| producer::check(&settings(options), Some(topic)))
    }

    /// Sends records of a batch there.
    ///
    /// # Errors
    /// As [`Sink::write`](crate::connectors::Sink::write).
    pub fn write(&self, raw: &RecordBatch, malformed: &[Malformed]) -> Result<()> {
        let column = |name: &str| raw.column_by_name(name).expect("records have it");
        let (keys, values) = (column("key").as_binary::<i32>(), column("value").as_binary::<i32>());
        for Malformed { row, reason } in malformed {
            let row = *row;
            let topic = column("topic").as_string::<i32>().value(row);
            let partition = column("partition").as_primitive::<Int32Type>().value(row).to_string();
            let offset = column("offset").as_primitive::<Int64Type>().value(row).to_string();
            let headers = [
                ("yeoul.reason", reason.as_str()),
                ("yeoul.topic", topic),
                ("yeoul.partition", &partition),
                ("yeoul.offset", &offset),
            ];
            let key = keys.is_valid(row).then(|| keys.value(row));
            let value = values.is_valid(row).then(|| values.value(row));
            let letter = Outgoing { topic: &self.topic, partition: None, key, value, headers: &headers };
            self.producer.send(&letter).map_err(|error| {
                let place = format!("topic {topic}, partition {partition}, offset {offset}");
                let text = format!("a record ({place}) cannot be sent to the dead letters");
                let named = Error::new(error.kind(), text);
                let named = match error.hint() {
                    Some(hint) => named.with_hint(hint),
                    None => named,
                };
                named.with_source(error)
            })?;
        }
        Ok(())
    }

    /// Ends an epoch, as [`Sink::barrier`](crate::connectors::Sink::barrier).
    ///
    /// # Errors
    /// As there.
    pub fn barrier(&mut self, batch: BatchId) -> Result<()> {
        self.producer.barrier(batch)
    }

    /// As [`Sink::acknowledged`](crate::connectors::Sink::acknowledged).
    ///
    /// # Errors
    /// As there.
    pub fn acknowledged(&mut self) -> Result<Option<BatchId>> {
        self.producer.acknowledged()
    }
}

/// Settings of the stream's client that both kinds of client know: they are sure to be of use for a producer.
fn settings(options: &KafkaSourceOptions) -> Vec<(String, String)> {
    let consumer_only = ["group.id", "isolation.level", "check.crcs", "session.timeout.ms"];
    let is_shared = |name: &str| {
        !consumer_only.contains(&name)
            && !["fetch.", "max.p", "queued."].iter().any(|prefix| name.starts_with(prefix))
    };
    options.client.iter().filter(|(name, _)| is_shared(name)).cloned().collect()
}
