//! Options of all connectors, as data: the reference page is made from it, and `yeoul stream explain` tells what is not given.

/// Which way rows go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the connector: `CREATE STREAM`.
    Source,
    /// To the connector: `CREATE SINK`.
    Sink,
    /// None: they are at rest, `CREATE TABLE`.
    AtRest,
}

/// A connector in one direction.
#[derive(Debug, Clone, Copy)]
pub struct ConnectorEntry {
    /// Value of the option `connector`.
    pub name: &'static str,
    /// Which way rows go.
    pub direction: Direction,
    /// Description.
    pub intro: &'static str,
    /// Options beside `connector`.
    pub options: &'static [OptionEntry],
}

/// An option.
#[derive(Debug, Clone, Copy)]
pub struct OptionEntry {
    /// Name; a star stands for any rest.
    pub name: &'static str,
    /// Kind of its values.
    pub values: &'static str,
    /// Value if it is not given.
    pub default: Preset,
    /// Meaning.
    pub meaning: &'static str,
}

/// The value of an option that is not given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preset {
    /// It has to be given.
    Needed,
    /// Nothing.
    Nothing,
    /// This.
    Fixed(&'static str),
    /// This, which depends on others.
    Depends(&'static str),
}

const fn option(
    name: &'static str,
    values: &'static str,
    default: Preset,
    meaning: &'static str,
) -> OptionEntry {
    OptionEntry { name, values, default, meaning }
}

const FAILING_ROWS: OptionEntry = option(
    "failing-rows",
    "`fail`, `dead-letter` or `skip`",
    Preset::Depends("`dead-letter` with `dead-letter.topic`, else `fail`"),
    "what becomes of a row that an expression fails on, before the first step that keeps state, and of one that a sink without such a step refuses (it is too large for a record of Kafka, or has no topic): it ends the query, its record goes to the dead letters, or it is passed over",
);

const TIMESTAMP_UNIT: OptionEntry = option(
    "json.timestamp-unit",
    "`seconds`, `millis` or `micros`",
    Preset::Depends("`seconds`, with `json`"),
    "unit of numbers in columns of TIMESTAMP, since 1970; seconds may have a fraction",
);

// Options of CSV, to read and to write; the last three only to read.
const SEP: OptionEntry = option(
    "sep",
    "one ASCII character, `\\t` for a tab",
    Preset::Depends("`,`, with `csv`"),
    "what stands between fields of CSV; `delimiter` is the same",
);
const DELIMITER: OptionEntry =
    option("delimiter", "as `sep`", Preset::Depends("see `sep`"), "another name of `sep`");
const NULL_VALUE: OptionEntry = option(
    "nullValue",
    "text",
    Preset::Depends("nothing, with `csv`"),
    "what stands for null in CSV; an empty field is null, too",
);
const ESCAPE: OptionEntry = option(
    "escape",
    "`\"` or `\\`",
    Preset::Depends("`\"`, with `csv`"),
    "what stands before a quote within quotes of CSV; Spark writes `\\`",
);
const HEADER: OptionEntry = option(
    "header",
    "`true` or `false`",
    Preset::Depends("`false`, with `csv`"),
    "whether each file begins with a line of names, which have to be those of the columns in their order",
);

/// All connectors.
pub const CONNECTORS: [ConnectorEntry; 9] = [
    ConnectorEntry {
        name: "kafka",
        direction: Direction::Source,
        intro: "Records of Kafka's topics, by Spark's option names. Without `format` the columns are Spark's: `key`, `value`, `topic`, `partition`, `offset`, `timestamp` and `timestampType`.",
        options: &[
            option(
                "kafka.*",
                "text",
                Preset::Nothing,
                "settings of the client, which is librdkafka; `kafka.bootstrap.servers` has to be given. Those that the engine makes itself are refused: `auto.offset.reset`, `enable.auto.commit` and their like",
            ),
            option(
                "subscribe",
                "topics with commas",
                Preset::Depends("this, `subscribePattern` or `assign`"),
                "topics to read, with partitions that are added later",
            ),
            option(
                "subscribePattern",
                "regular expression",
                Preset::Depends("see `subscribe`"),
                "topics to read, by what is found anywhere in their names: `^orders-` matches those that begin so. Topics that are made later are read, too, from their first record",
            ),
            option("assign", "`{\"topic\":[0,1]}`", Preset::Depends("see `subscribe`"), "partitions to read"),
            option(
                "scan.topic-partition-discovery.interval",
                "duration from `100 ms` on",
                Preset::Fixed("10 s"),
                "time between two looks for topics and partitions that are new or gone, as in Flink",
            ),
            option(
                "startingOffsets",
                "`latest`, `earliest` or `{\"topic\":{\"0\":23}}`",
                Preset::Fixed("latest"),
                "where a new query begins; as an offset -2 is the earliest, -1 the latest. A query with a checkpoint goes on from that",
            ),
            option(
                "failOnDataLoss",
                "`true` or `false`",
                Preset::Fixed("true"),
                "whether records that are gone end the query, or are passed over",
            ),
            option(
                "maxOffsetsPerTrigger",
                "number from 1 on",
                Preset::Nothing,
                "records of a planned epoch at most",
            ),
            option(
                "format",
                "`raw`, `json` or `csv`",
                Preset::Fixed("raw"),
                "how a record's value becomes columns",
            ),
            option(
                "dead-letter.topic",
                "topic",
                Preset::Nothing,
                "where records that cannot be read go, instead of ending the query; needs a format",
            ),
            option(
                "tombstones",
                "`malformed`, `skip` or `null`",
                Preset::Depends("`malformed`, with a format"),
                "what records without a value are: malformed, passed over, or rows whose fields are null",
            ),
            FAILING_ROWS,
            TIMESTAMP_UNIT,
            SEP,
            DELIMITER,
            NULL_VALUE,
            ESCAPE,
        ],
    },
    ConnectorEntry {
        name: "filesystem",
        direction: Direction::Source,
        intro: "New files of a local directory, each read once, in planned epochs. Without `format` the columns are `value` (a line), `path` and `line`.",
        options: &[
            option("path", "directory", Preset::Needed, "where files come in whole, by renaming"),
            option("format", "`raw`, `json` or `csv`", Preset::Fixed("raw"), "how a line becomes columns"),
            option(
                "maxFilesPerTrigger",
                "number from 1 on",
                Preset::Nothing,
                "files of an epoch at most; all that are there without it",
            ),
            option(
                "latestFirst",
                "`true` or `false`",
                Preset::Fixed("false"),
                "whether newer files come before older ones",
            ),
            FAILING_ROWS,
            TIMESTAMP_UNIT,
            SEP,
            DELIMITER,
            NULL_VALUE,
            ESCAPE,
            HEADER,
        ],
    },
    ConnectorEntry {
        name: "rate",
        direction: Direction::Source,
        intro: "Rows for trials, with the columns `timestamp` and `value`; the same ones after a restart.",
        options: &[
            option("rowsPerSecond", "number from 1 on", Preset::Fixed("1"), "rows of a second"),
            option(
                "rampUpTime",
                "duration; a number is seconds",
                Preset::Fixed("0 s"),
                "time for which the rate rises each second",
            ),
            option(
                "numPartitions",
                "number from 1 to 65536",
                Preset::Fixed("1"),
                "rows of a poll come partition by partition",
            ),
            option(
                "granularity",
                "`row` or `second`",
                Preset::Fixed("row"),
                "each row at its time, or the rows of a second once it is over, at whole milliseconds, as Spark's",
            ),
        ],
    },
    ConnectorEntry {
        name: "filesystem",
        direction: Direction::AtRest,
        intro: "A local file, or the files of a directory but those whose names begin with `_` or `.`, read whole when a query starts.",
        options: &[
            option("path", "file or directory", Preset::Needed, "where the rows are"),
            option(
                "format",
                "`parquet`, `csv` or `json`",
                Preset::Needed,
                "form of the files; a column of Parquet is found by its name, of CSV by its place",
            ),
            TIMESTAMP_UNIT,
            SEP,
            DELIMITER,
            NULL_VALUE,
            ESCAPE,
            HEADER,
        ],
    },
    ConnectorEntry {
        name: "kafka",
        direction: Direction::Sink,
        intro: "Records of Kafka. Without `format` the query's columns are `value` and, if wanted, `key`, `topic` and `partition`, as in Spark.",
        options: &[
            option(
                "kafka.*",
                "text",
                Preset::Nothing,
                "settings of the client, which stand above ours; `kafka.bootstrap.servers` has to be given",
            ),
            option(
                "topic",
                "topic",
                Preset::Depends("with `raw` the column `topic`, else needed"),
                "where records go; it stands above the column",
            ),
            option(
                "format",
                "`raw`, `json` or `csv`",
                Preset::Fixed("raw"),
                "how a row becomes a record's value",
            ),
            option(
                "key.fields",
                "columns with `;` between them",
                Preset::Depends("the group, with `EMIT UPDATES` or `EMIT COMPLETE`"),
                "columns that are the record's key, too: one as its text, several as an object of JSON; not with `raw`",
            ),
            option(
                "delivery-guarantee",
                "`at-least-once` or `exactly-once`",
                Preset::Fixed("at-least-once"),
                "whether records are in transactions, a checkpoint each",
            ),
            option(
                "transactional-id-prefix",
                "letters, digits, `.`, `-`, `_`",
                Preset::Depends("`yeoul`, with `exactly-once`"),
                "begin of the transactional id; only with `exactly-once`",
            ),
            SEP,
            DELIMITER,
            option(
                "nullValue",
                "text",
                Preset::Depends("nothing, with `csv`"),
                "what stands for null in CSV",
            ),
        ],
    },
    ConnectorEntry {
        name: "filesystem",
        direction: Direction::Sink,
        intro: "A file of lines for each epoch in a local directory.",
        options: &[
            option(
                "path",
                "directory",
                Preset::Needed,
                "where files go; a new query wants it without files of another one",
            ),
            option("format", "`json` or `csv`", Preset::Needed, "how a row becomes a line"),
            SEP,
            DELIMITER,
            option(
                "nullValue",
                "text",
                Preset::Depends("nothing, with `csv`"),
                "what stands for null in CSV",
            ),
            option(
                "header",
                "`true` or `false`",
                Preset::Depends("`false`, with `csv`"),
                "whether each file begins with a line of the names of the columns",
            ),
        ],
    },
    ConnectorEntry {
        name: "console",
        direction: Direction::Sink,
        intro: "Lines of JSON on stdout.",
        options: &[],
    },
    ConnectorEntry {
        name: "memory",
        direction: Direction::Sink,
        intro: "Rows that a program which uses the crate reads; at most 1 GiB.",
        options: &[],
    },
    ConnectorEntry {
        name: "noop",
        direction: Direction::Sink,
        intro: "Nothing: to measure a query without a sink.",
        options: &[],
    },
];

/// Options of every stream with a watermark, whatever its connector.
pub const WATERMARK_OPTIONS: [OptionEntry; 3] = [
    option(
        "scan.watermark.idle-timeout",
        "duration, at least 1 ms",
        Preset::Nothing,
        "time without rows after which the query's watermark does not wait for the stream, as in Flink",
    ),
    option(
        "watermark.future-limit",
        "duration, at least 1 ms",
        Preset::Nothing,
        "how far ahead of the machine's clock times may be that move the watermark",
    ),
    option(
        "watermark.future-rows",
        "`keep` or `dead-letter`",
        Preset::Fixed("keep"),
        "whether rows with later times go on, or to `dead-letter.topic`",
    ),
];

/// A connector's options that have a value of their own when they are not given.
pub fn fixed_defaults(
    connector: &str,
    direction: Direction,
) -> impl Iterator<Item = (&'static str, &'static str)> {
    let is_it = |entry: &&ConnectorEntry| entry.name == connector && entry.direction == direction;
    let options = CONNECTORS.iter().find(is_it).map_or(&[][..], |entry| entry.options);
    options.iter().filter_map(|option| match option.default {
        Preset::Fixed(value) => Some((option.name, value)),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use arrow::datatypes::{DataType, Field, Schema};

    use super::*;
    use crate::connectors::{SinkConnector, StreamConnector, TableConnector};
    use crate::plan::{OptionMap, SinkDefinition, StreamColumn, StreamDefinition, TableDefinition};

    /// Keys with their values.
    type Pairs = &'static [(&'static str, &'static str)];

    /// Least options of each connector, for each of its formats.
    const LEAST: [(&str, Direction, Pairs); 18] = [
        ("kafka", Direction::Source, &[("kafka.bootstrap.servers", "h:1"), ("subscribe", "t")]),
        (
            "kafka",
            Direction::Source,
            &[("kafka.bootstrap.servers", "h:1"), ("subscribe", "t"), ("format", "json")],
        ),
        (
            "kafka",
            Direction::Source,
            &[("kafka.bootstrap.servers", "h:1"), ("subscribe", "t"), ("format", "csv")],
        ),
        ("filesystem", Direction::Source, &[("path", "d"), ("format", "csv")]),
        ("kafka", Direction::Sink, &[("kafka.bootstrap.servers", "h:1"), ("topic", "t"), ("format", "csv")]),
        ("filesystem", Direction::Sink, &[("path", "d"), ("format", "csv")]),
        ("filesystem", Direction::Source, &[("path", "d")]),
        ("filesystem", Direction::Source, &[("path", "d"), ("format", "json")]),
        ("rate", Direction::Source, &[]),
        ("kafka", Direction::Sink, &[("kafka.bootstrap.servers", "h:1"), ("topic", "t")]),
        ("kafka", Direction::Sink, &[("kafka.bootstrap.servers", "h:1"), ("topic", "t"), ("format", "json")]),
        ("filesystem", Direction::Sink, &[("path", "d"), ("format", "json")]),
        ("filesystem", Direction::AtRest, &[("path", "d"), ("format", "csv")]),
        ("filesystem", Direction::AtRest, &[("path", "d"), ("format", "json")]),
        ("filesystem", Direction::AtRest, &[("path", "d"), ("format", "parquet")]),
        ("console", Direction::Sink, &[]),
        ("memory", Direction::Sink, &[]),
        ("noop", Direction::Sink, &[]),
    ];

    /// Options that a connector says it knows when it gets one that nobody knows.
    fn known(connector: &str, direction: Direction, least: &[(&str, &str)]) -> BTreeSet<String> {
        let more = [("connector", connector), ("no.such.option", "1")];
        let given = least.iter().chain(&more);
        let given = given.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let options = OptionMap::new("it", given).unwrap();
        let error = match direction {
            Direction::Source => {
                let column = StreamColumn {
                    name: "a".into(),
                    data_type: DataType::Int64,
                    is_nullable: true,
                    metadata: None,
                };
                let has_format = least.iter().any(|(name, _)| *name == "format");
                let columns = if has_format { vec![column] } else { Vec::new() };
                StreamConnector::new(&StreamDefinition {
                    name: "s".into(),
                    columns,
                    watermark: None,
                    options,
                })
                .err()
            }
            Direction::AtRest => {
                TableConnector::new(&TableDefinition { name: "t".into(), columns: Vec::new(), options }).err()
            }
            Direction::Sink => {
                let schema = Schema::new(vec![Field::new("value", DataType::Utf8, true)]);
                SinkConnector::new(&SinkDefinition { name: "s".into(), options }, &schema, None).err()
            }
        };
        let error = error.expect("an option that nobody knows is refused");
        assert_eq!(error.to_string(), "it: the option 'no.such.option' is not honoured here");
        let (names, _) = error.hint().unwrap().split_once(" are; ").unwrap();
        names.split(", ").map(str::to_owned).collect()
    }

    #[test]
    fn the_table_has_the_options_that_connectors_know() {
        for entry in CONNECTORS {
            let mut found = BTreeSet::new();
            for (name, direction, least) in LEAST {
                if (name, direction) == (entry.name, entry.direction) {
                    found.extend(known(name, direction, least));
                }
            }
            let own = entry.options.iter().map(|option| option.name);
            let expected: BTreeSet<String> = own.chain(["connector"]).map(str::to_owned).collect();
            assert_eq!(found, expected, "{} {:?}", entry.name, entry.direction);
        }
    }
}
