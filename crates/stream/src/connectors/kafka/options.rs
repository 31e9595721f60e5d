use std::time::Duration;

use super::record_keys::take_key_fields;
use super::{KafkaOffsets, StartingOffsets, TopicPartition, TopicPattern};
use crate::connectors::format::CsvDialect;
use crate::error::{Error, Result, invalid};
use crate::plan::{GroupColumns, OptionMap, parse_duration_ms};

/// Settings of Kafka's client that the engine makes itself, as in Spark.
const REFUSED: [&str; 6] = [
    "auto.offset.reset",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "enable.partition.eof",
    "transactional.id",
    "interceptor.classes",
];

/// Longest `transactional-id-prefix`.
const PREFIX_CHARS_MAX: usize = 200;

/// Default time between two looks for new partitions.
const LOOK_EVERY_MS: u64 = 10_000;
/// Shortest time between two of them.
const LOOK_EVERY_MS_LEAST: i64 = 100;

/// Which partitions are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subscription {
    /// All partitions of these topics, new ones too: `subscribe`.
    Topics(Vec<String>),
    /// All partitions of the topics that match, new ones too: `subscribePattern`.
    Pattern(TopicPattern),
    /// These partitions: `assign`.
    Partitions(Vec<TopicPartition>),
}

/// Options of a stream from Kafka.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KafkaSourceOptions {
    /// Settings of the client: `kafka.*`.
    pub client: Vec<(String, String)>,
    /// What is read.
    pub subscription: Subscription,
    /// Time between two looks for new partitions.
    pub look_every: Duration,
    /// Where a new query begins; latest by default, as in Spark's streams.
    pub starting_offsets: StartingOffsets,
    /// Whether records that are gone end the query, or are passed over.
    pub fails_on_data_loss: bool,
    /// Records of a planned epoch at most.
    pub epoch_records_max: Option<u64>,
    /// Topic that malformed records go to; without it they end the query.
    pub dead_letter_topic: Option<String>,
}

/// How rows become records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SinkFormat {
    /// The columns `value`, and if they are there `key`, `topic` and `partition`, as in Spark.
    Raw,
    /// All columns as a JSON object; those of the option `key.fields` are the key, too.
    Json,
    /// All columns as a record of CSV; those of the option `key.fields` are the key, too.
    Csv {
        /// Form of the records.
        dialect: CsvDialect,
    },
}

/// Options of a sink to Kafka.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KafkaSinkOptions {
    /// Settings of the client: `kafka.*`.
    pub client: Vec<(String, String)>,
    /// The topic; without it rows name theirs.
    pub topic: Option<String>,
    /// How rows become records.
    pub format: SinkFormat,
    /// Columns of the key, but for raw records; none of them if a constant is the key of all.
    pub key_fields: Option<Vec<String>>,
    /// True if rows take the place of others: all of a group go to one partition.
    pub has_updates: bool,
    /// Begin of the names of transactions, if output is delivered exactly once.
    pub transactional_id_prefix: Option<String>,
}

impl KafkaSourceOptions {
    /// Takes them.
    ///
    /// # Errors
    /// `Invalid` for one that is missing or wrong.
    pub fn take(options: &mut OptionMap) -> Result<Self> {
        let client = client(options)?;
        let subscription = subscription(options)?;
        let look_every = look_every(options)?;
        let starting = options.take("startingOffsets").unwrap_or_else(|| "latest".to_owned());
        let starting_offsets = StartingOffsets::parse(&starting).map_err(|error| {
            options
                .wrong("startingOffsets", &starting, "earliest, latest or offsets as JSON")
                .with_source(error)
        })?;
        let fails_on_data_loss = options.take_bool("failOnDataLoss", true)?;
        let epoch_records_max = match options.take_number("maxOffsetsPerTrigger", 1, u64::MAX)? {
            u64::MAX => None,
            records => Some(records),
        };
        let dead_letter_topic = options.take("dead-letter.topic");
        if let (Subscription::Pattern(pattern), Some(topic)) = (&subscription, &dead_letter_topic)
            && pattern.matches(topic)
        {
            return Err(reads_itself(options.owner(), pattern, "dead-letter topic", topic));
        }
        Ok(Self {
            client,
            subscription,
            look_every,
            starting_offsets,
            fails_on_data_loss,
            epoch_records_max,
            dead_letter_topic,
        })
    }

