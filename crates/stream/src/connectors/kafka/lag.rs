use std::collections::BTreeMap;

use super::{KafkaOffsets, TopicPartition};
use crate::connectors::SourceReport;

/// Report of how far a query is behind its topics, with Spark's names.
///
/// `latest` may be some time old: no partition is behind a query, so what was read since then is there at least. Without an
/// offset of one of the partitions nothing is said.
pub(super) fn report(
    latest: &BTreeMap<TopicPartition, i64>,
    next: &BTreeMap<TopicPartition, i64>,
) -> Option<SourceReport> {
    let mut ends = BTreeMap::new();
    for (place, next) in next {
        ends.insert(place.clone(), *latest.get(place)?.max(next));
    }
    let lags: Vec<i64> = ends.iter().map(|(place, end)| end - next[place]).collect();
    let (Some(least), Some(most)) = (lags.iter().min(), lags.iter().max()) else { return None };
    let average = lags.iter().map(|lag| *lag as f64).sum::<f64>() / lags.len() as f64;
    let metrics = [
        ("avgOffsetsBehindLatest", format!("{average:?}")),
        ("maxOffsetsBehindLatest", most.to_string()),
        ("minOffsetsBehindLatest", least.to_string()),
    ];
    let metrics = metrics.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    Some(SourceReport { latest_offset: KafkaOffsets(ends).to_json(), metrics })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn offsets(json: &serde_json::Value) -> BTreeMap<TopicPartition, i64> {
        KafkaOffsets::from_json(json, 0).unwrap().0
    }

    #[test]
    fn a_report_has_the_least_the_most_and_the_mean_of_what_is_left_to_read() {
        let latest = offsets(&json!({"a": {"0": 10, "1": 7}, "b": {"0": 3}, "gone": {"0": 9}}));
        let next = offsets(&json!({"a": {"0": 4, "1": 7}, "b": {"0": 5}}));
        let report = report(&latest, &next).unwrap();
        assert_eq!(report.latest_offset, json!({"a": {"0": 10, "1": 7}, "b": {"0": 5}}), "it is 5 at least");
        let metrics: Vec<(&str, &str)> =
            report.metrics.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(
            metrics,
            [
                ("avgOffsetsBehindLatest", "2.0"),
                ("maxOffsetsBehindLatest", "6"),
                ("minOffsetsBehindLatest", "0")
            ]
        );
    }

    #[test]
    fn nothing_is_said_of_what_is_not_known() {
        let next = offsets(&json!({"a": {"0": 4, "1": 7}}));
        assert_eq!(report(&offsets(&json!({"a": {"0": 10}})), &next), None);
        assert_eq!(report(&next, &BTreeMap::new()), None);
    }
}
