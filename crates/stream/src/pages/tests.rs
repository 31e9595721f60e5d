//! Goal: pages show what queries told. Method: events by hand, and the text of the pages.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use yeoul_net::http::Routes;

use super::*;
use crate::BatchId;
use crate::dataflow::{EventTime, Progress, QueryEvent, SinkProgress, SourceProgress, StateProgress};

fn progress(batch: u64, rows: u64) -> Progress {
    let state = StateProgress {
        operator_name: "aggregate".into(),
        num_rows_total: 40 + batch,
        num_rows_updated: 5,
        num_rows_removed: 2,
        num_rows_dropped_by_watermark: 1,
        memory_used_bytes: 4096,
    };
    let end_offset = json!({"orders": {"0": 10 * batch, "1": 7}});
    let source = SourceProgress {
        description: "kafka".into(),
        start_offset: Value::Null,
        end_offset,
        latest_offset: json!({"orders": {"0": 10 * batch + 4, "1": 7}}),
        num_input_rows: rows,
        input_rows_per_second: 12.5,
        metrics: BTreeMap::from([("maxOffsetsBehindLatest".into(), "4".into())]),
    };
    Progress {
        id: "i".into(),
        run_id: "r".into(),
        name: "counts".into(),
        timestamp: "2026-01-02T03:04:05.500Z".into(),
        batch_id: BatchId(batch),
        batch_duration: 1000,
        duration_ms: BTreeMap::from([("addBatch", 7), ("triggerExecution", 1020)]),
        num_input_rows: rows,
        input_rows_per_second: 12.5,
        num_malformed_rows: 1,
        num_output_rows: rows / 2,
        latency_ms_p50: Some(3),
        latency_ms_p99: Some(12),
        checkpoint_ms: 20,
        event_time: Some(EventTime { watermark: "1970-01-01T00:00:10.000Z".into() }),
        state_operators: vec![state],
        sources: vec![source],
        sink: SinkProgress { description: "noop".into(), num_output_rows: rows / 2 },
    }
}

fn told() -> Arc<QueryFigures> {
    let figures = Arc::new(QueryFigures::default());
    figures.expect("counts");
    figures.expect("slow");
    figures.observe(&QueryEvent::Started {
        name: "counts".into(),
        id: "i".into(),
        run_id: "r".into(),
        batch_id: BatchId(1),
        warnings: Vec::new(),
    });
    figures.observe(&QueryEvent::Progress(progress(1, 100)));
    figures.observe(&QueryEvent::Progress(progress(2, 30)));
    figures
}

#[test]
fn prometheus_reads_totals_and_the_last_epoch() {
    let text = told().prometheus();
    for line in [
        "yeoul_stream_epochs_total{query=\"counts\"} 2",
        "yeoul_stream_input_rows_total{query=\"counts\"} 130",
        "yeoul_stream_malformed_rows_total{query=\"counts\"} 2",
        "yeoul_stream_output_rows_total{query=\"counts\"} 65",
        "yeoul_stream_output_rows_total{query=\"slow\"} 0",
        "yeoul_stream_active{query=\"counts\"} 1",
        "yeoul_stream_active{query=\"slow\"} 0",
        "yeoul_stream_batch_id{query=\"counts\"} 2",
        "yeoul_stream_input_rows_per_second{query=\"counts\"} 12.5",
        "yeoul_stream_last_epoch_timestamp_seconds{query=\"counts\"} 1767323045.5",
        "yeoul_stream_watermark_timestamp_seconds{query=\"counts\"} 10",
        "yeoul_stream_last_epoch_latency_seconds{query=\"counts\",quantile=\"0.5\"} 0.003",
        "yeoul_stream_last_epoch_latency_seconds{query=\"counts\",quantile=\"0.99\"} 0.012",
        "yeoul_stream_checkpoint_seconds_count{query=\"counts\"} 2",
        "yeoul_stream_checkpoint_seconds_sum{query=\"counts\"} 0.04",
        "yeoul_stream_state_rows{query=\"counts\",operator=\"aggregate\",number=\"0\"} 42",
        "yeoul_stream_state_bytes{query=\"counts\",operator=\"aggregate\",number=\"0\"} 4096",
        "yeoul_stream_state_rows_updated_total{query=\"counts\",operator=\"aggregate\",number=\"0\"} 10",
        "yeoul_stream_state_rows_removed_total{query=\"counts\",operator=\"aggregate\",number=\"0\"} 4",
        "yeoul_stream_late_rows_total{query=\"counts\",operator=\"aggregate\",number=\"0\"} 2",
        "yeoul_stream_offset{query=\"counts\",topic=\"orders\",partition=\"0\"} 20",
        "yeoul_stream_offset{query=\"counts\",topic=\"orders\",partition=\"1\"} 7",
        "yeoul_stream_offset_lag{query=\"counts\",topic=\"orders\",partition=\"0\"} 4",
        "yeoul_stream_offset_lag{query=\"counts\",topic=\"orders\",partition=\"1\"} 0",
        "yeoul_stream_last_epoch_duration_seconds{query=\"counts\",phase=\"addBatch\"} 0.007",
        "yeoul_stream_last_epoch_duration_seconds{query=\"counts\",phase=\"triggerExecution\"} 1.02",
    ] {
        assert!(text.lines().any(|other| other == line), "no '{line}' in\n{text}");
    }
    assert!(text.contains("process_resident_memory_bytes "), "{text}");
    // Lines of one name stand together, after one HELP.
    let helps: Vec<&str> = text.lines().filter(|line| line.starts_with("# HELP")).collect();
    let mut once = helps.clone();
    once.dedup();
    once.sort_unstable();
    once.dedup();
    assert_eq!(helps.len(), once.len(), "{helps:?}");
}