    /// What is read: what a checkpoint is of.
    pub fn description(&self) -> String {
        match &self.subscription {
            Subscription::Topics(topics) => format!("kafka subscribe [{}]", topics.join(", ")),
            Subscription::Pattern(pattern) => format!("kafka subscribePattern [{}]", pattern.as_str()),
            Subscription::Partitions(partitions) => {
                let names = partitions.iter().map(|place| format!("{}-{}", place.topic, place.partition));
                format!("kafka assign [{}]", names.collect::<Vec<_>>().join(", "))
            }
        }
    }
}

impl KafkaSinkOptions {
    /// Takes them.
    ///
    /// # Errors
    /// `Invalid` for one that is missing or wrong.
    pub fn take(options: &mut OptionMap) -> Result<Self> {
        let client = client(options)?;
        let topic = options.take("topic");
        let format = match options.take("format").unwrap_or_else(|| "raw".to_owned()).as_str() {
            "raw" => SinkFormat::Raw,
            "json" => SinkFormat::Json,
            "csv" => SinkFormat::Csv { dialect: CsvDialect::of_sink(options)? },
            other => return Err(options.wrong("format", other, "raw, json or csv")),
        };
        let key_fields = if format == SinkFormat::Raw { None } else { take_key_fields(options)? };
        if topic.is_none() && format != SinkFormat::Raw {
            return Err(invalid(format!("{}: the option 'topic' is missing", options.owner())));
        }
        let transactional_id_prefix = transactional_id_prefix(options)?;
        let fixed = ["acks", "enable.idempotence"];
        if transactional_id_prefix.is_some()
            && let Some((name, _)) = client.iter().find(|(name, _)| fixed.contains(&name.as_str()))
        {
            return Err(invalid(format!(
                "{}: the option 'kafka.{name}' is not for queries to set with exactly-once",
                options.owner()
            )));
        }
        Ok(Self { client, topic, format, key_fields, has_updates: false, transactional_id_prefix })
    }

    /// The same for rows of which each takes the place of the one before of its group: the group is the key, unless the options name
    /// another one. Brokers keep the order of a partition only, so that the last row of a group is known if all are in one.
    ///
    /// # Errors
    /// `Invalid` if rows of a group would have several keys, or groups cannot be told apart.
    pub fn with_updates(mut self, owner: &str, groups: &GroupColumns) -> Result<Self> {
        self.has_updates = true;
        let is_steady = |name: &str| groups.steady.iter().any(|steady| steady == name);
        if self.format == SinkFormat::Raw {
            if ["key", "partition"].into_iter().any(is_steady) {
                return Ok(self);
            }
            let text = format!(
                "{owner}: the query updates its groups, and no column 'key' keeps a group in one partition"
            );
            return Err(invalid(text).with_hint(
                "add the group as a column `key`, or write 'format' = 'json', whose records have it for their key",
            ));
        }
        match &self.key_fields {
            Some(names) => match names.iter().find(|name| !is_steady(name)) {
                None => Ok(self),
                Some(name) => {
                    let text = format!(
                        "{owner}: 'key.fields' names '{name}', which may be another one in each update of a group"
                    );
                    Err(invalid(text).with_hint(
                        "name columns of GROUP BY, or leave 'key.fields' out: then the whole group is the key",
                    ))
                }
            },
            None if groups.missing.is_empty() => {
                self.key_fields = Some(groups.key.clone());
                Ok(self)
            }
            None => {
                let missing = groups.missing.join(", ");
                let text = format!(
                    "{owner}: the query updates its groups, but does not give what tells them apart: {missing}"
                );
                Err(invalid(text).with_hint(
                    "add it to the query's columns, or name columns that say it in another way as 'key.fields'",
                ))
            }
        }
    }
}

/// Checks that malformed records of a stream can go into the transactions of a sink, if both have such: one producer has them,
/// so they go to the same brokers.
///
/// # Errors
/// `Invalid` if not.
pub fn check_dead_letters(stream: &KafkaSourceOptions, sink: &KafkaSinkOptions) -> Result<()> {
    let (Some(topic), Some(_)) = (&stream.dead_letter_topic, &sink.transactional_id_prefix) else {
        return Ok(());
    };
    let [theirs, ours] = [&stream.client, &sink.client].map(|client| servers(client));
    if theirs == ours {
        return Ok(());
    }
    Err(invalid(format!(
        "records of the dead-letter topic '{topic}' are part of the transactions of the sink, but they go to {} and output to {}",
        theirs.join(","),
        ours.join(",")
    ))
    .with_hint("give the stream and the sink the same 'kafka.bootstrap.servers', or leave 'dead-letter.topic' out"))
}

