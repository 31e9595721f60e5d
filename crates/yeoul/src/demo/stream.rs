use yeoul_bench::stream::act::{Script, run as count_through_kills};

use super::{Failure, Row, Stage};

pub(super) fn run(stage: &Stage) -> Result<Vec<Row>, Failure> {
    let script = Script::default();
    let step = |line: &str| eprintln!("  {line}");
    let outcome = count_through_kills(&std::env::current_exe()?, &stage.dir.join("stream"), &script, step)?;
    Ok(vec![Row {
        what: format!(
            "count {} rows/s by windows of a second, kill -9 {} times",
            script.rows_per_second, script.kills
        ),
        result: format!("{} rows, {} counts as in a batch", outcome.rows, outcome.groups),
        time: outcome.time,
        bounds: format!("{} updates came out", outcome.lines),
    }])
}
