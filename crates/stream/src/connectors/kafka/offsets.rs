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

/// Ends of an epoch of at most so many rows, and how many rows it has: each partition advances by its part of what is there, as
/// with Spark's `maxOffsetsPerTrigger`, rounded up so that each with rows advances.
pub(super) fn planned_ends(
    next: &BTreeMap<TopicPartition, i64>,
    latest: &BTreeMap<TopicPartition, i64>,
    rows_max: Option<u64>,
) -> (BTreeMap<TopicPartition, i64>, u64) {
    let there = |place: &TopicPartition| {
        let from = next.get(place).copied().unwrap_or(0);
        (from, u64::try_from(latest.get(place).copied().unwrap_or(from).saturating_sub(from)).unwrap_or(0))
    };
    let total: u128 = next.keys().map(|place| u128::from(there(place).1)).sum();
    let wanted = u128::from(rows_max.unwrap_or(u64::MAX)).min(total);
    let (mut ends, mut rows) = (BTreeMap::new(), 0_u64);
    for place in next.keys() {
        let (from, count) = there(place);
        let part = (u128::from(count) * wanted).div_ceil(total.max(1));
        let part = u64::try_from(part).unwrap_or(u64::MAX).min(count);
        ends.insert(place.clone(), from.saturating_add_unsigned(part));
        rows = rows.saturating_add(part);
    }
    (ends, rows)
}

/// Records of partitions from their ends in a plan to those that they have, control records included.
pub(super) fn rows_between(
    planned: &BTreeMap<TopicPartition, i64>,
    latest: &BTreeMap<TopicPartition, i64>,
) -> u64 {
    let left = |(place, end): (&TopicPartition, &i64)| {
        let latest = latest.get(place).copied().unwrap_or(*end);
        u64::try_from(latest.saturating_sub(*end)).unwrap_or(0)
    };
    planned.iter().map(left).fold(0, u64::saturating_add)
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

    #[test]
    fn a_plan_advances_partitions_in_proportion_and_each_with_rows() {
        let place = |partition| TopicPartition { topic: "t".into(), partition };
        let of = |offsets: &[i64]| -> BTreeMap<_, _> {
            offsets.iter().enumerate().map(|(at, offset)| (place(at as i32), *offset)).collect()
        };
        let next = of(&[100, 0, 50, 7]);
        let latest = of(&[1100, 100, 50, 8]);
        assert_eq!(planned_ends(&next, &latest, Some(110)), (of(&[200, 10, 50, 8]), 111));
        assert_eq!(rows_between(&of(&[200, 10, 50, 9]), &latest), 990);
        assert_eq!(planned_ends(&next, &latest, None), (latest.clone(), 1101));
        assert_eq!(planned_ends(&latest, &latest, Some(5)), (latest.clone(), 0));
        // Records that were there are gone: nothing goes back.
        assert_eq!(planned_ends(&of(&[9]), &of(&[3]), None), (of(&[9]), 0));
    }
}
