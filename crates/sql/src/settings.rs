//! The engine settings that differ from DataFusion's own, and why.

use datafusion::common::config::SpillCompression;
use datafusion::execution::SessionState;
use datafusion::prelude::SessionConfig;
use yeoul_base::ErrorKind;
use yeoul_dialect::Dialect;
use yeoul_dialect::settings::System;

use crate::optimizer::with_spilling_joins;
use crate::{Error, Options, Result};

/// Settings that a memory limit depends on; while there is one, SQL may not change them.
const GUARDED: &str = "datafusion.runtime.";

/// The configuration of a session.
///
/// # Errors
/// `Invalid` for a setting that does not exist or a value that does not fit.
pub(crate) fn session_config(options: &Options) -> Result<SessionConfig> {
    let mut config =
        SessionConfig::new().with_target_partitions(options.threads()).with_information_schema(true);
    let engine = config.options_mut();
    Dialect::OWN.configure(engine);
    let chosen = options.settings.iter().rev().find(|(key, _)| key == System::SETTING);
    engine
        .set(System::SETTING, chosen.map_or(options.dialect.name(), |(_, name)| name))
        .map_err(Error::from)?;
    Dialect::of_session(engine).configure_reading(engine);
    // Large CSV files are not split between threads: a split at a line break within quotes would cut a value in two.
    engine.catalog.newlines_in_values = true;
    // INT96 has days and nanoseconds; as 64 bits of nanoseconds, times before 1677 and after 2262 would wrap around.
    engine.execution.parquet.coerce_int96 = Some("us".to_owned());
    // Up to this many keys, a join pushes down a list of them, from which a scan can estimate how few rows it keeps.
    engine.optimizer.hash_join_inlist_pushdown_max_distinct_values = 1000;
    if let Some(memory) = options.memory {
        // A string view keeps its whole buffer alive for a few bytes of it, so a top-k or a join would hold many times
        // what it accounts for.
        engine.execution.parquet.schema_force_view_types = false;
        engine.sql_parser.map_string_types_to_utf8view = false;
        // Conditions are asked by scans alone. Without a limit these take in the filters above them, where that is possible.
        engine.execution.parquet.pushdown_filters = true;
        // What a reader keeps of the filter's columns for the answer; the default of 100 MiB is more than a small limit leaves it.
        engine.execution.parquet.max_predicate_cache_size = Some(memory.as_usize() / 32);
        engine.execution.spill_compression = SpillCompression::Lz4Frame;
        // The default of 10 MiB per partition is a large part of a small limit.
        let reservation = engine.execution.sort_spill_reservation_bytes;
        engine.execution.sort_spill_reservation_bytes = reservation.min(memory.as_usize() / 128);
    }
    for (key, value) in &options.settings {
        engine.set(key, value).map_err(Error::from)?;
    }
    Ok(config)
}

/// Has plans be made of what can be divided into stages and sent to other processes.
pub(crate) fn for_stages(config: &mut SessionConfig) {
    let engine = config.options_mut();
    // What fills a filter at run time may be in another stage than the scan that waits for it.
    engine.optimizer.enable_dynamic_filter_pushdown = false;
    engine.optimizer.enable_join_dynamic_filter_pushdown = false;
    engine.optimizer.enable_topk_dynamic_filter_pushdown = false;
    engine.optimizer.enable_aggregate_dynamic_filter_pushdown = false;
    // The values of such subqueries lie in the process that computed them.
    engine.optimizer.enable_physical_uncorrelated_scalar_subquery = false;
    engine.optimizer.enable_round_robin_repartition = false;
    // A view of a few bytes is sent with the whole buffer.
    engine.execution.parquet.schema_force_view_types = false;
    engine.sql_parser.map_string_types_to_utf8view = false;
}

/// The state for planning a query again with operators that can spill, after one that cannot ran out of memory.
pub(crate) fn fallback_state(state: &SessionState) -> SessionState {
    let mut state = state.clone();
    let engine = state.config_mut().options_mut();
    // Makes every hash join a partitioned one, as the spilling join needs its input.
    engine.optimizer.hash_join_single_partition_threshold = 0;
    engine.optimizer.hash_join_single_partition_threshold_rows = 0;
    // The spilling join has no build side in memory to make a dynamic filter from.
    engine.optimizer.enable_join_dynamic_filter_pushdown = false;
    // Rows with a null key match nothing: unless the join type keeps them, they need not be divided.
    engine.optimizer.filter_null_join_keys = true;
    with_spilling_joins(state)
}

/// Refuses a `SET` or `RESET` that would undo the memory promise.
///
/// # Errors
/// `Denied` for such a setting.
pub(crate) fn check_set(variable: &str, options: &Options) -> Result<()> {
    if options.memory.is_some() && variable.to_ascii_lowercase().starts_with(GUARDED) {
        return Err(Error::new(
            ErrorKind::Denied,
            format!("'{variable}' cannot be changed under a memory limit"),
        )
        .with_hint("start with another --memory, --spill-dir or --spill-limit instead"));
    }
    Ok(())
}

/// The value that a setting had when the session started, which `RESET` gives back. DataFusion's own `RESET` knows nothing of it, and
/// would silently answer by other rules, such as its place of nulls. `None` for what had no value, or is no setting.
///
/// # Errors
/// Those of [`session_config`].
pub(crate) fn value_at_start(variable: &str, options: &Options) -> Result<Option<String>> {
    let entries = session_config(options)?.options().entries();
    Ok(entries.into_iter().find(|entry| entry.key == variable).and_then(|entry| entry.value))
}

#[cfg(test)]
mod tests {
    use yeoul_base::ByteSize;

    use super::*;

    #[test]
    fn what_the_user_sets_wins() {
        let key = "datafusion.execution.parquet.pushdown_filters";
        let memory = Some(ByteSize::from_gib(1));
        let options =
            Options { memory, settings: vec![(key.to_owned(), "false".to_owned())], ..Options::default() };
        assert!(!session_config(&options).unwrap().options().execution.parquet.pushdown_filters);
    }

    #[tokio::test]
    async fn null_keys_do_not_reach_a_join_that_spills() {
        let context = datafusion::prelude::SessionContext::new();
        let sql =
            "SELECT a.n FROM (VALUES (1), (NULL)) AS a(n) JOIN (VALUES (1), (NULL)) AS b(n) ON a.n = b.n";
        let plan = context.state().create_logical_plan(sql).await.unwrap();
        let filters = |state: &SessionState| {
            let plan = state.optimize(&plan).unwrap().display_indent().to_string();
            plan.matches("IS NOT NULL").count()
        };
        assert_eq!(filters(&context.state()), 0);
        assert_eq!(filters(&fallback_state(&context.state())), 2);
    }

    #[test]
    fn an_unknown_setting_is_an_error() {
        let options = Options {
            settings: vec![("datafusion.no.such".to_owned(), "1".to_owned())],
            ..Options::default()
        };
        assert_eq!(session_config(&options).unwrap_err().kind(), ErrorKind::Invalid);
    }

    #[test]
    fn the_memory_limit_cannot_be_lifted_by_sql() {
        let limited = Options { memory: Some(ByteSize::from_gib(1)), ..Options::default() };
        assert_eq!(
            check_set("datafusion.runtime.memory_limit", &limited).unwrap_err().kind(),
            ErrorKind::Denied
        );
        check_set("datafusion.execution.batch_size", &limited).unwrap();
        check_set("datafusion.runtime.memory_limit", &Options::default()).unwrap();
    }
}