/// Checks that the pattern of a stream does not match the topic of the sink: the query would read its own output for ever.
///
/// # Errors
/// `Invalid` if it does, at the same brokers.
pub fn check_pattern(owner: &str, stream: &KafkaSourceOptions, sink: &KafkaSinkOptions) -> Result<()> {
    match (&stream.subscription, &sink.topic) {
        (Subscription::Pattern(pattern), Some(topic))
            if pattern.matches(topic) && servers(&stream.client) == servers(&sink.client) =>
        {
            Err(reads_itself(owner, pattern, "topic of the sink", topic))
        }
        _ => Ok(()),
    }
}

fn reads_itself(owner: &str, pattern: &TopicPattern, what: &str, topic: &str) -> Error {
    let pattern = pattern.as_str();
    let text = format!("{owner}: 'subscribePattern' '{pattern}' matches the {what}, '{topic}'");
    invalid(text).with_hint(
        "the query would read what it writes; a pattern is found anywhere in a name: '^' and '$' stand for its ends",
    )
}

/// Reads the option that says what is read: one of three, as in Spark.
fn subscription(options: &mut OptionMap) -> Result<Subscription> {
    let names = ["subscribe", "subscribePattern", "assign"];
    match names.map(|name| options.take(name)) {
        [Some(topics), None, None] => {
            let topics: Vec<String> = topics.split(',').map(|topic| topic.trim().to_owned()).collect();
            if topics.iter().any(String::is_empty) {
                return Err(options.wrong("subscribe", &topics.join(","), "topics with commas between them"));
            }
            Ok(Subscription::Topics(topics))
        }
        [None, Some(text), None] => match TopicPattern::new(&text) {
            Ok(pattern) => Ok(Subscription::Pattern(pattern)),
            Err(error) => {
                let hint = error.hint().unwrap_or_default().to_owned();
                let expected = format!("a regular expression: {error}");
                Err(options.wrong("subscribePattern", &text, &expected).with_hint(hint))
            }
        },
        [None, None, Some(text)] => Ok(Subscription::Partitions(assignment(options, &text)?)),
        given => {
            let found = match given.iter().flatten().count() {
                0 => "none is given",
                _ => "more than one is given",
            };
            let owner = options.owner();
            Err(invalid(format!(
                "{owner}: one of the options 'subscribe', 'subscribePattern' and 'assign' is needed, {found}"
            )))
        }
    }
}

/// Reads `scan.topic-partition-discovery.interval`, as Flink names it.
fn look_every(options: &mut OptionMap) -> Result<Duration> {
    let name = "scan.topic-partition-discovery.interval";
    let Some(text) = options.take(name) else { return Ok(Duration::from_millis(LOOK_EVERY_MS)) };
    match parse_duration_ms(&text) {
        Ok(ms) if ms >= LOOK_EVERY_MS_LEAST => Ok(Duration::from_millis(ms.unsigned_abs())),
        _ => {
            let expected = format!("a duration from {LOOK_EVERY_MS_LEAST} ms on, as '10 seconds'");
            Err(options.wrong(name, &text, &expected))
        }
    }
}

/// Addresses of the brokers, in the order of the alphabet.
fn servers(client: &[(String, String)]) -> Vec<&str> {
    let given = client.iter().filter(|(name, _)| name == "bootstrap.servers");
    let mut servers: Vec<_> = given.flat_map(|(_, value)| value.split(',')).map(str::trim).collect();
    servers.sort_unstable();
    servers.dedup();
    servers
}

/// Reads `delivery-guarantee` and `transactional-id-prefix`, as Flink names them.
fn transactional_id_prefix(options: &mut OptionMap) -> Result<Option<String>> {
    let guarantee = options.take("delivery-guarantee");
    let prefix = options.take("transactional-id-prefix");
    match (guarantee.as_deref(), prefix) {
        (Some("exactly-once"), prefix) => {
            let prefix = prefix.unwrap_or_else(|| "yeoul".to_owned());
            // The control topic is named after it, and a topic's name has at most 249 characters.
            let is_name = |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
            if prefix.is_empty() || prefix.len() > PREFIX_CHARS_MAX || !is_name(&prefix) {
                let expected =
                    format!("1 to {PREFIX_CHARS_MAX} letters, digits, dots, dashes and underscores");
                return Err(options.wrong("transactional-id-prefix", &prefix, &expected));
            }
            Ok(Some(prefix))
        }
        (None | Some("at-least-once"), None) => Ok(None),
        (None | Some("at-least-once"), Some(_)) => Err(invalid(format!(
            "{}: the option 'transactional-id-prefix' is of 'delivery-guarantee' = 'exactly-once'",
            options.owner()
        ))),
        (Some(other), _) => Err(options.wrong("delivery-guarantee", other, "at-least-once or exactly-once")),
    }
}

