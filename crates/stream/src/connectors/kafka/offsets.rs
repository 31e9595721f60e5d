use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::error::{Result, invalid};

/// Most partitions of a query.
const PARTITIONS_MAX: usize = 100_000;

/// A partition of a topic.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    /// Name of the topic.
    pub topic: String,
    /// Number of the partition.
    pub partition: i32,
}

/// The offset of the next record of each partition, in Spark's form: `{"topic":{"0":23,"1":17}}`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KafkaOffsets(pub BTreeMap<TopicPartition, i64>);

/// Where a new query begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StartingOffsets {
    /// At the first record that is there.
    Earliest,
    /// After the last record that is there.
    Latest,
    /// At these offsets; -2 is the earliest and -1 the latest.
    At(KafkaOffsets),
}

impl KafkaOffsets {
    /// Offsets as JSON.
    pub fn to_json(&self) -> Value {
        let mut topics: Map<String, Value> = Map::new();
        for (place, offset) in &self.0 {
            let partitions = topics.entry(place.topic.clone()).or_insert_with(|| Value::Object(Map::new()));
            let partitions = partitions.as_object_mut().expect("it was made as an object");
            partitions.insert(place.partition.to_string(), (*offset).into());
        }
        Value::Object(topics)
    }

    /// Reads JSON whose offsets are at least `min`.
    ///
    /// # Errors
    /// `Invalid` if it is of another form.
    pub fn from_json(json: &Value, min: i64) -> Result<Self> {
        let wrong = || {
            invalid(format!("expected offsets of partitions like {{\"topic\":{{\"0\":23}}}}, found {json}"))
        };
        let mut offsets = BTreeMap::new();
        for (topic, partitions) in json.as_object().ok_or_else(wrong)? {
            for (partition, offset) in partitions.as_object().ok_or_else(wrong)? {
                let partition: i32 =
                    partition.parse().ok().filter(|number| *number >= 0).ok_or_else(wrong)?;
                let offset = offset.as_i64().filter(|offset| *offset >= min).ok_or_else(wrong)?;
                offsets.insert(TopicPartition { topic: topic.clone(), partition }, offset);
            }
        }
        if offsets.len() > PARTITIONS_MAX {
            return Err(invalid(format!("{} partitions, at most {PARTITIONS_MAX} are read", offsets.len())));
        }
        Ok(Self(offsets))
    }
}

impl StartingOffsets {
    /// Reads the option `startingOffsets`.
    ///
    /// # Errors
    /// `Invalid` if it is of another form.
    pub fn parse(text: &str) -> Result<Self> {
        match text.trim().to_lowercase().as_str() {
            "earliest" => Ok(Self::Earliest),
            "latest" => Ok(Self::Latest),
            _ => {
                let json = serde_json::from_str(text);
                let json: Value = json.map_err(|error| invalid("it is not JSON").with_source(error))?;
                Ok(Self::At(KafkaOffsets::from_json(&json, -2)?))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn offsets_have_sparks_form() {
        let value = json!({"a": {"0": 5, "10": 7}, "b": {"1": 0}});
        let offsets = KafkaOffsets::from_json(&value, 0).unwrap();
        assert_eq!(offsets.0[&TopicPartition { topic: "a".into(), partition: 10 }], 7);
        assert_eq!(offsets.to_json(), value);
        for wrong in [
            json!([]),
            json!({"a": 1}),
            json!({"a": {"x": 1}}),
            json!({"a": {"0": -1}}),
            json!({"a": {"-1": 1}}),
        ] {
            assert!(KafkaOffsets::from_json(&wrong, 0).is_err(), "{wrong}");
        }
        assert_eq!(StartingOffsets::parse("Earliest").unwrap(), StartingOffsets::Earliest);
        assert!(matches!(StartingOffsets::parse("{\"a\":{\"0\":-2}}").unwrap(), StartingOffsets::At(_)));
        assert!(
            StartingOffsets::parse("{\"a\":{\"0\":-3}}").is_err() && StartingOffsets::parse("first").is_err()
        );
    }
}