#[test]
fn pages_tell_whether_all_queries_run() {
    let figures = told();
    let pages = StreamPages::new(Arc::clone(&figures));
    let page = |path: &str| {
        let response = pages.get(path, "").unwrap();
        (response.status, String::from_utf8(response.body.to_vec()).unwrap())
    };
    assert_eq!(page("/healthz"), (503, "not running: slow\n".into()));
    figures.observe(&QueryEvent::Started {
        name: "slow".into(),
        id: "j".into(),
        run_id: "s".into(),
        batch_id: BatchId(1),
        warnings: Vec::new(),
    });
    assert_eq!(page("/healthz"), (200, "ok\n".into()));
    figures.observe(&QueryEvent::Terminated { name: "counts".into(), exception: Some("lost".into()) });
    assert_eq!(page("/healthz"), (503, "not running: counts\n".into()));
    let queries: Value = serde_json::from_str(&page("/queries").1).unwrap();
    assert_eq!((&queries[0]["exception"], &queries[0]["isActive"]), (&json!("lost"), &json!(false)));
    assert_eq!(
        (&queries[0]["lastProgress"]["batchId"], &queries[0]["numInputRows"]),
        (&json!(2), &json!(130))
    );
    assert_eq!((&queries[1]["name"], &queries[1]["lastProgress"]), (&json!("slow"), &Value::Null));
    assert!(page("/metrics/prometheus").1.starts_with("# HELP yeoul_stream_epochs_total"));
    assert!(pages.get("/other", "").is_none());
}

#[test]
fn no_page_changes_anything() {
    assert!(
        !StreamPages::LIST.contains("POST"),
        "one that does has to be asked for as another site's page cannot"
    );
}

#[test]
fn a_page_for_people_shows_speed_lag_and_the_age_of_checkpoints() {
    let figures = told();
    let mut hostile = progress(3, 5);
    hostile.name = "<b>late</b>".into();
    hostile.sources[0].latest_offset = json!({"orders": {"0": 1_000_030, "1": 9}});
    figures.observe(&QueryEvent::Started {
        name: hostile.name.clone(),
        id: "h".into(),
        run_id: "r".into(),
        batch_id: BatchId(3),
        warnings: Vec::new(),
    });
    figures.observe(&QueryEvent::Progress(hostile));
    figures.observe(&QueryEvent::Terminated { name: "slow".into(), exception: Some("no <room>".into()) });
    // Two minutes and a half after the last epoch.
    let html = super::console::page(&figures, 1_767_323_045_500 + 150_000, "").render();
    for part in [
        "1,000,006",
        "2 min ago",
        "12 ms",
        ">25<",
        "&lt;b&gt;late&lt;/b&gt;",
        "no &lt;room&gt;",
        "A query has failed; the others go on.",
        "http-equiv=\"refresh\"",
    ] {
        assert!(html.contains(part), "no '{part}' in {html}");
    }
    let place = |name: &str| html.find(&format!("<div class=\"value\">{name}</div>")).unwrap();
    assert!(place("slow") < place("&lt;b&gt;late&lt;/b&gt;"), "what failed comes first");
    assert!(place("&lt;b&gt;late&lt;/b&gt;") < place("counts"), "then what is furthest behind");
    let pages = StreamPages::new(figures);
    assert!(pages.page("/", "refresh=off").unwrap().body.len() > 1000);
    assert!(pages.page("/queries", "").is_none() && pages.get(yeoul_console::STYLE_PATH, "").is_some());
}