fn client(options: &mut OptionMap) -> Result<Vec<(String, String)>> {
    let client = options.take_prefixed("kafka.");
    if let Some((name, _)) = client.iter().find(|(name, _)| REFUSED.contains(&name.as_str())) {
        return Err(invalid(format!(
            "{}: the option 'kafka.{name}' is not for queries to set",
            options.owner()
        )));
    }
    if client.iter().all(|(name, _)| name != "bootstrap.servers") {
        return Err(invalid(format!("{}: the option 'kafka.bootstrap.servers' is missing", options.owner())));
    }
    Ok(client)
}

/// Reads `{"topic":[0,1]}`.
fn assignment(options: &OptionMap, text: &str) -> Result<Vec<TopicPartition>> {
    let wrong = || options.wrong("assign", text, "partitions of topics like {\"topic\":[0,1]}");
    let read: std::collections::BTreeMap<String, Vec<u16>> =
        serde_json::from_str(text).map_err(|_| wrong())?;
    let mut offsets = KafkaOffsets::default();
    for (topic, partitions) in read {
        for partition in partitions {
            offsets.0.insert(TopicPartition { topic: topic.clone(), partition: partition.into() }, 0);
        }
    }
    if offsets.0.is_empty() { Err(wrong()) } else { Ok(offsets.0.into_keys().collect()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(given: &[(&str, &str)]) -> OptionMap {
        let servers = ("kafka.bootstrap.servers", "h:1");
        let all = given.iter().chain([&servers]).map(|(name, value)| (name.to_string(), value.to_string()));
        OptionMap::new("stream 's'", all).unwrap()
    }

    #[test]
    fn options_have_sparks_names() {
        let mut map = options(&[
            ("subscribe", "a, b"),
            ("startingOffsets", "earliest"),
            ("failOnDataLoss", "false"),
            ("maxOffsetsPerTrigger", "500"),
        ]);
        let read = KafkaSourceOptions::take(&mut map).unwrap();
        map.finish().unwrap();
        assert_eq!(read.subscription, Subscription::Topics(vec!["a".into(), "b".into()]));
        assert_eq!((read.fails_on_data_loss, read.epoch_records_max), (false, Some(500)));
        assert_eq!(read.description(), "kafka subscribe [a, b]");
        let read = KafkaSourceOptions::take(&mut options(&[("assign", "{\"t\":[1,0]}")])).unwrap();
        assert_eq!(read.description(), "kafka assign [t-0, t-1]");
        assert_eq!(read.starting_offsets, StartingOffsets::Latest);
        assert_eq!(read.look_every, Duration::from_secs(10));
        let interval = ("scan.topic-partition-discovery.interval", "1 min");
        let mut map = options(&[("subscribePattern", " ^orders-.*$ "), interval]);
        let read = KafkaSourceOptions::take(&mut map).unwrap();
        map.finish().unwrap();
        assert_eq!(read.subscription, Subscription::Pattern(TopicPattern::new("^orders-.*$").unwrap()));
        assert_eq!(read.description(), "kafka subscribePattern [^orders-.*$]");
        assert_eq!(read.look_every, Duration::from_secs(60));
    }

    #[test]
    fn a_pattern_that_matches_what_the_query_writes_is_refused() {
        let stream = |pattern: &str, more: &[(&str, &str)]| {
            KafkaSourceOptions::take(&mut options(&[&[("subscribePattern", pattern)], more].concat()))
        };
        let sink = KafkaSinkOptions::take(&mut options(&[("topic", "orders-large")])).unwrap();
        let of_rows = KafkaSinkOptions::take(&mut options(&[])).unwrap();
        let (any, ends) = (stream("orders", &[]).unwrap(), stream("^orders$", &[]).unwrap());
        let error = check_pattern("stream 's'", &any, &sink).unwrap_err().to_string();
        assert_eq!(
            error,
            "stream 's': 'subscribePattern' 'orders' matches the topic of the sink, 'orders-large'"
        );
        check_pattern("s", &ends, &sink).unwrap();
        check_pattern("s", &any, &of_rows).unwrap();
        let elsewhere = KafkaSinkOptions { client: vec![("bootstrap.servers".into(), "o:1".into())], ..sink };
        check_pattern("s", &any, &elsewhere).unwrap();
        let dead = [("dead-letter.topic", "orders-dead")];
        let error = stream("orders", &dead).unwrap_err().to_string();
        assert!(error.ends_with("matches the dead-letter topic, 'orders-dead'"), "{error}");
        stream("^orders$", &dead).unwrap();
    }

    #[test]
    fn wrong_options_are_named() {
        for (given, expected) in [
            (vec![], "'subscribePattern' and 'assign' is needed, none is given"),
            (
                vec![("subscribe", "a"), ("assign", "{\"a\":[0]}")],
                "'assign' is needed, more than one is given",
            ),
            (
                vec![("subscribe", "a"), ("subscribePattern", "a")],
                "'assign' is needed, more than one is given",
            ),
            (
                vec![("subscribePattern", "(a")],
                "'subscribePattern' is '(a', expected a regular expression: uncl",
            ),
            (
                vec![("subscribe", "a"), ("scan.topic-partition-discovery.interval", "99 ms")],
                "interval' is '99 ms', expected a duration from 100 ms on",
            ),
            (vec![("subscribe", "a,")], "'subscribe' is 'a,'"),
            (vec![("assign", "{}")], "'assign' is '{}'"),
            (vec![("subscribe", "a"), ("startingOffsets", "first")], "'startingOffsets' is 'first'"),
            (vec![("subscribe", "a"), ("maxOffsetsPerTrigger", "0")], "'maxOffsetsPerTrigger' is '0'"),
            (vec![("subscribe", "a"), ("kafka.enable.auto.commit", "true")], "kafka.enable.auto.commit"),
        ] {
            let error = KafkaSourceOptions::take(&mut options(&given)).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        let error = KafkaSinkOptions::take(&mut options(&[("topic", "t"), ("format", "xml")])).unwrap_err();
        assert!(error.to_string().contains("'format' is 'xml', expected raw, json or csv"));
        let delivery = "delivery-guarantee";
        for (given, expected) in [
            (
                vec![(delivery, "none")],
                "'delivery-guarantee' is 'none', expected at-least-once or exactly-once",
            ),
            (vec![("transactional-id-prefix", "p")], "'transactional-id-prefix' is of"),
            (
                vec![(delivery, "exactly-once"), ("transactional-id-prefix", "a b")],
                "'transactional-id-prefix' is 'a b'",
            ),
            (vec![(delivery, "exactly-once"), ("kafka.acks", "1")], "'kafka.acks'"),
            (vec![(delivery, "exactly-once"), ("kafka.transactional.id", "1")], "'kafka.transactional.id'"),
        ] {
            let given: Vec<_> = given.into_iter().chain([("topic", "t")]).collect();
            let error = KafkaSinkOptions::take(&mut options(&given)).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        let exactly = [("topic", "t"), (delivery, "exactly-once")];
        let read = KafkaSinkOptions::take(&mut options(&exactly)).unwrap();
        assert_eq!(read.transactional_id_prefix.as_deref(), Some("yeoul"));
        let mut none = OptionMap::new("sink 'x'", []).unwrap();
        assert!(KafkaSinkOptions::take(&mut none).unwrap_err().to_string().contains("bootstrap.servers"));
    }

    #[test]
    fn dead_letters_in_transactions_go_to_the_brokers_of_the_output() {
        let at = |servers: &str, given: &[(&str, &str)]| {
            let all = given.iter().copied().chain([("kafka.bootstrap.servers", servers)]);
            OptionMap::new("s", all.map(|(name, value)| (name.to_owned(), value.to_owned()))).unwrap()
        };
        let stream = |servers: &str, letters: &[(&str, &str)]| {
            let given = [&[("subscribe", "a")], letters].concat();
            KafkaSourceOptions::take(&mut at(servers, &given)).unwrap()
        };
        let sink = |guarantee| {
            let given = [("topic", "t"), ("delivery-guarantee", guarantee)];
            KafkaSinkOptions::take(&mut at("h:1,h:2", &given)).unwrap()
        };
        let letters = [("dead-letter.topic", "dead")];
        let exactly = sink("exactly-once");
        check_dead_letters(&stream("h:2, h:1", &letters), &exactly).unwrap();
        let error = check_dead_letters(&stream("h:3", &letters), &exactly).unwrap_err().to_string();
        assert!(
            error.contains("'dead'") && error.ends_with("they go to h:3 and output to h:1,h:2"),
            "{error}"
        );
        check_dead_letters(&stream("h:3", &[]), &exactly).unwrap();
        check_dead_letters(&stream("h:3", &letters), &sink("at-least-once")).unwrap();
    }
}
